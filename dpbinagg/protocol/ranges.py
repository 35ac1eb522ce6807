"""One-way counts of all variables: working ranges, margins, and the number of records.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.ols.margins import Margin, uniform_margins
from dpbinagg.formula import Design
from dpbinagg.kernel.questions import Answer, Question
from dpbinagg.protocol.detection import Tail, best, detect, missing, tail_end
from dpbinagg.public.domain import Domain, Numeric, Variable
from dpbinagg.release.questions import completeness_answer, margin_answer, margin_question

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
    names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
    if not mu:
        return OneWay(design.domain, uniform_margins(design.domain, names))
    variables = {name: design.domain[name] for name in names}
    open_ = [n for n in design.unbounded if n in variables]
    margins, total, sd = _look(ask, variables, mu * math.sqrt(FIRST_SHARE) if open_ else mu)
    working = {
        name: variable.within(*working_range(edges, margins[name].counts, sd, variable, total))
        for name, variable in variables.items()
        if isinstance(variable, Numeric) and name not in fixed and needs_range(variable)
        if (edges := margins[name].edges) is not None
    }
    if open_:
        rest = mu * math.sqrt(1.0 - FIRST_SHARE) * (1.0 - 2.0**-50)
        coarse = {
            name: working[name]
            for name in open_
            if isinstance(variable := variables[name], Numeric)
            and (edges := margins[name].edges) is not None
            and too_coarse(edges, (working[name].lower, working[name].upper), variable)
        }
        more, again, its_sd = _look(ask, coarse, rest, declared=False)
        for name, first in coarse.items():
            margin = margins[name] = more[name]
            assert margin.edges is not None
            ends = second_range(margin.edges, margin.counts, its_sd, first, total)
            working[name] = first.within(*ends)
        weights = (sd**-2, its_sd**-2)
        total = (weights[0] * total + weights[1] * again) / sum(weights)
        sd = sum(weights) ** -0.5
    return OneWay(design.domain.updated(working), margins, (total, sd))


def _look(
    ask: Ask, variables: Mapping[str, Variable], mu: float, declared: bool = True
) -> tuple[dict[str, Margin], float, float]:
    """Noisy counts of each variable, the noisy total, and the noise of each count.

    `declared` says whether bounds are the caller's.
    """
    edges = {
        name: histogram_edges(variable) if isinstance(variable, Numeric) else None
        for name, variable in variables.items()
    }
    question = margin_question(edges, variables, declared)
    (answer,) = ask([question], [mu])
    counts, sd = completeness_answer(question, answer)
    margins = {
        name: Margin(one["edges"], one["counts"], one["sd"])
        for name, one in margin_answer(question, answer).items()
    }
    return margins, float(counts[0]), sd


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
    if hull is None:
        return _fallback(edges, counts, sd, variable)
    first, last = hull
    inside = float(counts[first : last + 1].sum())
    seen = not missing(counts, sd, hull, total) and max(inside, total or 0.0) >= LEAST * sd
    if variable.bounded and not seen:
        return _fallback(edges, counts, sd, variable)
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
