"""From a release to a results object: which model, which estimator."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dpbinagg.analyst.estimators import FALLBACK, NEEDS
from dpbinagg.analyst.types import Estimate
from dpbinagg.errors import FormulaError, ReleaseError
from dpbinagg.formula import Design, build_design, linear_map
from dpbinagg.release.transcript import Released


def model_design(release: Released, formula: str | None) -> Design:
    """The design of `formula` on the release's working domain."""
    if formula is None or formula == release.formula:
        return release.design
    return smaller(release.design, formula)


def release_design(release: Released, formula: str) -> Design:
    """The design of any formula of released variables, on the working domain."""
    try:
        return build_design(formula, release.domain, release.design.constants)
    except FormulaError as error:
        raise _unknown(release.design, formula, error) from None


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
    try:
        design = build_design(formula, full.domain, full.constants)
    except FormulaError as error:
        raise _unknown(full, formula, error) from None
    require_same_response(full, design)
    return design


def _unknown(full: Design, formula: str, error: FormulaError) -> FormulaError:
    """The error, or one that names a variable that was not released."""
    names = (name for name in re.findall(r"[^\W\d]\w*", str(formula)) if name not in full.domain)
    foreign = next((name for name in names if repr(name) in str(error)), None)
    if foreign is None:
        return error
    return FormulaError(
        f"{foreign!r} is not in the released formula {full.formula!r}; fit terms of that "
        "one, or make a new release"
    )


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
