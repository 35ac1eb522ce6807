"""The engine for Spark frames: executors run the kernels in memory, only sums travel."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from dpbinagg.curator.blocks import chunks
from dpbinagg.curator.engines.memory import MemoryEngine
from dpbinagg.curator.engines.stream import StreamEngine
from dpbinagg.public.domain import Domain
from dpbinagg.reading.guard import guard

T = TypeVar("T")

ROWS = 2**20
"""Records of one piece: at least so many, unless the partition has fewer, and less than twice as
many. Spark's own batches are of 10,000, and the answer for a piece may be a million counts, most of
them 0: few pieces, and packed answers, keep the caller's memory small."""


class ExecutorsEngine(StreamEngine):
    """Exact aggregates of a Spark frame, computed by the executors that hold its partitions."""

    keeps = False

    def _each(self, function: Callable[[MemoryEngine], T]) -> Iterator[T]:
        how = (self._domain, self._names)

        def answers(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            for piece in _pieces(batches):
                packed = zlib.compress(pickle.dumps(function(_engine(piece, how))), 1)
                yield pa.RecordBatch.from_arrays([pa.array([packed], pa.binary())], ["answer"])

        columns = [f"`{name.replace('`', '``')}`" for name in self._names]
        chosen = self._source.native.select(*columns)
        for row in guard(chosen.mapInArrow(answers, "answer binary").collect):
            yield pickle.loads(zlib.decompress(row.answer))


def _pieces(batches: Iterator[Any]) -> Iterator[list[Any]]:
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


def _engine(piece: list[Any], how: tuple[Domain, tuple[str, ...]]) -> MemoryEngine:
    import pyarrow as pa

    return MemoryEngine.of_part(pa.Table.from_batches(piece), *how)
