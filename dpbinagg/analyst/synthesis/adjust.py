"""Moving rows inside their boxes until the mean of a bin is what it should be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.synthesis.groups import Groups
from dpbinagg.analyst.types import Array

STEPS = 2
LONGEST_STEP = 2.0
"""Of Newton's method on the mean of a bin, in logarithms of the odds."""


def match_means(values: Array, groups: Groups, target: Array, low: Array, high: Array) -> Array:
    """Move rows inside their box so that bin means become `target`; they stay in order.

    Rows are first spread anew over the whole box: with ``u = (x - low)/(high - low)`` the odds
    ``u/(1 - u)`` of a bin's rows are multiplied by one number, found by steps of Newton's
    method on the mean of u. What is still missing is made up by contracting rows towards an
    edge, which is exact: with m the mean of u in a bin, t its target and e = 1 if t > m, else 0,
    u becomes ``e + (u - e)(e - t)/(e - m)``.

    Parameters
    ----------
    values : (n,) array
        Inside the boxes, up to rounding.
    groups : Groups
        The boxes they are in.
    target, low, high : (K,) arrays
        NaN targets leave a bin as it is.
    """
    width = np.where(high > low, high - low, 1.0)
    u = (values - groups.each(low)) / groups.each(width)
    mean = groups.means(u)
    goal = np.where(np.isfinite(target), (np.clip(target, low, high) - low) / width, mean)
    for _ in range(STEPS):
        u = _spread(u, groups, goal, mean)
        mean = groups.means(u)
    edge = (goal > mean).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = (edge - goal) / (edge - mean)
    factor = np.where(np.isfinite(factor), factor, 1.0)
    u *= groups.each(width * factor)
    u += groups.each(low + width * edge * (1.0 - factor))
    return np.asarray(np.clip(u, groups.each(low), groups.each(high)))


def _spread(u: Array, groups: Groups, goal: Array, mean: Array) -> Array:
    """Multiply the odds of a bin's rows so that their mean comes nearer to `goal`.

    With odds multiplied by a, u becomes ``a u / (1 - u + a u)``, and the derivative of its mean
    with respect to log a is the mean of ``u (1 - u)``.
    """
    slope = mean - groups.means(u * u)
    with np.errstate(invalid="ignore", divide="ignore"):
        step = np.clip((goal - mean) / slope, -LONGEST_STEP, LONGEST_STEP)
    multiplied = groups.each(np.exp(np.where(np.isfinite(step), step, 0.0))) * u
    rest = 1.0 - u
    rest += multiplied
    multiplied /= rest
    return np.asarray(multiplied)


def match_whole_means(
    latent: Array, groups: Groups, target: Array, low: Array, high: Array
) -> Array:
    """Round rows to whole numbers with bin sums as near to their target as can be.

    Rows are rounded to the nearest whole number of their box. Where the sum of a
    bin misses ``rows * target``, rows that lie nearest to the next whole number go
    there instead, one step at a time.
    """
    lows, highs = groups.each(low), groups.each(high)
    latent = match_means(latent, groups, target, low - 0.5, high + 0.5)
    whole = np.clip(np.rint(latent), lows, highs)
    goal = np.where(np.isfinite(target), np.clip(target, low, high), 0.0) * groups.sizes
    wanted = np.rint(goal)
    steps = int(np.max(high - low, initial=0.0)) + 1
    for _ in range(steps):
        reached = np.bincount(groups.bins, weights=whole, minlength=len(target))
        missing: Array = np.where(np.isfinite(target), wanted - reached, 0.0)
        if not missing.any():
            break
        whole = _step(whole, latent, groups.bins, missing, lows, highs)
    return whole


def _step(
    whole: Array, latent: Array, bins: NDArray[np.int64], missing: Array, lows: Array, highs: Array
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
