"""The notes under a regression table: what a reader must know, in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import null_space

from dpbinagg.accounting.budget import EXACT_BIT, RELATIONS
from dpbinagg.analyst.types import Array
from dpbinagg.errors import NothingLeftError
from dpbinagg.formula import Design
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.release.questions import MOMENTS, SEEN
from dpbinagg.release.transcript import Counted, Released, counted
from dpbinagg.report.inference import MOST_TERMS, Flags
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
    from dpbinagg.report.results import DPResults

MOST_FACTORS, MOST_LABELS = 12, 12
"""Factors, and labels of one variable, that a note lists."""

DECLARED = "declared"

MOST_RANGES = 12
"""Ranges listed in a note before it refers to the release for the rest."""

FEW = 0.5
"""Share of the records below which a table says so in its first line."""

MANY_OUTSIDE = 0.05
"""Share of values outside their bounds from which on these are more likely wrong than exceeded."""

MOST_NAMES, MOST_LEVELS = 6, 8
"""Variables and levels that a sentence lists."""

Margins = Mapping[str, Mapping[str, Any]]

SEEDED = (
    "NOT FOR PUBLICATION: the noise came from a seeded generator, so whoever knows the seed can "
    "remove it."
)
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


def explain(results: DPResults, slim: bool = False) -> list[str]:
    """All notes of a results object, the most urgent first; `slim` leaves out what is routine."""
    release, privacy = results.release, results.release.privacy
    notes: list[str] = []
    if not privacy.secure:
        notes.append(
            "NOT FOR PUBLICATION: the noise came from a seeded generator (rng was given), so "
            "whoever knows the seed can remove it."
        )
    unknown = ~results.identified.to_numpy()
    if unknown.any():
        notes += sentences(unknown, results.design.column_names, results.model.exog)
    known = counted(release.transcript)
    notes += unseen(known, results.design.domain, results.design.variables)
    if unknown.any() and math.isfinite(results.fvalue):
        notes.append("The F test is of the coefficients that are identified.")
    if not results.estimate.identified and not unknown.any():
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
        f"Privacy: mu = {privacy.mu:.4g} (Gaussian differential privacy) against "
        f"{RELATIONS[privacy.neighbours]}, which implies epsilon = {results.epsilon:.3g} "
        f"at delta = {power(results.delta)}." + f" {EXACT_BIT}" * (privacy.missing == "raise")
    )
    if release.calibration == "paper":
        claimed = privacy.claimed_mu
        notes.append(
            "The noise was calibrated as published, which for this model protects as it says."
            if math.isclose(claimed, privacy.mu)
            else "The noise was calibrated as published, which protects less than it says: it "
            f"claims mu = {claimed:.4g}, and the true guarantee is the mu = {privacy.mu:.4g} "
            "shown here."
        )
    if not slim:
        notes += _ranges(release, results.design.names)
    return notes


def sentences(unknown: Flags, names: Sequence[str], public_rows: Array) -> list[str]:
    """Terms that are not identified, why, and what would help: one sentence for each reason."""
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


def _fit_noise(results: DPResults) -> list[str]:
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
    outer = release.transcript.first(MOMENTS) is not None
    working = release.design.domain
    held = dict(working)
    if outer:
        known = release.declared.items()
        held |= {name: v for name, v in known if isinstance(v, Numeric) and v.bounded}
    texts = []
    beyond = outside(counted(release.transcript), release.declared)
    for name in dict.fromkeys(names):
        variable = held[name]
        if isinstance(variable, Numeric):
            source = range_source(release, name, variable)
            found = "" if source == DECLARED else f" ({source})"
            if name in beyond:
                found += outside_text(*beyond[name])
            texts.append(f"{name} {_span(variable)}{found}")
    if not texts:
        return []
    more = len(texts) - MOST_RANGES
    if more > 0:
        place = "release.outer.domain" if outer else "release.domain"
        texts = [*texts[:MOST_RANGES], f"and {more} more (see {place})"]
    notes = [f"Values outside these bounds were moved to the nearest end: {', '.join(texts)}."]
    narrower = [n for n in dict.fromkeys(names) if held[n] != working[n]]
    if narrower:
        shown = ", ".join(
            f"{n} {_span(v)}"
            for n in narrower[:MOST_RANGES]
            if isinstance(v := working[n], Numeric)
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


# What a regression did without.


def records(known: Counted | None) -> float | None:
    """Noisy number of all records; None where it was not asked for, or does not stand out."""
    if known is None:
        return None
    total = known.complete + known.incomplete
    return total if total > SEEN * math.sqrt(2.0) * known.sd else None


def first_line(known: Counted | None, nobs: float) -> str:
    """What stands above a table that few of the records are in; empty otherwise."""
    total = records(known)
    if known is None:
        return ""
    if known.complete <= SEEN * known.sd:
        return "CAUTION: no records, or too few to tell from none, have all values."
    if total is None or known.incomplete <= SEEN * known.sd:
        return ""
    if nobs >= FEW * total:
        return ""
    return f"CAUTION: only about {whole(max(nobs, 0.0))} of about {whole(total)} records were used."


def omissions(
    known: Counted | None, domain: Domain, names: Iterable[str], nobs: float
) -> list[str]:
    """Noisy shares of records that were left out, by reason, and of values far from their bounds.

    Parameters
    ----------
    known : Counted or None
    domain : Domain
        As declared.
    names : iterable of str
        Variables to speak of.
    nobs : float
        Noisy number of records that were used.
    """
    total, first = records(known), first_line(known, nobs)
    if known is None or total is None:
        return [first] if first else []
    found = []
    if known.incomplete > SEEN * known.sd:
        share = _share(known.incomplete, total)
        reasons = _reasons(known.margins, total)
        found.append(
            f"{first} The others have no value in a variable of the release: {reasons}."
            if first
            else f"About {share} of about {whole(total)} records were left out, because a variable "
            f"of the release has no value: {reasons}."
        )
    for name, (below, above) in outside(known, domain).items():
        if name in set(names) and below + above > MANY_OUTSIDE:
            found.append(
                f"CAUTION: about {_share(below + above, 1.0)} of the values of {name} are outside "
                "its bounds and were moved to the nearest end. Are the bounds in the unit of the "
                "data?"
            )
    return found


def require_some(known: Counted | None) -> None:
    """Refuse to go on where no complete record can be told from none, and many others can."""
    total = records(known)
    if known is None or total is None or known.complete > SEEN * known.sd:
        return
    if known.incomplete > 2.0 * SEEN * known.sd:
        raise NothingLeftError(
            f"data: no record, or too few to tell from none, of about {whole(total)} has a value "
            f"in all variables of the formula: {_reasons(known.margins, total)}. Declare "
            "all levels as the data spell them, and check what missing= lists; finding this out "
            "was a release, and its privacy is spent"
        )


def _reasons(margins: Margins, total: float) -> str:
    """Which variables lack values, or have some that nobody declared, the most frequent first."""
    found = []
    for name, margin in margins.items():
        strange = float(margin["outside"][0]) if margin["edges"] is None else 0.0
        for count, said in (
            (margin["missing"], "is missing in"),
            (strange, "has a level that was not declared in"),
        ):
            if count > SEEN * margin["sd"]:
                found.append((-count, f"{name} {said} about {_share(count, total)}"))
    texts = [text for _, text in sorted(found)]
    return "; ".join(texts[:MOST_NAMES]) or "too few by variable to tell which"


def outside(known: Counted | None, domain: Domain) -> dict[str, tuple[float, float]]:
    """Noisy shares of values below and above declared bounds, of numbers with any to speak of."""
    found: dict[str, tuple[float, float]] = {}
    total = records(known)
    if known is None or total is None:
        return found
    for name, margin in known.margins.items():
        variable = domain.get(name)
        if not isinstance(variable, Numeric) or not len(margin["outside"]):
            continue
        bounded = np.isfinite([variable.lower, variable.upper])
        seen = (margin["outside"] > SEEN * margin["sd"]) & bounded
        if seen.any():
            below, above = np.where(seen, margin["outside"], 0.0) / total
            found[name] = (float(below), float(above))
    return found


def outside_text(below: float, above: float) -> str:
    """In brackets behind bounds, as in ``(about 2% above)``."""
    return f" ({_beyond(below, above)})"


def _beyond(below: float, above: float) -> str:
    sides = [(below, "below"), (above, "above")]
    return "about " + " and ".join(f"{_share(share, 1.0)} {side}" for share, side in sides if share)


def unseen(known: Counted | None, domain: Domain, names: Iterable[str]) -> list[str]:
    """Declared levels that the released counts do not tell from empty ones."""
    texts = []
    for name, margin in known.margins.items() if known is not None else ():
        variable = domain.get(name)
        if name in set(names) and isinstance(variable, Categorical):
            few = np.asarray(margin["counts"]) < SEEN * margin["sd"]
            levels = [str(level) for level, flag in zip(variable.levels, few, strict=True) if flag]
            if levels:
                texts.append(f"{name} = {listed(levels, MOST_LEVELS)}")
    if not texts:
        return []
    return [
        f"No records, or too few to tell from none, have {'; '.join(texts)}. Leave these levels "
        "out, or join them with others."
    ]


def _share(count: float, total: float) -> str:
    """A noisy share in per cent, at most all."""
    percent = 100.0 * min(count / total, 1.0)
    return f"{percent:.0f}%" if percent >= 1.0 else f"{significant(percent, 1)}%"
