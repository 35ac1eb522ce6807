"""The law of one variable as its released counts tell it: heaps, zeros, gaps, tails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.ols.margins import Margin
from dpbinagg.analyst.types import Array
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.release.transcript import Released, margins

STANDS_OUT = 2.5
"""Cells with counts below so many noise standard deviations share what they have with those beside
them: fewer make heaps of noise, more hide those of few people."""

ALONE = 4.0
"""The same for a cell between two that do not stand out: of a hundred empty cells one in 300
releases would."""

HEAP = 5.0
"""A cell at a declared bound is a heap of records with that value if it is so many times as dense
as the next one."""


PARTS, MOST_PARTS = 4, 64
"""Parts of a cell of a number, and most whole numbers that are told apart within one."""


@dataclass(frozen=True, slots=True)
class Law:
    """Shares of cells, and where these lie.

    Attributes
    ----------
    shares : (B,) array
        Not negative, with sum 1.
    lower, upper : (B,) arrays or None
        Ends of the cells of a number; None for levels.
    whole : bool
        Whether values are whole numbers.
    """

    shares: Array
    lower: Array | None
    upper: Array | None
    whole: bool = False

    @property
    def by_value(self) -> bool:
        """Whether every cell is one value."""
        if self.lower is None or self.upper is None:
            return True
        return self.whole and bool((self.upper - self.lower <= 1.0).all())

    def cells(self, values: NDArray[np.generic]) -> NDArray[np.int64]:
        """Cell of every value."""
        if self.upper is None:
            return values.astype(np.int64)
        found = np.searchsorted(self.upper, values.astype(np.float64), side="left")
        return np.asarray(np.minimum(found, len(self.shares) - 1), dtype=np.int64)

    def quantiles(self, place: Array) -> Array:
        """Quantiles of a number, evenly spread within cells."""
        assert self.lower is not None
        assert self.upper is not None
        reach = np.cumsum(self.shares)
        reach /= reach[-1]
        # A place that rounding puts on an edge belongs below it, and never to an empty cell.
        cell = np.minimum(np.searchsorted(reach, place), len(reach) - 1)
        within = (place - (reach - self.shares / self.shares.sum())[cell]) / np.maximum(
            self.shares[cell], np.finfo(float).tiny
        )
        values = self.lower[cell] + np.clip(within, 0.0, 1.0) * (self.upper - self.lower)[cell]
        if self.whole:
            values = np.clip(np.ceil(values - 0.5), self.lower[cell] + 0.5, self.upper[cell] - 0.5)
        return np.asarray(values)


def released_laws(release: Released) -> dict[str, Law]:
    """The law of every variable that was counted."""
    return laws_of(margins(release.transcript), release.declared, release.domain)


def laws_of(
    counted: Mapping[str, Mapping[str, Any]], bounds: Domain, seen: Domain
) -> dict[str, Law]:
    """Laws from one-way counts: edges, counts and the noise of a count by variable."""
    found = {}
    for name, facts in counted.items():
        margin = Margin(facts["edges"], facts["counts"], facts["sd"])
        variable = bounds[name]
        if isinstance(variable, Categorical):
            found[name] = Law(_shares(_levels(margin)), None, None)
        else:
            working = seen[name]
            assert isinstance(working, Numeric)
            found[name] = number_law(margin, variable, working)
    return found


def _shares(weight: Array) -> Array:
    total = weight.sum()
    return weight / total if total > 0.0 else np.full(len(weight), 1.0 / len(weight))


def _levels(margin: Margin) -> Array:
    """Counts of levels; those that do not stand out share what they have together."""
    weak = margin.unseen
    weight = np.maximum(margin.counts, 0.0)
    if weak.any():
        weight[weak] = max(float(margin.counts[weak].sum()), 0.0) / weak.sum()
    return weight


def number_law(margin: Margin, bounds: Numeric, seen: Numeric) -> Law:
    """The law of a number within the range where records were seen.

    A heap at a declared bound (zero earnings, zero visits) is that value, not its cell.
    """
    assert margin.edges is not None
    half = 0.5 if seen.integer else 0.0
    low, high = seen.lower - half, seen.upper + half
    lower, upper = np.maximum(margin.edges[:-1], low), np.minimum(margin.edges[1:], high)
    # A whole number may have no value between two edges.
    inside = (np.ceil(upper - half) > lower) if seen.integer else (upper > lower)
    inside &= upper > lower
    lower, upper, counts = lower[inside], upper[inside], margin.counts[inside]
    if not counts.size:
        return Law(np.ones(1), np.array([low]), np.array([high]), seen.integer)
    width, strong = upper - lower, _strong(counts, margin.sd)
    weight = _levelled(counts, width, strong)
    if not seen.integer and len(counts) > 1:
        for end, beside, bound in ((0, 1, bounds.lower), (-1, -2, bounds.upper)):
            heap = weight[end] * width[beside] > HEAP * max(weight[beside], margin.sd) * width[end]
            if strong[end] and heap and bound in (lower[end], upper[end]):
                lower[end] = upper[end] = bound
    return Law(*_finer(_shares(weight), lower, upper, seen.integer), seen.integer)


def _strong(counts: Array, sd: float) -> NDArray[np.bool_]:
    """Cells that stand out of the noise; one without another beside it must do so by more."""
    strong = counts >= STANDS_OUT * sd
    beside = np.zeros_like(strong)
    beside[1:] |= strong[:-1]
    beside[:-1] |= strong[1:]
    return np.asarray(strong & (beside | (counts >= ALONE * sd)))


def _finer(shares: Array, lower: Array, upper: Array, whole: bool) -> tuple[Array, Array, Array]:
    """Cells cut in parts, with the density between those of their neighbours.

    A part has the density that lies on the line between the middles of cells, at least half and at
    most twice that of its cell; the sum over the parts of a cell stays.
    """
    width, middle = upper - lower, (lower + upper) / 2.0
    density = np.divide(shares, width, out=np.zeros_like(shares), where=width > 0.0)
    parts = np.where(width > 0.0, PARTS, 1)
    if whole:
        parts = np.clip(np.rint(width), 1, MOST_PARTS)
        parts = np.where(width % parts == 0.0, parts, 1)
    parts = parts.astype(np.int64)
    cell = np.repeat(np.arange(len(shares)), parts)
    place = np.arange(len(cell)) - np.repeat(np.cumsum(parts) - parts, parts)
    step = (width / parts)[cell]
    left = lower[cell] + place * step
    own = density[cell]
    wide = width > 0.0
    line = np.interp(left + step / 2.0, middle[wide], density[wide]) if wide.any() else own
    weight = np.clip(line, own / 2.0, 2.0 * own)
    total = np.bincount(cell, weights=weight, minlength=len(shares))[cell]
    even = 1.0 / parts[cell]
    weight = shares[cell] * np.divide(weight, total, out=even, where=total > 0.0)
    right = np.where(place == parts[cell] - 1, upper[cell], left + step)
    return weight, left, right


def _levelled(counts: Array, width: Array, strong: NDArray[np.bool_]) -> Array:
    """Counts that stand out, and the sums of runs of others, spread over them.

    A run between two counts that stand out is even; one at an end falls off from the density d of
    the count beside it: ``d exp(-distance d / sum)``.
    """
    if not strong.any():
        return np.asarray(width * max(float(counts.sum()), 0.0) / width.sum())
    weight = counts.copy()
    weak = np.flatnonzero(~strong)
    for run in np.split(weak, np.flatnonzero(np.diff(weak) > 1) + 1) if weak.size else ():
        total = max(float(counts[run].sum()), 0.0)
        share = width[run] / width[run].sum()
        first, last = run[0] == 0, run[-1] == len(counts) - 1
        if total > 0.0 and first != last:
            outward = run[::-1] if first else run
            beside = outward[0] + (1 if first else -1)
            rate = weight[beside] / width[beside] / total
            ends = np.concatenate([[0.0], np.cumsum(width[outward])])
            share = -np.diff(np.exp(-ends * rate))
            share, run = share / share.sum(), outward
        weight[run] = total * share
    return np.asarray(weight)
