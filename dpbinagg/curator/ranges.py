"""Private working ranges for variables whose public bounds are absent or loose.

Mechanism
---------
Neighbours are tables that differ by adding or removing one record. Each of
the v numeric variables has a one-dimensional histogram over public edges
(`histogram_edges`). A record falls in exactly one bin of each of them
(`bin_index`: a value beyond the edges in the first or last bin), so it moves
the joint vector of counts by a vector of L2 norm sqrt(v), whatever its values.
Gaussian noise of standard deviation sqrt(v)/mu on every count of every
histogram, empty ones included, makes their joint release mu-GDP. Everything
else here works on noisy counts and public facts only, so it costs nothing.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.tails import Tail, tail_end
from dpbinagg.domain import Numeric

Array = NDArray[np.float64]

OCTAVES = (-30, 50)
"""Magnitudes that an unbounded variable may have, as powers of two."""

SUBDIVISION = (1.0, 1.5)
N_UNIFORM = 64
DEPTH = 16

TAIL_SHARE, TAIL_SCORE = 0.3, 25.0
"""Records in the part of a distribution that is fitted as its tail, in units of the noise."""

NEAR, RELAXED, FAR = 9.0, (6.0, 3.0, 0.0, -3.0), 3.5
"""Squared score that windows need, at once and if records are missing, and its slope in ln(e)."""


def histogram_edges(variable: Numeric) -> Array:
    """Public edges of the histogram of one variable.

    Parameters
    ----------
    variable : Numeric
        Its public bounds, either of which may be infinite.

    Returns
    -------
    (B + 1,) array
        Increasing. Bin i is ``(edges[i], edges[i + 1]]``; see `bin_index`.

    Notes
    -----
    Between two bounds: equal steps, and octaves that approach either bound
    and zero (or the centre), for bounds that are far too wide. Beyond a single
    bound: quarters of the octaves of the distance from it. Without bounds: the
    same on both sides of zero. Whole numbers have edges half-way between them.
    """
    low, high = variable.lower, variable.upper
    magnitude = np.concatenate([2.0**k * np.array(SUBDIVISION) for k in range(*OCTAVES)])
    if variable.bounded:
        edges = _bounded_edges(low, high)
    elif math.isfinite(low):
        edges = np.concatenate([[low], low + magnitude])
    elif math.isfinite(high):
        edges = np.concatenate([high - magnitude[::-1], [high]])
    else:
        edges = np.concatenate([-magnitude[::-1], magnitude])
    if variable.integer:
        edges = np.concatenate([[low - 0.5], np.floor(edges) + 0.5, [high + 0.5]])
        edges = edges[(np.abs(edges) < 2.0**52) & (edges >= low - 0.5) & (edges <= high + 0.5)]
    return np.unique(edges)


def _bounded_edges(low: float, high: float) -> Array:
    width = high - low
    octaves = width * 2.0 ** -np.arange(1.0, DEPTH)
    anchor = 0.0 if low < 0.0 < high else low + width / 2.0
    edges = np.concatenate(
        [
            np.linspace(low, high, N_UNIFORM + 1),
            low + octaves,
            high - octaves,
            anchor + octaves,
            anchor - octaves,
        ]
    )
    return edges[(edges >= low) & (edges <= high)]


def bin_index(edges: Array, values: Array) -> NDArray[np.intp]:
    """Bin of each value: ``edges[i] < value <= edges[i + 1]``, clipped into the first and last."""
    index = np.searchsorted(edges, values, side="left") - 1
    return np.clip(index, 0, edges.size - 2)


def working_range(
    edges: Array, noisy_counts: Array, sd: float, variable: Numeric, total: float | None = None
) -> tuple[float, float]:
    """Range that holds all but a negligible share of the records.

    Parameters
    ----------
    edges : (B + 1,) array
        Public edges of the bins.
    noisy_counts : (B,) array
        Noisy counts of the bins.
    sd : float
        Standard deviation of the noise of each count.
    variable : Numeric
        Public bounds, which the range never exceeds.
    total : float, optional
        Noisy number of records, with noise of at most the same standard
        deviation. It tells whether records have been overlooked.

    Returns
    -------
    (float, float)
        Finite, `lower < upper`. The public bounds where the counts show too
        little to improve on them.
    """
    counts = np.asarray(noisy_counts, dtype=np.float64)
    hull = _detect(counts, sd, total)
    if hull is None or (variable.bounded and _missing(counts, sd, hull, total)):
        return _fallback(variable)
    first, last = hull
    inside = float(counts[first : last + 1].sum())
    n = max(inside if total is None else total, sd)
    upper = _outer(edges, counts, sd, (first, last), n)
    mirror = (counts.size - 1 - last, counts.size - 1 - first)
    lower = -_outer(-edges[::-1], counts[::-1], sd, mirror, n)
    return _presentable(lower, upper, variable)


def _sizes(n_bins: int) -> list[int]:
    return [2**k for k in range(n_bins.bit_length()) if 2**k <= n_bins]


def _scores(counts: Array, size: int, sd: float) -> Array:
    """Sums of all windows of `size` bins in units of their noise."""
    total: Array = np.concatenate([[0.0], np.cumsum(counts)])
    scores: Array = (total[size:] - total[:-size]) / (sd * math.sqrt(size))
    return scores


def _detect(counts: Array, sd: float, total: float | None) -> tuple[int, int] | None:
    """First and last bin in which records are detected; None if the counts show too little.

    Starts from the smallest window of bins that stands out clearly and adds
    windows outside it whose sum is significant, the more so the farther away.
    If the `total` then tells that records are still missing, less will do.
    """
    hull = _core(counts, sd)
    if hull is None:
        return None
    hull = _extend(counts, sd, hull, NEAR)
    for near in RELAXED:
        if not _missing(counts, sd, hull, total):
            break
        hull = _extend(counts, sd, hull, near)
    return hull


def _core(counts: Array, sd: float) -> tuple[int, int] | None:
    """The smallest window that stands out clearly."""
    need = math.sqrt(12.0 + 2.0 * math.log(counts.size))
    for size in _sizes(counts.size):
        scores = _scores(counts, size, sd)
        if scores.max() >= need:
            first = int(scores.argmax())
            return first, first + size - 1
    return None


def _missing(counts: Array, sd: float, hull: tuple[int, int], total: float | None) -> bool:
    """Whether significantly fewer records than the total are in the hull."""
    if total is None:
        return False
    inside = counts[hull[0] : hull[1] + 1]
    return total - float(inside.sum()) > 3.0 * sd * math.sqrt(1.0 + inside.size)


def _extend(counts: Array, sd: float, hull: tuple[int, int], near: float) -> tuple[int, int]:
    """The hull with every significant window on either side of it."""
    first, last = hull
    last += _beyond(counts[last + 1 :], sd, near)
    first -= _beyond(counts[:first][::-1], sd, near)
    return first, last


def _beyond(counts: Array, sd: float, near: float) -> int:
    """Number of leading bins up to the end of the last significant window.

    A window that ends e bins from the last one counts if its score squared is
    at least ``near + FAR ln(e)``.
    """
    reached = 0
    while True:
        outside = counts[reached:]
        ends = []
        for size in _sizes(outside.size):
            end = np.arange(outside.size - size + 1) + size
            significant = _scores(outside, size, sd) >= np.sqrt(
                np.maximum(near + FAR * np.log(end), 4.0)
            )
            ends += end[significant][:1].tolist()
        if not ends:
            return reached
        reached += min(ends)


def _outer(edges: Array, counts: Array, sd: float, hull: tuple[int, int], n: float) -> float:
    """Upper end of the range."""
    first, last = hull
    tail_sum = np.cumsum(counts[first : last + 1][::-1])[::-1]
    target = min(TAIL_SHARE * n, TAIL_SCORE * sd)
    start = first + int(np.flatnonzero(tail_sum >= target).max(initial=0))
    distance = edges[start:] - edges[start]
    tail = Tail(
        distance=distance,
        counts=counts[start:],
        sd=sd,
        seen=float(distance[last + 1 - start]),
        total=float(tail_sum[start - first]),
    )
    return float(edges[start] + tail_end(tail, 0.02 * math.sqrt(n), 0.1))


def _fallback(variable: Numeric) -> tuple[float, float]:
    if variable.bounded:
        return variable.lower, variable.upper
    low = variable.lower if math.isfinite(variable.lower) else -1000.0
    high = variable.upper if math.isfinite(variable.upper) else 1000.0
    if not low < high:
        low, high = (low, low + 1000.0) if math.isfinite(variable.lower) else (high - 1000.0, high)
    return low, high


def _presentable(lower: float, upper: float, variable: Numeric) -> tuple[float, float]:
    """Round outward, to whole numbers or to about a fortieth of the width, within the bounds."""
    if variable.integer:
        lower, upper = math.ceil(lower), math.floor(upper)
        step = 1.0
    else:
        exponent = math.floor(math.log10(upper - lower))
        step = 10.0**exponent / 20.0
    lower = max(math.floor(lower / step) * step, variable.lower)
    upper = min(math.ceil(upper / step) * step, variable.upper)
    return lower, upper
