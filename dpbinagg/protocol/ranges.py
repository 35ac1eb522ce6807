"""Private working ranges for variables whose public bounds are absent or loose.

Mechanism
---------
Neighbours are tables that differ by adding or removing one record. Each of
the v numeric variables has a one-dimensional histogram over public edges
(`histogram_edges`). A record falls in exactly one bin of each of them
(`bin_index`: a value beyond the edges in the first or last bin), so it moves
the joint vector of counts by a vector of L2 norm sqrt(v), whatever its values,
and by sqrt(v + 1) if the number of records is released along with them.
Gaussian noise of standard deviation sqrt(v + 1)/mu on every count of every
histogram, empty ones included, makes their joint release mu-GDP.

Where a range is found but the bins are too coarse for it (`too_coarse`), a
second histogram over edges within that range may follow. Its edges and the
choice of variables depend on noisy counts only, so that the two looks compose
adaptively: with w variables, noise sqrt(w)/mu' and mu^2 + mu'^2 in all.

Everything else here works on noisy counts and public facts only, so it costs
nothing. A range is generous: a width half as large again costs little, while
cutting the response biases slopes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbinagg.protocol.detection import best, detect, missing
from dpbinagg.protocol.tails import Tail, tail_end
from dpbinagg.public.domain import Numeric

Array = NDArray[np.float64]

OCTAVES, SMALL, USUAL = (-30, 50), -14, (-2, 18)
"""Magnitudes that an unbounded variable may have, as powers of two, small ones as shares and rates
have them, and the usual ones."""

N_UNIFORM, DEPTH = 32, 10
"""Equal steps between two bounds, and octaves toward each of them.

Finer bins hide more, since each has its own noise, and take longer to release.
"""

EACH_VALUE = 128
"""Whole numbers with fewer steps between bounds have a cell for each value: heaps are seen, 40
hours or 12 years of school."""

TAIL_SHARE, TAIL_SCORE = 0.3, 25.0
"""Records in the part of a distribution that is fitted as its tail, in units of the noise."""

LEAST, SURE, GAIN = 20.0, 40.0, 6.0
"""Records, in units of the noise, to narrow public bounds `GAIN` times or more, and by less."""

COARSE, SECOND_GAIN = 0.7, 1.5
"""Share of a range that its outer bins may make up, and what a second look must then gain."""

FIRST_SHARE = 0.8
"""Share of mu squared for the first look, where a variable lacks a bound; else all of it."""

FEW_VALUES = 8
"""Whole numbers that need no range."""

GUESS = 1000.0
"""Reach where there is no bound and no sign of the records."""

ENOUGH, FEW = 0.02, 0.1
"""Records that may be beyond the range: `FEW`, or if the tail is heavy `ENOUGH` sqrt(n).

Cutting a share q of the records biases a mean by about q standard deviations, against a
standard error of 1/sqrt(n): 2 per cent of it, at most.
"""


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
    bound: `_magnitudes` of the distance from it. Without bounds: the same on
    both sides of zero. Whole numbers have edges half-way between them.
    """
    low, high = variable.lower, variable.upper
    magnitude = _magnitudes()
    if variable.bounded:
        edges = _bounded_edges(low, high)
    elif math.isfinite(low):
        edges = np.concatenate([[low], low + magnitude])
    elif math.isfinite(high):
        edges = np.concatenate([high - magnitude[::-1], [high]])
    else:
        edges = np.concatenate([-magnitude[::-1], magnitude])
    if variable.bounded and variable.integer and high - low < EACH_VALUE:
        return np.arange(low, high + 2.0) - 0.5
    if variable.integer:
        halves = np.copysign(np.floor(np.abs(edges)) + 0.5, edges)
        edges = np.concatenate([[low - 0.5], halves, [high + 0.5]])
        edges = edges[(np.abs(edges) < 2.0**52) & (edges >= low - 0.5) & (edges <= high + 0.5)]
    return np.unique(edges)


def _magnitudes() -> Array:
    """Half octaves of usual magnitudes, every other octave of small ones, else every fourth.

    A range among the others is coarse and gets the second look.
    """
    (least, most), (low, high) = OCTAVES, USUAL
    exponents = np.concatenate(
        [
            np.arange(least, SMALL, 4),
            np.arange(SMALL, low, 2),
            np.arange(low, high),
            np.arange(high, most + 1, 4),
        ]
    )
    usual = 1.5 * 2.0 ** np.arange(low, high)
    return np.sort(np.concatenate([2.0**exponents, usual]))


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
    unbounded = math.isinf(variable.lower) and math.isinf(variable.upper)
    hull = detect(counts, sd, total, symmetric=unbounded)
    if hull is None or (variable.bounded and _unsafe(counts, sd, hull, total)):
        return _fallback(edges, counts, sd, variable)
    first, last = hull
    inside = float(counts[first : last + 1].sum())
    n = max(inside if total is None else total, sd)
    upper = min(_outer(edges, counts, sd, (first, last), n), variable.upper)
    mirror = (counts.size - 1 - last, counts.size - 1 - first)
    lower = max(-_outer(-edges[::-1], counts[::-1], sd, mirror, n), variable.lower)
    reached = bin_index(edges, np.array([lower, upper]))
    if missing(counts, sd, (int(reached[0]), int(reached[1])), total):
        guess = _fallback(edges, counts, sd, variable)
        lower, upper = min(lower, guess[0]), max(upper, guess[1])
    if n < SURE * sd and (upper - lower) * GAIN > variable.upper - variable.lower:
        return variable.lower, variable.upper
    return _presentable(lower, upper, variable)


def second_range(
    edges: Array, noisy_counts: Array, sd: float, first: Numeric, total: float | None = None
) -> tuple[float, float]:
    """Range from a second histogram, over the edges of the range `first` found by the first one.

    It stays as it was unless it becomes much narrower: each look may cut.
    """
    lower, upper = working_range(edges, noisy_counts, sd, first, total)
    if (upper - lower) * SECOND_GAIN > first.upper - first.lower:
        return first.lower, first.upper
    return lower, upper


def too_coarse(edges: Array, found: tuple[float, float], variable: Numeric) -> bool:
    """Whether the bins at the ends of a range make up most of it.

    Then a second histogram, over ``histogram_edges(Numeric(*found))``, tells
    more (`second_range`): the variable is far from zero for its width, as
    calendar years are, or its bounds are far too wide.
    """
    margin = 0.5 if variable.integer else 0.0
    lower, upper = found[0] - margin, found[1] + margin
    if variable.integer and upper - lower <= FEW_VALUES:
        return False
    first = max(int(np.searchsorted(edges, lower, side="right")) - 1, 0)
    last = min(int(np.searchsorted(edges, upper, side="left")), edges.size - 1)
    width = edges[first + 1] - edges[first] + edges[last] - edges[last - 1]
    return bool(width > COARSE * (upper - lower))


def needs_range(variable: Numeric) -> bool:
    """Whether a range could be narrower than the public bounds to any effect."""
    few = variable.bounded and variable.integer and variable.upper - variable.lower <= FEW_VALUES
    return not few


def _unsafe(counts: Array, sd: float, hull: tuple[int, int], total: float | None) -> bool:
    """Whether too little is seen to narrow public bounds."""
    inside = float(counts[hull[0] : hull[1] + 1].sum())
    return missing(counts, sd, hull, total) or max(inside, total or 0.0) < LEAST * sd


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
    return float(edges[start]) + tail_end(tail, ENOUGH * math.sqrt(n), FEW)


def _fallback(edges: Array, counts: Array, sd: float, variable: Numeric) -> tuple[float, float]:
    """Public bounds; for an absent one a guess from the magnitudes, or `GUESS`."""
    low, high = variable.lower, variable.upper
    if variable.bounded:
        return low, high
    if math.isfinite(low):
        return low, low + GUESS
    if math.isfinite(high):
        return high - GUESS, high
    half = (counts.size + 1) // 2
    folded = counts[-half:] + counts[:half][::-1]
    window = best(folded, math.sqrt(2.0) * sd)
    if window is None:
        return -GUESS, GUESS
    reach = 2.0 * float(edges[edges.size - half + window[1]])
    return _presentable(-reach, reach, variable)


def _presentable(lower: float, upper: float, variable: Numeric) -> tuple[float, float]:
    """Round outward, to whole numbers or to between a 20th and a 200th of the width."""
    if variable.integer:
        lower = min(math.ceil(lower), variable.upper - 1.0)
        return float(lower), float(max(math.floor(upper), lower + 1.0))
    exponent = math.floor(math.log10(upper - lower))
    step = 10.0**exponent / 20.0
    if step > 1e-12 * max(abs(lower), abs(upper)) and math.isfinite(1.0 / step):
        lower = round(math.floor(lower / step) * step, 2 - exponent)
        upper = round(math.ceil(upper / step) * step, 2 - exponent)
    return max(lower, variable.lower), min(upper, variable.upper)
