"""The audit finds every fault of this list, and none in the real code.

Each fault is a faulty copy of a piece of the curator, put in place of the real
one for one test. `TRIALS` simulated releases a side of each mechanism, `TREES`
partitions and `RUNS` complete runs of `dp_release` (after as many to learn
from) are enough for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from dpbinagg import Budget, api
from dpbinagg.audit import AuditReport, audit_release, specification
from dpbinagg.engines import base
from dpbinagg.errors import DataError
from dpbinagg.formula.rows import RowMap
from dpbinagg.kernel import curator, maps, view
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.noise import SeededNoise
from dpbinagg.kernel.questions import Answer, Sum
from dpbinagg.kernel.view import LINEAR_BITS
from dpbinagg.protocol import conduct as pipeline
from dpbinagg.protocol import settings
from dpbinagg.protocol.conduct import Dialogue
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.release.questions import count_question
from dpbinagg.release.transcript import Entry

TRIALS, TREES, RUNS = 5_000, 600, 60
Patch = pytest.MonkeyPatch

BOUNDS: dict[str, Any] = {"x": (0, 1), "z": (-2, 2), "g": ["a", "b", "c"], "y": (-1, 1)}
MECHANISMS = Budget(ranges=1, partition=0, count=1, sum_x=1, sum_y=1, moments=1, scores=0)


@dataclass(frozen=True)
class Fault:
    """A faulty copy, and where the audit should find it."""

    plant: Callable[[Patch], None]
    component: str
    mu: float = 2.0
    partition: str = "grid"
    neighbours: str = "add-remove"
    budget: Budget = MECHANISMS
    runs: int = 0
    formula: str | tuple[str, ...] = "y ~ x + z + C(g)"


def audit(fault: Fault) -> AuditReport:
    return audit_release(
        fault.formula,
        fault.mu,
        bounds=BOUNDS,
        partition=fault.partition,
        neighbours=fault.neighbours,
        budget=fault.budget,
        trials=TRIALS,
        trees=TREES,
        runs=fault.runs,
        limit=4,
        records=40,
        rng=11,
    )


def total_of(curator_: Curator) -> int:
    """The exact number of records, which must not leave the curator."""
    (count,) = curator_._engine.map_reduce(Sum((count_question(),), None))
    return int(count[0])


def short_by_root_d(patch: Patch) -> None:
    real = maps.Deviations.vectors

    def faulty(self: maps.Deviations, *arguments: Any) -> Any:
        return real(self, *arguments) * math.sqrt(len(self.columns))

    patch.setattr(maps.Deviations, "vectors", faulty)


def models_cut_one_by_one(patch: Patch) -> None:
    """A clip for each model of a study, where one is for all."""
    real = view.View.cut

    def faulty(
        self: view.View, projection: Any, vector: str, limit: float, bits: int, beyond: bool = False
    ) -> Any:
        if beyond or not projection.blocks:
            return real(self, projection, vector, limit, bits, beyond)
        units = zip(projection.parts, projection.units, strict=True)
        each = [[a.copy() for a in real(self, p, vector, limit * s, bits)] for p, s in units]
        wholes, squares = zip(*each, strict=True)
        return np.vstack(wholes), sum(squares)

    patch.setattr(view.View, "cut", faulty)


def shares_of_whole_lengths(patch: Patch) -> None:
    """Squared lengths of blocks before the vector is cut."""

    def faulty(self: maps.Shares, one: view.View) -> Any:
        lengths = np.stack(one.block_lengths(one.projection)) / self.limit
        return np.trunc(np.clip(lengths**2, 0.0, 1e3) * 2.0**self.bits)

    patch.setattr(maps.Shares, "shares", faulty)


def closed_boxes(patch: Patch) -> None:
    real = maps.BinCells.counts

    def faulty(self: maps.BinCells, view: Any) -> Any:
        edges, below = self.partition.boxes.lower, dict(view.records)
        for name, values in view.records.items():
            if name in edges:
                on_edge = np.isin(values, edges[name]) & (values > edges[name].min())
                below[name] = np.where(on_edge, np.nextafter(values, -np.inf), values)
        bins, twin = self.partition.locate(view.records), self.partition.locate(below)
        again = np.bincount(twin[bins != twin], minlength=self.partition.n_bins)
        return real(self, view) + again

    patch.setattr(maps.BinCells, "counts", faulty)


def biased_counts(patch: Patch) -> None:
    """Counts are never released below their true value."""
    real = Curator._privatise

    def faulty(self: Curator, sums: Any, sensitivity: float, mu: float) -> Any:
        noisy = real(self, sums, sensitivity, mu)
        if self._spent[-1].name != "bin counts":
            return noisy
        exact = sums.astype(np.float64)
        return exact + np.abs(noisy - exact)

    patch.setattr(Curator, "_privatise", faulty)


def counts_rescaled_to_n(patch: Patch) -> None:
    real = Curator._release

    def faulty(self: Curator, question: Any, *arguments: Any) -> Answer:
        answer = real(self, question, *arguments)
        if question.name != "bin counts":
            return answer
        count = answer.values[0]
        return Answer((count * (total_of(self) / count.sum()),), answer.scales)

    patch.setattr(Curator, "_release", faulty)


def n_kept_in_release(patch: Patch) -> None:
    real = Dialogue.ask

    def faulty(self: Dialogue, *arguments: Any) -> list[Answer]:
        answers = real(self, *arguments)
        kept = Answer((np.array([float(total_of(self.curator))]),), (np.zeros(1),))
        self.entries.append(Entry(count_question(), kept, 1.0))
        return answers

    patch.setattr(Dialogue, "ask", faulty)


def seed_in_every_release(patch: Patch) -> None:
    def faulty(self: Curator, *arguments: Any) -> None:
        real(self, *arguments)
        self._noise = SeededNoise(np.random.default_rng(42))

    real = Curator.__init__
    patch.setattr(Curator, "__init__", faulty)


def seed_in_every_stage(patch: Patch) -> None:
    real = Curator._privatise

    def faulty(self: Curator, sums: Any, sensitivity: float, mu: float) -> Any:
        if not hasattr(self, "seed"):
            self.seed = int(self._noise.gaussian(1, 2.0**40)[0] % 2**32)  # type: ignore[attr-defined]
        self._noise = SeededNoise(np.random.default_rng(self.seed))
        return real(self, sums, sensitivity, mu)

    patch.setattr(Curator, "_privatise", faulty)


def ranges_without_noise(patch: Patch) -> None:
    real = Curator._privatise

    def faulty(self: Curator, sums: Any, sensitivity: float, mu: float) -> Any:
        if self._spent[-1].name == "one-way counts":
            return sums.astype(np.float64)
        return real(self, sums, sensitivity, mu)

    patch.setattr(Curator, "_privatise", faulty)


def ranges_past_the_mechanism(patch: Patch) -> None:
    real = pipeline.one_way

    def faulty(ask: Any, *arguments: Any) -> Any:
        curator_ = ask.__self__.curator
        curator_._privatise = lambda sums, *_: sums.astype(np.float64)
        found = real(ask, *arguments)
        del curator_._privatise
        return found

    patch.setattr(pipeline, "one_way", faulty)


def moments_with_halved_noise(patch: Patch) -> None:
    real = maps.Moments.__post_init__

    def faulty(self: maps.Moments) -> None:
        real(self)
        object.__setattr__(self, "norm2", self.norm2 / 4)

    patch.setattr(maps.Moments, "__post_init__", faulty)


def vectors_not_cut(patch: Patch) -> None:
    """A map that exceeds its norm: long vectors are scaled like short ones."""

    def faulty(vectors: Any, norm: Any, limit: float, bits: int, out: Any) -> Any:
        stacked = np.vstack([rows * factor for rows, factor in vectors])
        np.trunc(stacked * (2.0**bits / limit), out=out)
        return (out**2).sum(axis=0)

    patch.setattr(view, "cut", faulty)


def answer_without_spending(patch: Patch) -> None:
    real = Curator._release

    def faulty(self: Curator, question: Any, *arguments: Any) -> Answer:
        answer = real(self, question, *arguments)
        if question.name == "second moments":
            self._spent.pop()
        return answer

    patch.setattr(Curator, "_release", faulty)


def contributions_from_others(patch: Patch) -> None:
    """A question that is not row-local: in chunks of odd length responses count half."""
    real = view.Rows.put_factors

    def faulty(self: view.Rows, columns: Any, response: Any, out: Any) -> None:
        real(self, columns, response * 0.5 ** (len(response) % 2), out)

    patch.setattr(view.Rows, "put_factors", faulty)


def levels_learnt(patch: Patch) -> None:
    def faulty(domain: Domain, source: Any, *_: Any) -> Domain:
        data = source._frame
        learnt = {
            name: sorted(set(data[name]) & set(variable.levels))
            for name, variable in domain.items()
            if isinstance(variable, Categorical)
        }
        return domain.updated({name: {"levels": levels} for name, levels in learnt.items()})

    for module in (api, specification):
        patch.setattr(module, "declared_domain", faulty)


def empty_bins_blanked(patch: Patch) -> None:
    real = Dialogue.ask

    def faulty(self: Dialogue, questions: Any, mus: Any, rows: Any = None) -> list[Answer]:
        answers = real(self, questions, mus, rows)
        pieces = [piece for question in questions for piece in question.groups[0][1].pieces()]
        cells = next((piece for piece in pieces if isinstance(piece, maps.BinCells)), None)
        if cells is None:
            return answers
        partition = cells.partition
        records = self.curator._engine._piece._records  # type: ignore[attr-defined]
        held = np.isin(np.arange(partition.n_bins), partition.locate(records))
        for answer in answers:
            answer.values[0][~held] = 0.0
        return answers

    patch.setattr(Dialogue, "ask", faulty)


def outlier_unclipped(patch: Patch) -> None:
    real = maps.Deviations.vectors

    def faulty(self: maps.Deviations, view_: Any) -> Any:
        whole = real(self, view_)
        if self.columns == (-1,):
            scaled = (view_.mapped.response - self.centre[0]) / self.unit_of[0]
            whole[0] = np.trunc(np.clip(scaled, -1e6, 1e6) * 2.0**LINEAR_BITS)
        return whole

    def unclipped(self: RowMap, records: Any) -> Any:
        columns, _, codes = evaluate(self, records)
        return columns, np.array(records["y"]), codes

    evaluate = RowMap.__call__
    patch.setattr(RowMap, "__call__", unclipped)
    patch.setattr(maps.Deviations, "vectors", faulty)


def tree_without_noise(patch: Patch) -> None:
    patch.setattr(SeededNoise, "laplace", lambda self, size, scale: np.zeros(size, dtype=np.int64))


def tree_with_a_third_of_the_noise(patch: Patch) -> None:
    real = curator.pure_from_mu
    patch.setattr(curator, "pure_from_mu", lambda mu: 3.0 * real(mu))


def replacement_taken_for_addition(patch: Patch) -> None:
    patch.setattr(settings, "per_record_mu", lambda mu, neighbours: mu)


def undeclared_level_refused(patch: Patch) -> None:
    real = base.parted

    def faulty(records: Any) -> Any:
        if any((column < 0).any() for column in records.values() if column.dtype.kind == "i"):
            raise DataError("the table holds a level that was not declared")
        return real(records)

    patch.setattr(base, "parted", faulty)


def exact_sums_beside_noisy_ones(patch: Patch) -> None:
    """A cache that ends up in the released object."""
    real = pipeline.conduct

    def faulty(curator_: Curator, *arguments: Any) -> Any:
        release = real(curator_, *arguments)
        object.__setattr__(release, "_cache", {"total": lambda: total_of(curator_)})
        return release

    patch.setattr(pipeline, "conduct", faulty)


REST = "everything else"
RUN = "complete runs of dp_release"
TREE_BUDGET = Budget(ranges=0, partition=3, count=1, sum_x=1, sum_y=1, moments=0, scores=0)
NO_RANGES = MECHANISMS.without("ranges")
SCORES = Budget(ranges=0, partition=0, count=0, sum_x=0, sum_y=0, moments=1, scores=2)

LAST_JOINT = "residual scores of all models, round 4"
STUDY = ("y ~ x", "z ~ x")
ROUNDS = Budget(ranges=0, partition=0, count=0, sum_x=0, sum_y=0, moments=1, scores=3)
FAULTS = {
    "models of a study cut one by one": Fault(
        models_cut_one_by_one, LAST_JOINT, budget=ROUNDS, formula=STUDY
    ),
    "shares of models before the cut": Fault(
        shares_of_whole_lengths, LAST_JOINT, budget=ROUNDS, formula=STUDY
    ),
    "sensitivity short by sqrt(d)": Fault(short_by_root_d, "bin sums of covariates"),
    "closed boxes": Fault(closed_boxes, "bin counts"),
    "bias of counts": Fault(biased_counts, "bin counts"),
    "counts rescaled to n": Fault(counts_rescaled_to_n, REST),
    "counts rescaled to n, seen from outside": Fault(
        counts_rescaled_to_n, RUN, budget=NO_RANGES, runs=RUNS, formula="y ~ x"
    ),
    "n kept in the release": Fault(n_kept_in_release, REST),
    "exact sums kept in the release": Fault(exact_sums_beside_noisy_ones, REST),
    "one seed for all releases": Fault(
        seed_in_every_release, RUN, budget=NO_RANGES, runs=RUNS, formula="y ~ x"
    ),
    "one seed for all stages": Fault(
        seed_in_every_stage, RUN, budget=NO_RANGES, runs=RUNS, formula="y ~ x"
    ),
    "ranges without noise": Fault(ranges_without_noise, "one-way counts"),
    "ranges past the mechanism": Fault(ranges_past_the_mechanism, "list of mechanisms"),
    "moments with halved noise": Fault(moments_with_halved_noise, "second moments"),
    "a map that exceeds its norm": Fault(
        vectors_not_cut, "residual scores, round 1", budget=SCORES, formula="y ~ x"
    ),
    "an answer that does not spend": Fault(answer_without_spending, "list of mechanisms"),
    "a question that is not row-local": Fault(
        contributions_from_others, "second moments", budget=NO_RANGES
    ),
    "levels learnt from data": Fault(levels_learnt, REST, budget=NO_RANGES),
    "empty bins blanked": Fault(empty_bins_blanked, REST),
    "unclipped outlier": Fault(outlier_unclipped, "bin sums of the response"),
    "partition without noise": Fault(
        tree_without_noise, "partition", mu=3.0, partition="privtree", budget=TREE_BUDGET
    ),
    "partition with a third of the noise": Fault(
        tree_with_a_third_of_the_noise,
        "partition",
        mu=3.0,
        partition="privtree",
        budget=TREE_BUDGET,
    ),
    "replacement taken for addition": Fault(
        replacement_taken_for_addition, "bin sums of covariates", neighbours="replace"
    ),
    "undeclared level refused": Fault(undeclared_level_refused, REST),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(name: str, monkeypatch: Patch) -> None:
    FAULTS[name].plant(monkeypatch)
    report = audit(FAULTS[name])
    assert not report.passed
    assert FAULTS[name].component in {finding.component for finding in report.failures}, str(report)


SETTINGS = {
    tuple(value for key, value in vars(fault).items() if key not in ("plant", "component")): fault
    for fault in FAULTS.values()
}


@pytest.mark.parametrize("fault", SETTINGS.values())
def test_real_code_has_none_of_them(fault: Fault) -> None:
    report = audit(fault)
    assert report.passed, str(report)
