"""Covariates whose counts, bins and second moments are the released ones together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpbinagg.analyst.linalg import spectrum
from dpbinagg.analyst.ols.finish import Steps
from dpbinagg.analyst.synthesis.apportion import largest_remainder
from dpbinagg.analyst.synthesis.carriers import Continuous, Discrete
from dpbinagg.analyst.synthesis.keeper import Keeper
from dpbinagg.analyst.synthesis.laws import Law
from dpbinagg.analyst.synthesis.orders import PLACES, before_laws, normal_given
from dpbinagg.analyst.synthesis.raking import Cells, raked, systematic
from dpbinagg.analyst.synthesis.shape import Shape, positive
from dpbinagg.analyst.synthesis.spread import Spreader
from dpbinagg.analyst.types import Array
from dpbinagg.errors import ReleaseError
from dpbinagg.public.domain import Rows
from dpbinagg.public.partition import Partition
from dpbinagg.release.transcript import Released

LEAST_VARIANCE = 0.1
"""Of errors of a row, in that of all: the line through squared residuals may be negative."""
DRIFT = 0.05
"""How far second moments of whitened columns of candidates are from those that they were drawn to
have: boxes, whole numbers and laws that are not normal move correlations so much."""
CANDIDATES = 3
"""Candidates for each row, of which the nearest to the release are kept."""


TRIES = 3
"""Times that candidates are drawn, three times as many each, until enough keep all rules."""


def by_rank(values: NDArray[np.generic], law: Law, rng: np.random.Generator) -> Array:
    """The same order, ties at random, and the law's quantiles."""
    chance, order = rng.random(len(values)), np.argsort(values)
    if (values[order[1:]] == values[order[:-1]]).any():
        order = np.lexsort((chance, values))
    found = np.empty(len(values))
    found[order] = law.quantiles((np.arange(len(values)) + 0.5) / len(values))
    return found


@dataclass(frozen=True)
class Joint:
    """Draws covariates of one release.

    Attributes
    ----------
    release : Released
    spreader : Spreader
    laws : dict of Law
        Of the variables that were counted.
    steps : Steps or None
        Where moments and rounds lead.
    noise : (k, k) array or None
        What a copy adds to the second moments of whitened columns.
    keeper : Keeper or None
        Of rules between covariates.
    """

    release: Released
    spreader: Spreader
    laws: dict[str, Law]
    steps: Steps | None
    noise: Array | None = None
    keeper: Keeper | None = None

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array] | None:
        """Whitening, mean of ``w w'``, variance of its noise over that of sampling."""
        if self.steps is None:
            return None
        state, intercept = self.steps.state, self.release.design.intercept
        gram = state.gram if self.noise is None else state.gram + self.noise
        lifted = spectrum(gram, state.noise).lifted
        # The number of records is known otherwise too; all moments are held to that in the matrix.
        number = state.nobs
        if intercept is not None:
            number = float(self._back[intercept] @ lifted @ self._back[intercept])
        rho = np.mean(state.noise**2, axis=0) / (state.nobs * DRIFT) ** 2
        return state.whitening, lifted / max(number, 1.0), rho

    @cached_property
    def _back(self) -> Array:
        """Design columns from whitened ones, (p, k): ``x = B w`` for every record that was seen.

        Columns that the others determine are among them: x lies where ``null x = 0``.
        """
        assert self.steps is not None
        whitening, null = self.steps.state.whitening, self.steps.state.public.null
        unit = np.linalg.norm(whitening, axis=0)
        unit[unit == 0.0] = 1.0
        free = linalg.null_space(null / unit) if len(null) else np.eye(len(unit))
        return np.asarray(free @ np.linalg.pinv(whitening / unit @ free) / unit[:, None])

    def _candidates(self, weights: Array, size: int, rng: np.random.Generator) -> Rows:
        """Rows with the mean and covariance that all rounds together tell, normal but for factors.

        Boxes would bend their correlations: what the bins say is raked in. Where there are no
        moments, rows from the bins.
        """
        intercept = self.release.design.intercept
        if self._moments is None or intercept is None:
            rows_in = largest_remainder(weights, size)
            return self.spreader.draw(np.repeat(np.arange(len(rows_in)), rows_in), rng)
        _, second, _ = self._moments
        known = self._back @ second @ self._back.T
        mean = known[intercept]
        cov = known - np.outer(mean, mean)
        whole = Partition.grid(self.release.domain.subset(self.release.design.variables), 1)
        spreader = replace(
            self.spreader, shape=Shape(mean, positive(cov)), boxes=whole.boxes, bins=None
        )
        one = np.zeros(size, dtype=np.int64)
        if self._numbers <= self.laws.keys():
            return self._by_order(spreader, mean, cov, one, rng)
        return spreader.draw(one, rng)

    def _by_order(
        self,
        spreader: Spreader,
        mean: Array,
        cov: Array,
        bin_of: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Rows:
        """Factors, and numbers of which only the order counts, normal given the factors.

        Correlations are such that columns have the released ones once numbers have their laws.
        """
        rows: Rows = {}
        coded: dict[int, Array] = {}
        orders: dict[int, Continuous] = {}
        for carrier in spreader.carried:
            if isinstance(carrier, Discrete):
                rows[carrier.name], its = spreader.discrete(carrier, bin_of, rng)
                coded |= {j: one for j, one in its.items() if cov[j, j] > 0.0}
            elif carrier.column is not None and cov[carrier.column, carrier.column] > 0.0:
                orders[carrier.column] = carrier
            else:
                rows[carrier.name] = rng.standard_normal(len(bin_of))
        place = (np.arange(PLACES) + 0.5) / PLACES
        values = [c.forward(self.laws[c.name].quantiles(place)) for c in orders.values()]
        among = np.array([*orders, *coded], dtype=np.intp)
        sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
        correlation = cov[np.ix_(among, among)] / np.outer(sd[among], sd[among])
        of_order = positive(before_laws(correlation, np.reshape(values, (-1, PLACES))))
        kept = [(one - mean[j]) / sd[j] for j, one in coded.items()]
        normal = normal_given(of_order, np.reshape(kept, (len(kept), len(bin_of))), rng)
        rows |= {c.name: one for c, one in zip(orders.values(), normal, strict=True)}
        return {name: rows[name] for name in self.release.design.variables}

    def draw(
        self, weights: Array, size: int, rng: np.random.Generator
    ) -> tuple[Rows, NDArray[np.int64]]:
        """Covariates of `size` rows, and the bin of each.

        Numbers of candidates are mapped by rank to their laws. Those are kept that have the
        released counts, bins and second moments together, and are mapped once more.

        Parameters
        ----------
        weights : (K,) array
            Share of rows of every bin.
        size : int
        rng : Generator
        """
        rows = self._kept_candidates(weights, size, rng)
        bin_of = self.release.partition.locate(rows)
        cells = [Cells(bin_of, weights / weights.sum())]
        cells += [
            Cells(law.cells(rows[name]), law.shares)
            for name, law in self._of(rows)
            # Few values of many: a cell that has one of them may have been counted for others.
            if name in self._numbers or law.by_value
        ]
        columns, second, rho = np.zeros((len(bin_of), 0)), None, np.zeros((0, 0))
        if self._moments is not None:
            whitening, second, rho = self._moments
            columns = self.release.design.columns(rows) @ whitening.T
        weight = raked(columns, second, rho, cells)
        order = np.argsort(bin_of, kind="stable")
        kept = order[systematic(weight[order], size, rng)]
        rows = {name: values[kept] for name, values in rows.items()}
        mapped = self._by_law(rows, rng)
        if self.keeper is not None:
            mapped = self.keeper.derived(mapped)
            fine = self.keeper.holds(mapped)
            mapped = {name: np.where(fine, mapped[name], rows[name]) for name in rows}
        return mapped, self.release.partition.locate(mapped)

    def _kept_candidates(self, weights: Array, size: int, rng: np.random.Generator) -> Rows:
        """Candidates that keep all rules; more are drawn where many do not."""
        keeper, factor = self.keeper, CANDIDATES
        for _ in range(TRIES):
            rows = self._by_law(self._candidates(weights, factor * size, rng), rng)
            if keeper is None:
                return rows
            rows = keeper.derived(rows)
            fine = keeper.holds(rows)
            if fine.sum() >= size:
                break
            factor *= 3
        assert keeper is not None
        if not fine.any():
            raise ReleaseError(keeper.refusal())
        return {name: values[fine] for name, values in rows.items()}

    def error_sds(self, rows: Rows, size: int, scale: float) -> Array:
        """Standard deviation of the error of every row, (n,).

        Least squares of squared residuals on the columns, from the released ``M = sum w w' r^2``:
        ``v(x) = w' A^-1 M c`` where ``w'c = 1``.
        """
        even, intercept = np.full(size, np.sqrt(scale)), self.release.design.intercept
        fitted = None if self.steps is None else self.steps.fitted
        if fitted is None or intercept is None or not rows:
            return even
        whitening = fitted.state.whitening
        slopes = fitted.bread @ fitted.meat @ self._back[intercept]
        variance = self.release.design.columns(rows) @ (whitening.T @ slopes)
        variance = np.clip(variance, LEAST_VARIANCE * scale, scale / LEAST_VARIANCE)
        return np.asarray(np.sqrt(variance * (scale / variance.mean())))

    @cached_property
    def _numbers(self) -> frozenset[str]:
        """Variables that may have any value of their law."""
        return frozenset(c.name for c in self.spreader.carried if isinstance(c, Continuous))

    def _of(self, rows: Rows) -> list[tuple[str, Law]]:
        return [(name, self.laws[name]) for name in rows if name in self.laws]

    def _by_law(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """Rows with their numbers mapped by rank to what was counted."""
        mapped = {n: by_rank(rows[n], law, rng) for n, law in self._of(rows) if n in self._numbers}
        return rows | mapped
