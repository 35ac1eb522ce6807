"""Which cell of a histogram a value is in, the simple way."""

from __future__ import annotations

import numpy as np


def bin_index(edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Bin of each value: ``edges[i] < value <= edges[i + 1]``, clipped into the first and last."""
    return np.clip(np.searchsorted(edges, values, side="left") - 1, 0, edges.size - 2)
