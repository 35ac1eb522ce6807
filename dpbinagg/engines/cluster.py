"""Engines for clusters: workers add up their partitions, only sums travel."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from typing import Any

from dpbinagg.engines.base import Piece, TableEngine, chunks, guard
from dpbinagg.kernel.questions import Sum
from dpbinagg.kernel.view import BlockSums
from dpbinagg.public.variables import Variables
from dpbinagg.reading import Source, convert

AT_ONCE = 64
"""Partitions whose sums are fetched together: they bound the memory of the caller."""
ROWS = 2**20
"""Records of one piece: at least so many, unless the partition has fewer, and less than twice as
many. Spark's own batches are of 10,000, and the answer for a piece may be a million counts, most of
them 0: few pieces, and packed answers, keep the caller's memory small."""


def sums_of(task: Sum, part: Any, domain: Variables, variables: tuple[str, ...]) -> list[BlockSums]:
    """Sums over a partition, which may be of any length, block by block. Runs on a worker."""
    return Piece(convert(part, domain, variables)).run(task, keep=False)


class ClusterEngine(TableEngine):
    """Exact sums over a table that workers hold."""

    def __init__(self, source: Source, domain: Variables, variables: tuple[str, ...]) -> None:
        self._frame = source.native[list(variables)]
        self._domain, self._variables = domain, variables


class DaskEngine(ClusterEngine):
    """Exact sums over a Dask frame, computed by the workers that hold its partitions."""

    def _sums(self, task: Sum) -> Iterator[BlockSums]:
        import dask

        # The function travels once, not once for each partition.
        shared = dask.delayed(task, pure=False, traverse=False)
        tasks = [
            dask.delayed(sums_of)(shared, partition, self._domain, self._variables)
            for partition in guard(self._frame.to_delayed)
        ]
        for start in range(0, len(tasks), AT_ONCE):
            some = tasks[start : start + AT_ONCE]
            for sums in guard(lambda some=some: dask.compute(*some)):  # type: ignore[misc]
                yield from sums


class SparkEngine(ClusterEngine):
    """Exact sums over a Spark frame, computed by the executors that hold its partitions."""

    def _sums(self, task: Sum) -> Iterator[BlockSums]:
        domain, variables = self._domain, self._variables

        def answers(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for piece in pieces(batches):
                sums = sums_of(task, pa.Table.from_batches(piece), domain, variables)
                packed = zlib.compress(pickle.dumps(sums), 1)
                yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], ["answer"])

        for row in guard(lambda: self._frame.mapInArrow(answers, "answer binary").collect()):
            yield from pickle.loads(zlib.decompress(row.answer))


def pieces(batches: Iterator[Any]) -> Iterator[list[Any]]:
    """Batches of one partition, cut or put together to pieces of about `ROWS` records."""
    piece: list[Any] = []
    for batch in batches:
        for rows in chunks(batch.num_rows, ROWS):
            piece.append(batch.slice(rows.start, rows.stop - rows.start))
            if sum(one.num_rows for one in piece) >= ROWS:
                yield piece
                piece = []
    if piece:
        yield piece


def cluster_engine(source: Source, domain: Variables, variables: tuple[str, ...]) -> ClusterEngine:
    """The engine for a Dask or a Spark frame."""
    kind = SparkEngine if hasattr(source.native, "mapInArrow") else DaskEngine
    return kind(source, domain, variables)
