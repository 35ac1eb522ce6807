"""Sentences of the page: what was found and what is promised, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scipy.special import ndtr

from dpbinagg import __version__
from dpbinagg.report.labels import readable
from dpbinagg.report.tables import decimals_for, number, whole

if TYPE_CHECKING:
    from dpbinagg.privacy import Privacy
    from dpbinagg.report.base import ReleaseResults

MOST_FINDINGS = 6
PAPER = (
    "Lin, Slavković and Bhoomireddy (2026). Differentially Private Linear Regression and "
    "Synthetic Data Generation with Statistical Guarantees. AISTATS. arXiv:2510.16974."
)


def listed(names: Sequence[str]) -> str:
    """Names with commas and a last "and"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def headline(results: ReleaseResults) -> str:
    """What the page is about."""
    return f"What goes with {readable(results.design.response_name)}: a private regression"


def lead(results: ReleaseResults) -> str:
    """The model and the promise in two sentences."""
    covariates = listed(results.design.variables)
    on = f" with {covariates}" if covariates else ""
    return (
        f"This page reports how {readable(results.design.response_name)} goes{on} among about "
        f"{whole(results.nobs)} records. Random noise was added before any number left the "
        "data, so that nobody can tell with confidence whether a given person is among them."
    )


def findings(results: ReleaseResults, alpha: float = 0.05) -> tuple[list[str], str]:
    """Coefficients that are clearly not zero, the clearest first, and the names of the rest."""
    estimate, design = results.estimate, results.design
    ends = results.conf_int(alpha)
    order = sorted(range(len(estimate.params)), key=lambda j: -abs(float(results.tvalues[j])))
    order = [j for j in order if j != design.intercept]
    clear, rest = [], []
    for j in order:
        name, low, high = readable(design.column_names[j]), float(ends[j][0]), float(ends[j][1])
        if low <= 0.0 <= high or low != low:
            rest.append(name)
            continue
        places = decimals_for(float(estimate.bse[j]))
        values = (number(value, places) for value in (float(estimate.params[j]), low, high))
        middle, low_text, high_text = values
        sign = "+" if estimate.params[j] > 0 else ""
        clear.append(f"{name}: {sign}{middle} ({low_text} to {high_text})")
    more = len(clear) - MOST_FINDINGS
    if more > 0:
        clear = [*clear[:MOST_FINDINGS], f"and {more} more in the table"]
    return clear, listed(rest[:12]) + (" and others" if len(rest) > 12 else "")


def guess(privacy: Privacy) -> str:
    """What mu means for somebody who tries to find out about one person.

    With even odds beforehand the best test between neighbouring tables is right with
    probability ``Phi(mu/2)`` at most.
    """
    right = f"{100 * float(ndtr(privacy.mu / 2.0)):.0f}%"
    if privacy.neighbours == "add-remove":
        what = "whether one given person is in the data"
    else:
        what = "which of two possible records one given person has"
    return (
        f"Suppose somebody tries to find out {what}, holds both answers equally likely, and knows "
        f"everything about everybody else. From all that was released they guess right at most "
        f"{right} of the time; tossing a coin gives 50%."
    )


def citation(results: ReleaseResults) -> str:
    """How to cite the analysis."""
    return (
        f"The dpbinagg authors. dpbinagg: differentially private linear regression and synthetic "
        f"data, version {__version__} ({results.estimator} estimator, mu = "
        f"{results.release.mu:.4g})."
    )
