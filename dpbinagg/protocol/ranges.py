"""One-way counts of all variables: working ranges, margins, and the number of records.

Mechanism
---------
Neighbours are tables that differ by adding or removing one record. Each of
the v numeric variables has a one-dimensional histogram over public edges
(`histogram_edges`). A record falls in exactly one bin of each of them
(a value beyond the edges in the first or last bin), so it moves
the joint vector of counts by a vector of L2 norm sqrt(v), whatever its values,
and by sqrt(v + 1) if the number of records is released along with them.
Gaussian noise of standard deviation sqrt(v + 1)/mu on every count of every
histogram, empty ones included, makes their joint release mu-GDP.

Where a range is found but the bins are too coarse for it (`too_coarse`), a
second histogram over edges within that range may follow. Its edges and the
choice of variables depend on noisy counts only, so that the two looks compose
adaptively: with w variables, noise sqrt(w)/mu' and mu^2 + mu'^2 in all.

Where cells are wider than one value, a closer look cuts them in parts, more of those that hold
more records: heaps, and how values lie within a cell. Its cells depend on noisy counts only, too.

Everything else here works on noisy counts and public facts only, so it costs
nothing. A range is generous: a width half as large again costs little, while
cutting the response biases slopes.

Where records are, and how far they reach beyond what a histogram can show, is said by windows: a
window is a run of neighbouring bins; its score is its sum in units of the noise of that sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.ols.coordinates import Margin, uniform_margins
from dpbinagg.formula import Design
from dpbinagg.kernel.questions import Answer, Question
from dpbinagg.public.domain import Domain, Numeric, Variable
from dpbinagg.release.questions import closer_question, margin_answer, margin_question

Array = NDArray[np.float64]

OCTAVES, SMALL, USUAL = (-30, 50), -14, (-2, 18)
"""Magnitudes that an unbounded variable may have, as powers of two, small ones as shares and rates
have them, and the usual ones."""

_EXPONENTS = (
    *range(OCTAVES[0], SMALL, 4),
    *range(SMALL, USUAL[0], 2),
    *range(*USUAL),
    *range(USUAL[1], OCTAVES[1] + 1, 4),
)
MAGNITUDES: Array = np.sort([*(2.0**k for k in _EXPONENTS), *(1.5 * 2.0**k for k in range(*USUAL))])
"""Half octaves of usual magnitudes, every other octave of small ones, else every fourth.

A range among the others is coarse and gets the second look.
"""

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

CLOSER_SHARE = 1.0 / 3.0
"""Share of mu squared for the closer look, where a number has cells wider than one value: between a
fifth and a half margins are about as near to the records."""

PARTS, LEAST_PART = 160, 2.0
"""Parts of all cells of a number together, at most, and records that one holds, in units of the
noise: of fewer nothing is seen, and more parts take longer and show little more."""

FEW_VALUES = 8
"""Whole numbers that need no range."""

GUESS = 1000.0
"""Reach where there is no bound and no sign of the records."""

ENOUGH, FEW = 0.02, 0.1
"""Records that may be beyond the range: `FEW`, or if the tail is heavy `ENOUGH` sqrt(n).

Cutting a share q of the records biases a mean by about q standard deviations, against a
standard error of 1/sqrt(n): 2 per cent of it, at most.
"""


Ask = Callable[[list[Question], list[float]], list[Answer]]
"""Answers to questions; that of `conduct.Dialogue` writes them down."""


@dataclass(frozen=True, slots=True)
class OneWay:
    """What one-way counts say.

    Attributes
    ----------
    working : Domain
        Where records were seen to lie.
    margins : dict of Margin
    count : (float, float)
        Noisy number of complete records and its standard deviation, infinite if nothing is known.
    """

    working: Domain
    margins: dict[str, Margin]
    count: tuple[float, float] = (0.0, math.inf)


def one_way(ask: Ask, design: Design, fixed: frozenset[str], mu: float) -> OneWay:
    """Count all variables of a design, and find working ranges of the numeric ones.

    A record falls in one cell of each of the v variables and adds 1 to the total. Where a variable
    lacks a bound, a second look, with a smaller part of mu^2, resolves the ranges that the first
    one found too coarse. If there are none it counts the records again. Privacy: mu-GDP in all.

    Parameters
    ----------
    ask : callable
    design : Design
    fixed : frozenset of str
        Variables that keep their bounds.
    mu : float
        Where it is 0, nothing is asked, and every value within the bounds is as likely as any
        other.
    """
    variables, open_ = design.domain, design.unbounded
    if not mu:
        return OneWay(variables, uniform_margins(variables))
    numbers = {name: v for name, v in variables.items() if isinstance(v, Numeric)}
    cuts = {name: histogram_edges(variable) for name, variable in numbers.items()}
    # Numbers with a cell that holds more than one value.
    wide = [n for n, v in numbers.items() if not v.integer or (np.diff(cuts[n]) > 1.0).any()]
    mu_closer = mu * math.sqrt(CLOSER_SHARE) * (1.0 - 2.0**-50)
    mu = mu * math.sqrt(1.0 - CLOSER_SHARE) if wide else mu
    first_mu = mu * math.sqrt(FIRST_SHARE) if open_ else mu
    margins, total, sd = _look(ask, variables, cuts, first_mu)
    working = {
        name: variable.within(*working_range(edges, margins[name].counts, sd, variable, total))
        for name, variable in numbers.items()
        if name not in fixed and needs_range(variable)
        if (edges := margins[name].edges) is not None
    }
    if open_:
        rest = mu * math.sqrt(1.0 - FIRST_SHARE) * (1.0 - 2.0**-50)
        coarse = {
            name: working[name]
            for name in open_
            if (edges := margins[name].edges) is not None
            and too_coarse(edges, (working[name].lower, working[name].upper), numbers[name])
        }
        cuts = {name: histogram_edges(variable) for name, variable in coarse.items()}
        more, again, its_sd = _look(ask, coarse, cuts, rest, declared=False)
        for name, first in coarse.items():
            margin = margins[name] = more[name]
            assert margin.edges is not None
            ends = second_range(margin.edges, margin.counts, its_sd, first, total)
            working[name] = first.within(*ends)
        weights = (sd**-2, its_sd**-2)
        total = (weights[0] * total + weights[1] * again) / sum(weights)
        sd = sum(weights) ** -0.5
    seen = variables.updated(working)
    if wide:
        least = LEAST_PART * math.sqrt(len(wide)) / mu_closer
        parts = {name: closer_edges(margins[name], seen[name], least) for name in wide}
        ask([closer_question(parts)], [mu_closer])
    return OneWay(seen, margins, (total, sd))


def closer_edges(margin: Margin, seen: Variable, least: float) -> Array:
    """Edges of the cells of a number cut in parts, where records were seen to lie.

    A cell has parts in proportion to its noisy count; one holds `least` records on average.
    """
    assert isinstance(seen, Numeric)
    lower, upper, counts = margin.within(seen)
    counts = np.maximum(counts, 0.0)
    total = max(float(counts.sum()), 1.0)
    parts = np.ceil(counts / total * min(PARTS, total / least)).clip(1.0).astype(int)
    ends = np.cumsum(parts)
    number = np.arange(1, ends[-1] + 1) - np.repeat(ends - parts, parts)
    edges = number * np.repeat((upper - lower) / parts, parts) + np.repeat(lower, parts)
    edges[ends - 1] = upper
    edges = np.concatenate([lower[:1], edges])
    if seen.integer:
        edges = np.floor(edges) + 0.5
        edges = np.clip(edges, lower[0], upper[-1])
    return np.unique(edges)


def _look(
    ask: Ask,
    variables: Mapping[str, Variable],
    edges: Mapping[str, Array],
    mu: float,
    declared: bool = True,
) -> tuple[dict[str, Margin], float, float]:
    """Noisy counts of each variable, the noisy total, and the noise of each count.

    `edges` are of the numbers; `declared` says whether bounds are the caller's.
    """
    question = margin_question(edges, variables, declared)
    (answer,) = ask([question], [mu])
    found, numbers, sd = margin_answer(question, answer)
    margins = {n: Margin(one["edges"], one["counts"], one["sd"]) for n, one in found.items()}
    return margins, float(numbers[0]), sd


def histogram_edges(variable: Numeric) -> Array:
    """Public edges of the histogram of one variable.

    Parameters
    ----------
    variable : Numeric
        Its public bounds, either of which may be infinite.

    Returns
    -------
    (B + 1,) array
        Increasing. Bin i is ``(edges[i], edges[i + 1]]``.

    Notes
    -----
    Between two bounds: equal steps, and octaves that approach either bound
    and zero (or the centre), for bounds that are far too wide. Beyond a single
    bound: `MAGNITUDES` of the distance from it. Without bounds: the same on
    both sides of zero. Whole numbers have edges half-way between them.
    """
    low, high = variable.lower, variable.upper
    if variable.bounded and variable.integer and high - low < EACH_VALUE:
        return np.arange(low, high + 2.0) - 0.5
    if variable.bounded:
        width = high - low
        octaves = width * 2.0 ** -np.arange(1.0, DEPTH)
        anchor = 0.0 if low < 0.0 < high else low + width / 2.0
        near = (low + octaves, high - octaves, anchor + octaves, anchor - octaves)
        edges = np.concatenate([np.linspace(low, high, N_UNIFORM + 1), *near])
        edges = edges[(edges >= low) & (edges <= high)]
    elif math.isfinite(low):
        edges = np.concatenate([[low], low + MAGNITUDES])
    elif math.isfinite(high):
        edges = np.concatenate([high - MAGNITUDES[::-1], [high]])
    else:
        edges = np.concatenate([-MAGNITUDES[::-1], MAGNITUDES])
    if variable.integer:
        halves = np.copysign(np.floor(np.abs(edges)) + 0.5, edges)
        edges = np.concatenate([[low - 0.5], halves, [high + 0.5]])
        edges = edges[(np.abs(edges) < 2.0**52) & (edges >= low - 0.5) & (edges <= high + 0.5)]
    return np.unique(edges)


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
    if hull is None:
        return _fallback(edges, counts, sd, variable)
    first, last = hull
    inside = float(counts[first : last + 1].sum())
    seen = not missing(counts, sd, hull, total) and max(inside, total or 0.0) >= LEAST * sd
    if variable.bounded and not seen:
        return _fallback(edges, counts, sd, variable)
    n = max(inside if total is None else total, sd)
    lower, upper = variable.lower, variable.upper
    # Where records were seen at a bound there is no tail.
    if edges[last + 1] < upper:
        upper = min(tail_end(edges, counts, sd, (first, last), n), upper)
    if edges[first] > lower:
        mirror = (counts.size - 1 - last, counts.size - 1 - first)
        lower = max(-tail_end(-edges[::-1], counts[::-1], sd, mirror, n), lower)
    start, end = np.clip(np.searchsorted(edges, [lower, upper]) - 1, 0, edges.size - 2)
    if missing(counts, sd, (int(start), int(end)), total):
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


def tail_end(edges: Array, counts: Array, sd: float, hull: tuple[int, int], n: float) -> float:
    r"""Upper end of the range: beyond it a negligible number of records is expected.

    The outermost records, `TAIL_SHARE` of them or as many as stand out well, are the tail. It is
    modelled as generalised Pareto with shape :math:`\xi` and
    scale :math:`\sigma`. The noisy counts weigh the models by their Gaussian
    likelihood, with variance :math:`s^2 + N p_i` for noise and sampling and
    with the number of records :math:`N` profiled out; the prior is normal in
    :math:`\xi` and flat in :math:`\log \sigma`. The end is where the expected
    number of records beyond it, averaged over the models,
    :math:`\sum_j w_j N_j S_j(t)`, falls to `FEW`, but no more than `STRETCH`
    times as far as where it falls to `ENOUGH` :math:`\sqrt n`: a light tail is kept whole, a
    heavy one is cut.

    Parameters
    ----------
    edges, counts : (B + 1,) and (B,) arrays
    sd : float
        Standard deviation of the noise of each count.
    hull : (int, int)
        First and last bin in which records were detected.
    n : float
        Noisy number of records.

    Returns
    -------
    float
        At least the upper edge of the hull, at most `REACH` times as far from where the tail
        begins.
    """
    first, last = hull
    tail_sum = np.cumsum(counts[first : last + 1][::-1])[::-1]
    target = min(TAIL_SHARE * n, TAIL_SCORE * sd)
    start = first + int(np.flatnonzero(tail_sum >= target).max(initial=0))
    distance = edges[start:] - edges[start]
    seen = float(distance[last + 1 - start])
    unit = distance / seen
    near = int(np.searchsorted(unit, REACH)) + 1
    counts = counts[start : start + near]
    share = -np.diff(survival(unit[: near + 1], SHAPE, SCALE), axis=1)
    variance = max(float(tail_sum[start - first]), 0.0) * share + sd**2
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
        for most in (FEW, ENOUGH * math.sqrt(n))
    )
    return float(edges[start]) + min(end, STRETCH * heavy) * seen
