"""Whole factors of records, as a pass over a table makes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.aggregates import put_factors
from dpbinagg.public.scaling import ColumnScaling

Floats = NDArray[np.float64]


def factors(columns: Floats, response: Floats, scaling: ColumnScaling) -> Floats:
    """(z*, y*), (m - 1, n)."""
    out = np.empty((scaling.size - 1, len(response)))
    put_factors(columns, response, scaling, out)
    return out
