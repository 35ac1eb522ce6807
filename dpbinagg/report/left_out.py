"""Records and values that a regression did without, from noisy counts: said, not swallowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dpbinagg.errors import NothingLeftError
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.release.questions import SEEN
from dpbinagg.release.transcript import Counted
from dpbinagg.report.tables import listed, significant, whole

FEW = 0.5
"""Share of the records below which a table says so in its first line."""

MANY_OUTSIDE = 0.05
"""Share of values outside their bounds from which on these are more likely wrong than exceeded."""

MOST_NAMES, MOST_LEVELS = 6, 8
"""Variables and levels that a sentence lists."""

Margins = Mapping[str, Mapping[str, Any]]


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


def sentences(
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
