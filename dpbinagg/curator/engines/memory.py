"""The engine for tables in memory: plain numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator import aggregates, scores
from dpbinagg.curator.aggregates import Accumulator
from dpbinagg.curator.blocks import BLOCK, CHUNK, chunks, each_block, map_blocks
from dpbinagg.curator.engines import Sums
from dpbinagg.curator.histogram import histogram
from dpbinagg.curator.privatise import FACTOR_BITS
from dpbinagg.curator.privtree import CodeCounts
from dpbinagg.curator.records import complete, read_records
from dpbinagg.formula import Design
from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition, TreeLocator
from dpbinagg.public.paths import Paths
from dpbinagg.public.rounds import ScoreRequest
from dpbinagg.public.scaling import BinScaling, ColumnScaling, column_scaling
from dpbinagg.reading import convert

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Factors = NDArray[np.int32]
_NO_BINS = np.empty(0, dtype=np.int64)


Binning = tuple[Partition, BinScaling]


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over some records gives, in whole numbers.

    Attributes
    ----------
    factors : (m - 1, n) int32, or None
        Scaled columns and response of the complete records; see `aggregates.put_factors`.
    moments : (m, m) int64
        ``sum f f'``, f = (1, z*, y*), in units of ``2^(-2 FACTOR_BITS)``.
    count : (K,) int64
        Records by bin.
    sums : (K, p + 1) int64
        Scaled deviations by bin, in units of ``2^-GRID_BITS``, those of the response last.
    """

    factors: Factors | None
    moments: Integers
    count: Integers
    sums: Integers


class MemoryEngine:
    """Exact aggregates of records held as arrays.

    Parameters
    ----------
    records : mapping of arrays
    chunk : int
        Records of one step.

    Attributes
    ----------
    whole : bool
        Whether no record was left out: private.
    """

    def __init__(self, records: Records, chunk: int = CHUNK) -> None:
        self._records = records
        self._chunk = chunk
        self.whole = True
        self._coded: tuple[Paths, Integers] | None = None
        self._expected: tuple[Design, Binning] | None = None
        self._scaled: tuple[Design, Factors] | None = None
        self._moments: tuple[Design, Sums] | None = None
        self._binned: tuple[BinScaling, tuple[Integers, Sums, Sums]] | None = None

    @classmethod
    def of_part(
        cls, part: Any, domain: Domain, names: Sequence[str], chunk: int = CHUNK
    ) -> MemoryEngine:
        """The complete records of one part of a table."""
        records = convert(part, domain, names)
        kept = complete(records)
        engine = cls(kept, chunk)
        engine.whole = kept is records
        return engine

    @classmethod
    def from_frame(cls, frame: Any, design: Design, missing: str) -> MemoryEngine:
        """Read the columns that `design` needs from a pandas frame."""
        names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
        return cls(read_records(frame, design.domain, names, missing))

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return "<MemoryEngine: private>"

    def _rows(self, rows: slice) -> Records:
        return {name: column[rows] for name, column in self._records.items()}

    def codes(self, paths: Paths) -> Integers:
        """Path code of every record."""
        if self._coded is None or self._coded[0] is not paths:
            codes = np.empty(self.total(), dtype=np.int64)

            def encode(block: slice) -> None:
                for rows in chunks(block.stop, self._chunk, block.start):
                    codes[rows] = paths.codes(self._rows(rows))

            each_block(self.total(), encode)
            self._coded = (paths, codes)
        return self._coded[1]

    def _locate(self, partition: Partition, rows: slice, records: Records) -> Integers:
        """Bin of each record of some rows."""
        locator = partition.locator
        if isinstance(locator, TreeLocator) and self._coded and self._coded[0] is locator.paths:
            return locator.locate_codes(self._coded[1][rows])
        return partition.locate(records)

    def passes(
        self,
        design: Design,
        scaling: ColumnScaling,
        binning: Binning | None = None,
        factors: Factors | None = None,
    ) -> Iterator[Pass]:
        """One pass over the records, a block after another: all that is the same in every round.

        Parameters
        ----------
        binning : (Partition, BinScaling), optional
            The bins to sum up.
        factors : (m - 1, n) array, optional
            Where to put factors, those of a block together at its start.
        """
        size = scaling.size
        n_bins, columns = binning[1].centre.shape if binning else (0, 0)

        def over(block: slice) -> Pass:
            moments = np.zeros((size, size), dtype=np.int64)
            count = np.zeros(n_bins, dtype=np.int64)
            sums = np.zeros((n_bins, columns + 1), dtype=np.int64)
            whole = np.empty((self._step(block), columns + 1), dtype=np.int64)
            stop = block.start
            for f, z, y, bins in self._chunks(block, design, scaling, binning and binning[0]):
                n = len(y)
                moments += aggregates.whole_square(f)
                if factors is not None:
                    factors[:, stop : stop + n] = f[1:]
                if binning:
                    aggregates.put_contributions(z, y, bins, binning[1], whole[:n])
                    count += np.bincount(bins, minlength=n_bins)
                    sums += aggregates.sums_by_bin(whole[:n], bins, n_bins)
                stop += n
            kept = None if factors is None else factors[:, block.start : stop]
            return Pass(kept, moments, count, sums)

        return map_blocks(self.total(), over)

    def score_passes(
        self, design: Design, scaling: ColumnScaling, request: ScoreRequest
    ) -> Iterator[list[Integers]]:
        """As `scores.score_parts`, from a pass over the records that keeps nothing."""

        def over(block: slice) -> list[Integers]:
            parts = (f for f, *_ in self._chunks(block, design, scaling, None))
            return scores.sums_over(parts, scaling, request, self._step(block))

        return map_blocks(self.total(), over)

    def _step(self, block: slice) -> int:
        return int(min(self._chunk, block.stop - block.start))

    def _chunks(
        self, block: slice, design: Design, scaling: ColumnScaling, partition: Partition | None
    ) -> Iterator[tuple[Floats, Floats, Floats, Integers]]:
        """f = (1, z*, y*), columns, response and bins of one chunk of a block after another."""
        buffer = np.empty((scaling.size, self._step(block)))
        buffer[0] = 2.0**FACTOR_BITS
        for rows in chunks(block.stop, self._chunk, block.start):
            columns, response, bins = self._complete(design, partition, rows)
            f = buffer[:, : len(response)]
            aggregates.put_factors(columns, response, scaling, f[1:])
            yield f, columns, response, bins

    def room_for_factors(self, scaling: ColumnScaling) -> Factors:
        """An array for the factors of all records."""
        return np.empty((scaling.size - 1, self.total()), dtype=np.int32)

    def _complete(
        self, design: Design, partition: Partition | None, rows: slice
    ) -> tuple[Floats, Floats, Integers]:
        """Columns, response and bin of the records of some rows that are complete for `design`."""
        records = self._rows(rows)
        columns, response = design.columns(records), design.response(records)
        bins = self._locate(partition, rows, records) if partition else _NO_BINS
        # A record that is missing for the design is NaN in all its columns.
        missing = np.isnan(columns[:, 0]) | np.isnan(response)
        if missing.any():
            complete = ~missing
            columns, response = columns[complete], response[complete]
            bins = bins[complete] if partition else bins
        return columns, response, bins

    def _read(self, design: Design, scaling: ColumnScaling, binning: Binning | None) -> None:
        """Scaled columns, moments and, if there are bins, the sums in them."""
        moments = Accumulator((scaling.size, scaling.size))
        n_bins, p = binning[1].centre.shape if binning else (0, 0)
        count, sums = np.zeros(n_bins, dtype=np.int64), Accumulator((n_bins, p + 1))
        factors = self.room_for_factors(scaling)
        kept: list[Factors] = []
        for part in self.passes(design, scaling, binning, factors):
            moments.add(part.moments, BLOCK)
            count += part.count
            sums.add(part.sums, BLOCK)
            assert part.factors is not None
            kept.append(part.factors)
        if sum(part.shape[1] for part in kept) < self.total():
            factors = np.concatenate(kept, axis=1)
        self._scaled = (design, factors)
        self._moments = (design, moments.total())
        if binning:
            total = sums.total()
            self._binned = (binning[1], (count, total[:, :p], total[:, p]))

    def total(self) -> int:
        return len(next(iter(self._records.values())))

    def histograms(self, edges: Mapping[str, Floats]) -> dict[str, Integers]:
        return {
            name: histogram(self._records[name].astype(np.float64, copy=False), its_edges)
            for name, its_edges in edges.items()
        }

    def code_counts(self, paths: Paths) -> CodeCounts:
        return CodeCounts.from_codes(self.codes(paths))

    def expect_bins(self, design: Design, partition: Partition, scaling: BinScaling) -> None:
        """The pass for the moments sums up the bins as well."""
        self._expected = (design, (partition, scaling))

    def bin_sums(
        self, design: Design, partition: Partition, scaling: BinScaling
    ) -> tuple[Integers, Sums, Sums]:
        if self._binned is None or self._binned[0] is not scaling:
            self._read(design, column_scaling(design), (partition, scaling))
        assert self._binned is not None
        return self._binned[1]

    def factors(self, design: Design, scaling: ColumnScaling) -> Factors:
        """Scaled columns and response in whole numbers, (m - 1, n)."""
        if self._scaled is None or self._scaled[0] is not design:
            expected = self._expected if self._expected and self._expected[0] is design else None
            self._read(design, scaling, expected and expected[1])
        assert self._scaled is not None
        return self._scaled[1]

    def moment_sums(self, design: Design, scaling: ColumnScaling) -> Sums:
        self.factors(design, scaling)
        assert self._moments is not None
        return self._moments[1].copy()

    def score_sums(
        self, design: Design, scaling: ColumnScaling, request: ScoreRequest
    ) -> scores.ScoreSums:
        return scores.score_sums(self.factors(design, scaling), scaling, request)
