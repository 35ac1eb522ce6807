"""The engine for tables that are read batch by batch, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator import aggregates
from dpbinagg.curator.aggregates import Factors, PackedFactors
from dpbinagg.curator.blocks import LONG_CHUNK, map_stream
from dpbinagg.curator.engines import Sums
from dpbinagg.curator.engines.counts import (
    PrefixCounts,
    Selection,
    count_codes,
    dense_prefixes,
)
from dpbinagg.curator.engines.memory import MemoryEngine, Pass
from dpbinagg.curator.engines.room import memory_room
from dpbinagg.curator.privtree import Counts
from dpbinagg.curator.scores import ScoreSums, score_parts, score_shapes
from dpbinagg.errors import IncompleteError
from dpbinagg.formula import Design
from dpbinagg.public.partition import Partition
from dpbinagg.public.paths import Paths
from dpbinagg.public.rounds import ScoreRequest
from dpbinagg.public.scaling import BinScaling, ColumnScaling, column_scaling
from dpbinagg.reading import Source
from dpbinagg.reading.guard import guard

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
T = TypeVar("T")


class StreamEngine:
    """Exact aggregates of a table read in batches, one pass for each request.

    Parts of it are converted and go through the kernels of the in-memory
    engine, on several threads. What fits into the memory
    that `room` allows is kept: the records themselves, else the scaled columns
    as whole numbers, which spares a pass for every round of scores.
    """

    keeps = True

    def __init__(self, source: Source, design: Design, missing: str) -> None:
        names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
        source.check(design.domain, names)
        self._source = source
        self._names = names
        self._domain = design.domain
        self._room = memory_room() if self.keeps else 0
        columns = len(design.column_names) + 1
        self._bytes_per_record = 8 * len(names) + 12 * columns + 24
        self._total: int | None = None
        self._held: list[MemoryEngine] | None = None
        self._passed = False
        self._codes: tuple[Paths, list[NDArray[np.uint32]]] | None = None
        self._factors: tuple[Design, list[PackedFactors]] | None = None
        self._expected: tuple[Design, Partition, BinScaling] | None = None
        self._bin_sums: tuple[BinScaling, tuple[Integers, Sums, Sums]] | None = None
        if missing == "raise":
            self._require_complete()

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def _require_complete(self) -> None:
        if not all(list(self._each(lambda part: part.whole))):
            raise IncompleteError

    def _each(self, function: Callable[[MemoryEngine], T]) -> Iterator[T]:
        """``function`` of an in-memory engine for every batch."""
        if self._held is not None:
            yield from map_stream(self._held, function)
            return

        def apply(part: Any) -> tuple[MemoryEngine, T]:
            engine = MemoryEngine.of_part(part, self._domain, self._names, LONG_CHUNK)
            return engine, function(engine)

        held: list[MemoryEngine] | None = None if self._passed else []
        room = self._room
        results = map_stream(self._source.parts(self._domain, self._names), apply)
        while (result := guard(lambda: next(results, None))) is not None:
            part, answer = result
            room -= part.total() * self._bytes_per_record
            if room < 0:
                held = None
            if held is not None:
                held.append(part)
            yield answer
        self._held, self._passed = held, True

    def total(self) -> int:
        if self._total is None:
            self._total = sum(self._each(lambda part: part.total()))
        return self._total

    def histograms(self, edges: Mapping[str, Floats]) -> dict[str, Integers]:
        counts = {name: np.zeros(len(e) - 1, dtype=np.int64) for name, e in edges.items()}
        total = 0
        for n, part in self._each(lambda part: (part.total(), part.histograms(edges))):
            total += n
            for name, more in part.items():
                counts[name] += more
        self._total = total
        return counts

    def code_counts(self, paths: Paths) -> Counts:
        kept = self._room >= 4 * self.total() and paths.depth <= 32

        def count(bits: int, selection: Selection | None, codes: Integers) -> Integers:
            return count_codes(codes, paths.depth, bits, selection)

        def counter(bits: int, selection: Selection | None) -> tuple[Integers, Integers]:
            prefixes = dense_prefixes(bits, selection)
            counts = np.zeros(len(prefixes), dtype=np.int64)
            if self._codes is not None and self._codes[0] is paths:
                held = self._codes[1]
                for more in map_stream(held, lambda c: count(bits, selection, c.astype(np.int64))):
                    counts += more
            else:
                found: list[NDArray[np.uint32]] = []

                def encode(part: MemoryEngine) -> tuple[Integers, NDArray[np.uint32] | None]:
                    codes = part.codes(paths)
                    return count(bits, selection, codes), codes.astype(np.uint32) if kept else None

                for more, codes in self._each(encode):
                    counts += more
                    if codes is not None:
                        found.append(codes)
                if kept:
                    self._codes = (paths, found)
            return prefixes[counts > 0], counts[counts > 0]

        return PrefixCounts(paths.depth, counter)

    def expect_bins(self, design: Design, partition: Partition, scaling: BinScaling) -> None:
        """The pass for the moments sums up the bins as well."""
        self._expected = (design, partition, scaling)

    def bin_sums(
        self, design: Design, partition: Partition, scaling: BinScaling
    ) -> tuple[Integers, Sums, Sums]:
        if self._bin_sums is None or self._bin_sums[0] is not scaling:
            self._bins_and_moments(design, partition, scaling)
        assert self._bin_sums is not None
        return self._bin_sums[1]

    def _bins_and_moments(self, design: Design, partition: Partition, scaling: BinScaling) -> Sums:
        """The second moments, from a pass that also sums up the bins and keeps what fits."""
        self._codes = None
        n_bins, p = scaling.centre.shape
        columns = column_scaling(design)
        kept = self._keeps_factors(columns)

        def sums_of(part: MemoryEngine) -> tuple[int, list[Pass], list[PackedFactors]]:
            room = part.room_for_factors(columns) if kept else None
            read = list(part.passes(design, columns, (partition, scaling), room))
            packed = [PackedFactors.of(one.factors) for one in read if one.factors is not None]
            return part.total(), [replace(one, factors=None) for one in read], packed

        count = np.zeros(n_bins, dtype=np.int64)
        sums = aggregates.Accumulator((n_bins, p + 1))
        moments = aggregates.Accumulator((columns.size, columns.size))
        found: list[PackedFactors] = []
        for n, read, packed in self._each(sums_of):
            for one in read:
                count += one.count
                sums.add(one.sums, n)
                moments.add(one.moments, n)
            found += packed
        if kept:
            self._factors = (design, found)
        total = sums.total()
        self._bin_sums = (scaling, (count, total[:, :p], total[:, p]))
        return moments.total()

    def _keeps_factors(self, scaling: ColumnScaling) -> bool:
        """Whether scaled columns are kept beside the table; not if the records are."""
        size = PackedFactors.BYTES * (scaling.size - 1) * self.total()
        return self._held is None and size <= self._room

    def _each_score(
        self, design: Design, scaling: ColumnScaling, request: ScoreRequest
    ) -> Iterator[tuple[int, list[list[Integers]]]]:
        """The number of records of every batch, and the sums of its blocks."""

        def of_factors(f: Factors) -> tuple[int, list[list[Integers]]]:
            return f.shape[1], list(score_parts(f, scaling, request, LONG_CHUNK))

        def of_batch(part: MemoryEngine) -> tuple[int, list[list[Integers]]]:
            return part.total(), list(part.score_passes(design, scaling, request))

        if self._factors is not None and self._factors[0] is design:
            return map_stream(self._factors[1], of_factors)
        if self._held is not None:
            return map_stream(self._held, lambda part: of_factors(part.factors(design, scaling)))
        return self._each(of_batch)

    def moment_sums(self, design: Design, scaling: ColumnScaling) -> Sums:
        if self._expected is not None and self._expected[0] is design:
            return self._bins_and_moments(*self._expected)
        sums = aggregates.Accumulator((scaling.size, scaling.size))

        def moments_of(part: MemoryEngine) -> tuple[int, list[Integers]]:
            return part.total(), [one.moments for one in part.passes(design, scaling)]

        for n, read in self._each(moments_of):
            for one in read:
                sums.add(one, n)
        return sums.total()

    def score_sums(
        self, design: Design, scaling: ColumnScaling, request: ScoreRequest
    ) -> ScoreSums:
        totals = [aggregates.Accumulator(shape) for shape in score_shapes(request)]
        for n, blocks in self._each_score(design, scaling, request):
            for groups in blocks:
                for total, more in zip(totals, groups, strict=True):
                    total.add(more, n)
        return ScoreSums(*(total.total() for total in totals))
