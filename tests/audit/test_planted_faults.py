"""The audit finds every fault of this list, and none in the real code.

Each fault is a faulty copy of a piece of the curator, put in place of the real
one for one test. `TRIALS` simulated releases a side of each mechanism, `TREES`
partitions and `RUNS` complete runs of `dp_release` (after as many to learn
from) are enough for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from dpbinagg import Budget, api
from dpbinagg.audit import AuditReport, audit_release
from dpbinagg.curator import aggregates, curator, privtree, records
from dpbinagg.curator.curator import Curator, Noisy
from dpbinagg.curator.engines.memory import MemoryEngine
from dpbinagg.curator.noise import SeededNoise
from dpbinagg.errors import DataError
from dpbinagg.formula import Design
from dpbinagg.protocol import conduct as pipeline
from dpbinagg.public.domain import Categorical, Domain

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
    formula: str = "y ~ x + z + C(g)"


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


def short_by_root_d(patch: Patch) -> None:
    real = aggregates.unit_contributions

    def faulty(columns: Any, response: Any, bins: Any, scaling: Any) -> Any:
        scaled = real(columns, response, bins, scaling)
        scaled[:-1] *= math.sqrt(columns.shape[1] - 1)
        return scaled

    patch.setattr(aggregates, "unit_contributions", faulty)


def closed_boxes(patch: Patch) -> None:
    real = MemoryEngine.bin_sums

    def faulty(self: MemoryEngine, design: Any, partition: Any, scaling: Any) -> Any:
        sums = real(self, design, partition, scaling)
        edges = partition.boxes.lower
        columns, response = design.columns(self._records), design.response(self._records)
        below = dict(self._records)
        for name, values in self._records.items():
            if name in edges:
                on_edge = np.isin(values, edges[name]) & (values > edges[name].min())
                below[name] = np.where(on_edge, np.nextafter(values, -np.inf), values)
        bins, twin = partition.locate(self._records), partition.locate(below)
        again = bins != twin
        whole = np.empty((int(again.sum()), columns.shape[1] + 1), dtype=np.int64)
        aggregates.put_contributions(columns[again], response[again], twin[again], scaling, whole)
        more = aggregates.sums_by_bin(whole, twin[again], partition.n_bins)
        count = np.bincount(twin[again], minlength=partition.n_bins)
        return sums[0] + count, sums[1] + more[:, :-1], sums[2] + more[:, -1]

    patch.setattr(MemoryEngine, "bin_sums", faulty)


def biased_counts(patch: Patch) -> None:
    """Counts are never released below their true value."""
    real = Curator._privatise

    def faulty(self: Curator, sums: Any, sensitivity: float, mu: float) -> Any:
        noisy = real(self, sums, sensitivity, mu)
        if self._mechanisms[-1].name != "bin counts":
            return noisy
        exact = sums.astype(np.float64)
        return exact + np.abs(noisy - exact)

    patch.setattr(Curator, "_privatise", faulty)


def counts_rescaled_to_n(patch: Patch) -> None:
    real = Curator.bins

    def faulty(self: Curator, *arguments: Any) -> Noisy:
        noisy = real(self, *arguments)
        count = noisy.statistics["count"]
        scaled = count * (self._engine.total() / count.sum())
        return replace(noisy, statistics={**noisy.statistics, "count": scaled})

    patch.setattr(Curator, "bins", faulty)


def n_kept_in_release(patch: Patch) -> None:
    real = Curator.moments

    def faulty(self: Curator, *arguments: Any) -> Noisy:
        noisy = real(self, *arguments)
        return replace(noisy, statistics={**noisy.statistics, "nobs": self._engine.total()})

    patch.setattr(Curator, "moments", faulty)


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
        if self._mechanisms[-1].name == "ranges":
            return sums.astype(np.float64)
        return real(self, sums, sensitivity, mu)

    patch.setattr(Curator, "_privatise", faulty)


def ranges_past_the_mechanism(patch: Patch) -> None:
    real = Curator.ranges

    def faulty(self: Curator, *arguments: Any) -> Any:
        self._privatise = lambda sums, *_: sums.astype(np.float64)  # type: ignore[method-assign]
        found = real(self, *arguments)
        del self._privatise
        return found

    patch.setattr(Curator, "ranges", faulty)


def moments_with_halved_noise(patch: Patch) -> None:
    real = curator.moment_sensitivity
    patch.setattr(curator, "moment_sensitivity", lambda size: real(size) / 2.0)


def levels_learnt(patch: Patch) -> None:
    def faulty(domain: Domain, data: Any) -> Domain:
        learnt = {
            name: sorted(set(data[name]) & set(variable.levels))
            for name, variable in domain.items()
            if isinstance(variable, Categorical)
        }
        return domain.updated(learnt)

    patch.setattr(api, "declared_domain", faulty)


def empty_bins_dropped(patch: Patch) -> None:
    real = Curator.bins

    def faulty(self: Curator, design: Any, partition: Any, *arguments: Any) -> Noisy:
        noisy = real(self, design, partition, *arguments)
        held = np.isin(np.arange(partition.n_bins), partition.locate(self._engine._records))  # type: ignore[attr-defined]
        kept = {key: value[held] for key, value in noisy.statistics.items()}
        return replace(noisy, statistics=kept)

    patch.setattr(Curator, "bins", faulty)


def outlier_unclipped(patch: Patch) -> None:
    real = aggregates.unit_contributions

    def faulty(columns: Any, response: Any, bins: Any, scaling: Any) -> Any:
        scaled = real(columns, response, bins, scaling)
        scaled[-1] = np.clip((response - scaling.centre_y) / scaling.unit_y, -1e6, 1e6)
        return scaled

    patch.setattr(Design, "response", lambda self, records: np.array(records["y"]))
    patch.setattr(aggregates, "unit_contributions", faulty)


def tree_without_noise(patch: Patch) -> None:
    patch.setattr(SeededNoise, "laplace", lambda self, size, scale: np.zeros(size, dtype=np.int64))


def tree_with_a_third_of_the_noise(patch: Patch) -> None:
    real = privtree.pure_from_mu
    patch.setattr(privtree, "pure_from_mu", lambda mu: 3.0 * real(mu))


def replacement_taken_for_addition(patch: Patch) -> None:
    patch.setattr(pipeline, "per_record_mu", lambda mu, neighbours: mu)


def undeclared_level_refused(patch: Patch) -> None:
    real = records.complete

    def faulty(read: Any, *arguments: Any) -> Any:
        if any((column < 0).any() for column in read.values() if column.dtype.kind == "i"):
            raise DataError("the table holds a level that was not declared")
        return real(read, *arguments)

    patch.setattr(records, "complete", faulty)


def exact_sums_beside_noisy_ones(patch: Patch) -> None:
    """A cache that ends up in the released object."""
    real = pipeline.conduct

    def faulty(curator_: Curator, *arguments: Any) -> Any:
        release = real(curator_, *arguments)
        object.__setattr__(release, "_cache", {"total": curator_._engine.total})
        return release

    patch.setattr(pipeline, "conduct", faulty)


REST = "everything else"
RUN = "complete runs of dp_release"
TREE_BUDGET = Budget(ranges=0, partition=3, count=1, sum_x=1, sum_y=1, moments=0, scores=0)
NO_RANGES = MECHANISMS.without("ranges")

FAULTS = {
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
    "ranges without noise": Fault(ranges_without_noise, "ranges"),
    "ranges past the mechanism": Fault(ranges_past_the_mechanism, "list of mechanisms"),
    "moments with halved noise": Fault(moments_with_halved_noise, "second moments"),
    "levels learnt from data": Fault(levels_learnt, REST, budget=NO_RANGES),
    "bins dropped by true count": Fault(empty_bins_dropped, REST),
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
