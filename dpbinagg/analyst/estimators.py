"""Estimators and their covariances by name: what a user may ask for, and gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from dpbinagg.errors import DPBinAggError, ReleaseError
from dpbinagg.inputs import EstimatorName

if TYPE_CHECKING:
    from dpbinagg.analyst.types import Estimate

_BINS = "bin counts and sums (Budget.count, Budget.sum_x, Budget.sum_y)"
_MOMENTS = "second moments (Budget.moments)"

NEEDS: dict[str, str] = {
    "paper": "calibration='paper'",
    "naive": _BINS,
    "corrected": _BINS,
    "moments": _MOMENTS,
    "combined": _MOMENTS,
    "refined": "residual scores (Budget.scores)",
}
"""Every estimator, in the order in which they build on each other, and what it needs."""

OFFERED: tuple[str, ...] = get_args(EstimatorName)
"""What a caller may ask for, the best first; "moments" is a part of "combined"."""

FALLBACK = tuple(name for name in reversed(NEEDS) if name != "paper")
"""What is shown where the one asked for was not released, the best first; "paper" is there for
replication alone."""

COV_TYPES = ("sandwich", "model")
"""Covariances of the estimate from bins, the default first."""

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
