"""Covariates of synthetic rows: raw variables inside the boxes of their bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.fit import released_bins, released_moments
from dpbinagg.analyst.synthesis.adjust import match_means, match_whole_means
from dpbinagg.analyst.synthesis.carriers import Carrier, Continuous, Discrete, carriers
from dpbinagg.analyst.synthesis.groups import Groups
from dpbinagg.analyst.synthesis.shape import (
    Shape,
    gaussian_rows,
    shape_from_bins,
    shape_from_moments,
)
from dpbinagg.analyst.types import Array, Bins
from dpbinagg.public.domain import Numeric, Rows
from dpbinagg.public.partition import Boxes
from dpbinagg.release.transcript import Released

PRIOR_SHARE = 1.0 / 3.0
"""Standard deviation of a bin's mean around the model's, in half-widths of the box."""


@dataclass(frozen=True)
class Spreader:
    """Draws covariates for the bins of one release.

    Attributes
    ----------
    release : Released
    boxes : Boxes
        Those of the partition.
    bins : Bins or None
        What the release says of them.
    shape : Shape or None
        Mean and covariance of all columns.
    carried : list of Carrier
    """

    release: Released
    boxes: Boxes
    bins: Bins | None
    shape: Shape | None
    carried: list[Carrier]

    @classmethod
    def of(cls, release: Released) -> Spreader:
        """Read what is needed from a release, once."""
        bins, moments = released_bins(release), released_moments(release)
        if moments is not None:
            shape: Shape | None = shape_from_moments(moments)
        else:
            shape = None if bins is None else shape_from_bins(bins)
        return cls(release, release.partition.boxes, bins, shape, carriers(release.design))

    def draw(
        self, bin_of: NDArray[np.int64], rng: np.random.Generator, exact_means: bool = False
    ) -> Rows:
        """Raw variables for rows in the bins `bin_of`.

        Parameters
        ----------
        bin_of : (n,) array
            Bin of every row.
        rng : Generator
        exact_means : bool
            Whether bin means equal the released ones wherever those lie in the box;
            else released means are shrunk towards the model by signal over noise.

        Returns
        -------
        dict of (n,) arrays
            Numbers, and codes into the levels of categories.
        """
        rows: Rows = {}
        columns: dict[int, Array] = {}
        for carrier in self.carried:
            if isinstance(carrier, Discrete):
                rows[carrier.name], coded = self.discrete(carrier, bin_of, rng)
                columns |= coded
        numeric = [c for c in self.carried if isinstance(c, Continuous)]
        latent = self._draw_latent(numeric, columns, bin_of, rng)
        groups = self.groups(bin_of)
        for carrier, values in zip(numeric, latent, strict=True):
            rows[carrier.name] = self._settle(carrier, values, groups, exact_means)
        return {name: rows[name] for name in self.release.design.variables}

    def discrete(
        self, carrier: Discrete, bin_of: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[NDArray[np.generic], dict[int, Array]]:
        """Values of a variable with few of them, and its columns."""
        place = self._draw_discrete(carrier, bin_of, rng)
        coded = dict(zip(carrier.columns.tolist(), carrier.coding[place].T, strict=True))
        return self._values(carrier, place), coded

    def groups(self, bin_of: NDArray[np.int64]) -> Groups:
        """Rows in the bins `bin_of`."""
        return Groups(bin_of, len(self.boxes))

    def possible(self) -> NDArray[np.bool_]:
        """Bins in which the design is defined, (K,): ``C(x, levels=...)`` may leave values out."""
        possible = np.ones(len(self.boxes), dtype=bool)
        for carrier in self.carried:
            if isinstance(carrier, Discrete):
                possible &= carrier.members(self.boxes).any(axis=1)
        return possible

    def positions(self, rows: Rows, n: int) -> NDArray[np.float32]:
        """Where rows lie: numbers in shares of their range, categories as dummies, (n, d).

        In single precision, which is far finer than what is known of any place.
        """
        places: list[NDArray[np.generic]] = []
        for name, variable in self.release.partition.domain.items():
            if isinstance(variable, Numeric):
                values = rows[name].astype(np.float64, copy=False)
                share = (values - variable.lower) / (variable.upper - variable.lower)
                places.append(share.astype(np.float32))
            else:
                places.extend(rows[name] == code for code in range(len(variable.levels)))
        return np.array(places, dtype=np.float32).reshape(len(places), n).T

    def mean_columns(self, columns: Array, groups: Groups) -> tuple[Array, Array]:
        """Mean design columns of the rows of every bin, and how far those of the records may be.

        The variance is that of a prior ``(h/3)^2`` updated by the released mean with its noise,
        ``1 / (1/prior + 1/noise)``, (K, p) each.
        """
        assert self.bins is not None
        means = np.column_stack([groups.means(column) for column in columns.T])
        prior = (PRIOR_SHARE * self.bins.half_width) ** 2
        noise = (self.bins.sd_x / np.maximum(self.bins.counts, 1.0)[:, None]) ** 2
        total = np.where(prior + noise > 0, prior + noise, 1.0)
        return means, prior * noise / total

    def centres(self) -> Array:
        """Where the middles of the boxes lie, in the coordinates of `positions`, (K, d)."""
        parts = [np.zeros((len(self.boxes), 0))]
        for name, variable in self.release.partition.domain.items():
            if isinstance(variable, Numeric):
                middle = (self.boxes.lower[name] + self.boxes.upper[name])[:, None] / 2.0
                parts.append((middle - variable.lower) / (variable.upper - variable.lower))
            else:
                members = self.boxes.members[name]
                parts.append(members / np.maximum(members.sum(axis=1, keepdims=True), 1))
        return np.hstack(parts).astype(np.float64)

    def _values(self, carrier: Discrete, place: NDArray[np.int64]) -> NDArray[np.generic]:
        values = carrier.values[place]
        is_code = carrier.name in self.boxes.members
        return values.astype(np.int64) if is_code else values

    def _draw_discrete(
        self, carrier: Discrete, bin_of: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Positions among the values of a variable, drawn with the bin's probabilities."""
        cumulative = np.cumsum(self._probabilities(carrier), axis=1)
        u = rng.random(len(bin_of)) * cumulative[bin_of, -1]
        place = (u[:, None] >= cumulative[bin_of]).sum(axis=1)
        last = (
            cumulative.shape[1]
            - 1
            - np.argmax(np.diff(cumulative, axis=1, prepend=0.0)[:, ::-1] > 0, axis=1)
        )
        return np.asarray(np.minimum(place, last[bin_of]))

    def _probabilities(self, carrier: Discrete) -> Array:
        """Probabilities of the values of a variable in every bin, (K, L).

        The prior p0 is that of all records, restricted to the box. The released
        means m of the columns with coding A and noise variance R update it to
        ``p0 + P A (A'PA + R)^-1 (m - A'p0)``, ``P = diag(p0) - p0 p0'``, cut at 0.
        """
        members = carrier.members(self.boxes)
        overall = self._overall(carrier)
        prior = members * overall + members * 1e-12
        prior /= np.maximum(prior.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        if self.bins is None or not carrier.columns.size:
            return prior
        counts = np.maximum(self.bins.counts, 1.0)
        means = self.bins.sum_x[:, carrier.columns] / counts[:, None]
        noise = (self.bins.sd_x[:, carrier.columns] / counts[:, None]) ** 2
        for k in np.flatnonzero(members.sum(axis=1) > 1):
            prior[k] = _update(prior[k], carrier.coding, means[k], noise[k])
        return prior

    def _overall(self, carrier: Discrete) -> Array:
        """Probabilities over all records, from the mean of the columns."""
        size = len(carrier.values)
        uniform = np.full(size, 1.0 / size)
        if self.shape is None or not carrier.columns.size:
            return uniform
        mean = self.shape.mean[carrier.columns]
        return _update(uniform, carrier.coding, mean, np.full(mean.size, 1e-4))

    def _draw_latent(
        self,
        numeric: list[Continuous],
        fixed: dict[int, Array],
        bin_of: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> list[Array]:
        """The columns that carry numeric variables, drawn together given the categories.

        Variables without a column that varies are spread evenly.
        """
        edges = [self._edges(carrier) for carrier in numeric]
        vary = set() if self.shape is None else set(np.flatnonzero(np.diag(self.shape.cov)))
        columns = [carrier.column for carrier in numeric]
        carried = {i: j for i, j in enumerate(columns) if j is not None and j in vary}
        given = {column: values for column, values in fixed.items() if column in vary}
        latent: dict[int, Array] = {}
        if self.shape is not None and carried:
            shape = self.shape.select([*carried.values(), *given])
            low, high = (np.array([edges[i][side] for i in carried]) for side in (0, 1))
            kept = np.array(list(given.values())).reshape(len(given), len(bin_of))
            rows = gaussian_rows(shape, kept, low, high, bin_of, rng)
            latent = dict(zip(carried, rows, strict=True))
        return [
            latent[i] if i in latent else _uniform(low, high, bin_of, rng)
            for i, (low, high) in enumerate(edges)
        ]

    def _edges(self, carrier: Continuous) -> tuple[Array, Array]:
        """Bounds of the column that carries a variable, (K,) each."""
        low, high = self.boxes.lower[carrier.name], self.boxes.upper[carrier.name]
        variable = self.release.domain[carrier.name]
        if carrier.identity and isinstance(variable, Numeric) and variable.integer:
            return low - 0.5, high + 0.5
        left, right = carrier.forward(low), carrier.forward(high)
        return np.minimum(left, right), np.maximum(left, right)

    def _settle(self, carrier: Continuous, latent: Array, groups: Groups, exact: bool) -> Array:
        """Raw values: bin means matched, whole numbers where declared, inside the box."""
        low, high = self.boxes.lower[carrier.name], self.boxes.upper[carrier.name]
        variable = self.release.domain[carrier.name]
        assert isinstance(variable, Numeric)
        whole = variable.integer
        if not whole:
            # Half-open: an upper edge belongs to the next box, unless it ends the domain.
            high = np.where(high >= variable.upper, high, np.nextafter(high, -np.inf))
        target = self._target(carrier, latent, groups, exact)
        if whole and carrier.identity:
            return match_whole_means(latent, groups, target, low, high)
        left, right = carrier.forward(low), carrier.forward(high)
        least, most = np.minimum(left, right), np.maximum(left, right)
        matched = match_means(latent, groups, target, least, most)
        if carrier.identity:
            return matched
        raw = carrier.backward(matched)
        return np.clip(np.rint(raw) if whole else raw, groups.each(low), groups.each(high))

    def _target(self, carrier: Continuous, latent: Array, groups: Groups, exact: bool) -> Array:
        """What the mean of the carrying column should be in every bin; NaN: as it is."""
        if self.bins is None or carrier.column is None:
            return np.full(groups.n_bins, np.nan)
        j = carrier.column
        model = groups.means(latent)
        counts = np.maximum(self.bins.counts, 1.0)
        centre = self.bins.centre[:, j]
        deviation = self.bins.sum_x[:, j] - centre * self.bins.counts
        released = centre + deviation / counts
        prior = (PRIOR_SHARE * self.bins.half_width[:, j]) ** 2
        noise = (self.bins.sd_x[:, j] / counts) ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            weight = np.where(prior > 0, prior / (prior + noise), 0.0)
        if exact:
            inside = np.abs(released - centre) <= self.bins.half_width[:, j]
            weight = np.where(inside & (self.bins.half_width[:, j] > 0), 1.0, weight)
        return np.asarray(model + weight * (released - model))


def _uniform(low: Array, high: Array, bins: NDArray[np.int64], rng: np.random.Generator) -> Array:
    """Values spread evenly over the box of each row."""
    return np.asarray(low[bins] + (high - low)[bins] * rng.random(len(bins)))


def _update(prior: Array, coding: Array, mean: Array, noise: Array) -> Array:
    """One linear update of probabilities by noisy means of coded columns."""
    spread = np.diag(prior) - np.outer(prior, prior)
    cross = spread @ coding
    inner = coding.T @ cross + np.diag(noise) + 1e-12 * np.eye(len(mean))
    posterior = prior + cross @ np.linalg.solve(inner, mean - coding.T @ prior)
    posterior = np.where(prior > 0, np.maximum(posterior, 0.0), 0.0)
    total = posterior.sum()
    return posterior / total if total > 0 else prior
