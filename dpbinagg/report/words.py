"""Sentences of the page: what was found and what is promised, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

from dpbinagg import __version__
from dpbinagg.report.inference import identified
from dpbinagg.report.tables import decimals_for, listed, number, readable, whole

if TYPE_CHECKING:
    from dpbinagg.accounting.budget import Privacy
    from dpbinagg.report.results import DPResults

MOST_FINDINGS = 6
MOST_NAMES = 12
SOME, LITTLE = 0.8, 0.95
"""A guess that is right more often than this: some privacy, hardly any."""

PAPER = (
    "Lin, Slavković and Bhoomireddy (2026). Differentially Private Linear Regression and "
    "Synthetic Data Generation with Statistical Guarantees. AISTATS. arXiv:2510.16974."
)


def headline(results: DPResults) -> str:
    """What the page is about."""
    return f"What goes with {readable(results.design.response_name)}: a private regression"


def lead(results: DPResults) -> str:
    """The model and the promise in two sentences."""
    covariates = listed(results.design.variables)
    on = f" with {covariates}" if covariates else ""
    return (
        f"This page reports how {readable(results.design.response_name)} goes{on} among about "
        f"{whole(results.nobs)} records. {_promise(results.privacy)}"
    )


def _promise(privacy: Privacy) -> str:
    """How far one can trust the noise, from the best guess that it allows."""
    added = "Random noise was added before any number left the data"
    if float(ndtr(privacy.mu / 2.0)) > LITTLE:
        return f"{added}, but so little of it (mu = {privacy.mu:.3g}) that it protects hardly."
    if float(ndtr(privacy.mu / 2.0)) > SOME:
        return f"{added}, which limits what they tell about any one person."
    if privacy.neighbours == "add-remove":
        return f"{added}, so that nobody can be sure whether a given person is among them."
    return f"{added}, so that nobody can be sure what a given person's record says."


def findings(
    results: DPResults, alpha: float = 0.05
) -> tuple[list[tuple[str, str, str, str]], int, str]:
    """Identified coefficients whose intervals leave out zero, the clearest first.

    Returns
    -------
    clear : list of (name, coefficient, low, high)
    more : int
        How many such coefficients are left out.
    rest : str
        Names of the others.
    """
    estimate, design = results.estimate, results.design
    ends = results.conf_int(alpha)
    told = np.flatnonzero(identified(estimate))
    order = sorted(told.tolist(), key=lambda j: -abs(float(results.tvalues[j])))
    clear, rest = [], []
    for j in order:
        name, low, high = (
            readable(design.column_names[j], design.domain),
            float(ends[j][0]),
            float(ends[j][1]),
        )
        if j == design.intercept:
            continue
        if not (low > 0.0 or high < 0.0):
            rest.append(name)
            continue
        places = decimals_for(float(estimate.bse[j]))
        middle = number(float(estimate.params[j]), places)
        sign = "+" if estimate.params[j] > 0 else ""
        clear.append((name, sign + middle, number(low, places), number(high, places)))
    more = max(len(clear) - MOST_FINDINGS, 0)
    others = listed(rest) if len(rest) <= MOST_NAMES else f"{len(rest)} coefficients"
    return clear[:MOST_FINDINGS], more, others


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


def citation(results: DPResults) -> str:
    """How to cite the analysis."""
    return (
        f"The dpbinagg authors. dpbinagg: differentially private linear regression and synthetic "
        f"data, version {__version__} ({results.estimator} estimator, mu = "
        f"{results.release.mu:.4g})."
    )
