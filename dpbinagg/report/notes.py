"""The notes under a regression table: what a reader must know, in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import null_space

from dpbinagg.accounting.budget import EXACT_BIT, RELATIONS
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.formula import Design
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.release.transcript import Released, counted
from dpbinagg.report import left_out
from dpbinagg.report.inference import MOST_TERMS, Flags, identified
from dpbinagg.report.tables import (
    decimals_for,
    label,
    listed,
    number,
    power,
    readable,
    significant,
    whole,
)

if TYPE_CHECKING:
    from dpbinagg.report.base import ReleaseResults

MOST_FACTORS, MOST_LABELS = 12, 12
"""Factors, and labels of one variable, that a note lists."""


DECLARED = "declared"

MOST_RANGES = 12
"""Ranges listed in a note before it refers to the release for the rest."""

METHOD: dict[str, str] = {
    "naive": (
        "This is what least squares on the noisy bins gives when the noise is ignored: the "
        "coefficients are biased and the intervals are too short. It is shown for comparison; "
        "report another estimator."
    ),
    "paper": (
        "This is the published estimator, which hardly corrects for the noise: the coefficients "
        "are biased. It is shown for replication; report another estimator."
    ),
}
HONEST = (
    "Standard errors, tests and intervals include the noise that was added for privacy. The "
    "number of observations is a noisy count."
)
HELP = "More mu, more records, tighter bounds, or fewer terms would help."


def remedy(notes: tuple[str, ...]) -> list[str]:
    """What would help, unless a note says so already."""
    return [] if any("would help" in note for note in notes) else [HELP]


def explain(results: ReleaseResults, slim: bool = False) -> list[str]:
    """All notes of a results object, the most urgent first; `slim` leaves out what is routine."""
    release = results.release
    notes: list[str] = []
    if not release.privacy.secure:
        notes.append(
            "NOT FOR PUBLICATION: the noise came from a seeded generator (rng was given), so "
            "whoever knows the seed can remove it."
        )
    unknown = sentences(results.estimate, results.design.column_names, results.model.exog)
    notes += unknown
    known = counted(release.transcript)
    notes += left_out.unseen(known, release.domain, results.design.variables)
    if unknown and math.isfinite(results.fvalue):
        notes.append("The F test is of the coefficients that are identified.")
    if not results.estimate.identified and not unknown:
        parts = [
            "CAUTION: the release does not determine this model well; do not rely on the "
            "coefficients before reading the notes that follow.",
            *remedy(results.notes),
        ]
        notes.append(" ".join(parts))
    notes += results.notes
    notes += reference_notes(results.design)
    notes += label_note(results.design.domain, results.design.variables)
    if results.estimator in ("naive", "corrected", "paper"):
        notes += _never_split(release)
    notes.append(METHOD.get(results.estimator, HONEST))
    notes += [] if slim else _fit_noise(results)
    notes.append(
        f"Privacy: mu = {release.mu:.4g} (Gaussian differential privacy) against "
        f"{RELATIONS[release.privacy.neighbours]}, which implies epsilon = {results.epsilon:.3g} "
        f"at delta = {power(results.delta)}."
        + f" {EXACT_BIT}"
        * (release.privacy.missing == "raise")
    )
    if release.calibration == "paper":
        claimed = release.privacy.claimed_mu
        notes.append(
            "The noise was calibrated as published, which for this model protects as it says."
            if math.isclose(claimed, release.mu)
            else "The noise was calibrated as published, which protects less than it says: it "
            f"claims mu = {claimed:.4g}, and the true guarantee is the mu = {release.mu:.4g} "
            "shown here."
        )
    if not slim:
        notes += _ranges(release, results.design.response_variables + results.design.variables)
    return notes


def sentences(estimate: Estimate, names: Sequence[str], public_rows: Array) -> list[str]:
    """Terms that are not identified, why, and what would help: one sentence for each reason."""
    unknown = ~identified(estimate)
    if not unknown.any():
        return []
    kernel = null_space(public_rows / np.maximum(np.abs(public_rows).max(axis=0), 1e-300))
    aliased = (np.abs(kernel) > 1e-6).any(axis=1) & unknown
    found = []
    if aliased.any():
        found.append(
            f"CAUTION: not identified: {_named(names, aliased)}. By the formula itself these "
            "columns are combinations of others, so that no data tell them apart; remove terms "
            "until none is."
        )
    if (unknown & ~aliased).any():
        found.append(
            f"CAUTION: not identified: {_named(names, unknown & ~aliased)}. The noise leaves too "
            "little: more than half a standard error would be where the computation started, not "
            "what the records say. What else is shown holds. More mu, more records, tighter "
            "bounds, or fewer terms or levels would help."
        )
    return found


def _named(names: Sequence[str], chosen: Flags) -> str:
    return listed([name for name, flag in zip(names, chosen, strict=True) if flag], MOST_TERMS)


def references(design: Design) -> dict[str, Any]:
    """The reference level of each factor that has one, by the factor's readable name.

    A factor has one where its columns are indicators of all levels but that one, so that a
    row of its contrast matrix is zero.
    """
    found: dict[str, Any] = {}
    for factor, matrix, levels in _contrasts(design):
        empty = np.flatnonzero(~matrix.any(axis=1))
        if len(empty) == 1 and np.isin(matrix, (0.0, 1.0)).all():
            found.setdefault(factor, levels[empty[0]])
    return found


def _contrasts(design: Design) -> list[tuple[str, Array, Sequence[Any]]]:
    """Readable name, contrast matrix and levels of every coded factor."""
    info = design.design_info
    return [
        (readable(factor.name()), np.asarray(contrast.matrix), info.factor_infos[factor].categories)
        for subterms in info.term_codings.values()
        for subterm in subterms
        for factor, contrast in subterm.contrast_matrices.items()
    ]


def reference_notes(*designs: Design) -> list[str]:
    """What the coefficients of categories mean; nothing of comparisons, false by default."""
    texts = [
        f"{name} = {label(design.domain, name, level)}"
        for design in designs
        for name, level in references(design).items()
        if level is not False
    ]
    texts = list(dict.fromkeys(texts))
    found = []
    if texts:
        kind = "category" if len(texts) == 1 else "categories"
        shown = listed(texts, MOST_FACTORS)
        found.append(f"Reference {kind}, with which the others are compared: {shown}.")
    coded = [one for design in designs for one in _contrasts(design)]
    means = list(dict.fromkeys(n for n, matrix, _ in coded if (matrix == -1.0).all(axis=1).any()))
    if means:
        found.append(f"Levels of {listed(means)} are compared with the mean over all levels.")
    return found


def label_note(domain: Domain, names: Iterable[str]) -> list[str]:
    """What the codes of the variables `names` stand for, where they have labels."""
    texts = []
    for name in names:
        variable = domain.get(name)
        if isinstance(variable, Categorical) and variable.labels:
            pairs = [f"{code} = {text}" for code, text in variable.label_of.items()]
            texts.append(f"{name}: {listed(pairs, MOST_LABELS)}")
    return [f"Labels of codes: {'; '.join(texts)}."] if texts else []


def _fit_noise(results: ReleaseResults) -> list[str]:
    """Privacy noise in the statistics of the fit, where the digits printed show it."""
    fit = results.fit_statistics
    found = (
        [("R-squared", fit.rsquared_se, 5e-4), ("AIC and BIC", fit.information_se, 0.05)]
        if fit
        else []
    )
    texts = [
        f"{label} about {whole(se) if se >= 10.0 else significant(se, 2)}"
        for label, se, least in found
        if se >= least
    ]
    error = results.sigma_noise or 0.0
    if error >= 5e-4 * results.sigma > 0.0:
        decimals = decimals_for(error, 0)
        sigma = f"{number(results.sigma, decimals)} (about {number(error, decimals)})"
        texts.append(f"the residual standard error, {sigma}")
    if not texts:
        return []
    return [f"Privacy noise in the fit statistics, as a standard deviation: {'; '.join(texts)}."]


def _never_split(release: Released) -> list[str]:
    """Variables that no bin edge cuts, for estimates that rest on the bins."""
    boxes = release.partition.boxes
    sides = {**boxes.lower, **boxes.members}
    names = [name for name, side in sides.items() if (side == side[:1]).all()]
    if not names:
        return []
    return [
        f"No bin edge cuts {', '.join(names)}: the bins tell little about "
        f"{'it' if len(names) == 1 else 'them'}. More mu, more records or fewer variables would "
        "give more bins."
    ]


def _ranges(release: Released, names: tuple[str, ...]) -> list[str]:
    """Bounds that values were held to, and where they came from.

    An estimate from moments or scores holds values to the declared bounds, and to ranges that were
    found where there are none; bins and synthetic data keep to narrower ranges throughout.
    """
    outer = "moments" in release.statistics
    held = release.outer.domain if outer else release.domain
    texts = []
    beyond = left_out.outside(counted(release.transcript), release.declared)
    for name in dict.fromkeys(names):
        variable = held[name]
        if isinstance(variable, Numeric):
            source = range_source(release, name, variable)
            found = "" if source == DECLARED else f" ({source})"
            if name in beyond:
                found += left_out.outside_text(*beyond[name])
            texts.append(f"{name} {_span(variable)}{found}")
    if not texts:
        return []
    more = len(texts) - MOST_RANGES
    if more > 0:
        place = "release.outer.domain" if outer else "release.domain"
        texts = [*texts[:MOST_RANGES], f"and {more} more (see {place})"]
    notes = [f"Values outside these bounds were moved to the nearest end: {', '.join(texts)}."]
    narrower = [n for n in dict.fromkeys(names) if repr(held[n]) != repr(release.domain[n])]
    if narrower:
        shown = ", ".join(
            f"{n} {_span(v)}"
            for n in narrower[:MOST_RANGES]
            if isinstance(v := release.domain[n], Numeric)
        )
        notes.append(f"Bins and synthetic data keep to where records were seen: {shown}.")
    return notes


def range_source(release: Released, name: str, working: Numeric) -> str:
    """Where the working range of a variable came from, in words."""
    given = release.declared[name] if name in release.declared else Numeric()
    if not isinstance(given, Numeric):
        return "found privately"
    if math.isclose(given.lower, working.lower) and math.isclose(given.upper, working.upper):
        return DECLARED
    return f"found privately within {_span(given)}" if given.bounded else "found privately"


def _span(variable: Numeric) -> str:
    return f"{significant(variable.lower)} to {significant(variable.upper)}"
