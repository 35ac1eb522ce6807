"""What all engines share: pieces of a table, sums over them, how these are added up; and memory.

Work is done in blocks that fit the cache, on all cores. Sums are whole numbers, so neither the
blocks nor the threads show in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DataError, IncompleteError
from dpbinagg.kernel.maps import Completeness, OneHot
from dpbinagg.kernel.questions import Engine, Question, Sum, alone
from dpbinagg.kernel.view import BlockSums, Part, Rows, Sums, add_up, parted
from dpbinagg.public.threads import n_workers, pool, single_thread
from dpbinagg.public.variables import Records, Variables
from dpbinagg.reading import Source, convert
from dpbinagg.reading.columns import Private

S = TypeVar("S")
T = TypeVar("T")

CHUNK, LONG_CHUNK = 2**14, 2**15
"""Rows of one step, in memory and of a table that is read in batches: their temporaries fit the
cache, and threads that hold Python's lock between steps seldom wait for each other."""
STEP = 2**20
"""Numbers of one step, at most, whatever their columns: more would leave the cache, fewer take
longer to begin than to compute."""
TASK = 5 * 2**20
"""Numbers of one task. Up to here a table is worked on by the thread that asks: another one would
wait for Python's lock longer than it helps, while noise can be drawn without that lock."""


def chunks(stop: int, size: int = CHUNK, start: int = 0) -> Iterator[slice]:
    """Slices of at most `size` rows, all about as long."""
    n = stop - start
    pieces = -(-n // size)
    step = -(-n // pieces) if n else size
    return (slice(low, min(low + step, stop)) for low in range(start, stop, step))


def map_stream(items: Iterable[S], function: Callable[[S], T]) -> Iterator[T]:
    """``function(item)`` for all items, in order, on several threads.

    Items are taken from their iterator one by one, a few ahead of the results.
    """
    if single_thread():
        yield from map(function, items)
        return
    waiting: deque[Future[T]] = deque()
    try:
        for item in items:
            waiting.append(pool("records", n_workers()).submit(function, item))
            del item
            if len(waiting) > n_workers():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


Kept = dict[object, NDArray[Any]]
"""What is kept of a step, by its key."""


class Piece:
    """Some records in memory, and what row maps gave for those that are complete.

    Parameters
    ----------
    records : Records
    chunk : int
        Records of one step.
    """

    def __init__(self, records: Records, chunk: int = CHUNK) -> None:
        self._records: Records | None
        self._rest: Records | None
        self._records, self._rest = parted(records)
        self.n, self.n_rest = length_of(self._records), length_of(self._rest)
        self._chunk = chunk
        self._kept: list[Kept] = [{} for _ in chunks(self.n, chunk)]

    def run(self, task: Sum, keep: bool) -> list[BlockSums]:
        """Sums of every block; what the row map gives is kept if `keep`."""
        steps = list(zip(chunks(self.n, self._chunk), self._kept, strict=True))
        sums = self._run(task, self._records, steps, keep)
        if task.all_records and self.n_rest:
            rest: list[tuple[slice, Kept]] = [(r, {}) for r in chunks(self.n_rest, self._chunk)]
            sums += self._run(task, self._rest, rest, keep=False)
        return sums

    def _run(
        self, task: Sum, records: Records | None, steps: list[tuple[slice, Kept]], keep: bool
    ) -> list[BlockSums]:
        """Sums over some records, step by step, with what is kept of each."""

        def over(block: slice) -> BlockSums:
            some = steps[block]
            parts = chain.from_iterable(parts_of(task, records, *step, keep) for step in some)
            return some[-1][0].stop - some[0][0].start, task.run(parts)

        blocks = list(chunks(len(steps), max(TASK // task.width // self._chunk, 1)))
        return list(map_stream(blocks, over) if len(blocks) > 1 else map(over, blocks))

    def keeps(self, key: object) -> bool:
        """Whether the results of a row map are held."""
        return all(key in kept for kept in self._kept)

    def without_records(self) -> Piece:
        """This piece with what row maps gave alone."""
        self._records = self._rest = None
        return self


def parts_of(
    task: Sum, records: Records | None, rows: slice, kept: Kept, keep: bool
) -> Iterator[Part]:
    """One step for a task, in as many parts as the cache asks for; what it finds is kept."""
    if not task.needs_records and task.keys and task.keys[0] in kept:
        # What the row map gave is all that is needed.
        array = kept[task.keys[0]]
        for some in chunks(array.shape[-1], max(STEP // task.width, 1)):
            yield Part(None, {task.keys[0]: array[..., some]})
        return
    assert records is not None
    known = {key: kept[key] for key in task.keys if key in kept and not isinstance(key, Rows)}
    part = Part({name: column[rows] for name, column in records.items()}, known)
    yield part
    for key, array in part.found.items() if keep else ():
        # Those of an earlier row map are of no more use.
        for earlier in [other for other in kept if isinstance(other, type(key))]:
            del kept[earlier]
        # Whole factors and codes, and path codes, of at most 32 bits.
        kept[key] = array.astype(np.int32 if isinstance(key, Rows) else np.uint32)


def length_of(records: Records | None) -> int:
    """Number of records."""
    return 0 if records is None else len(next(iter(records.values())))


def require_complete(engine: Engine) -> None:
    """Raise if any record is incomplete: an exact answer, which the caller asked for."""
    question = Question("incomplete records", alone(OneHot(Completeness())), records="all")
    (counts,) = engine.map_reduce(Sum((question,)))
    if int(counts[1]):
        raise IncompleteError


def guard(action: Callable[[], T]) -> T:
    """Run `action`; errors of an engine quote values, so only their kind is told."""
    kind = ""
    try:
        return action()
    except (DataError, MemoryError):
        raise
    # Engines raise errors of many classes.
    except Exception as error:
        kind = type(error).__name__
    raise DataError(
        f"the engine that holds the table failed ({kind}); its message may quote records and is "
        "not shown. Try the same query on the table yourself"
    )


class TableEngine(Private):
    """Exact sums over the records of one table; each kind of table has its own `_sums`."""

    def map_reduce(self, task: Sum) -> list[Sums]:
        """Apply `task` to all clean records and add up its sums exactly."""
        return add_up(task.zeros(), self._sums(task))

    def _sums(self, task: Sum) -> Iterable[BlockSums]:
        """The sums of every block of records."""
        raise NotImplementedError


class MemoryEngine(TableEngine):
    """Exact sums over records held as arrays."""

    def __init__(self, source: Source, domain: Variables, variables: tuple[str, ...]) -> None:
        (part,) = source.parts(domain, variables)
        self._piece = Piece(convert(part, domain, variables))

    def _sums(self, task: Sum) -> Iterable[BlockSums]:
        return self._piece.run(task, keep=True)
