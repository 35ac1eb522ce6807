"""Covariates whose counts, bins and second moments are the released ones together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.ols.ensemble import spectrum
from dpbinagg.analyst.ols.steps import Steps
from dpbinagg.analyst.synthesis.apportion import largest_remainder
from dpbinagg.analyst.synthesis.carriers import Continuous
from dpbinagg.analyst.synthesis.laws import Law
from dpbinagg.analyst.synthesis.raking import Cells, raked, systematic
from dpbinagg.analyst.synthesis.spread import Spreader
from dpbinagg.analyst.types import Array
from dpbinagg.public.rows import Rows
from dpbinagg.release.transcript import Released

LEAST_VARIANCE = 0.1
"""Of errors of a row, in that of all: the line through squared residuals may be negative."""
CANDIDATES = 3
"""Candidates for each row, of which the nearest to the release are kept."""


def by_rank(values: NDArray[np.generic], law: Law, rng: np.random.Generator) -> Array:
    """The same order, ties at random, and the law's quantiles."""
    order = np.lexsort((rng.random(len(values)), values))
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
    """

    release: Released
    spreader: Spreader
    laws: dict[str, Law]
    steps: Steps | None

    @cached_property
    def _moments(self) -> tuple[Array, Array, float] | None:
        """Whitening, mean of ``w w'``, variance of its noise over that of sampling."""
        if self.steps is None:
            return None
        state = self.steps.state
        lifted = spectrum(state.gram, state.noise).lifted / state.nobs
        rho = float(np.mean(state.noise**2)) / state.nobs
        return state.whitening, lifted, rho

    def draw(
        self, weights: Array, size: int, rng: np.random.Generator
    ) -> tuple[Rows, NDArray[np.int64]]:
        """Covariates of `size` rows, and the bin of each.

        Candidates come from the bins, numbers mapped by rank to their laws. Those are kept that
        have the released counts, bins and second moments together, and are mapped once more.

        Parameters
        ----------
        weights : (K,) array
            Share of rows of every bin.
        size : int
        rng : Generator
        """
        rows_in = largest_remainder(weights, CANDIDATES * size)
        bin_of = np.repeat(np.arange(len(rows_in)), rows_in)
        rows = self._by_law(self.spreader.draw(bin_of, rng), rng)
        bin_of = self.release.partition.locate(rows)
        cells = [Cells(bin_of, weights / weights.sum())]
        cells += [Cells(law.cells(rows[name]), law.shares) for name, law in self._of(rows)]
        columns, second, rho = np.zeros((len(bin_of), 0)), None, 0.0
        if self._moments is not None:
            whitening, second, rho = self._moments
            columns = self.release.design.columns(rows) @ whitening.T
        weight = raked(columns, second, rho, cells)
        order = np.argsort(bin_of, kind="stable")
        kept = order[systematic(weight[order], size, rng)]
        rows = self._by_law({name: values[kept] for name, values in rows.items()}, rng)
        return rows, self.release.partition.locate(rows)

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
        constant = np.linalg.pinv(whitening.T)[:, intercept]
        slopes = fitted.bread @ fitted.meat @ constant
        variance = self.release.design.columns(rows) @ (whitening.T @ slopes)
        variance = np.clip(variance, LEAST_VARIANCE * scale, scale / LEAST_VARIANCE)
        return np.asarray(np.sqrt(variance * (scale / variance.mean())))

    def _of(self, rows: Rows) -> list[tuple[str, Law]]:
        return [(name, self.laws[name]) for name in rows if name in self.laws]

    def _by_law(self, rows: Rows, rng: np.random.Generator) -> Rows:
        """Rows with their numbers mapped by rank to what was counted."""
        numbers = {c.name for c in self.spreader.carried if isinstance(c, Continuous)}
        mapped = {n: by_rank(rows[n], law, rng) for n, law in self._of(rows) if n in numbers}
        return rows | mapped
