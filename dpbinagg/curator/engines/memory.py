"""The engine for tables in memory: plain numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.boxes import Records
from dpbinagg.curator import aggregates, scores
from dpbinagg.curator.blocks import CHUNK, chunks, each_block
from dpbinagg.curator.engines import Sums
from dpbinagg.curator.histogram import histogram
from dpbinagg.curator.privtree import CodeCounts
from dpbinagg.curator.records import read_records
from dpbinagg.formula import Design
from dpbinagg.partition import Partition, TreeLocator
from dpbinagg.paths import Paths
from dpbinagg.rounds import ScoreRequest
from dpbinagg.scaling import BinScaling, ColumnScaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Factors = NDArray[np.int32]


class MemoryEngine:
    """Exact aggregates of records held as arrays.

    Parameters
    ----------
    records : mapping of arrays
    chunk : int
        Records of one step.
    """

    def __init__(self, records: Records, chunk: int = CHUNK) -> None:
        self._records = records
        self._chunk = chunk
        self._coded: tuple[Paths, Integers] | None = None
        self._evaluated: tuple[Design, Floats, Floats] | None = None
        self._complete: NDArray[np.bool_] | None = None
        self._scaled: tuple[Design, Factors] | None = None

    @classmethod
    def from_frame(cls, frame: Any, design: Design, missing: str) -> MemoryEngine:
        """Read the columns that `design` needs from a pandas frame."""
        names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
        return cls(read_records(frame, design.domain, names, missing))

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return "<MemoryEngine: private>"

    def _evaluate(self, design: Design) -> tuple[Floats, Floats]:
        """Columns and response of the records that are complete for `design`."""
        if self._evaluated is None or self._evaluated[0] is not design:
            self._evaluated = self._scaled = None
            values = self._values(design)
            # A record that is missing for the design is NaN in all its columns.
            missing = np.isnan(values[0]) | np.isnan(values[-1])
            self._complete = None
            if missing.any():
                self._complete = ~missing
                values = values[:, self._complete]
            self._evaluated = (design, values[:-1].T, values[-1])
        return self._evaluated[1], self._evaluated[2]

    def _values(self, design: Design) -> Floats:
        """Columns and response, (p + 1, n)."""
        values = np.empty((len(design.column_names) + 1, self.total()))

        def evaluate(block: slice) -> None:
            for rows in chunks(block.stop, self._chunk, block.start):
                part = self._rows(rows)
                values[:-1, rows] = design.columns(part).T
                values[-1, rows] = design.response(part)

        each_block(self.total(), evaluate)
        return values

    def factors(self, design: Design, scaling: ColumnScaling) -> Factors:
        """Scaled columns and response in whole numbers, (m - 1, n)."""
        columns, response = self._evaluate(design)
        if self._scaled is None or self._scaled[0] is not design:
            f = np.empty((scaling.size - 1, len(response)), dtype=np.int32)

            def scale(block: slice) -> None:
                for rows in chunks(block.stop, self._chunk, block.start):
                    f[:, rows] = aggregates.factors(columns[rows], response[rows], scaling)

            each_block(len(response), scale)
            self._scaled = (design, f)
        return self._scaled[1]

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

    def _locate(self, partition: Partition) -> Integers:
        locator = partition.locator
        codes = self.codes(locator.paths) if isinstance(locator, TreeLocator) else None
        bins = np.empty(self.total(), dtype=np.int64)

        def locate(block: slice) -> None:
            if codes is None:
                bins[block] = partition.locate(self._rows(block))
            else:
                assert isinstance(locator, TreeLocator)
                bins[block] = locator.locate_codes(codes[block])

        each_block(self.total(), locate)
        return bins

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
        """Nothing: passes over memory are cheap."""

    def bin_sums(
        self, design: Design, partition: Partition, scaling: BinScaling
    ) -> tuple[Integers, Sums, Sums]:
        columns, response, bins = self.located(design, partition)
        return aggregates.bin_sums(columns, response, bins, scaling)

    def located(self, design: Design, partition: Partition) -> tuple[Floats, Floats, Integers]:
        """Columns, response and bin of the records that are complete for `design`."""
        columns, response = self._evaluate(design)
        bins = self._locate(partition)
        return columns, response, bins if self._complete is None else bins[self._complete]

    def located_chunks(
        self, design: Design, partition: Partition
    ) -> Iterator[tuple[Floats, Floats, Integers]]:
        """As `located`, for one chunk of records after another, none of them kept."""
        for rows in chunks(self.total(), self._chunk):
            part = self._rows(rows)
            columns, response = design.columns(part), design.response(part)
            bins = partition.locate(part)
            missing = np.isnan(columns[:, 0]) | np.isnan(response)
            if missing.any():
                complete = ~missing
                columns, response, bins = columns[complete], response[complete], bins[complete]
            yield columns, response, bins

    def moment_sums(self, design: Design, scaling: ColumnScaling) -> Sums:
        return aggregates.moment_sums(self.factors(design, scaling))

    def score_sums(
        self, design: Design, scaling: ColumnScaling, request: ScoreRequest
    ) -> scores.ScoreSums:
        return scores.score_sums(self.factors(design, scaling), scaling, request)
