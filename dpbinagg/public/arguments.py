"""Arguments that do not exist, answered with the one that does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

from dpbinagg.errors import ArgumentError

Called = TypeVar("Called", bound=Callable[..., Any])

_ROWS = (
    "records are selected before, by a rule that is public: data=frame[frame.age >= 18]; say so in "
    "your text"
)
_WEIGHTS = "all records count alike, weighted regressions do not exist here; leave it out"
_CLUSTERS = (
    "errors are not clustered here, since one record is one person; keep one row for each person, "
    "and cov_type='HC1' allows for unequal variances"
)
_ROBUST = "the covariance is chosen by cov_type='HC1', which is the default of the refined estimate"
_LINEAR = "models are linear, fitted by least squares; a binary response is a linear probability"
_EFFECTS = "effects are not absorbed; write them as a term, C(region), with their levels in bounds"
_CONSTANT = "an intercept is in the formula already; '- 1' at its end removes it"
_BOUNDS = "public bounds and levels are given by bounds={'educ': (0, 20), 'region': ['N', 'S']}"
_NOISE = "the noise follows from mu= (or epsilon= and delta=) and is not set by hand"
_FORMULA = "a model is a formula and a table, dp_ols('y ~ x1 + x2', data, mu=1)"
_SEED = "rng= makes the noise reproducible, for tests only; leave it out for what you publish"
_MISSING = "records with missing values are dropped; missing='raise' refuses them"
_LEVEL = "the level belongs to what is shown: res.conf_int(alpha), res.summary(alpha=0.1)"
_UNIT = "one record is one person, which is what privacy protects; keep one row for each person"
_NAMES = "names that the formula may use are passed as constants={'k': 40}; columns are not"
_SPLIT = "groups are terms: write C(group) * x, and smaller models of one release cost nothing"
_COUNT = "the number of records is not asked for: it is secret, and released with noise"
_DATA = "the table is the argument data"

FITTING: dict[str, str] = {
    **dict.fromkeys(("subset", "filter", "where", "if_"), _ROWS),
    **dict.fromkeys(("weights", "weight", "freq_weights", "var_weights", "aweights"), _WEIGHTS),
    **dict.fromkeys(("fweights", "pweights", "wt", "w"), _WEIGHTS),
    **dict.fromkeys(("cluster", "clusters", "groups", "cov_kwds", "panel_id"), _CLUSTERS),
    **dict.fromkeys(("vcov", "se_type", "se", "robust", "use_t", "cov", "ssc", "vce"), _ROBUST),
    **dict.fromkeys(("family", "link", "model", "method"), _LINEAR),
    **dict.fromkeys(("fixef", "fixed_effects", "fe", "absorb", "effects", "random"), _EFFECTS),
    **dict.fromkeys(("entity_effects", "time_effects", "demeaning"), _EFFECTS),
    **dict.fromkeys(("split", "fsplit", "by"), _SPLIT),
    **dict.fromkeys(("lower", "upper", "min", "max"), _BOUNDS),
    **dict.fromkeys(("n", "nobs", "n_obs"), _COUNT),
    **dict.fromkeys(("hasconst", "fit_intercept", "intercept", "const"), _CONSTANT),
    **dict.fromkeys(
        ("domain", "levels", "ranges", "range", "limits", "categories", "xlev", "codebook"), _BOUNDS
    ),
    **dict.fromkeys(("bounds_X", "bounds_y", "data_norm", "sensitivity"), _BOUNDS),
    **dict.fromkeys(("noise", "sigma", "noise_multiplier", "clip", "max_grad_norm"), _NOISE),
    **dict.fromkeys(("X", "y", "x", "endog", "exog"), _FORMULA),
    **dict.fromkeys(("seed", "random_state", "random_seed", "generator"), _SEED),
    **dict.fromkeys(("na_action", "na", "dropna", "skipna", "nan_policy"), _MISSING),
    **dict.fromkeys(("alpha", "level", "conf_level"), _LEVEL),
    **dict.fromkeys(("unit", "id", "person", "privacy_unit"), _UNIT),
    **dict.fromkeys(("env", "eval_env", "context"), _NAMES),
    **dict.fromkeys(("df", "frame", "table", "dataset"), _DATA),
    "eps": "the name is epsilon, which belongs together with delta",
    "rho": "privacy is given as mu=, or epsilon= and delta=; zCDP's rho is mu**2 / 2",
    "offset": "an offset is subtracted from the response in the formula, as in I(y - z) ~ x",
    "contrasts": "contrasts are written in the formula, as in C(region, Sum)",
}
"""What users of R, statsmodels, pyfixest, scikit-learn and other privacy packages type to fit."""

LEVELS = ("level", "conf_level", "confidence", "conf", "ci", "prob")
"""What they type to choose how often intervals cover."""

SYNTHESIS: dict[str, str] = {
    **dict.fromkeys(("seed", "random_state", "random_seed", "generator"), _SEED),
    **dict.fromkeys(("n", "rows", "nrow", "n_samples"), "the number of records is size="),
    **dict.fromkeys(("m", "tables"), "the number of synthetic tables is copies="),
}
"""What they type to make synthetic records."""

READING: dict[str, str] = {
    **dict.fromkeys(("sep", "delimiter", "delim"), "what is between two cells is separator="),
    **dict.fromkeys(("dec", "decimal_mark"), "the decimal mark is decimal="),
    **dict.fromkeys(("sheet_name", "worksheet"), "the sheet of a workbook is sheet="),
    **dict.fromkeys(("dtype", "dtypes", "col_types"), _BOUNDS),
    **dict.fromkeys(
        ("na_values", "na", "na.strings", "missing"),
        "codes that mean no answer are declared: bounds={'age': {'lower': 18, 'missing': [99]}}",
    ),
}
"""What they type to open a file."""


def explains_arguments(function: Called) -> Called:
    """Make a function, or a class, answer a call that does not fit its signature with what does."""
    if isinstance(function, type):
        kind: Any = function
        kind.__init__ = explains_arguments(kind.__init__)
        return function
    signature = inspect.signature(function)
    called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

    @wraps(function)
    def explained(*args: Any, **kwargs: Any) -> Any:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise _misfit(called, signature, kwargs, str(error)) from None
        return function(*args, **kwargs)

    return cast(Called, explained)


def refuse_unknown(called: str, given: Iterable[str], known: list[str]) -> None:
    """Refuse arguments that are passed on to a function of another package, by its name."""
    for name in given:
        if name not in known:
            raise ArgumentError(f"{called} has no argument {name!r}; {remedy(name, known)}")


def closest(name: str, known: Iterable[str]) -> str:
    """The known name that somebody may have meant, or all of them."""
    known = list(known)
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(known)}"


def _misfit(
    called: str, signature: inspect.Signature, given: Iterable[str], why: str
) -> ArgumentError:
    """The error for a call that does not fit."""
    known = [name for name in signature.parameters if name != "self"]
    unknown = [name for name in given if name not in known]
    if unknown:
        return ArgumentError(
            f"{called} has no argument {unknown[0]!r}; {remedy(unknown[0], known)}"
        )
    return ArgumentError(
        f"{called} cannot be called so: {why}; write the arguments by name, {', '.join(known)}"
    )


def remedy(name: str, known: list[str]) -> str:
    """What to write instead of an argument, or an option of a command, that does not exist."""
    near = get_close_matches(name, known, n=1, cutoff=0.75)
    if near:
        return f"did you mean {near[0]!r}?"
    if "alpha" in known and name in LEVELS:
        return "the level is alpha=: intervals cover with probability 1 - alpha"
    fits = "formula" in known or "formulas" in known
    words = (FITTING if fits else {}) | (SYNTHESIS if "size" in known else {})
    words |= READING if "separator" in known else {}
    if name in words:
        return words[name]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    listed = f"the arguments are {', '.join(known)}"
    return f"did you mean {near[0]!r}? Otherwise, {listed}" if near else listed
