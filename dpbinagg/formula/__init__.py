"""Formulas without peeking: formula and domain to design, on zero records."""

from dpbinagg.formula.design import Design, build_design
from dpbinagg.formula.union import linear_map

__all__ = ["Design", "build_design", "linear_map"]
