"""Findings of an audit, and the report in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbinagg.audit.bounds import Errors, largest_bound
from dpbinagg.report.tables import plain

if TYPE_CHECKING:
    import pandas as pd

SLACK = 1e-9
FIRM = 0.999


@dataclass(frozen=True, slots=True)
class Finding:
    """What one test between neighbouring tables showed.

    Attributes
    ----------
    component : str
        What was attacked.
    record : str
        How the tables differ.
    claimed : float
        The mu that the release accounts for.
    specified : float
        The mu that this test would show, with any number of trials, if the
        mechanism is as specified; infinite where that is not known.
    lower : float
        Lower confidence bound on mu.
    firm : float
        The same at a confidence of `FIRM`. It decides the verdict, so that a
        sound release is not accused by chance: less than 1 test in 100,000.
    trials : int
        Releases simulated on each of the two tables; 0 for a comparison that
        needs none.
    note : str
        What was seen, where it is not a matter of numbers.
    """

    component: str
    record: str
    claimed: float
    specified: float
    lower: float
    firm: float
    trials: int
    note: str = ""

    @classmethod
    def of(
        cls,
        component: str,
        record: str,
        claims: tuple[float, float],
        errors: Errors,
        confidence: float,
    ) -> Finding:
        """Judge the errors of a test by what was claimed and specified."""
        bounds = errors.mu_lower(confidence), errors.mu_lower(FIRM)
        return cls(component, record, *claims, *bounds, errors.trials)

    @classmethod
    def seen(cls, component: str, record: str, claimed: float, leak: bool, note: str) -> Finding:
        """What was seen without simulating releases."""
        bound = math.inf if leak else 0.0
        return cls(component, record, claimed, math.inf, bound, bound, 0, note)

    @property
    def passed(self) -> bool:
        """Whether nothing beyond the claim and the specification was shown."""
        return not self._moves_too_much and self.firm <= min(self.claimed, self.specified)

    @property
    def _moves_too_much(self) -> bool:
        return self.claimed * (1.0 + SLACK) < self.specified < math.inf

    def __str__(self) -> str:
        if self.note:
            return f"{self.component}, {self.record}: {self.note}"
        text = (
            f"{self.component}, {self.record}: mu >= {self.lower:.3f} from {self.trials:,} "
            f"releases a side, claimed {self.claimed:.3f}"
        )
        if self.passed:
            return text
        if self._moves_too_much:
            return f"{text}: A RECORD MOVES THE SUMS BY MORE, {self.specified:.3f}"
        if self.firm > self.claimed:
            return f"{text}: THE CLAIM DOES NOT HOLD"
        return f"{text}, specified {self.specified:.3f}: LESS NOISE THAN SPECIFIED"


@dataclass(frozen=True)
class AuditReport:
    """All findings of an audit.

    Attributes
    ----------
    formula : str
    mu : float
        True mu that the release reports.
    findings : tuple of Finding
    confidence : float
        Of every single bound.
    secure : bool
        Whether the secure source of noise was audited.
    """

    formula: str
    mu: float
    findings: tuple[Finding, ...]
    confidence: float
    secure: bool

    @property
    def passed(self) -> bool:
        """Whether no finding contradicts the claims."""
        return all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings that contradict the claims."""
        return tuple(finding for finding in self.findings if not finding.passed)

    def lower(self, component: str) -> float:
        """Largest lower bound among the findings of one component, all its rounds included."""
        names = (component, f"{component}, round")
        return max((f.lower for f in self.findings if f.component.startswith(names)), default=0.0)

    def to_frame(self) -> pd.DataFrame:
        """The findings as a table."""
        import pandas as pd

        columns = ("component", "record", "claimed", "specified", "lower", "trials", "passed")
        rows = [[getattr(finding, name) for name in columns] for finding in self.findings]
        return pd.DataFrame(rows, columns=list(columns))

    def table(self) -> str:
        """By mechanism: the mu that is claimed, and the largest lower bound that was shown."""
        rows = []
        for component in dict.fromkeys(finding.component for finding in self.findings):
            found = [finding for finding in self.findings if finding.component == component]
            worst = max(found, key=lambda one: (not one.passed, one.lower))
            shown = (
                f">= {worst.lower:.3f}" if worst.trials else ("nothing", "a leak")[worst.firm > 0]
            )
            verdict = "ok" if all(finding.passed for finding in found) else "FAIL"
            rows.append([component, f"{worst.claimed:.3f}", shown, worst.record, verdict])
        head = ["", "claimed mu", "shown", "tables differ in", ""]
        return plain(head, rows, f"Audit of {self.formula}, {self.mu:.4g}-GDP")

    def __str__(self) -> str:
        source = "the secure source of noise" if self.secure else "seeded noise"
        lines = [
            f"Audit of {self.formula!r}, {self.mu:.4g}-GDP, with {source}.",
            "Tables that differ in one record, chosen against the release, were told apart by the",
            f"likelihood ratio of what was released; the bounds hold with {self.confidence:.0%} "
            "confidence each.",
            *(f"  {'ok  ' if finding.passed else 'FAIL'} {finding}" for finding in self.findings),
        ]
        return "\n".join([*lines, self.verdict()])

    def verdict(self) -> str:
        """What follows from the findings, in a sentence or two."""
        if not self.passed:
            return f"{len(self.failures)} of {len(self.findings)} tests contradict the claims."
        most = max((finding.trials for finding in self.findings), default=0)
        return (
            f"None of {len(self.findings)} tests contradicts the claims. This is no proof: with "
            f"{most:,} releases a side no test can show more than "
            f"mu = {largest_bound(max(most, 1), self.confidence):.2f}."
        )
