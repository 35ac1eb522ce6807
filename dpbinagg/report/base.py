"""The statsmodels half of the results object: numbers, tests and predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.linalg import null_space
from statsmodels.tools.sm_exceptions import ValueWarning

from dpbinagg.accounting.privacy import Privacy
from dpbinagg.analyst.estimators import NEEDS
from dpbinagg.analyst.fitstats import FitStatistics, fit_statistics
from dpbinagg.analyst.synthesis.tables import synthesize
from dpbinagg.analyst.types import Estimate
from dpbinagg.formula import Design
from dpbinagg.release.transcript import counted
from dpbinagg.report import cov_types, identification, left_out, tidy
from dpbinagg.report.inference import Inference
from dpbinagg.report.model import DPOLS
from dpbinagg.report.references import references
from dpbinagg.report.unavailable import REASONS, nearest, no_estimate, not_released

if TYPE_CHECKING:
    from dpbinagg.report.verbs import Release

MANY = 1e12
"""Degrees of freedom at which the F distribution is the chi-square one."""

MOST_ROWS = 1000
"""Rows of the synthetic table that stands in for the data in statsmodels' model."""


class ReleaseResults(Inference):
    """Results of a differentially private linear regression.

    A statsmodels results object: tests, intervals and predictions are
    inherited and use the covariance that includes the privacy noise. It holds
    the public release and nothing else.

    Parameters
    ----------
    release : Release
    estimate : Estimate
        The estimate that is shown.
    family : mapping
        All estimates of the same model from this release, by estimator.
    design : Design, optional
        The model; the release's own by default.
    notes : tuple of str
        Notes besides those of the estimate.
    """

    def __init__(
        self,
        release: Release,
        estimate: Estimate,
        family: Mapping[str, Estimate],
        design: Design | None = None,
        notes: tuple[str, ...] = (),
        model: DPOLS | None = None,
    ) -> None:
        self.release = release
        self.estimate = estimate
        self.design = release.design if design is None else design
        self._family = family
        self._extra_notes = tuple(notes)
        if model is None:
            model = DPOLS(self.design, partial(_public_frame, release, estimate, self.design))
        scale = _source_of_scale(estimate, self._family).scale
        unit = scale if scale > 0.0 else 1.0
        told = identification.masked(estimate)
        super().__init__(model, np.array(told.params), np.asarray(told.cov) / unit, scale)
        self.cov_params_default = np.array(told.cov)
        self.cov_type = cov_types.shown(estimate.cov_type)
        self.cov_kwds: dict[str, Any] = {}
        self.use_t = math.isfinite(estimate.df_resid)
        self.df_resid = float(estimate.df_resid)
        if not self.use_t:
            # scipy's F distribution knows no infinite degrees of freedom.
            self.df_resid_inference = MANY
        self.df_model = model.df_model
        # Whole, since other packages cut the fraction off where we round.
        self.nobs = float(round(estimate.nobs))

    def __getattr__(self, name: str) -> Any:
        # Python also comes here when a property of this name raised an AttributeError. Other
        # packages probe attributes with getattr; our own code asks `fit_statistics`.
        if name in REASONS:
            raise not_released(name)
        if name in NEEDS:
            raise no_estimate(name, list(self._family))
        hint = "" if name.startswith("_") else nearest(name, _public(type(self)))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return (
            f"<DP-OLS results of {self.design.formula!r}: {self.estimator}, "
            f"{self.release.n_bins} bins, mu = {self.release.mu:.4g}>"
        )

    # What the release says.

    @property
    def estimator(self) -> str:
        """Name of the estimator."""
        return self.estimate.name

    @property
    def privacy(self) -> Privacy:
        """What the release promises; `privacy.statement` is a paragraph for a methods section."""
        return replace(self.release.privacy, shown_delta=self.delta)

    @property
    def identified(self) -> pd.Series[bool]:
        """Whether the release tells each coefficient, by term.

        What is not identified is NaN in `params`, `bse` and all that follows from them, tests
        of it are refused, and a note says why. Predictions and synthetic records still use the
        numbers behind it.
        """
        names = pd.Index(self.design.column_names)
        return pd.Series(identification.identified(self.estimate), index=names, name="identified")

    @property
    def determined(self) -> bool:
        """Whether every coefficient is identified, none leaning on a guard or prior."""
        return self.estimate.identified and bool(self.identified.all())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on this estimate, and on records that it did without, in plain words."""
        return (*self._left_out(), *self._extra_notes, *self.estimate.notes)

    def _left_out(self) -> list[str]:
        release = self.release
        names = (*self.design.response_variables, *self.design.variables)
        return left_out.sentences(counted(release.transcript), release.declared, names, self.nobs)

    @property
    def references(self) -> dict[str, Any]:
        """The reference category of each factor, by its name in plain words."""
        return references(self.design)

    @property
    def delta(self) -> float:
        """The delta at which epsilon is shown: 1e-6, or the power of ten below ``nobs^-1.1``."""
        return float(min(1e-6, 10.0 ** math.floor(-1.1 * math.log10(max(self.nobs, 1.0)))))

    @property
    def epsilon(self) -> float:
        """The epsilon of the (epsilon, delta) guarantee that mu implies."""
        return self.release.privacy.epsilon(self.delta)

    # Fit statistics.

    @cached_property
    def _f_test(self) -> Any:
        """Wald test that all identified coefficients but the constant are zero."""
        p, constant = len(self.params), self.model.data.const_idx
        if constant is not None or not self.identified.all():
            tested = self.identified.to_numpy().copy()
            tested[[] if constant is None else constant] = False
            restriction = np.eye(p)[tested]
        elif self.model.k_constant:
            # The constant is a combination of columns, Z c = 1; the others span its complement.
            weights = np.linalg.lstsq(self.model.exog, np.ones(len(self.model.exog)), rcond=None)
            restriction = null_space(weights[0][None, :]).T
        else:
            restriction = np.eye(p)
        if not len(restriction) or not identification.jointly_identified(
            self.estimate, restriction
        ):
            return None
        cov = self.cov_params(r_matrix=restriction)
        if not np.isfinite(cov).all() or not np.any(cov):
            return None
        with warnings.catch_warnings():
            # Directions that the release does not determine are told in the notes.
            warnings.simplefilter("ignore", ValueWarning)
            return self.wald_test(restriction, use_f=True, scalar=True)

    @property
    def fvalue(self) -> float:
        """F statistic of all identified coefficients but the constant, from their covariance."""
        return math.nan if self._f_test is None else float(self._f_test.statistic)

    @property
    def f_pvalue(self) -> float:
        """p-value of `fvalue`."""
        return math.nan if self._f_test is None else float(self._f_test.pvalue)

    @cached_property
    def fit_statistics(self) -> FitStatistics | None:
        """Fit statistics of the best estimate of this model; None where they are not released."""
        return self._statistics(_best(self._family) or self.estimate)

    @cached_property
    def scale_noise(self) -> float | None:
        """As `scale_se`; None where it is not released."""
        found = self._statistics(_source_of_scale(self.estimate, self._family))
        return None if found is None else found.scale_se

    @property
    def sigma_noise(self) -> float | None:
        """As `sigma_se`; None where it is not released."""
        noise = self.scale_noise
        return None if noise is None else noise / (2.0 * self.sigma)

    def _statistics(self, estimate: Estimate) -> FitStatistics | None:
        return fit_statistics(
            self.release, self.release.steps, self.design, estimate, self.model.k_constant
        )

    def _released_fit(self, name: str) -> FitStatistics:
        """The fit statistics, for the attribute `name`, which cannot be had without."""
        if self.fit_statistics is None:
            raise not_released(name)
        return self.fit_statistics

    @property
    def rsquared(self) -> float:
        """Share of the response's variance that the model explains; noisy as well."""
        return self._released_fit("rsquared").rsquared

    @property
    def rsquared_se(self) -> float:
        """Standard deviation of the privacy noise in `rsquared` and `rsquared_adj`."""
        return self._released_fit("rsquared_se").rsquared_se

    @property
    def rsquared_adj(self) -> float:
        """R-squared adjusted for the number of coefficients."""
        return self._released_fit("rsquared_adj").rsquared_adj

    @property
    def aic(self) -> float:
        """Akaike's criterion, from the error variance and the noisy number of records."""
        return self._released_fit("aic").aic

    @property
    def aic_se(self) -> float:
        """Standard deviation of the privacy noise in `aic`.

        Differences between models of one release share most of it.
        """
        return self._released_fit("aic_se").information_se

    @property
    def bic(self) -> float:
        """Bayes' criterion, from the error variance and the noisy number of records."""
        return self._released_fit("bic").bic

    @property
    def bic_se(self) -> float:
        """Standard deviation of the privacy noise in `bic`."""
        return self._released_fit("bic_se").information_se

    @property
    def scale_se(self) -> float:
        """Standard deviation of the privacy noise in `scale`, the error variance."""
        return self._released_noise("scale_se", self.scale_noise)

    @property
    def sigma(self) -> float:
        """Residual standard error, the root of `scale`."""
        return math.sqrt(max(self.scale, 0.0))

    @property
    def sigma_se(self) -> float:
        """Standard deviation of the privacy noise in `sigma`."""
        return self._released_noise("sigma_se", self.sigma_noise)

    def _released_noise(self, name: str, noise: float | None) -> float:
        if noise is None:
            raise not_released(name)
        return noise

    @property
    def llf(self) -> float:
        """Not released."""
        raise not_released("llf")

    @property
    def default_model_infos(self) -> dict[str, Any]:
        """Rows that statsmodels' `summary_col` adds under the coefficients."""
        return tidy.MODEL_INFOS


def _public(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


def _public_frame(release: Release, estimate: Estimate, design: Design) -> pd.DataFrame:
    """A few synthetic records, the same each time."""
    size = int(min(max(estimate.nobs, 2.0), MOST_ROWS))
    return synthesize(release, estimate, size=size, kind="bounded", rng=0, design=design)


def _best(family: Mapping[str, Estimate]) -> Estimate | None:
    """The estimate whose fit statistics are shown: from scores, else from moments."""
    return next((family[name] for name in ("refined", "combined") if name in family), None)


def _source_of_scale(estimate: Estimate, family: Mapping[str, Estimate]) -> Estimate:
    """The estimate that tells the error variance: bins tell little of it."""
    return (_best(family) or estimate) if estimate.name == "corrected" else estimate
