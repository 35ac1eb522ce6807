"""Engines for clusters: workers add up their partitions, only sums travel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpbinagg.engines.base import BlockSums, Piece, add_up, guard
from dpbinagg.kernel.grid import Sums
from dpbinagg.kernel.sums import Engine, Task
from dpbinagg.kernel.view import Part, complete
from dpbinagg.public.domain import Domain

if TYPE_CHECKING:
    from dpbinagg.reading import Source

AT_ONCE = 64
"""Partitions whose sums are fetched together: they bound the memory of the caller."""


def cluster_engine(source: Source, domain: Domain, variables: tuple[str, ...]) -> Engine:
    """The engine for a Dask or a Spark frame."""
    return DaskEngine(source, domain, variables)


def sums_of(task: Task, part: Any, domain: Domain, variables: tuple[str, ...]) -> list[BlockSums]:
    """Sums over a partition, which may be of any length, block by block."""
    from dpbinagg.reading import convert

    records = convert(part, domain, variables)
    if task.all_records:
        return [(len(next(iter(records.values()))), task.run([Part(records)]))]
    return Piece(complete(records)).run(task, keep=False)


class DaskEngine:
    """Exact sums over a Dask frame, computed by the workers that hold its partitions."""

    def __init__(self, source: Source, domain: Domain, variables: tuple[str, ...]) -> None:
        self._domain, self._variables = domain, variables
        self._partitions = guard(lambda: source.native[list(variables)].to_delayed())

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def map_reduce(self, task: Task) -> list[Sums]:
        """Apply `task` to all clean records and add up its sums exactly."""
        return add_up(task, self._sums(task))

    def _sums(self, task: Task) -> Iterator[BlockSums]:
        import dask

        # The function travels once, not once for each partition.
        shared = dask.delayed(task, pure=False, traverse=False)
        tasks = [
            dask.delayed(sums_of)(shared, partition, self._domain, self._variables)
            for partition in self._partitions
        ]
        for start in range(0, len(tasks), AT_ONCE):
            some = tasks[start : start + AT_ONCE]
            for sums in guard(lambda some=some: dask.compute(*some)):  # type: ignore[misc]
                yield from sums
