"""The engine for Dask frames: workers add up their partitions, only sums travel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar

from dpbinagg.curator.blocks import chunks
from dpbinagg.curator.engines.memory import MemoryEngine
from dpbinagg.curator.engines.stream import StreamEngine
from dpbinagg.curator.privatise import GRID_BITS
from dpbinagg.public.domain import Domain
from dpbinagg.reading.guard import guard

T = TypeVar("T")

ROWS = 2 ** (62 - GRID_BITS)
"""Contributions of so many records add up within 64 bits."""
AT_ONCE = 64
"""Partitions whose sums are fetched together: they bound the memory of the caller."""


class PartitionsEngine(StreamEngine):
    """Exact aggregates of a Dask frame, computed by the workers that hold its partitions."""

    keeps = False

    @cached_property
    def _partitions(self) -> list[Any]:
        chosen = self._source.native[list(self._names)]
        partitions: list[Any] = guard(chosen.to_delayed)
        return partitions

    def _each(self, function: Callable[[MemoryEngine], T]) -> Iterator[T]:
        import dask

        # The function travels once, not once for each partition.
        shared = dask.delayed(function, pure=False, traverse=False)
        how = (self._domain, self._names)
        tasks = [dask.delayed(_apply)(shared, partition, how) for partition in self._partitions]
        for start in range(0, len(tasks), AT_ONCE):
            some = tasks[start : start + AT_ONCE]
            for answers in guard(lambda some=some: dask.compute(*some)):  # type: ignore[misc]
                yield from answers


def _apply(
    function: Callable[[MemoryEngine], T], partition: Any, how: tuple[Domain, tuple[str, ...]]
) -> list[T]:
    """``function`` of a partition, which may be of any length, `ROWS` records at a time."""
    return [
        function(MemoryEngine.of_part(partition.iloc[rows], *how))
        for rows in chunks(len(partition), ROWS)
    ]
