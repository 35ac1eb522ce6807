"""Results as data frames, for other people's tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbinagg.report.tables import whole

if TYPE_CHECKING:
    from dpbinagg.report.base import ReleaseResults

MODEL_INFOS: dict[str, Callable[[Any], str]] = {
    "N (noisy)": lambda results: whole(results.nobs),
    "Bins": lambda results: whole(results.release.n_bins),
    "Privacy (mu)": lambda results: f"{results.release.mu:.4g}",
    "Estimator": lambda results: str(results.estimator),
}
"""Rows under the coefficients in statsmodels' `summary_col`."""


def tidy(results: ReleaseResults, alpha: float) -> pd.DataFrame:
    """One row for each coefficient; see `DPResults.tidy`."""
    interval = results.conf_int(alpha)
    return pd.DataFrame(
        {
            "term": list(results.design.column_names),
            "estimate": np.asarray(results.params),
            "std_error": np.asarray(results.bse),
            "statistic": np.asarray(results.tvalues),
            "p_value": np.asarray(results.pvalues),
            "conf_low": interval[:, 0],
            "conf_high": interval[:, 1],
        }
    )


def glance(results: ReleaseResults) -> pd.DataFrame:
    """One row for the model; NaN where a statistic was not released.

    Columns ending in ``_se`` are standard deviations of the privacy noise.
    """
    fit, sigma_se = results.fit_statistics, results.sigma_noise
    released = {
        "sigma_se": np.nan if sigma_se is None else sigma_se,
        "r_squared": fit.rsquared if fit else np.nan,
        "r_squared_se": fit.rsquared_se if fit else np.nan,
        "adj_r_squared": fit.rsquared_adj if fit else np.nan,
        "statistic": results.fvalue,
        "p_value": results.f_pvalue,
        "aic": fit.aic if fit else np.nan,
        "aic_se": fit.information_se if fit else np.nan,
        "bic": fit.bic if fit else np.nan,
        "bic_se": fit.information_se if fit else np.nan,
    }
    return pd.DataFrame(
        [
            {
                "nobs": results.nobs,
                "df_resid": results.df_resid,
                "df_model": results.df_model,
                "sigma": results.sigma,
                **released,
                "n_bins": results.release.n_bins,
                "mu": results.release.mu,
                "epsilon": results.epsilon,
                "delta": results.delta,
                "neighbours": results.privacy.neighbours,
                "estimator": results.estimator,
                "cov_type": results.cov_type,
                "identified": results.determined,
            }
        ]
    )
