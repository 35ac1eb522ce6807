"""What a release cannot give, why, and what to use instead."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from dpbinagg.analyst.fit import NEEDS
from dpbinagg.errors import NotReleasedError

_RECORDS = "is computed record by record, and the records are not released"
_LIKELIHOOD = "needs the likelihood of the records, which is not released"
_ROBUST = (
    "needs the squared residuals of the records, which are not released",
    "the standard errors of the refined estimate are HC1 plus the privacy noise already; see "
    "cov_type",
)
_INFLUENCE = (
    "shows the influence of single records, which is what privacy protects",
    "use synthesize() to look at data, or plot_bins() for the fit bin by bin",
)
_TEST_RECORDS = (_RECORDS, "use wald_test(), f_test() or compare_f_test(restricted model)")
_SUMS = (
    "is a sum over the records that was not released as such",
    "use scale (the error variance), rsquared, or fvalue",
)
_DISPERSION = (
    "needs second moments, which this release lacks or noise drowns",
    "give Budget(moments=...) a larger share; fvalue and wald_test() work without",
)

REASONS: dict[str, tuple[str, str]] = {
    "resid": (_RECORDS, "use scale for their variance, or synthesize() and the residuals there"),
    "wresid": (_RECORDS, "use scale for their variance, or synthesize() and the residuals there"),
    "resid_pearson": (_RECORDS, "use scale for their variance"),
    "fittedvalues": (_RECORDS, "use predict(new_data) or get_prediction(new_data)"),
    "llf": (_LIKELIHOOD, "use aic and bic, or wald_test() to compare nested models"),
    "llnull": (_LIKELIHOOD, "use fvalue and f_pvalue"),
    "llr": (_LIKELIHOOD, "use fvalue and f_pvalue"),
    "llr_pvalue": (_LIKELIHOOD, "use fvalue and f_pvalue"),
    "prsquared": (_LIKELIHOOD, "use rsquared"),
    "info_criteria": (_LIKELIHOOD, "use aic and bic"),
    "bootstrap": (
        "would draw from the records again, which costs privacy each time",
        "use bse and conf_int(), which include the privacy noise, or synthesize(copies=m) with "
        "combine_copies()",
    ),
    "get_influence": _INFLUENCE,
    "outlier_test": _INFLUENCE,
    "get_robustcov_results": _ROBUST,
    "het_scale": _ROBUST,
    **{f"HC{i}_se": _ROBUST for i in range(4)},
    **{f"cov_HC{i}": _ROBUST for i in range(4)},
    "compare_lr_test": _TEST_RECORDS,
    "compare_lm_test": _TEST_RECORDS,
    "el_test": _TEST_RECORDS,
    "conf_int_el": (_RECORDS, "use conf_int()"),
    "score_test": _TEST_RECORDS,
    "ssr": _SUMS,
    "ess": _SUMS,
    "centered_tss": _SUMS,
    "uncentered_tss": _SUMS,
    "mse_model": _SUMS,
    "mse_total": _SUMS,
    "mse_resid": _SUMS,
    "eigenvals": ("needs the exact X'X, which is not released", "use cov_params()"),
    "condition_number": ("needs the exact X'X, which is not released", "use cov_params()"),
    "summary2": ("has no form for privacy", "use summary(), tidy() and glance()"),
    "rsquared": _DISPERSION,
    "rsquared_se": _DISPERSION,
    "scale_se": _DISPERSION,
    "sigma_se": _DISPERSION,
    "aic_se": _DISPERSION,
    "bic_se": _DISPERSION,
    "rsquared_adj": _DISPERSION,
    "aic": _DISPERSION,
    "bic": _DISPERSION,
}


NAMES: dict[str, str] = {
    **dict.fromkeys(("coef", "coef_", "coefs", "coefficients", "beta", "betas"), "params"),
    **dict.fromkeys(("se", "std_err", "std_error", "std_errors", "stderr", "bse_"), "bse"),
    **dict.fromkeys(("vcov", "cov", "covariance", "cov_params_"), "cov_params()"),
    **dict.fromkeys(("pvalue", "p_values", "pval", "pvals"), "pvalues"),
    **dict.fromkeys(("tvalue", "tstat", "tstats", "zvalues"), "tvalues"),
    **dict.fromkeys(("confint", "ci", "conf_ints"), "conf_int()"),
    **dict.fromkeys(("r2", "rsq", "r_squared", "rsquared_adjusted"), "rsquared"),
    **dict.fromkeys(("n", "n_obs", "N", "num_obs"), "nobs"),
    **dict.fromkeys(("residuals", "resids"), "scale, since residuals are not released"),
    **dict.fromkeys(("plot", "coefplot", "iplot"), "plot_coefficients()"),
    **dict.fromkeys(("etable", "as_latex", "latex"), "to_latex(), or dpbinagg.summary_table"),
    **dict.fromkeys(
        ("get_margeff", "margeff", "margins"),
        "params: the effects of a linear model are its coefficients",
    ),
    **dict.fromkeys(("mu", "epsilon_", "delta_"), "privacy.mu and privacy.epsilon(delta)"),
    **dict.fromkeys(
        ("describe", "table_one", "crosstab", "corr"), "release.describe() and its kin"
    ),
    **dict.fromkeys(("ols", "refit", "fit", "models"), "release.ols(formula)"),
    **dict.fromkeys(("synthetic", "sample", "generate"), "synthesize()"),
}
"""What other packages call the same."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant; empty without one."""
    near = NAMES.get(name) or next(iter(get_close_matches(name, list(known), n=1)), "")
    return f"; use {near}" if near else ""


def not_released(name: str) -> NotReleasedError:
    """The error for an attribute that cannot be had."""
    why, instead = REASONS[name]
    return NotReleasedError(f"{name} {why}; {instead}")


def no_estimate(name: str, available: list[str]) -> NotReleasedError:
    """The error for an estimate whose component was not released."""
    return NotReleasedError(
        f"the {name} estimate needs {NEEDS[name]}, which this release does not contain; "
        f"available: {', '.join(available)}"
    )
