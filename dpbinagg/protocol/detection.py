"""Where records are, by a noisy histogram, and how far they reach beyond what it can show.

Pure post-processing: every input is a noisy count or a public constant. A
window is a run of neighbouring bins; its score is its sum in units of the
noise of that sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

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

SHAPES = np.linspace(-1.0, 0.5, 9) + 1e-6
"""Tail shapes tried: -1 uniform, about -0.25 normal, near 0 exponential, 1/3 Pareto of index 3."""

PRIOR_SHAPE, PRIOR_SPREAD = -0.2, 0.35
"""Centre and spread of the prior over shapes, a public constant: about that of a normal tail."""

SCALES = np.geomspace(1.0 / 64.0, 8.0, 20)
"""Tail scales tried, in units of the distance up to which records have been detected."""

SHAPE = np.repeat(SHAPES, SCALES.size)[:, None]
SCALE = np.tile(SCALES, SHAPES.size)[:, None]
LOG_PRIOR = -0.5 * ((SHAPE[:, 0] - PRIOR_SHAPE) / PRIOR_SPREAD) ** 2

REACH = 50.0
ENDS = np.geomspace(1.0, REACH, 100)
STRETCH = 1.35


def _windows(counts: Array) -> Iterator[tuple[int, Array]]:
    """Sums of all windows of 1, 2, 4, ... bins."""
    total: Array = np.concatenate([[0.0], np.cumsum(counts)])
    for size in (2**k for k in range(counts.size.bit_length())):
        if size <= counts.size:
            yield size, total[size:] - total[:-size]


def detect(
    counts: Array, sd: float, total: float | None, symmetric: bool
) -> tuple[int, int] | None:
    """First and last bin in which records are detected; None if the counts show too little.

    Starts from the smallest window of bins that stands out clearly and adds
    windows outside it whose sum is significant, the more so the farther away.
    If the `total` then tells that records are still missing, less will do, and
    with `symmetric` edges the bins opposite those found are tried.
    """
    need = math.sqrt(12.0 + 2.0 * math.log(counts.size))
    for size, sums in _windows(counts):
        scores = sums / (sd * math.sqrt(size))
        if scores.max() >= need:
            first = int(scores.argmax())
            hull = first, first + size - 1
            break
    else:
        return None
    for near in (NEAR, *RELAXED):
        if near != NEAR and not missing(counts, sd, hull, total):
            break
        first, last = hull
        last += _beyond(counts[last + 1 :], sd, near)
        hull = first - _beyond(counts[:first][::-1], sd, near), last
    if symmetric and missing(counts, sd, hull, total):
        opposite = counts[::-1][hull[0] : hull[1] + 1]
        if opposite.sum() >= MIRROR * sd * math.sqrt(opposite.size):
            reach = max(hull[1], counts.size - 1 - hull[0])
            return counts.size - 1 - reach, reach
    return hull


def best(counts: Array, sd: float) -> tuple[int, int] | None:
    """The window that stands out most, if any does."""
    leading = (ANYWHERE, -1, 0)
    for size, sums in _windows(counts):
        scores = sums / (sd * math.sqrt(size))
        first = int(scores.argmax())
        leading = max(leading, (float(scores[first]), first, size))
    _, first, size = leading
    return None if first < 0 else (first, first + size - 1)


def missing(counts: Array, sd: float, hull: tuple[int, int], total: float | None) -> bool:
    """Whether many fewer records than the total are in the hull, and significantly so."""
    if total is None:
        return False
    inside = counts[hull[0] : hull[1] + 1]
    lost = total - float(inside.sum())
    return lost > max(LOST_SHARE * total, LOST_SCORE * sd * math.sqrt(1.0 + inside.size))


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
        ends = []
        for size, sums in _windows(outside):
            enough = sums >= sd * math.sqrt(size) * need[size - 1 :]
            if enough.any():
                ends.append(int(enough.argmax()) + size)
        if not ends:
            return reached
        reached += min(ends)


@dataclass(frozen=True, slots=True)
class Tail:
    """One side of a histogram, from a threshold outward.

    Attributes
    ----------
    distance : (m + 1,) array
        Distances of the bins' edges from the threshold, increasing from 0.
    counts : (m,) array
        Noisy counts of those bins.
    sd : float
        Standard deviation of the noise of each count.
    seen : float
        Distance up to which records have been detected.
    total : float
        Noisy number of records beyond the threshold.
    """

    distance: Array
    counts: Array
    sd: float
    seen: float
    total: float


def survival(distance: Array, shape: Array, scale: Array) -> Array:
    r"""Survival function of the generalised Pareto law.

    .. math:: S(t) = (1 + \xi t / \sigma)_+^{-1/\xi}, \qquad \xi \ne 0
    """
    with np.errstate(divide="ignore"):
        result: Array = np.log(np.maximum(1.0 + (shape / scale) * distance, 0.0))
    result *= -1.0 / shape
    # At the end of a bounded tail the logarithm is -inf and -1/shape positive.
    return np.exp(result, out=result)


BEYOND = survival(ENDS, SHAPE, SCALE)
"""Share of the records of each model beyond each end."""


def tail_end(tail: Tail, enough: float, few: float) -> float:
    r"""Distance beyond which a negligible number of records is expected.

    The tail is modelled as generalised Pareto with shape :math:`\xi` and
    scale :math:`\sigma`. The noisy counts weigh the models by their Gaussian
    likelihood, with variance :math:`s^2 + N p_i` for noise and sampling and
    with the number of records :math:`N` profiled out; the prior is normal in
    :math:`\xi` and flat in :math:`\log \sigma`. The end is where the expected
    number of records beyond it, averaged over the models,
    :math:`\sum_j w_j N_j S_j(t)`, falls to `few`, but no more than `STRETCH`
    times as far as where it falls to `enough`: a light tail is kept whole, a
    heavy one is cut.

    Returns
    -------
    float
        At least ``tail.seen``, at most `REACH` times it.
    """
    unit = tail.distance / tail.seen
    near = int(np.searchsorted(unit, REACH)) + 1
    distance, counts = unit[: near + 1], tail.counts[:near]
    share = -np.diff(survival(distance, SHAPE, SCALE), axis=1)
    variance = max(tail.total, 0.0) * share + tail.sd**2
    weighted = share / variance
    precision = np.einsum("ij,ij->i", weighted, share)
    # Not by BLAS, whose threads would spin for a while on a core that draws noise.
    matched = np.einsum("ij,j->i", weighted, counts)
    fitted = np.maximum(matched / np.maximum(precision, 1e-300), 0.0)
    rest = counts - fitted[:, None] * share
    misfit = np.einsum("ij,ij->i", rest, rest / variance) + np.log(variance).sum(axis=1)
    log_weight = LOG_PRIOR - 0.5 * misfit
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    kept = weight > 1e-6
    beyond = np.einsum("i,ij->j", weight[kept] * fitted[kept], BEYOND[kept])
    # The first end with so few, or the last one.
    end, heavy = (
        float(ENDS[np.argmax(beyond <= most)] if (beyond <= most).any() else ENDS[-1])
        for most in (few, enough)
    )
    return min(end, STRETCH * heavy) * tail.seen
