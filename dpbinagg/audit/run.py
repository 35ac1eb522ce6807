"""`audit_release`: try to tell neighbouring tables apart by a release."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpbinagg.audit.bounds import Errors
from dpbinagg.audit.content import differences
from dpbinagg.audit.files import ODD_LINE, Files
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
from dpbinagg.errors import ArgumentError
from dpbinagg.kernel.curator import Curator
from dpbinagg.public.bins import Paths, TreeLocator
from dpbinagg.reading import open_source
from dpbinagg.report.verbs import Release

if TYPE_CHECKING:
    import pandas as pd

TREE_DEPTH = 4
"""Levels of the partitions that are audited; deeper ones tell nothing more."""
WHOLE = "whole release"


@dataclass(frozen=True)
class Neighbour:
    """A neighbouring table, and what the mechanisms would be given for it."""

    kind: str
    table: pd.DataFrame | str
    pairs: list[Pair]
    leaks: tuple[str, ...]

    def of_entry(self, entry: int) -> list[Pair]:
        """The pairs of one mechanism."""
        return [pair for pair in self.pairs if pair.entry == entry]


class Auditor:
    """Attacks one specification; see `audit_release`."""

    def __init__(
        self,
        specification: Specification,
        rng: Any,
        records: int,
        seed: int,
        folder: Path | None = None,
    ) -> None:
        self.specification = specification
        self.choices = np.random.default_rng(seed)
        self.rng = None if rng is None else np.random.default_rng(rng)
        domain, variables = specification.design.domain, specification.variables
        self.table = neighbour_of(
            ordinary_table(domain, variables, records, self.choices),
            lowest_record(domain, variables),
            "add-remove",
        )
        relation = specification.settings.neighbours
        self.files = None if folder is None else Files(folder, self.table, relation)
        self.source = self.table if self.files is None else self.files.table
        self.script: Transcript
        self.release: Release
        self.script, self.release = specification.record(self.source, self.rng)

    @property
    def names(self) -> list[str]:
        """Names of the release's mechanisms, numbered where one is used again."""
        names = [mechanism.name for mechanism in self.release.privacy.mechanisms]
        return [
            name if names.count(name) == 1 else f"{name}, round {names[: i + 1].count(name)}"
            for i, name in enumerate(names)
        ]

    def neighbours(self, kinds: Sequence[str], limit: int) -> Iterator[Neighbour]:
        """Neighbouring tables of every kind, the worst of its kind first."""
        spec = self.specification
        candidates = Candidates(
            spec.design.domain, self.release.domain, self.release.partition, self.choices, limit
        )
        for kind in kinds:
            found = [
                self.neighbour(kind, self.with_record(record))
                for record in candidates.of_kind(kind)
            ]
            yield from sorted(found, key=lambda one: (-len(one.leaks), -theory(one.pairs)))
        if self.files is not None:
            found = [self.neighbour(ODD_LINE, path) for path in self.files.with_odd_lines()]
            yield from sorted(found, key=lambda one: (-len(one.leaks), -theory(one.pairs)))

    def with_record(self, record: Record) -> pd.DataFrame | str:
        """The table, or the file, with one record more or another one."""
        if self.files is not None:
            return self.files.with_record({name: record[name] for name in self.table.columns})
        return neighbour_of(self.table, record, self.specification.settings.neighbours)

    def neighbour(self, kind: str, table: pd.DataFrame | str) -> Neighbour:
        """A table that differs in one record, on the same public answers."""
        try:
            transcript, release = self.specification.replay(table, self.script, self.rng)
        except TranscriptError as error:
            return Neighbour(kind, table, [], (f"requests ({error})",))
        # Any error at all that one table raises and its neighbour does not is a finding.
        except Exception as error:
            return Neighbour(kind, table, [], (f"an error ({type(error).__name__})",))
        if len(transcript.calls) != len(self.script.calls):
            return Neighbour(kind, table, [], ("the number of requests",))
        # Boxes are found when they are first asked for, as they were for the release.
        assert release.partition.boxes is not None
        pairs = pair_up(self.script.calls, transcript.calls)
        return Neighbour(kind, table, pairs, tuple(differences(self.release, release)))

    def interference(self, neighbours: Sequence[Neighbour]) -> Finding:
        """Whether anything but the mechanisms' answers entered the release."""
        leaking = [one for one in neighbours if one.leaks]
        note = "the release depends on the mechanisms' answers only"
        if leaking:
            note = f"the record ({leaking[0].kind}) shows in {', '.join(leaking[0].leaks[:3])}"
        tables = f"{len(neighbours)} neighbours"
        return Finding.seen("everything else", tables, self.release.mu, bool(leaking), note)

    def accounting(self) -> Finding:
        """Whether every mechanism that the release lists was used once, and no other."""
        listed = Counter(range(len(self.names)))
        used = Counter(call.entry for call in self.script.calls)
        used.update(call.entry for call in self.script.trees)
        note = "each was used once, and no other"
        if listed != used:
            odd = sorted({*(listed - used), *(used - listed)})
            names = (self.names[i] if i in listed else "one not listed" for i in odd)
            note = f"listed and used mechanisms differ: {', '.join(names)}"
        count = f"{len(listed)} listed"
        return Finding.seen("list of mechanisms", count, self.release.mu, listed != used, note)

    def components(self, found: Sequence[Neighbour], trials: int, level: float) -> list[Finding]:
        """Test every use of the Gaussian mechanism, and all of them together.

        The neighbour that moves the whole release most is tested on all of it;
        where another one moves a single mechanism more, that one is tested too.
        """
        findings = []
        for kind in dict.fromkeys(one.kind for one in found):
            same_kind = [one for one in found if one.kind == kind and one.pairs]
            if not same_kind:
                continue
            worst = max(same_kind, key=lambda one: theory(one.pairs))
            findings += self._tests(kind, worst.pairs, trials, level)
            for entry in dict.fromkeys(pair.entry for pair in worst.pairs):
                stronger = max((one.of_entry(entry) for one in same_kind), key=theory)
                if theory(stronger) > 1.05 * theory(worst.of_entry(entry)):
                    findings += self._tests(kind, stronger, trials, level)
        return findings

    def _tests(self, kind: str, pairs: Sequence[Pair], trials: int, level: float) -> list[Finding]:
        spec = self.specification
        curator = Curator(spec.engine(self.table), self.rng)
        stated = self.release.privacy.mechanisms
        single, together = likelihood_tests(pairs, trials, curator, [m.name for m in stated])
        findings = []
        for entry, errors in single.items():
            own = [pair for pair in pairs if pair.entry == entry]
            claims = (stated[entry].mu, theory(own))
            findings.append(Finding.of(self.names[entry], kind, claims, errors, level))
        if len(single) > 1:
            claims = (self.release.mu, theory(pairs))
            findings.append(Finding.of(WHOLE, kind, claims, together, level))
        return findings

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
            copies: Curator(spec.engine(rows.loc[rows.index.repeat(copies)]), self.rng)
            for copies in (attack.copies, attack.copies + 1)
        }
        (record,) = open_source(rows).batches(spec.design.domain, spec.variables)
        design = self.release.design
        paths = Paths(design.domain.subset(design.variables), design.variables, TREE_DEPTH)

        def make(copies: int) -> TreeLocator:
            return curators[copies].partition(paths, told.mu, told.theta)

        depths = simulate_depths(attack, make, record, trials)
        errors = Errors.from_scores(depths[0], depths[1], attack.cut - 0.5)
        text = f"{attack.copies} or {attack.copies + 1} equal records"
        claims = (self.release.privacy.mechanisms[told.entry].mu, attack.theory)
        finding = Finding.of(self.names[told.entry], text, claims, errors, level)
        if all(
            follows_law(sample, depth_law(copies, TREE_DEPTH, told.mu, told.theta))
            for copies, sample in zip(curators, depths, strict=True)
        ):
            return [finding]
        note = "the depths of the tree do not follow the law of PrivTree"
        return [finding, Finding.seen(finding.component, text, finding.claimed, True, note)]

    def pipeline(self, worst: Neighbour, runs: int, level: float) -> Finding:
        """Test complete runs of `dp_release`."""
        make = self.specification.release
        errors = learned_test(
            lambda: make(self.source, self.rng), lambda: make(worst.table, self.rng), runs, runs
        )
        claims = (self.release.mu, math.inf)
        return Finding.of("complete runs of dp_release", worst.kind, claims, errors, level)


def audit_release(
    formula: str | Mapping[str, str] | Sequence[str],
    mu: float | None = None,
    *,
    trials: int = 20_000,
    trees: int = 2_000,
    runs: int = 400,
    kinds: Sequence[str] = KINDS,
    confidence: float = 0.95,
    records: int = 60,
    limit: int = 8,
    through: Literal["frame", "csv"] = "frame",
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
        As in `dp_release`, or with several formulas as in `dp_study`: epsilon,
        delta, bounds, budget, partition, calibration, neighbours, missing,
        constants, variables.
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
    through : {"frame", "csv"}
        Whether the release reads frames or files of text. Files differ in one line, at the
        beginning, in the middle and at the end, and the odd lines of `audit.files` are tried too.
    rng : None, seed or Generator
        None audits the secure source of noise, anything else seeded noise.
    seed : int
        Chooses the tables.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> report = audit_release(
    ...     "y ~ x", mu=1, bounds={"x": (0, 1), "y": (0, 1)}, partition="grid",
    ...     trials=500, runs=0, rng=1)
    >>> report.passed
    True
    """
    if through not in ("frame", "csv"):
        raise ArgumentError(f'through must be "frame" or "csv", got {through!r}')
    specification = Specification.of(formula, mu, **arguments)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) if through == "csv" else None
        auditor = Auditor(specification, rng, records, seed, files)
        found = list(auditor.neighbours(kinds, limit))
        findings = [auditor.accounting(), auditor.interference(found)]
        findings += auditor.components(found, trials, confidence)
        findings += auditor.trees(trees, confidence)
        if runs and found:
            findings.append(auditor.pipeline(found[0], runs, confidence))
    return AuditReport(
        specification.formula,
        auditor.release.mu,
        tuple(findings),
        confidence,
        auditor.release.privacy.secure,
    )
