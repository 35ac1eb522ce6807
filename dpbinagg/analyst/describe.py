"""Means, spreads, quantiles, tables of counts and correlations from a release, with their noise.

Means, standard deviations, correlations and tables of counts follow from the second moments
``G = sum g g'``: a variable is ``v = a'g``, an indicator ``b'g``, so that ``a'G e/n`` is a mean,
``b'G a/b'G e`` the mean of a group and ``b'G c`` a cell of a table. Privacy noise is read off
public draws E of the noise in G, of which each gives the number that it would have led to; sampling
error is added. Quantiles and shares come from one-way counts.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from dpbinagg.analyst.ols.coordinates import Margin, quantiles
from dpbinagg.analyst.types import Array
from dpbinagg.errors import ReleaseError
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.scaling import row_layout
from dpbinagg.formula.union import combinations, spelled
from dpbinagg.public.domain import Categorical, Numeric
from dpbinagg.release.questions import (
    MOMENTS,
    SEEN,
    column_map,
    complete,
    moment_request,
    noise_copies,
)
from dpbinagg.release.transcript import Released, counted

FEWEST = 2.0
"""Records that are assumed at least in a group: fewer would leave nothing to divide by."""
DOUBT = 0.4
"""Error of a mean by one-way counts, in root mean squares of the position within a cell: values may
be heaped, whole numbers among them, at one side of many cells. Less would miss that, and more would
leave nothing to counts where cells are wide."""
DIFFER = 0.5
"""Standard deviations by which the mean of those who lack some other variable may be off."""
POINTS = 4096
"""Values that stand for a margin where its fourth moment is needed."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, its standard error, and an interval; privacy noise and sampling error included."""

    value: float
    error: float
    low: float
    high: float

    @classmethod
    def normal(
        cls,
        value: float,
        error: float,
        alpha: float,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> Figure:
        """An interval of so many standard errors, within what the number can be."""
        reach = float(ndtri(1.0 - alpha / 2.0)) * error
        ends = np.clip([value - reach, value + reach], least, most)
        return cls(float(np.clip(value, least, most)), error, float(ends[0]), float(ends[1]))


class Facts:
    """What a release says of its variables.

    Parameters
    ----------
    release : Released
        With moments; that of a study, or of one model.
    alpha : float
        Intervals cover with probability ``1 - alpha``.
    """

    def __init__(self, release: Released, alpha: float = 0.05) -> None:
        self._release, self.alpha = release, alpha
        entry = release.transcript.first(MOMENTS)
        if entry is None:
            raise ReleaseError(
                "the release has no second moments, from which means and correlations follow; "
                "give Budget.moments a share"
            )
        request = moment_request(entry.question)
        self._of_g = np.column_stack(column_map(row_layout(release.outer), request))
        self._matrix = complete(request.levels, entry.answer.values[0])
        self._noise = noise_copies(request.levels, entry.answer.scales[0])
        self.whole: Array = np.eye(len(self._matrix))[0]
        self._counted = counted(release.transcript)
        known = {} if self._counted is None else self._counted.margins
        self.margins = {n: Margin(m["edges"], m["counts"], m["sd"]) for n, m in known.items()}

    @property
    def design(self) -> Design:
        """All columns of the release, on the bounds that values were held to."""
        return self._release.outer

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Raw variables, those of responses first."""
        return self.design.names

    @cached_property
    def nobs(self) -> Figure:
        """Number of records that are complete."""
        if self._counted is not None:
            return Figure.normal(self._counted.complete, self._counted.sd, self.alpha, 0.0)
        sd = float(np.sqrt(np.mean(self._noise[:, 0, 0] ** 2)))
        return Figure.normal(float(self._matrix[0, 0]), sd, self.alpha, 0.0)

    @cached_property
    def everybody(self) -> Figure:
        """Number of all records."""
        if self._counted is None:
            return self.nobs
        total = self._counted.complete + self._counted.incomplete
        return Figure.normal(total, math.sqrt(2.0) * self._counted.sd, self.alpha, 0.0)

    @property
    def all_complete(self) -> bool:
        """Whether no records are seen that lack some variable."""
        return self._counted is None or self._counted.incomplete <= SEEN * self._counted.sd

    def known(self, name: str) -> tuple[float, float]:
        """Number of records that have a variable, and its noise."""
        if self._counted is None or name not in self.margins:
            return self.n, self.nobs.error
        if self.all_complete:
            return self.n, self.nobs.error
        lacking = self._counted.margins[name]["missing"]
        noise = math.hypot(self.everybody.error, self._counted.margins[name]["sd"])
        return max(self.everybody.value - lacking, FEWEST), noise

    @property
    def n(self) -> float:
        """The same as a number that can be divided by."""
        return max(self.nobs.value, FEWEST)

    def vector(self, expression: str) -> Array:
        """An expression of released variables as a combination of g."""
        design = build_design(f"{expression} ~ 1", self.design.domain, self.design.constants)
        return np.asarray(self._of_g @ combinations(self.design, design)[1])

    def indicators(self, name: str) -> tuple[tuple[Hashable, ...], Array]:
        """Levels of a variable, and their indicators as combinations of g, (m, levels)."""
        levels = self.levels(name)
        found = [self.vector(f"I({spelled(name)} == {level!r})") for level in levels]
        return levels, np.column_stack(found)

    def levels(self, name: str) -> tuple[Hashable, ...]:
        """Declared levels of a factor; 0 and 1 of a number that has no others."""
        if name not in self.names:
            raise ReleaseError(f"{name!r} was not released; what was is {', '.join(self.names)}")
        variable = self.design.domain[name]
        if isinstance(variable, Categorical):
            return variable.levels
        if (variable.lower, variable.upper) == (0.0, 1.0) and variable.integer:
            return (0, 1)
        raise ReleaseError(
            f"{name!r} is a number with many values and makes no groups; use a category, or a "
            "whole number between 0 and 1"
        )

    def is_plain(self, name: str) -> bool:
        """Whether moments tell a number itself, and not a function of it alone."""
        plain = {*self.design.plain_columns(), self.design.response_name}
        return name in plain

    # Numbers.

    def _spread(self, of_matrix: Array, of_copies: Array) -> Array:
        """Standard deviation that privacy noise gives a function of G."""
        return np.asarray(np.sqrt(np.mean((of_copies - of_matrix) ** 2, axis=0)))

    def mean(self, vector: Array, group: Array | None = None) -> Figure:
        """``b'G a/b'G e``; its noise, and the variance of the variable over the group's size."""
        group = self.whole if group is None else group
        sums = np.column_stack([vector, self.whole])
        value, size = self._ratio(self._matrix @ sums, group)
        copies, _ = self._ratio((self._matrix - self._noise) @ sums, group)
        noise = float(self._spread(value, copies))
        spread = self._variance(vector)[0]
        error = math.hypot(noise, math.sqrt(spread / float(size)))
        return Figure.normal(float(value), error, self.alpha)

    def _ratio(self, sums: Array, group: Array) -> tuple[Array, Array]:
        found = np.einsum("i,...ij->...j", group, sums)
        size = np.maximum(found[..., 1], FEWEST)
        return found[..., 0] / size, size

    def _variance(self, vector: Array) -> tuple[float, Array]:
        """Variance over all records, and what it would be by every draw of the noise."""

        def of(matrices: Array) -> Array:
            n = np.maximum(matrices[..., 0, 0], FEWEST)
            first = matrices[..., 0, :] @ vector / n
            return np.asarray(np.einsum("i,...ij,j->...", vector, matrices, vector) / n - first**2)

        floor = 1e-12 * float(np.abs(vector[1:]).max(initial=0.0)) ** 2
        return max(float(of(self._matrix)), floor), of(self._matrix - self._noise)

    def number(self, name: str) -> tuple[Figure, Figure]:
        """Mean and standard deviation of a number, from moments and one-way counts together.

        Each is weighed by the inverse square of its noise. Moments are of records that are
        complete in all variables: those who lack one may have a mean that is `DIFFER` standard
        deviations off, which counts as noise in proportion to their share. The sampling error of a
        variance follows from the fourth moment of the counts.
        """
        n, _ = self.known(name)
        looks = [self._by_counts(name)] if name in self.margins else []
        if self.is_plain(name):
            (mean, noise), (variance, spread) = self._by_moments(self.vector(spelled(name)))
            # Those who lack another variable are not in the moments, and may differ.
            lost = 0.0 if self.all_complete else max(1.0 - self.n / n, 0.0)
            doubt = DIFFER * lost * math.sqrt(max(variance, 0.0))
            spread = math.hypot(spread, DIFFER * lost * variance)
            looks.append(((mean, math.hypot(noise, doubt)), (variance, spread)))
        (mean, mean_noise), (variance, noise) = (_weighed(one) for one in zip(*looks, strict=True))
        variance = max(variance, 1e-12 * (abs(mean) + 1.0) ** 2)
        error = math.hypot(mean_noise, math.sqrt(variance / n))
        kurtosis = self._kurtosis(name)
        of_variance = math.hypot(noise, variance * math.sqrt(max(kurtosis - 1.0, 0.0) / n))
        reach = float(ndtri(1.0 - self.alpha / 2.0)) * of_variance
        ends = np.sqrt(np.maximum([variance - reach, variance + reach], 0.0))
        sd = math.sqrt(variance)
        return (
            Figure.normal(mean, error, self.alpha),
            Figure(sd, of_variance / (2.0 * sd), float(ends[0]), float(ends[1])),
        )

    def _by_moments(self, vector: Array) -> tuple[tuple[float, float], tuple[float, float]]:
        """Mean and variance, each with its noise, from second moments."""
        sums = np.column_stack([vector, self.whole])
        mean, _ = self._ratio(self._matrix @ sums, self.whole)
        means, _ = self._ratio((self._matrix - self._noise) @ sums, self.whole)
        variance, copies = self._variance(vector)
        spread = float(self._spread(np.asarray(variance), copies))
        return (float(mean), float(self._spread(mean, means))), (variance, spread)

    def _by_counts(self, name: str) -> tuple[tuple[float, float], tuple[float, float]]:
        """The same from one-way counts, values spread evenly within a cell."""
        edges, counts, sd = self._cells(name)
        middle, width = (edges[1:] + edges[:-1]) / 2.0, np.diff(edges)
        within = (width**2 - float(self._is_integer(name))) / 12.0
        n = max(float(counts.sum()), FEWEST)
        mean = float(counts @ middle) / n
        square = (middle - mean) ** 2 + within
        variance = float(counts @ square) / n
        # Within a cell values lie anywhere: what that may do to the mean counts as noise.
        doubt = DOUBT * math.sqrt(float(np.maximum(counts, 0.0) @ within) / n)
        noise = math.hypot(sd * float(np.linalg.norm(middle - mean)) / n, doubt)
        scatter = math.hypot(
            sd * float(np.linalg.norm(square - variance)) / n,
            2.0 * doubt * math.sqrt(max(variance, 0.0)),
        )
        return (mean, noise), (variance, scatter)

    def _is_integer(self, name: str) -> bool:
        variable = self.design.domain[name]
        return isinstance(variable, Numeric) and variable.integer

    def _cells(self, name: str) -> tuple[Array, Array, float]:
        """Edges and counts of the cells where a number was seen to lie, and their noise."""
        margin, seen = self.margins[name], self._release.domain[name]
        assert margin.edges is not None
        assert isinstance(seen, Numeric)
        half = 0.5 if seen.integer else 0.0
        lower = np.maximum(margin.edges[:-1], seen.lower - half)
        upper = np.minimum(margin.edges[1:], seen.upper + half)
        inside = upper > lower
        return np.append(lower[inside], upper[inside][-1]), margin.counts[inside], margin.sd

    def _kurtosis(self, name: str) -> float:
        margin, variable = self.margins.get(name), self.design.domain[name]
        if margin is None or not isinstance(variable, Numeric):
            return 3.0
        seen = self._release.domain[name]
        assert isinstance(seen, Numeric)
        place = (np.arange(POINTS) + 0.5) / POINTS
        values = quantiles(margin, variable, seen, place)
        deviation = values - values.mean()
        second = float(np.mean(deviation**2))
        return float(np.mean(deviation**4)) / second**2 if second > 0.0 else 3.0

    def share(self, name: str, level: int) -> Figure:
        """Share of a level among the records that have the variable, by one-way counts."""
        margin, (n, sd) = self.margins[name], self.known(name)
        share = float(np.clip(margin.counts[level] / n, 0.0, 1.0))
        noise = math.hypot(margin.sd, share * sd) / n
        error = math.hypot(noise, math.sqrt(max(share * (1.0 - share), 1.0 / n) / n))
        return Figure.normal(share, error, self.alpha, 0.0, 1.0)

    def missing(self, name: str) -> Figure | None:
        """Share of all records that lack a variable; None where it was not released."""
        if self._counted is None or name not in self.margins:
            return None
        n, margin = max(self.everybody.value, FEWEST), self._counted.margins[name]
        share = float(np.clip(margin["missing"] / n, 0.0, 1.0))
        noise = math.hypot(margin["sd"], share * self.everybody.error) / n
        error = math.hypot(noise, math.sqrt(share * (1.0 - share) / n))
        return Figure.normal(share, error, self.alpha, 0.0, 1.0)

    def table(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """Counts of a two-way table, and the standard deviations of their noise."""
        cells = rows.T @ self._matrix @ columns
        noise = rows.T @ self._noise @ columns
        return np.asarray(cells), np.asarray(np.sqrt(np.mean(noise**2, axis=0)))

    def correlations(self, names: Sequence[str]) -> tuple[Array, Array, Array]:
        """Correlations of numbers, and the ends of their intervals by Fisher's transformation."""
        vectors = np.column_stack([self.vector(spelled(name)) for name in names])

        def of(matrices: Array) -> Array:
            n = np.maximum(matrices[..., 0, 0], FEWEST)[..., None, None]
            means = np.asarray(matrices[..., 0, :] @ vectors)[..., None] / n
            second = vectors.T @ matrices @ vectors / n
            return np.asarray(second - means @ np.swapaxes(means, -1, -2))

        spreads = [self.number(name)[1] for name in names]
        size = np.array([one.value for one in spreads])
        relative = np.array([one.error for one in spreads]) / size
        limit = 1.0 - 1e-9
        value = of(self._matrix)
        noise = self._spread(value, of(self._matrix - self._noise)) / np.outer(size, size)
        value = np.clip(value / np.outer(size, size), -limit, limit)
        noise = np.hypot(noise, np.abs(value) * np.hypot.outer(relative, relative))
        reach = float(ndtri(1.0 - self.alpha / 2.0)) * np.hypot(
            noise / (1.0 - value**2), 1.0 / math.sqrt(max(self.n - 3.0, 1.0))
        )
        low, high = np.tanh(np.arctanh(value) - reach), np.tanh(np.arctanh(value) + reach)
        for matrix in (value, low, high):
            np.fill_diagonal(matrix, 1.0)
        return value, low, high

    def quantile(self, name: str, place: float) -> Figure:
        """A quantile of a number, by its one-way counts.

        Its interval ends where the distribution function, ``1.96`` standard errors up or down,
        crosses `place`, and takes in the whole of the cells where it does: values may be heaped
        anywhere within a cell. The quantile itself takes them to be spread evenly.
        """
        variable = self.design.domain[name]
        assert isinstance(variable, Numeric)
        n, sd = self.known(name)
        edges, reached, noise = _distribution(*self._cells(name), n, sd)
        error = np.sqrt(place * (1.0 - place) / n + noise**2)
        reach = float(ndtri(1.0 - self.alpha / 2.0)) * error
        low = _crossing(edges, reached + reach, place)[1]
        value = _crossing(edges, reached, place)[0]
        high = _crossing(edges, reached - reach, place)[2]
        if variable.integer:
            # Edges lie between whole numbers.
            low, value, high = math.ceil(low), float(np.rint(value)), math.floor(high)
        ends = (variable.lower, variable.upper)
        low, value, high = (float(np.clip(x, *ends)) for x in (low, value, high))
        spread = (high - low) / (2.0 * float(ndtri(1.0 - self.alpha / 2.0)))
        return Figure(value, spread, low, high)


def _weighed(looks: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Values with their noise, weighed by its inverse square, and the noise of the result."""
    weights = np.array([1.0 / max(noise, 1e-300) ** 2 for _, noise in looks])
    weights = np.minimum(weights, 1e200)
    values = np.array([value for value, _ in looks])
    return float(weights @ values / weights.sum()), float(weights.sum() ** -0.5)


def _distribution(
    edges: Array, counts: Array, sd: float, n: float, sd_n: float
) -> tuple[Array, Array, Array]:
    """Edges, the distribution function at them, and its noise.

    From the left it is the sum of the cells below, from the right the number of records less those
    above; the two are weighed by their noise.
    """
    below = np.append(0.0, np.cumsum(counts))
    above = np.append(np.cumsum(counts[::-1])[::-1], 0.0)
    cells = np.arange(len(edges))
    left = cells * sd**2 + 1e-9
    right = cells[::-1] * sd**2 + sd_n**2 + 1e-9
    weight = right / (left + right)
    reached = (weight * below + (1.0 - weight) * (n - above)) / n
    noise = np.sqrt(weight**2 * left + (1.0 - weight) ** 2 * right) / n
    return edges, np.asarray(np.maximum.accumulate(np.clip(reached, 0.0, 1.0))), noise


def _crossing(edges: Array, reached: Array, place: float) -> tuple[float, float, float]:
    """Where a function that is linear between edges first reaches `place`, and the cell's ends."""
    rising = np.maximum.accumulate(reached)
    k = int(np.clip(np.searchsorted(rising, place), 1, len(edges) - 1))
    step = rising[k] - rising[k - 1]
    part = (place - rising[k - 1]) / step if step > 0.0 else 0.0
    low, high = float(edges[k - 1]), float(edges[k])
    return low + float(np.clip(part, 0.0, 1.0)) * (high - low), low, high
