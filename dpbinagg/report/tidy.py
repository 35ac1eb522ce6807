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
    released = {
        column: float(getattr(results, attribute, np.nan))
        for column, attribute in (
            ("sigma_se", "sigma_se"),
            ("r_squared", "rsquared"),
            ("r_squared_se", "rsquared_se"),
            ("adj_r_squared", "rsquared_adj"),
            ("statistic", "fvalue"),
            ("p_value", "f_pvalue"),
            ("aic", "aic"),
            ("aic_se", "aic_se"),
            ("bic", "bic"),
            ("bic_se", "bic_se"),
        )
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
