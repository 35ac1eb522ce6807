"""The methods that the paper compares with, at an honest mu-GDP calibration.

Neighbours are tables that differ by adding or removing one record, and every
sensitivity is joint: the L2 norm of everything that one record moves. They
are here for comparison in research. They draw floating-point noise from a
numpy generator, whose low bits can leak, and some use the exact number of
records where their authors do: do not publish real data with them.
"""

from dpbinagg.baselines.descent import dpgd
from dpbinagg.baselines.least_squares import ols
from dpbinagg.baselines.problem import BaselineResult
from dpbinagg.baselines.sketch import jlt
from dpbinagg.baselines.sufficient import adassp, ssp

__all__ = ["BaselineResult", "adassp", "dpgd", "jlt", "ols", "ssp"]
