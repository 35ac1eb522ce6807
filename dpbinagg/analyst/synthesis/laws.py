"""The law of one variable as all that was released of it tells: heaps, zeros, gaps, tails.

One-way counts, a closer look at parts of their cells, the number of records and second moments are
noisy sums of the counts of cells; the law is the nearest to all of them, each in units of its
noise, with no count below zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from dpbinagg.analyst.describe import DIFFER
from dpbinagg.analyst.fit import released_moments
from dpbinagg.analyst.ols.coordinates import Margin
from dpbinagg.analyst.synthesis.heaps import heap_at_end, round_points, without_heaps
from dpbinagg.analyst.synthesis.usual import usual_counts
from dpbinagg.analyst.types import Array, Moments
from dpbinagg.public.domain import Categorical, Numeric
from dpbinagg.release.questions import SEEN
from dpbinagg.release.transcript import Counted, Released, closer, counted

NEWTON, NEAR = 60, 1e-4
"""Steps to a mean and variance, and how near they come, in standard deviations."""

POINTS = 4
"""Points of a cell at which columns are looked at."""

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
    noise : float
        Standard deviation of the noise in a share.
    """

    shares: Array
    lower: Array | None
    upper: Array | None
    whole: bool = False
    noise: float = 0.0

    @property
    def by_value(self) -> bool:
        """Whether every cell is one value."""
        if self.lower is None or self.upper is None:
            return True
        return self.whole and bool((self.upper - self.lower <= 1.0).all())

    @property
    def heaps(self) -> Array:
        """Values that so many have that they are cells of their own, of numbers that others are."""
        if self.lower is None or self.upper is None:
            return np.zeros(0)
        return np.asarray(self.lower[self.lower == self.upper])

    def cells(self, values: NDArray[np.generic]) -> NDArray[np.int64]:
        """Cell of every value."""
        if self.upper is None:
            return values.astype(np.int64)
        found = np.searchsorted(self.upper, values.astype(np.float64), side="left")
        return np.asarray(np.minimum(found, len(self.shares) - 1), dtype=np.int64)

    def with_heap(self, point: float, share: float) -> Law:
        """This law, and so many records more that have one value."""
        assert self.lower is not None
        assert self.upper is not None
        half, point = (0.5, float(np.rint(point))) if self.whole else (0.0, point)
        k = int(self.cells(np.array([point]))[0])
        # A cell holds its upper end: the part below the heap ends before it.
        ends = [self.lower[k], point - half, point + half, self.upper[k]]
        below = ends[1] if self.whole else max(ends[0], float(np.nextafter(point, -np.inf)))
        width = np.maximum([below - ends[0], 0.0, ends[3] - ends[2]], 0.0)
        parts = self.shares[k] * (width / width.sum() if width.any() else np.array([0.0, 1.0, 0.0]))
        parts[1] += share
        kept = np.array([width[0] > 0.0, True, width[2] > 0.0])
        at = slice(k, k + 1)

        def put(values: Array, new: Array) -> Array:
            return np.concatenate([values[: at.start], new[kept], values[at.stop :]])

        return replace(
            self,
            shares=put(self.shares, parts),
            lower=put(self.lower, np.array([ends[0], ends[1], ends[2]])),
            upper=put(self.upper, np.array([below, ends[2], ends[3]])),
        )

    def tilted(
        self, forward: Callable[[Array], Array], mean: float, variance: float, doubt: float
    ) -> Law:
        """The nearest law in relative entropy under which a function f has this mean and variance.

        Shares become ``share exp(a g + b g^2)`` with ``g = (f - mean)/sd``; a and b by Newton's
        method. As near as steps lead where cells cannot have it. The variance has noise `doubt`: it
        and that of the shares are weighed by the inverse squares of their noise.
        """
        assert self.lower is not None
        assert self.upper is not None
        parts = (np.arange(POINTS) + 0.5) / POINTS
        width = 0.0 if self.whole and self.by_value else (self.upper - self.lower)
        middle = (self.lower + self.upper)[:, None] / 2.0
        points = middle + (parts - 0.5) * np.broadcast_to(width, self.lower.shape)[:, None]
        g = (forward(points.ravel()).reshape(points.shape) - mean) / math.sqrt(variance)
        held = self.shares > 0.0
        if not np.isfinite(g[held]).all():
            return self
        powers = np.column_stack([g.mean(axis=1), (g**2).mean(axis=1)])[held]
        share = weight = self.shares[held] / self.shares[held].sum()
        own, spread = float(share @ powers[:, 1]), float(np.sum((powers[:, 1] - 1.0) ** 2))
        ours, theirs = self.noise**2 * spread, (doubt / variance) ** 2
        weighed = (theirs * own + ours) / (ours + theirs) if ours + theirs > 0.0 else 1.0
        tilt, target = np.zeros(2), np.array([0.0, weighed])
        for _ in range(NEWTON):
            found = weight @ powers
            if np.abs(found - target).max() < NEAR:
                break
            centred = powers - found
            curvature = (centred * weight[:, None]).T @ centred
            curvature[[0, 1], [0, 1]] += 1e-9 * (1.0 + np.diag(curvature))
            step = np.linalg.solve(curvature, target - found)
            step /= max(1.0, float(np.abs(centred @ step)[weight > 1e-6].max()))
            tilt = tilt + step
            power = powers @ tilt
            weight = share * np.exp(power - power.max())
            weight /= weight.sum()
        shares = np.zeros(len(self.shares))
        shares[held] = weight
        return replace(self, shares=shares)

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
    """The law of every variable that was counted: the nearest to all that was released of it."""
    known = counted(release.transcript)
    if known is None:
        return {}
    looks, found = closer(release.transcript), {}
    everybody, moments = known.complete + known.incomplete, _OwnMoments.of(release, known)
    for name, facts in known.margins.items():
        margin = Margin(facts["edges"], facts["counts"], facts["sd"])
        variable, total = release.declared[name], everybody - facts["missing"]
        of_total = math.sqrt(3.0) * known.sd
        if isinstance(variable, Categorical):
            counts = nearest_counts(margin.counts, margin.sd, total, of_total)
            found[name] = Law(_shares(counts), None, None)
            continue
        seen, look = release.domain[name], looks.get(name)
        assert isinstance(seen, Numeric)
        cells = Cells.of(margin, seen)
        if look is not None:
            cells = cells.cut(Margin(look["edges"], look["counts"], look["sd"]), seen)
        facts_of_it = [Fact(np.ones(cells.number), total, of_total), *moments.facts(name, cells)]
        found[name] = number_law(cells, facts_of_it, variable, seen)
    return found


def _shares(weight: Array) -> Array:
    total = weight.sum()
    return weight / total if total > 0.0 else np.full(len(weight), 1.0 / len(weight))


def nearest_counts(counts: Array, sd: float, total: float, of_total: float) -> Array:
    """Counts of at least zero nearest to noisy ones and to their noisy total.

    They minimise ``sum (t - c)^2 / sd^2 + (sum t - N)^2 / sd_N^2``: all are lowered by the same,
    ``t = max(c - a, 0)`` with ``a = (sum t - N) sd^2 / sd_N^2``.
    """
    falling = np.sort(counts)[::-1]
    ratio = sd**2 / max(of_total, 1e-9 * sd) ** 2 if sd else 0.0
    kept = np.arange(1.0, len(counts) + 1.0)
    lower = ratio * (np.cumsum(falling) - total) / (1.0 + ratio * kept)
    inside = np.flatnonzero(falling > lower)
    return np.maximum(counts - lower[inside[-1]], 0.0) if inside.size else np.zeros(len(counts))


@dataclass(frozen=True, slots=True)
class Fact:
    """A noisy sum ``weights @ t`` of the counts t of cells, and the noise of its value."""

    weights: Array
    value: float
    sd: float


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells of a number, and the noisy sums of their counts that were released.

    Attributes
    ----------
    lower, upper : (B,) arrays
    counts : (B,) array
        Of about how many records they are.
    facts : list of (matrix, values, sd)
        Sums of counts, each with its noise.
    """

    lower: Array
    upper: Array
    counts: Array
    facts: list[tuple[Array, Array, float]]

    @property
    def number(self) -> int:
        """B."""
        return len(self.lower)

    @classmethod
    def of(cls, margin: Margin, seen: Numeric) -> Cells:
        """The cells of one-way counts."""
        lower, upper, counts = margin.within(seen)
        return cls(lower, upper, counts, [(np.eye(len(counts)), counts, margin.sd)])

    def cut(self, look: Margin, seen: Numeric) -> Cells:
        """The cells of a closer look, which are parts of these."""
        lower, upper, counts = look.within(seen)
        of = np.searchsorted(self.upper, (lower + upper) / 2.0).clip(0, self.number - 1)
        ((_, values, sd),) = self.facts
        held = np.zeros((self.number, len(lower)))
        held[of, np.arange(len(lower))] = 1.0
        looks = [(held, values, sd), (np.eye(len(lower)), counts, look.sd)]
        return Cells(lower, upper, counts, looks)

    def solved(self, facts: Sequence[Fact], usual: tuple[Array, Array] | None = None) -> Array:
        """Counts of at least zero nearest to all facts, each in units of its noise, (B,).

        ``min over t >= 0 of sum_i (a_i't - value_i)^2 / sd_i^2``, and with `usual`, counts and how
        far others usually lie from them, ``+ sum_k (t_k - usual_k)^2 / spread_k^2``.
        """
        rows = [matrix / sd for matrix, _, sd in self.facts]
        values = [value / sd for _, value, sd in self.facts]
        if usual is not None:
            rows.append(np.diag(1.0 / usual[1]))
            values.append(usual[0] / usual[1])
        rows += [fact.weights[None, :] / fact.sd for fact in facts]
        values += [np.array([fact.value / fact.sd]) for fact in facts]
        try:
            return np.asarray(nnls(np.vstack(rows), np.concatenate(values))[0])
        except RuntimeError:
            # It did not end: the counts by themselves.
            return np.maximum(self.counts, 0.0)


@dataclass(frozen=True)
class _OwnMoments:
    """Second moments of the columns that depend on one number alone."""

    release: Released
    moments: Moments | None
    complete: float
    everybody: float

    @classmethod
    def of(cls, release: Released, known: Counted) -> _OwnMoments:
        everybody = known.complete
        if known.incomplete > SEEN * known.sd:
            everybody += known.incomplete
        return cls(release, released_moments(release), known.complete, everybody)

    def facts(self, name: str, cells: Cells) -> list[Fact]:
        """Sums of all products of two of these columns over the cells."""
        if self.moments is None or self.complete <= 0.0:
            return []
        parts = (np.arange(POINTS) + 0.5) / POINTS
        points = cells.lower[:, None] + parts * (cells.upper - cells.lower)[:, None]
        if self._whole(name):
            points = np.rint(points)
        place, columns = self._columns(name, points.ravel())
        if not np.isfinite(columns).all():
            return []
        columns = columns.reshape(*points.shape, -1)
        found, counts = [], np.maximum(cells.counts, 0.0)
        # Those who lack another variable are in no moment, and may differ.
        factor = self.everybody / self.complete
        lost = 1.0 - 1.0 / factor
        for i, a in enumerate(place):
            for j, b in enumerate(place[: i + 1]):
                product = columns[:, :, i] * columns[:, :, j]
                mean, noise = product.mean(axis=1), float(self.moments.sd[a, b])
                if noise <= 0.0 or a == b == 0:
                    continue
                spread = float(np.sqrt(np.sum((counts * product.std(axis=1)) ** 2)))
                doubt = DIFFER * lost * float(np.sqrt(counts @ mean**2 * counts.sum()))
                sd = math.hypot(factor * noise, spread, doubt)
                found.append(Fact(mean, factor * float(self.moments.matrix[a, b]), sd))
        return found

    def _whole(self, name: str) -> bool:
        variable = self.release.domain[name]
        return isinstance(variable, Numeric) and variable.integer

    def _columns(self, name: str, points: Array) -> tuple[list[int], Array]:
        """Places of the columns among the moments, and their values there, 1 first."""
        assert self.moments is not None
        design, values = self.release.design, [np.ones(len(points))]
        places = [0]
        if name in design.variables:
            columns, table, defined = design.columns_of(name, points)
            if not defined.all():
                return places, np.column_stack(values)
            for column, one in zip(columns, table.T, strict=True):
                for place in np.flatnonzero(self.moments.design_map[1:, column]):
                    scale = self.moments.design_map[1 + place, column]
                    values.append((one - self.moments.design_map[0, column]) / scale)
                    places.append(1 + int(place))
        elif design.response_variables == (name,):
            response = design.response({name: points})
            centre, scale = self.moments.response_map[[0, -1]]
            values.append((response - centre) / scale)
            places.append(len(self.moments.matrix) - 1)
        return places, np.column_stack(values)


def number_law(cells: Cells, facts: Sequence[Fact], bounds: Numeric, seen: Numeric) -> Law:
    """The law of a number within the range where records were seen.

    A heap at a declared bound (zero earnings, zero visits) is that value, not its cell, and one
    elsewhere the roundest number of its cell (12.5 hours, 30,000 a year).
    """
    weight = cells.solved(facts)
    matrix, noisy, noise = cells.facts[-1]
    usual = usual_counts(matrix.T @ noisy, weight, cells.upper - cells.lower, noise)
    weight = weight if usual is None else cells.solved(facts, usual)
    lower, upper = cells.lower.copy(), cells.upper.copy()
    total, sd = max(float(weight.sum()), 1.0), min(sd for _, _, sd in cells.facts)
    if seen.integer and (upper - lower <= 1.0).all():
        return Law(*_finer(_shares(weight), lower, upper, True), True, sd / total)
    width = upper - lower
    if not seen.integer:
        for end, bound in ((0, bounds.lower), (-1, bounds.upper)):
            if heap_at_end(weight, width, sd, end) and bound in (lower[end], upper[end]):
                lower[end] = upper[end] = bound
    even = without_heaps(weight, upper - lower, sd)
    shares, lower, upper = _finer(_shares(even), lower, upper, seen.integer)
    law = Law(shares * float(even.sum() / total), lower, upper, seen.integer, sd / total)
    heaps = np.flatnonzero(weight > even)
    points = round_points(cells.lower[heaps], cells.upper[heaps], seen.integer)
    for k, point in zip(heaps, points, strict=True):
        law = law.with_heap(float(point), float(weight[k] - even[k]) / total)
    return law


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
