"""What a user asks for: which model of a release, which estimate, which covariance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from dpbinagg.analyst.estimators import FALLBACK, NEEDS
from dpbinagg.analyst.types import Estimate
from dpbinagg.errors import DPBinAggError, FormulaError, ReleaseError
from dpbinagg.formula import Design, build_design, linear_map
from dpbinagg.formula.names import undeclared_names
from dpbinagg.public.domain import Domain
from dpbinagg.release.transcript import Released

Own = Literal["sandwich", "model"]
OWN: Mapping[str, Own] = {"sandwich": "sandwich", "model": "model"}
"""The package's own words; they choose how the estimate from bins is treated."""

NAMES: Mapping[str, str] = {
    "HC1": "HC1 + privacy",
    "sandwich": "sandwich + privacy",
    "model": "nonrobust + privacy",
    "classical": "nonrobust, noise ignored",
    "paper": "as published",
}
"""What is printed for the covariance of an estimate."""

ROBUST = {"HC1": "HC1", "hetero": "HC1", "robust": "HC1", "stata": "HC1"}
"""Names of HC1: statsmodels', pyfixest's, Stata's, estimatr's."""

EQUAL = {"nonrobust": "model", "iid": "model", "classical": "model"}
"""Names of a covariance that takes all errors to have one variance."""

_CLUSTERED = "one record is one person here, and errors are not clustered"
_LEVERAGE = "it needs the leverage of every record, which is not released"
REFUSED = {
    "HC0": "HC1 is HC0 times n/(n - p), and is what is done",
    "HC2": _LEVERAGE,
    "HC3": _LEVERAGE,
    **dict.fromkeys(("cluster", "CR0", "CR1", "CR2", "CRV1", "CRV3"), _CLUSTERED),
    **dict.fromkeys(
        ("HAC", "hac-groupsum", "hac-panel", "NW", "DK"), "records have no order in time here"
    ),
}
"""Names of covariances that are not done, and why."""

KINDS = {"refined": "HC1", "combined": "model", "moments": "model", "naive": "model"}
"""What estimators have that offer no choice."""


def shown(cov_type: str) -> str:
    """The covariance of an estimate, as tables print it."""
    return NAMES.get(cov_type, cov_type)


def without_noise(cov_type: str) -> str:
    """The same, for tables that have a line of their own for the privacy noise."""
    return shown(cov_type).removesuffix(" + privacy").removesuffix(", noise ignored")


def resolve(cov_type: object, estimator: str | None) -> Own:
    """The package's own word for what a user asked of an estimator.

    Parameters
    ----------
    cov_type : str
        One of `OWN`, or a name of statsmodels, pyfixest or Stata.
    estimator : str or None
        None for the best of a release, which is the refined one.

    Returns
    -------
    str
        "sandwich" or "model".

    Raises
    ------
    DPBinAggError
        Where the estimate has another covariance than the name says.
    """
    if isinstance(cov_type, str):
        if cov_type in OWN:
            return OWN[cov_type]
        if cov_type in ROBUST or cov_type in EQUAL:
            return _choose(cov_type, estimator or "refined")
        if cov_type in REFUSED:
            raise DPBinAggError(
                f"cov_type={cov_type!r} is not done: {REFUSED[cov_type]}; use cov_type='HC1'"
            )
    got = repr(cov_type) if isinstance(cov_type, str) else type(cov_type).__name__
    raise DPBinAggError(
        "cov_type must be one of 'sandwich', 'model', or statsmodels' 'HC1' and 'nonrobust', "
        f"got {got}"
    )


def _choose(cov_type: str, estimator: str) -> Own:
    robust = cov_type in ROBUST
    kind = KINDS.get(estimator)
    if estimator == "corrected" and not robust:
        return "model"
    if kind is None:
        own = "'sandwich' (over bins) or 'model'" if estimator == "corrected" else "'sandwich'"
        raise DPBinAggError(
            f"cov_type={cov_type!r} is not what the {estimator} estimate has; write {own}, or use "
            "estimator='refined' for HC1"
        )
    if robust != (kind == "HC1"):
        has, other = (
            ("errors of one variance (nonrobust)", "estimator='refined' has HC1")
            if robust
            else ("HC1, which also holds with one variance", "leave cov_type out")
        )
        raise DPBinAggError(
            f"cov_type={cov_type!r} is not what the {estimator} estimate has: it has {has}; {other}"
        )
    return "sandwich" if robust else "model"


def misnomer(cov_type: str, done: str) -> tuple[str, ...]:
    """A note where the covariance asked for is not that of the estimate shown."""
    wanted = {"model": ("model", "classical")}.get(cov_type, (done,))
    if done in wanted:
        return ()
    return (
        f"cov_type={cov_type!r} concerns the estimate from bins; the covariance of this one is "
        f"{shown(done)}.",
    )


def release_design(release: Released, formula: str) -> Design:
    """The design of any formula of released variables, on the working domain."""
    return _design(release.design, formula, release.domain)


def is_smaller(full: Design, design: Design) -> bool:
    """Whether a design has the response of another and combinations of its columns."""
    if design.response_name != full.response_name:
        return False
    try:
        linear_map(full, design)
    except FormulaError:
        return False
    return True


def smaller(full: Design, formula: str) -> Design:
    """The design of `formula` on the domain of a larger one with the same response."""
    design = _design(full, formula, full.domain)
    require_same_response(full, design)
    return design


def _design(full: Design, formula: str, domain: Domain) -> Design:
    """The design of a formula, refused where it has a variable that was not released."""
    known = [*domain, *full.constants]
    foreign = next((name for name in undeclared_names(str(formula)) if name not in known), None)
    if foreign is not None:
        raise FormulaError(
            f"{foreign!r} was not released; what was is {', '.join(domain)}. Fit terms of these, "
            "or make a new release"
        )
    return build_design(formula, domain, full.constants)


def require_same_response(full: Design, small: Design) -> None:
    """Refuse a model of another response."""
    if small.response_name != full.response_name:
        raise FormulaError(
            f"a smaller model must have the left side {full.response_name!r}, "
            f"got {small.response_name!r}; make a new release for another response"
        )


def require_alpha(alpha: float) -> None:
    """Refuse an error probability that is none."""
    if isinstance(alpha, str) or not 0.0 < alpha < 1.0:
        raise ReleaseError(
            f"alpha must lie strictly between 0 and 1, got {alpha!r}; 0.05 gives 95% intervals"
        )


def choose(
    family: Mapping[str, Estimate], requested: str | None
) -> tuple[Estimate, tuple[str, ...]]:
    """The requested estimate, or the next one that the release allows, with a note.

    Parameters
    ----------
    family : mapping
        The estimates that the release allows.
    requested : str or None
        None for the best.
    """
    if requested is not None and requested not in NEEDS:
        raise ReleaseError(f"estimator must be one of {', '.join(NEEDS)}, got {requested!r}")
    if not family:
        raise ReleaseError(
            "the release has neither bin sums nor moments, so nothing can be estimated from it; "
            "give Budget.count, sum_x and sum_y, or Budget.moments, a positive share"
        )
    if requested is None:
        return family[next(name for name in (*FALLBACK, *family) if name in family)], ()
    if requested in family:
        return family[requested], ()
    start = FALLBACK.index(requested) if requested in FALLBACK else FALLBACK.index("corrected")
    candidates = (*FALLBACK[start:], *reversed(FALLBACK[:start]), *family)
    found = next(name for name in candidates if name in family)
    return family[found], (
        f"The {requested} estimate needs {NEEDS[requested]}, which this release does not "
        f"contain; the {found} estimate is shown.",
    )
