"""The statsmodels half of a results object: its model, which holds no records, and its numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import null_space
from statsmodels.base.data import PandasData
from statsmodels.base.model import LikelihoodModelResults, Model
from statsmodels.tools.sm_exceptions import ValueWarning

from dpbinagg.accounting.budget import Privacy
from dpbinagg.analyst.estimators import NEEDS
from dpbinagg.analyst.fitstats import FitStatistics, fit_statistics
from dpbinagg.analyst.synthesis.tables import synthesize
from dpbinagg.analyst.types import Estimate
from dpbinagg.errors import ReleaseError
from dpbinagg.formula import Design
from dpbinagg.formula.design import public_points
from dpbinagg.public.domain import spread_rows
from dpbinagg.public.partition import Boxes
from dpbinagg.release.transcript import counted
from dpbinagg.report import left_out
from dpbinagg.report.choice import shown
from dpbinagg.report.inference import Inference, identified, jointly_identified, masked
from dpbinagg.report.notes import references
from dpbinagg.report.summary import MODEL_INFOS
from dpbinagg.report.unavailable import REASONS, nearest, no_estimate, not_released

if TYPE_CHECKING:
    from dpbinagg.report.verbs import Release

MANY = 1e12
"""Degrees of freedom at which the F distribution is the chi-square one."""

MOST_ROWS = 1000
"""Rows of the synthetic table that stands in for the data in statsmodels' model."""


Floats = NDArray[np.float64]
FrameMaker = Callable[[], pd.DataFrame]


def shown_delta(nobs: float) -> float:
    """The delta at which tables show epsilon: 1e-6, or ``n^-1.1`` where there are many records."""
    return min(1e-6, 10.0 ** math.floor(-1.1 * math.log10(max(nobs, 1.0))))


class PublicData(PandasData):  # type: ignore[misc]
    """Names and columns for statsmodels; `frame` is made when it is first asked for."""

    make_frame: FrameMaker

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Synthetic records, over which other packages average their effects."""
        return self.make_frame()


class DPOLS(Model):  # type: ignore[misc]
    """A linear model known by its design alone.

    Parameters
    ----------
    design : Design
        The formula over a bounded domain.
    make_frame : callable
        Makes the table of synthetic records that `data.frame` holds.
    """

    def __init__(self, design: Design, make_frame: FrameMaker) -> None:
        self.design = design
        endog, exog = _public_rows(design)
        super().__init__(
            endog,
            exog,
            hasconst=None if design.intercept is None else True,
            formula=design.formula,
            model_spec=design.design_info,
        )
        self.formula = design.formula
        self.data.make_frame = make_frame
        self.data.const_idx = design.intercept
        self.df_model = float(len(design.column_names) - self.k_constant)

    def _handle_data(
        self, endog: Any, exog: Any, missing: str, hasconst: bool | None, **kwargs: Any
    ) -> PublicData:
        return PublicData(endog, exog=exog, missing="none", hasconst=hasconst, **kwargs)

    def predict(self, params: Any, exog: Any = None, which: str = "mean", **_: Any) -> Any:
        """Linear prediction ``exog @ params``, for every `which`."""
        matrix = self.exog if exog is None else np.asarray(exog, dtype=float)
        return matrix @ np.asarray(params)

    def fit(self, *_: Any, **__: Any) -> Any:
        """Not here: a release is fitted by `Release.ols`."""
        raise NotImplementedError("this model holds no records; use release.ols(formula)")

    def __reduce__(self) -> tuple[Any, ...]:
        return DPOLS, (self.design, self.data.make_frame)


def _public_rows(design: Design) -> tuple[pd.Series[Any], pd.DataFrame]:
    """Response and columns of points spread over the domain."""
    least = 2 * len(design.column_names) + 6
    rng = np.random.default_rng(0)
    points: dict[str, Any] = dict(public_points(design, least, rng))
    size = len(next(iter(points.values())))
    points = {**spread_rows(design.domain.subset(design.response_variables), size, rng), **points}
    exog, endog = design.columns(points), design.response(points)
    valid = np.isfinite(exog).all(axis=1) & np.isfinite(endog)
    exog, endog = exog[valid], endog[valid]
    if len(endog) < 2:
        lower, upper = design.column_bounds(Boxes.whole(design.domain, design.variables))
        exog, endog = np.vstack([lower, upper]), np.array(design.response_bounds())
    return (
        pd.Series(endog, name=design.response_name),
        pd.DataFrame(exog, columns=list(design.column_names)),
    )


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

    Attributes
    ----------
    estimator : str
        Name of the estimator.
    identified : Series of bool
        Whether the release tells each coefficient, by term. What is not identified is NaN in
        `params`, `bse` and all that follows from them, tests of it are refused, and a note says
        why. Predictions and synthetic records still use the numbers behind it.
    delta : float
        The delta at which epsilon is shown: 1e-6, or the power of ten below ``nobs^-1.1``.
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
        told = masked(estimate)
        super().__init__(model, np.array(told.params), np.asarray(told.cov) / unit, scale)
        self.cov_params_default = np.array(told.cov)
        self.cov_type = shown(estimate.cov_type)
        self.cov_kwds: dict[str, Any] = {}
        self.use_t = math.isfinite(estimate.df_resid)
        self.df_resid = float(estimate.df_resid)
        if not self.use_t:
            # scipy's F distribution knows no infinite degrees of freedom.
            self.df_resid_inference = MANY
        self.df_model = model.df_model
        # Whole, since other packages cut the fraction off where we round.
        self.nobs = float(round(estimate.nobs))
        self.delta = shown_delta(self.nobs)
        self.estimator = estimate.name
        self.identified: pd.Series[bool] = pd.Series(
            identified(estimate), index=list(self.design.column_names), name="identified"
        )

    def __getattr__(self, name: str) -> Any:
        # Other packages probe attributes with getattr; our own code asks `fit_statistics`.
        if hasattr(type(self), name):
            # Python also comes here when a property raised an AttributeError: raise that one.
            return object.__getattribute__(self, name)
        if name in REASONS:
            raise not_released(name)
        if name in NEEDS:
            raise no_estimate(name, list(self._family))
        known = [known for known in dir(self) if not known.startswith("_")]
        hint = "" if name.startswith("_") else nearest(name, known)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return (
            f"<DP-OLS results of {self.design.formula!r}: {self.estimator}, "
            f"{self.release.n_bins} bins, mu = {self.release.mu:.4g}>"
        )

    # What the release says.

    def _told_together(self) -> int:
        """Identified coefficients of all declared models, which joint intervals are about."""
        if not self.release.declares(self.design):
            raise ReleaseError(
                "joint intervals are about the models that were declared before anything was "
                "released, and this is not one of them; leave joint out, or use those"
            )
        if self.release.origin.models:
            return self.release.origin.declared_terms
        return super()._told_together()

    @property
    def privacy(self) -> Privacy:
        """What the release promises; `privacy.statement` is a paragraph for a methods section."""
        return replace(self.release.privacy, shown_delta=self.delta)

    @property
    def determined(self) -> bool:
        """Whether every coefficient is identified, none leaning on a guard or prior."""
        return self.estimate.identified and bool(self.identified.all())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on this estimate, and on records that it did without, in plain words."""
        names = (*self.design.response_variables, *self.design.variables)
        known, declared = counted(self.release.transcript), self.release.declared
        said = left_out.sentences(known, declared, names, self.nobs)
        return (*said, *self._extra_notes, *self.estimate.notes)

    @property
    def references(self) -> dict[str, Any]:
        """The reference category of each factor, by its name in plain words."""
        return references(self.design)

    @property
    def epsilon(self) -> float:
        """The epsilon of the (epsilon, delta) guarantee that mu implies."""
        return self.release.privacy.epsilon(self.delta)

    # Fit statistics.

    @cached_property
    def _f_test(self) -> tuple[float, float]:
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
        if not len(restriction) or not jointly_identified(self.estimate, restriction):
            return math.nan, math.nan
        cov = restriction @ self.estimate.cov @ restriction.T
        if not np.isfinite(cov).all() or not np.any(cov):
            return math.nan, math.nan
        with warnings.catch_warnings():
            # Directions that the release does not determine are told in the notes.
            warnings.simplefilter("ignore", ValueWarning)
            test = LikelihoodModelResults.wald_test(
                self._whole, restriction, use_f=True, scalar=True
            )
        return float(test.statistic), float(test.pvalue)

    @property
    def fvalue(self) -> float:
        """F statistic of all identified coefficients but the constant, from their covariance."""
        return self._f_test[0]

    @property
    def f_pvalue(self) -> float:
        """p-value of `fvalue`."""
        return self._f_test[1]

    @cached_property
    def fit_statistics(self) -> FitStatistics | None:
        """Fit statistics of the best estimate of this model; None where they are not released."""
        return self._statistics(_best(self._family, self.estimate))

    @cached_property
    def scale_noise(self) -> float | None:
        """As `scale_se`; None where it is not released."""
        source, best = _source_of_scale(self.estimate, self._family), self.fit_statistics
        same = source is _best(self._family, self.estimate)
        found = best if same else self._statistics(source)
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
        return MODEL_INFOS


def _public_frame(release: Release, estimate: Estimate, design: Design) -> pd.DataFrame:
    """A few synthetic records, the same each time."""
    size = int(min(max(estimate.nobs, 2.0), MOST_ROWS))
    return synthesize(release, estimate, size=size, kind="bounded", rng=0, design=design)


def _best(family: Mapping[str, Estimate], shown: Estimate) -> Estimate:
    """The estimate whose fit statistics are shown: from scores, else from moments."""
    return next((family[name] for name in ("refined", "combined") if name in family), shown)


def _source_of_scale(estimate: Estimate, family: Mapping[str, Estimate]) -> Estimate:
    """The estimate that tells the error variance: bins tell little of it."""
    return _best(family, estimate) if estimate.name == "corrected" else estimate
