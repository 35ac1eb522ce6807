"""The grid of whole numbers on which public projections of records are exact."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FACTOR_BITS = 20
"""Scaled columns are whole multiples of ``2^-FACTOR_BITS``: fine against any noise, and products of
two of them add up without error in double precision, `LONGEST_RUN` records at a time."""
REQUEST_BITS, PROJECTION_BITS = 24, 33
"""Bits of the numbers of a request, and of these and the number of columns together.

With the 20 bits of a factor projections are then exact in double precision, in any order.
"""


def on_grid(array: Floats) -> Floats:
    """Round to so many bits below the largest entry that projections on rows are exact."""
    largest = float(np.abs(array).max(initial=0.0))
    if not math.isfinite(largest * array.shape[-1]):
        raise ValueError("a request needs finite numbers")
    if largest == 0.0:
        return np.zeros_like(array)
    bits = min(REQUEST_BITS, PROJECTION_BITS - math.ceil(math.log2(array.shape[-1])))
    step = 2.0 ** (math.ceil(math.log2(largest)) - bits)
    return np.asarray(np.rint(array / step) * step)
