"""The engine for tables in memory: plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.boxes import Records
from dpbinagg.curator import aggregates
from dpbinagg.curator.blocks import chunks, map_blocks
from dpbinagg.curator.engines import Sums
from dpbinagg.curator.privtree import CodeCounts
from dpbinagg.curator.ranges import bin_index
from dpbinagg.curator.records import read_records
from dpbinagg.formula import Design
from dpbinagg.partition import Partition, TreeLocator
from dpbinagg.paths import Paths
from dpbinagg.scaling import BinScaling, ColumnScaling


class MemoryEngine:
    """Exact aggregates of records held as arrays."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._coded: tuple[Paths, NDArray[np.int64]] | None = None
        self._evaluated: tuple[Design, NDArray[np.float64], NDArray[np.float64]] | None = None

    @classmethod
    def from_frame(cls, frame: Any, design: Design, missing: str) -> MemoryEngine:
        """Read the columns that `design` needs from a pandas frame."""
        names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
        return cls(read_records(frame, design.domain, names, missing))

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return "<MemoryEngine: private>"

    def _evaluate(self, design: Design) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self._evaluated is None or self._evaluated[0] is not design:
            columns = np.empty((self.total(), len(design.column_names)), order="F")
            response = np.empty(self.total())

            def evaluate(block: slice) -> None:
                for rows in chunks(block.stop, start=block.start):
                    part = self._rows(rows)
                    columns[rows] = design.columns(part)
                    response[rows] = design.response(part)

            list(map_blocks(self.total(), evaluate))
            self._evaluated = (design, columns, response)
        return self._evaluated[1], self._evaluated[2]

    def _rows(self, rows: slice) -> Records:
        return {name: column[rows] for name, column in self._records.items()}

    def _codes(self, paths: Paths) -> NDArray[np.int64]:
        if self._coded is None or self._coded[0] is not paths:
            codes = np.empty(self.total(), dtype=np.int64)

            def encode(block: slice) -> None:
                for rows in chunks(block.stop, start=block.start):
                    codes[rows] = paths.codes(self._rows(rows))

            list(map_blocks(self.total(), encode))
            self._coded = (paths, codes)
        return self._coded[1]

    def _locate(self, partition: Partition) -> NDArray[np.int64]:
        locator = partition.locator
        if isinstance(locator, TreeLocator):
            return locator.locate_codes(self._codes(locator.paths))
        return partition.locate(self._records)

    def total(self) -> int:
        return len(next(iter(self._records.values())))

    def histogram(self, name: str, edges: NDArray[np.float64]) -> NDArray[np.int64]:
        index = bin_index(edges, self._records[name].astype(np.float64, copy=False))
        return np.bincount(index, minlength=len(edges) - 1).astype(np.int64)

    def code_counts(self, paths: Paths) -> CodeCounts:
        return CodeCounts.from_codes(self._codes(paths))

    def bin_sums(
        self, design: Design, partition: Partition, scaling: BinScaling
    ) -> tuple[NDArray[np.int64], Sums, Sums]:
        columns, response = self._evaluate(design)
        return aggregates.bin_sums(columns, response, self._locate(partition), scaling)

    def moment_sums(self, design: Design, scaling: ColumnScaling) -> Sums:
        columns, response = self._evaluate(design)
        return aggregates.moment_sums(columns, response, scaling)
