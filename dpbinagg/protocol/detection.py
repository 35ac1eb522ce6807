"""Where records are, by a noisy histogram.

Pure post-processing: every input is a noisy count or a public constant. A
window is a run of neighbouring bins; its score is its sum in units of the
noise of that sum.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEAST_SQUARED = 4.0
MIRROR, ANYWHERE = 2.0, 3.5
"""Score of missing records opposite those found, and of any window when there is no other sign."""

NEAR, RELAXED, FAR = 10.0, (7.0, 4.0, 1.0, -2.0), 5.0
"""Squared score that windows need, at once and if records are missing, and its slope in ln(e)."""

LOST_SHARE, LOST_SCORE = 0.1, 3.5
"""Records missing from the hull that call for another look: the tails always lack a few."""


def _sizes(n_bins: int) -> list[int]:
    return [2**k for k in range(n_bins.bit_length()) if 2**k <= n_bins]


def _scores(counts: Array, size: int, sd: float) -> Array:
    """Sums of all windows of `size` bins in units of their noise."""
    total: Array = np.concatenate([[0.0], np.cumsum(counts)])
    scores: Array = (total[size:] - total[:-size]) / (sd * math.sqrt(size))
    return scores


def detect(
    counts: Array, sd: float, total: float | None, symmetric: bool
) -> tuple[int, int] | None:
    """First and last bin in which records are detected; None if the counts show too little.

    Starts from the smallest window of bins that stands out clearly and adds
    windows outside it whose sum is significant, the more so the farther away.
    If the `total` then tells that records are still missing, less will do, and
    with `symmetric` edges the bins opposite those found are tried.
    """
    hull = core(counts, sd, math.sqrt(12.0 + 2.0 * math.log(counts.size)))
    if hull is None:
        return None
    hull = _extend(counts, sd, hull, NEAR)
    for near in RELAXED:
        if not missing(counts, sd, hull, total):
            break
        hull = _extend(counts, sd, hull, near)
    if symmetric and missing(counts, sd, hull, total):
        opposite = counts[::-1][hull[0] : hull[1] + 1]
        if opposite.sum() >= MIRROR * sd * math.sqrt(opposite.size):
            reach = max(hull[1], counts.size - 1 - hull[0])
            return counts.size - 1 - reach, reach
    return hull


def best(counts: Array, sd: float) -> tuple[int, int] | None:
    """The window that stands out most, if any does."""
    leading = (ANYWHERE, -1, 0)
    for size in _sizes(counts.size):
        scores = _scores(counts, size, sd)
        first = int(scores.argmax())
        leading = max(leading, (float(scores[first]), first, size))
    _, first, size = leading
    return None if first < 0 else (first, first + size - 1)


def core(counts: Array, sd: float, need: float) -> tuple[int, int] | None:
    """The smallest window that stands out clearly."""
    for size in _sizes(counts.size):
        scores = _scores(counts, size, sd)
        if scores.max() >= need:
            first = int(scores.argmax())
            return first, first + size - 1
    return None


def missing(counts: Array, sd: float, hull: tuple[int, int], total: float | None) -> bool:
    """Whether many fewer records than the total are in the hull, and significantly so."""
    if total is None:
        return False
    inside = counts[hull[0] : hull[1] + 1]
    lost = total - float(inside.sum())
    return lost > max(LOST_SHARE * total, LOST_SCORE * sd * math.sqrt(1.0 + inside.size))


def _extend(counts: Array, sd: float, hull: tuple[int, int], near: float) -> tuple[int, int]:
    """The hull with every significant window on either side of it."""
    first, last = hull
    last += _beyond(counts[last + 1 :], sd, near)
    first -= _beyond(counts[:first][::-1], sd, near)
    return first, last


def _beyond(counts: Array, sd: float, near: float) -> int:
    """Number of leading bins up to the end of the last significant window.

    A window that ends e bins from the last one counts if its score squared is
    at least ``near + FAR ln(e)``, so that noise far from the records, where there
    are many windows, is not taken for more of them.
    """
    reached = 0
    while True:
        outside = counts[reached:]
        weak = np.flatnonzero(outside < sd * math.sqrt(max(near, LEAST_SQUARED)))
        leading = int(weak[0]) if weak.size else outside.size
        if leading:
            # Each of these bins is significant by itself and next to the last one.
            reached += leading
            continue
        need = np.sqrt(
            np.maximum(near + FAR * np.log(np.arange(1, outside.size + 1)), LEAST_SQUARED)
        )
        total = np.concatenate([[0.0], np.cumsum(outside)])
        ends = []
        for size in _sizes(outside.size):
            enough = total[size:] - total[:-size] >= sd * math.sqrt(size) * need[size - 1 :]
            if enough.any():
                ends.append(int(enough.argmax()) + size)
        if not ends:
            return reached
        reached += min(ends)
