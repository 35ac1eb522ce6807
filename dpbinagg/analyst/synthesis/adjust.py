"""Moving rows inside their boxes until the mean of a bin is what it should be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.types import Array

Bin = NDArray[np.int64]
STEPS = 2
LONGEST_STEP = 2.0
"""Of Newton's method on the mean of a bin, in logarithms of the odds."""


def bin_means(values: Array, bins: Bin, n_bins: int) -> Array:
    """Mean of the rows of every bin, NaN for a bin without rows."""
    if (bins[1:] < bins[:-1]).any():
        order = np.argsort(bins, kind="stable")
        values, bins = values[order], bins[order]
    edges = np.searchsorted(bins, np.arange(n_bins + 1))
    size = np.diff(edges)
    filled = np.flatnonzero(size)
    means = np.full(n_bins, np.nan)
    if filled.size:
        means[filled] = np.add.reduceat(values, edges[filled]) / size[filled]
    return means


def match_means(values: Array, bins: Bin, target: Array, low: Array, high: Array) -> Array:
    """Move rows inside their box so that bin means become `target`; they stay in order.

    Rows are first spread anew over the whole box: with ``u = (x - low)/(high - low)`` the odds
    ``u/(1 - u)`` of a bin's rows are multiplied by one number, found by steps of Newton's
    method on the mean of u. What is still missing is made up by contracting rows towards an
    edge, which is exact: with m the mean of a bin and t its target, a row moves to
    ``high - (high - x)(high - t)/(high - m)`` if t > m, else to
    ``low + (x - low)(t - low)/(m - low)``.

    Parameters
    ----------
    values : (n,) array, inside the boxes
    bins : (n,) array
    target, low, high : (K,) arrays
        NaN targets leave a bin as it is.
    """
    mean = bin_means(values, bins, len(target))
    goal = np.where(np.isfinite(target), np.clip(target, low, high), mean)
    return _contract(_spread(values, bins, goal, low, high), bins, goal, low, high)


def _spread(values: Array, bins: Bin, goal: Array, low: Array, high: Array) -> Array:
    """Multiply the odds of a bin's rows until their mean is near `goal`.

    With odds multiplied by a, u becomes ``a u / (1 - u + a u)``, and the derivative of its mean
    with respect to log a is the mean of ``u (1 - u)``.
    """
    width = np.where(high > low, high - low, 1.0)
    wanted = (goal - low) / width
    u = (values - low[bins]) / width[bins]
    for _ in range(STEPS):
        size, slope = bin_means(u, bins, len(goal)), bin_means(u * (1.0 - u), bins, len(goal))
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.clip((wanted - size) / slope, -LONGEST_STEP, LONGEST_STEP)
        odds = np.exp(np.where(np.isfinite(step), step, 0.0))[bins]
        u = odds * u / (1.0 + (odds - 1.0) * u)
    return np.asarray(low[bins] + width[bins] * u)


def _contract(values: Array, bins: Bin, goal: Array, low: Array, high: Array) -> Array:
    """Move rows towards an edge of their box until bin means are `goal`."""
    mean = bin_means(values, bins, len(goal))
    edge = np.where(goal > mean, high, low)
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
