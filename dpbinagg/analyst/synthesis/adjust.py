"""Moving rows inside their boxes until the mean of a bin is what it should be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.types import Array

Bin = NDArray[np.int64]


def bin_means(values: Array, bins: Bin, n_bins: int) -> Array:
    """Mean of the rows of every bin, NaN for a bin without rows."""
    size = np.bincount(bins, minlength=n_bins)
    total = np.bincount(bins, weights=values, minlength=n_bins)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / size)


def match_means(values: Array, bins: Bin, target: Array, low: Array, high: Array) -> Array:
    """Contract rows towards an edge of their box so that bin means become `target`.

    With m the mean of a bin and t its target inside [low, high], a row moves to
    ``high - (high - x)(high - t)/(high - m)`` if t > m, else to
    ``low + (x - low)(t - low)/(m - low)``. Rows stay in their box and in order.

    Parameters
    ----------
    values : (n,) array, inside the boxes
    bins : (n,) array
    target, low, high : (K,) arrays
        NaN targets leave a bin as it is.
    """
    mean = bin_means(values, bins, len(target))
    goal = np.where(np.isfinite(target), np.clip(target, low, high), mean)
    up = goal > mean
    edge = np.where(up, high, low)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = (edge - goal) / (edge - mean)
    factor = np.where(np.isfinite(factor), factor, 1.0)[bins]
    edge_of_row = edge[bins]
    moved = edge_of_row - (edge_of_row - values) * factor
    return np.asarray(np.clip(moved, low[bins], high[bins]))


def match_whole_means(latent: Array, bins: Bin, target: Array, low: Array, high: Array) -> Array:
    """Round rows to whole numbers with bin sums as near to their target as can be.

    Rows are rounded to the nearest whole number of their box. Where the sum of a
    bin misses ``rows * target``, rows that lie nearest to the next whole number go
    there instead, one step at a time.
    """
    lows, highs = low[bins], high[bins]
    latent = match_means(latent, bins, target, low - 0.5, high + 0.5)
    whole = np.clip(np.rint(latent), lows, highs)
    size = np.bincount(bins, minlength=len(target))
    goal = np.where(np.isfinite(target), np.clip(target, low, high), 0.0) * size
    wanted = np.rint(goal)
    steps = int(np.max(high - low, initial=0.0)) + 1
    for _ in range(steps):
        reached = np.bincount(bins, weights=whole, minlength=len(target))
        missing: Array = np.where(np.isfinite(target), wanted - reached, 0.0)
        if not missing.any():
            break
        whole = _step(whole, latent, bins, missing, lows, highs)
    return whole


def _step(
    whole: Array, latent: Array, bins: Bin, missing: Array, lows: Array, highs: Array
) -> Array:
    """Move at most ``|missing_k|`` rows of bin k by one, the readiest first."""
    sign = np.sign(missing)[bins]
    rows = np.flatnonzero(np.where(sign > 0, whole < highs, whole > lows) & (sign != 0))
    ready = (sign * (latent - whole))[rows]
    order = rows[np.lexsort((-ready, bins[rows]))]
    start = np.searchsorted(bins[order], np.arange(len(missing)))
    rank = np.arange(len(order)) - start[bins[order]]
    moves = order[rank < np.abs(missing)[bins[order]]]
    moved = whole.copy()
    moved[moves] += sign[moves]
    return moved
