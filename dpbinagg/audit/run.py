"""`audit_release`: try to tell neighbouring tables apart by a release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbinagg.audit.bounds import Errors
from dpbinagg.audit.content import differences
from dpbinagg.audit.gaussian import Pair, likelihood_tests, pair_up, theory
from dpbinagg.audit.pipeline import learned_test
from dpbinagg.audit.report import AuditReport, Finding
from dpbinagg.audit.specification import Specification
from dpbinagg.audit.tables import (
    KINDS,
    Candidates,
    Record,
    lowest_record,
    neighbour_of,
    ordinary_table,
)
from dpbinagg.audit.tape import Transcript, TranscriptError, TreeCall
from dpbinagg.audit.tree import depth_law, follows_law, simulate_depths, worst_attack
from dpbinagg.curator.curator import Curator
from dpbinagg.partition import Partition
from dpbinagg.paths import Paths
from dpbinagg.release import Release

if TYPE_CHECKING:
    import pandas as pd

TREE_DEPTH = 4
"""Levels of the partitions that are audited; deeper ones tell nothing more."""
WHOLE = "whole release"


@dataclass(frozen=True)
class Neighbour:
    """A neighbouring table, and what the mechanisms would be given for it."""

    kind: str
    table: pd.DataFrame
    pairs: list[Pair]
    leaks: tuple[str, ...]


class Auditor:
    """Attacks one specification; see `audit_release`."""

    def __init__(self, specification: Specification, rng: Any, records: int, seed: int) -> None:
        self.specification = specification
        self.choices = np.random.default_rng(seed)
        self.rng = None if rng is None else np.random.default_rng(rng)
        domain, variables = specification.design.domain, specification.variables
        self.table = neighbour_of(
            ordinary_table(domain, variables, records, self.choices),
            lowest_record(domain, variables),
            "add-remove",
        )
        self.script: Transcript
        self.release: Release
        self.script, self.release = specification.record(self.table, self.rng)

    def claimed(self, name: str) -> float:
        """The mu that the release states for the mechanisms of one name, together."""
        stated = self.release.privacy.mechanisms
        return math.sqrt(sum(m.mu**2 for m in stated if m.name == name))

    def neighbours(self, kinds: Sequence[str], limit: int) -> Iterator[Neighbour]:
        """Neighbouring tables of every kind, the worst of its kind first."""
        spec = self.specification
        candidates = Candidates(
            spec.design.domain, self.release.domain, self.release.partition, self.choices, limit
        )
        for kind in kinds:
            found = [self.neighbour(kind, record) for record in candidates.of_kind(kind)]
            yield from sorted(found, key=lambda one: (-len(one.leaks), -theory(one.pairs)))

    def neighbour(self, kind: str, record: Record) -> Neighbour:
        """A table that differs in one record, on the same public answers."""
        table = neighbour_of(self.table, record, self.specification.settings.neighbours)
        try:
            transcript, release = self.specification.replay(table, self.script, self.rng)
        except TranscriptError as error:
            return Neighbour(kind, table, [], (f"requests ({error})",))
        # Any error at all that one table raises and its neighbour does not is a finding.
        except Exception as error:
            return Neighbour(kind, table, [], (f"an error ({type(error).__name__})",))
        if len(transcript.calls) != len(self.script.calls):
            return Neighbour(kind, table, [], ("the number of requests",))
        pairs = pair_up(self.script.calls, transcript.calls)
        return Neighbour(kind, table, pairs, tuple(differences(self.release, release)))

    def interference(self, neighbours: Sequence[Neighbour]) -> Finding:
        """Whether anything but the mechanisms' answers entered the release."""
        leaking = [one for one in neighbours if one.leaks]
        claims = ("everything else", f"{len(neighbours)} neighbours", self.release.mu, math.inf)
        if not leaking:
            return Finding(*claims, 0.0, 0, "the release depends on the mechanisms' answers only")
        where = ", ".join(leaking[0].leaks[:3])
        return Finding(*claims, math.inf, 0, f"the record ({leaking[0].kind}) shows in {where}")

    def accounting(self) -> Finding:
        """Whether every mechanism that the release lists was used, and no other."""
        listed = sorted(mechanism.name for mechanism in self.release.privacy.mechanisms)
        used = [call.name for call in self.script.calls]
        used = sorted([*used, *(call.name for call in self.script.trees)])
        claims = ("list of mechanisms", f"{len(listed)} listed", self.release.mu, math.inf)
        if listed == used:
            return Finding(*claims, 0.0, 0, "each was used once, and no other")
        odd = ", ".join(sorted(set(listed) ^ set(used))) or "one of them twice"
        return Finding(*claims, math.inf, 0, f"listed and used mechanisms differ: {odd}")

    def components(self, worst: Sequence[Neighbour], trials: int, level: float) -> list[Finding]:
        """Test every use of the Gaussian mechanism, and all of them together."""
        findings = []
        spec = self.specification
        curator = Curator(self.table, spec.design, spec.settings.missing, self.rng)
        for one in worst:
            single, together = likelihood_tests(one.pairs, trials, curator)
            for pair, errors in zip(one.pairs, single, strict=True):
                claims = (self.claimed(pair.name), self._specified([pair]))
                findings.append(Finding.of(pair.name, one.kind, claims, errors, level))
            if len(one.pairs) > 1:
                claims = (self.release.mu, self._specified(one.pairs))
                findings.append(Finding.of(WHOLE, one.kind, claims, together, level))
        return findings

    def _specified(self, pairs: Sequence[Pair]) -> float:
        return theory(pairs) * (1.0 + 1e-6)

    def trees(self, trials: int, level: float) -> list[Finding]:
        """Test the private partitions."""
        return [
            finding for told in self.script.trees for finding in self._tree(told, trials, level)
        ]

    def _tree(self, told: TreeCall, trials: int, level: float) -> list[Finding]:
        spec = self.specification
        attack = worst_attack(told.mu, told.theta, TREE_DEPTH)
        rows = self.table.iloc[:1]
        curators = {
            copies: Curator(
                rows.loc[rows.index.repeat(copies)], spec.design, spec.settings.missing, self.rng
            )
            for copies in (attack.copies, attack.copies + 1)
        }
        paths = Paths(told.paths.domain, told.paths.variables, TREE_DEPTH)
        code = int(curators[attack.copies + 1]._engine.code_counts(paths).codes[0])

        def make(copies: int) -> Partition:
            return curators[copies].partition(self.release.design, told.mu, told.theta, TREE_DEPTH)

        depths = simulate_depths(attack, make, code, trials)
        errors = Errors.from_scores(depths[0], depths[1], attack.cut - 0.5)
        text = f"{attack.copies} or {attack.copies + 1} equal records"
        claims = (self.claimed(told.name), attack.theory)
        finding = Finding.of(told.name, text, claims, errors, level)
        if all(
            follows_law(sample, depth_law(copies, TREE_DEPTH, told.mu, told.theta))
            for copies, sample in zip(curators, depths, strict=True)
        ):
            return [finding]
        note = "the depths of the tree do not follow the law of PrivTree"
        return [finding, replace(finding, lower=math.inf, note=note)]

    def pipeline(self, worst: Neighbour, runs: int, level: float) -> Finding:
        """Test complete runs of `dp_release`."""
        make = self.specification.release
        errors = learned_test(
            lambda: make(self.table, self.rng), lambda: make(worst.table, self.rng), runs, runs
        )
        claims = (self.release.mu, math.inf)
        return Finding.of("complete runs of dp_release", worst.kind, claims, errors, level)


def audit_release(
    formula: str,
    mu: float | None = None,
    *,
    trials: int = 20_000,
    trees: int = 2_000,
    runs: int = 400,
    kinds: Sequence[str] = KINDS,
    confidence: float = 0.95,
    records: int = 60,
    limit: int = 8,
    rng: Any = None,
    seed: int = 0,
    **arguments: Any,
) -> AuditReport:
    """Attack a release as it would be made, and say what the attack shows.

    No private table is needed: the audit makes its own neighbouring tables,
    chosen against this release. For a record of each kind that moves the
    release the most it simulates releases on both tables, scores each by its
    Gaussian log-likelihood ratio, and turns the errors of the test into a
    lower confidence bound on mu. A bound above the claim is a fault. A bound
    below it is what a sound release gives, and no proof.

    Parameters
    ----------
    formula, mu, **arguments
        As in `dp_release`: epsilon, delta, bounds, budget, partition,
        calibration, neighbours, missing, constants.
    trials : int
        Simulated releases a side of every Gaussian mechanism.
    trees : int
        Private partitions a side.
    runs : int
        Complete runs of `dp_release` a side, after as many to learn from; 0
        for none.
    kinds : sequence of str
        Kinds of records to try; see `KINDS`.
    confidence : float
        Of every single bound.
    records : int
        Size of the smaller table.
    limit : int
        Records tried of each kind.
    rng : None, seed or Generator
        None audits the secure source of noise, anything else seeded noise.
    seed : int
        Chooses the tables.

    Examples
    --------
    >>> report = audit_release(
    ...     "y ~ x", mu=1, bounds={"x": (0, 1), "y": (0, 1)}, partition="grid",
    ...     trials=500, runs=0, rng=1)
    >>> report.passed
    True
    """
    specification = Specification.of(formula, mu, **arguments)
    auditor = Auditor(specification, rng, records, seed)
    found = list(auditor.neighbours(kinds, limit))
    worst = list({one.kind: one for one in reversed(found)}.values())[::-1]
    findings = [auditor.accounting(), auditor.interference(found)]
    sound = [one for one in worst if one.pairs]
    findings += auditor.components(sound, trials, confidence)
    findings += auditor.trees(trees, confidence)
    if runs:
        findings += [auditor.pipeline(one, runs, confidence) for one in worst[:1]]
    return AuditReport(
        formula, auditor.release.mu, tuple(findings), confidence, auditor.release.privacy.secure
    )
