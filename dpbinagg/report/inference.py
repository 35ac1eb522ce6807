"""The statsmodels half of a results object: a model without records, tests, intervals, predictions.

An estimate keeps numbers for all its terms, which predictions and synthetic records need.
What a reader may take for an estimate is NaN where the release does not tell it.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import DesignInfo, PatsyError
from scipy import stats
from scipy.linalg import null_space
from statsmodels.base.data import PandasData
from statsmodels.base.model import LikelihoodModelResults, Model
from statsmodels.regression._prediction import PredictionResults
from statsmodels.tools.sm_exceptions import ValueWarning

from dpbinagg.analyst.fitstats import FitStatistics, fit_statistics
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.errors import (
    DataError,
    FormulaError,
    IdentificationWarning,
    NotIdentifiedError,
    NotReleasedError,
    ReleaseError,
)
from dpbinagg.formula import Design, linear_map
from dpbinagg.formula.design import public_points
from dpbinagg.formula.union import require_same_response, smaller
from dpbinagg.public.domain import Categorical
from dpbinagg.report.tables import listed
from dpbinagg.report.unavailable import not_released

if TYPE_CHECKING:
    from dpbinagg.report.verbs import Release

Flags = NDArray[np.bool_]
FrameMaker = Callable[[], pd.DataFrame]

MOST_DEPENDENCE = 0.5
"""Standard errors of a contrast that the start may have left in it.

In simulations, contrasts below it were covered as they claim, those above were not."""

TINY = 1e-12
"""Share of the largest variance below which a direction has none."""

ROUNDING = 1.0 + 1e-9
"""A limit that is met up to rounding is met."""

MOST_TERMS = 8
"""Terms that a sentence lists."""

PASSED_OVER = ("dpbinagg.", "statsmodels.")
"""Modules whose lines a warning does not point to."""

CELL = "not identified"
"""What a table has in place of a coefficient."""


def identified(estimate: Estimate) -> Flags:
    """Whether the release tells each coefficient, (p,); all of them where nobody judged."""
    if estimate.identified_terms is None:
        return np.ones(estimate.params.shape, dtype=bool)
    return np.asarray(estimate.identified_terms, dtype=bool)


def masked(estimate: Estimate) -> Estimate:
    """The estimate with NaN for what is not identified."""
    known = identified(estimate)
    if known.all():
        return estimate
    params = np.where(known, estimate.params, np.nan)
    return replace(
        estimate, params=params, cov=np.where(np.outer(known, known), estimate.cov, np.nan)
    )


def contrasts_identified(estimate: Estimate, contrasts: Array) -> Flags:
    """Whether the release tells each contrast, (k,) for the rows of a (k, p) matrix.

    With D what the start left in the estimate, a covariance, row L is identified where
    ``sqrt(L D L') <= sqrt(L V L') / 2``. Where D is not known, a contrast of a term that is
    not identified is not.
    """
    rows = np.atleast_2d(contrasts)
    if estimate.dependence is None:
        return np.asarray(~(rows[:, ~identified(estimate)] != 0.0).any(axis=1))
    left = np.einsum("ij,jk,ik->i", rows, estimate.dependence, rows)
    whole = np.einsum("ij,jk,ik->i", rows, estimate.cov, rows)
    return np.asarray(left <= MOST_DEPENDENCE**2 * np.maximum(whole, 0.0) * ROUNDING)


def jointly_identified(estimate: Estimate, contrasts: Array) -> bool:
    """Whether every combination of the rows is identified, as a joint test needs."""
    rows = np.atleast_2d(contrasts)
    if not contrasts_identified(estimate, rows).all():
        return False
    if estimate.dependence is None or len(rows) == 1:
        return True
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, estimate.cov, rows), 0.0))
    rows = rows / np.where(errors > 0.0, errors, 1.0)[:, None]
    values, vectors = np.linalg.eigh(rows @ estimate.cov @ rows.T)
    kept = values > TINY * max(values.max(initial=0.0), 0.0)
    root = vectors[:, kept] / np.sqrt(values[kept])
    left = root.T @ (rows @ estimate.dependence @ rows.T) @ root
    return bool(np.linalg.eigvalsh(left).max(initial=0.0) <= MOST_DEPENDENCE**2 * ROUNDING)


def require_identified(
    estimate: Estimate, contrasts: Array, names: Sequence[str], joint: bool = False
) -> None:
    """Refuse tests of what the release does not tell."""
    rows = np.atleast_2d(contrasts)
    known = contrasts_identified(estimate, rows)
    if not known.all():
        texts = [contrast_text(row, names) for row in rows[~known]]
        raise NotIdentifiedError(
            f"the release does not identify {listed(texts, MOST_TERMS)}, so there is nothing to "
            "test; test other terms, or make a release with more mu, more records or fewer terms"
        )
    if joint and not jointly_identified(estimate, rows):
        raise NotIdentifiedError(
            "the release identifies each of these contrasts, but not some combination of them, so "
            "they cannot be tested together; test them one by one"
        )


def contrast_text(row: Array, names: Sequence[str]) -> str:
    """A contrast in words, as in ``educ - 2 exper``."""
    text = ""
    for weight, name in zip(row, names, strict=True):
        if weight == 0.0:
            continue
        sign = ("- " if weight < 0 else "+ ") if text else ("-" if weight < 0 else "")
        size = "" if abs(weight) == 1.0 else f"{abs(weight):.4g} "
        text += f"{' ' if text else ''}{sign}{size}{name}"
    return text or "0"


def warn_of_predictions(estimate: Estimate, columns: Array) -> None:
    """Say how many predictions lean on what the release does not tell."""
    finite = columns[np.isfinite(columns).all(axis=1)]
    weak = int((~contrasts_identified(estimate, finite)).sum())
    if weak:
        warnings.warn(
            f"{weak} of {len(columns)} predictions lean on coefficients that the release does not "
            "identify: they are partly where the computation started, and their intervals need "
            "not cover as they say. `identified` tells which terms.",
            IdentificationWarning,
            stacklevel=callers_level(),
        )


def callers_level() -> int:
    """Stack level, seen from the function that warns, of the code that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(PASSED_OVER):
        level, frame = level + 1, frame.f_back
    return level


MOST_NAMES = 20
"""Coefficients that a message lists."""


def require_alpha(alpha: float) -> None:
    """Refuse an error probability that is none."""
    if isinstance(alpha, str) or not 0.0 < alpha < 1.0:
        raise ReleaseError(
            f"alpha must lie strictly between 0 and 1, got {alpha!r}; 0.05 gives 95% intervals"
        )


def joint_alpha(alpha: float, number: int) -> float:
    """The alpha of each of so many intervals that together have `alpha`: Sidak's.

    Examples
    --------
    >>> round(joint_alpha(0.05, 1), 9), round(joint_alpha(0.05, 20), 5)
    (0.05, 0.00256)
    """
    return -math.expm1(math.log1p(-alpha) / number)


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
    points = public_points(design, least, np.random.default_rng(0), response=True)
    exog, endog, _ = design.row_map()(points)
    valid = np.isfinite(exog).all(axis=1) & np.isfinite(endog)
    exog, endog = exog[valid], endog[valid]
    if len(endog) < 2:
        lower, upper = design.column_bounds()
        exog, endog = np.vstack([lower, upper]), np.array(design.response_bounds())
    return (
        pd.Series(endog, name=design.response_name),
        pd.DataFrame(exog, columns=list(design.column_names)),
    )


class Inference(LikelihoodModelResults):  # type: ignore[misc]
    """What statsmodels' results do with parameters and their covariance.

    Numbers of terms that are not identified are hidden from a reader, and used only where
    they belong: in contrasts that are identified, and in predictions.
    """

    release: Release
    estimate: Estimate
    design: Design
    identified: pd.Series[bool]
    sigma: float
    df_resid_inference: float
    mle_settings: Mapping[str, Any] = MappingProxyType({"optimizer": None})
    _family: Mapping[str, Estimate]
    _best: Estimate
    _of_scale: Estimate

    @cached_property
    def _whole(self) -> Inference:
        """The same results with the numbers behind terms that are not identified."""
        whole = object.__new__(type(self))
        whole.__dict__.update(self.__dict__)
        whole.__dict__ |= {"_whole": whole, "_cache": {}, "params": np.array(self.estimate.params)}
        whole.cov_params_default = np.array(self.estimate.cov)
        return whole

    def _constraints(self, r_matrix: Any) -> Any:
        """The rows of a constraint that statsmodels accepts."""
        names = list(self.design.column_names)
        try:
            return DesignInfo(names).linear_constraint(r_matrix).coefs
        except PatsyError as error:
            raise FormulaError(
                f"constraint {r_matrix!r} cannot be read, {error.message}; coefficients are named "
                f"{listed(names, MOST_NAMES)}, and numbers stand before a name, as in 2*x - z = 0"
            ) from None

    def cov_params(self, r_matrix: Any = None, *args: Any, **options: Any) -> Any:
        """Covariance of the coefficients, or of contrasts of them; see statsmodels."""
        if r_matrix is None:
            return super().cov_params(None, *args, **options)
        return LikelihoodModelResults.cov_params(self._whole, r_matrix, *args, **options)

    def t_test(self, r_matrix: Any, cov_p: Any = None, use_t: bool | None = None) -> Any:
        """t tests of contrasts, one by one; refused where the release does not tell one."""
        rows = self._constraints(r_matrix)
        require_identified(self.estimate, rows, self.design.column_names)
        return LikelihoodModelResults.t_test(self._whole, r_matrix, cov_p, use_t)

    def wald_test(self, r_matrix: Any, *args: Any, **options: Any) -> Any:
        """A joint test of contrasts; refused where the release does not tell one."""
        rows = self._constraints(r_matrix)
        require_identified(self.estimate, rows, self.design.column_names, joint=True)
        return LikelihoodModelResults.wald_test(self._whole, r_matrix, *args, **options)

    def wald_test_terms(self, *args: Any, **options: Any) -> Any:
        """Joint tests of all terms; NaN for those that the release does not tell."""
        found = LikelihoodModelResults.wald_test_terms(_Unchecked(self._whole), *args, **options)
        unit, slices = np.eye(len(self.params)), self.design.design_info.term_name_slices
        for name in found.table.index:
            rows = unit[slices[name]] if name in slices else unit
            if not jointly_identified(self.estimate, rows):
                found.table.loc[name, ["statistic", "pvalue"]] = np.nan
        return found

    def conf_int(self, alpha: float = 0.05, *, joint: bool = False, **options: Any) -> Any:
        """Intervals that cover with probability ``1 - alpha``; see statsmodels.

        Parameters
        ----------
        alpha : float
        joint : bool
            Whether all intervals of all declared models cover at once: of M identified
            coefficients each has the level ``(1 - alpha)^(1/M)``. By Sidak's inequality this holds
            for normal errors whatever their correlation, within and between models.
        """
        return super().conf_int(self.alpha_of_each(alpha, joint), **options)

    def alpha_of_each(self, alpha: float, joint: bool) -> float:
        """The alpha of a single interval."""
        require_alpha(alpha)
        return joint_alpha(alpha, self._told_together()) if joint else alpha

    def _told_together(self) -> int:
        """Number of coefficients that joint intervals are about."""
        return max(int(identified(self.estimate).sum()), 1)

    def compare_f_test(self, restricted: Any) -> tuple[float, float, float]:
        """F test of this model against a smaller one.

        With ``Z_r = Z L`` the columns of the smaller model, it tests that the
        coefficients lie in the span of L, by a Wald test with this model's
        covariance.

        Parameters
        ----------
        restricted : results or str
            The smaller model, or its formula.

        Returns
        -------
        f_value, p_value, df_diff : float
        """
        small = (
            smaller(self.design, restricted) if isinstance(restricted, str) else restricted.design
        )
        require_same_response(self.design, small)
        restriction = null_space(linear_map(self.design, small).T).T
        if len(restriction) == 0:
            raise FormulaError(
                "restricted must have fewer columns than this model; the two are the same model"
            )
        test = self.wald_test(restriction, use_f=True, scalar=True)
        return float(test.statistic), float(test.pvalue), float(len(restriction))

    def predict(self, exog: Any = None, transform: bool = True, *args: Any, **kwargs: Any) -> Any:
        """Predicted mean of the response for new data; see statsmodels."""
        _require_new_data(exog, "predict")
        columns, _ = self._transform_predict_exog(exog, transform=transform)
        warn_of_predictions(self.estimate, np.asarray(columns, dtype=np.float64))
        whole = self._whole
        return LikelihoodModelResults.predict(whole, exog, transform, *args, **kwargs)

    def get_prediction(
        self, exog: Any = None, transform: bool = True, row_labels: Any = None, **_: Any
    ) -> PredictionResults:
        """Predictions for new data with intervals.

        The variance of the mean is ``z' V z``, V the covariance of the
        coefficients with the privacy noise; that of a new observation adds
        the error variance. `summary_frame(alpha)` has both intervals.
        """
        _require_new_data(exog, "get_prediction")
        columns, index = self._transform_predict_exog(exog, transform=transform)
        columns = np.asarray(columns, dtype=np.float64)
        warn_of_predictions(self.estimate, columns)
        variance = np.einsum("ij,jk,ik->i", columns, self.estimate.cov, columns)
        return PredictionResults(
            self.model.predict(self.estimate.params, columns),
            variance,
            self.scale,
            df=self.df_resid,
            dist="t" if self.use_t else "norm",
            row_labels=index if row_labels is None else row_labels,
        )

    def _transform_predict_exog(self, exog: Any, transform: bool = True) -> Any:
        if transform and isinstance(exog, pd.DataFrame | Mapping):
            _require_known(exog, self.design)
        return super()._transform_predict_exog(exog, transform=transform)

    def remove_data(self) -> None:
        """Do nothing: there are no records here to remove."""

    # Fit statistics.

    @cached_property
    def _f_test(self) -> tuple[float, float]:
        """Wald test that all identified coefficients but the constant are zero.

        ``F = (R b)' (R V R')^- (R b) / q``, q the rank of ``R V R'``: directions without variance
        are told in the notes.
        """
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
        contrast, rank = restriction @ self.estimate.params, int(np.linalg.matrix_rank(cov))
        value = float(contrast @ np.linalg.pinv(cov) @ contrast) / rank
        return value, float(stats.f.sf(value, rank, self.df_resid_inference))

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
        return self._fit_of(self._best)

    @cached_property
    def scale_noise(self) -> float | None:
        """As `scale_se`; None where it is not released."""
        found = self.fit_statistics
        if self._of_scale is not self._best:
            found = self._fit_of(self._of_scale)
        return None if found is None else found.scale_se

    @property
    def sigma_noise(self) -> float | None:
        """As `sigma_se`; None where it is not released."""
        noise = self.scale_noise
        return None if noise is None else noise / (2.0 * self.sigma)

    def _fit_of(self, estimate: Estimate) -> FitStatistics | None:
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


class _Unchecked:
    """Results whose Wald tests are not checked for"""

    def __init__(self, results: Inference) -> None:
        self._results = results

    def __getattr__(self, name: str) -> Any:
        return getattr(self._results, name)

    def wald_test(self, *args: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            # Rows of what the release does not determine are emptied afterwards.
            warnings.simplefilter("ignore", ValueWarning)
            return LikelihoodModelResults.wald_test(self._results, *args, **options)


def _require_known(new: Any, design: Design) -> None:
    """Refuse new data that lack a variable or hold an undeclared level; missing ones may be."""
    for name in design.variables:
        if name not in new:
            raise DataError(
                f"the new data lack the variable {name!r}, which the formula uses; add the column"
            )
        variable = design.domain[name]
        if isinstance(variable, Categorical):
            values = pd.Series(np.atleast_1d(np.asarray(new[name], dtype=object)))
            if not values[values.notna()].isin(variable.levels).all():
                raise DataError(
                    f"the new data hold a level of {name!r} that is not declared; the levels are "
                    f"{', '.join(map(repr, variable.levels))}"
                )


def _require_new_data(exog: Any, method: str) -> None:
    if exog is None:
        raise NotReleasedError(
            f"{method}() without new data would show the fitted values of the records, which are "
            f"not released; pass a table, {method}(new_data)"
        )
