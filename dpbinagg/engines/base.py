"""What all engines share: pieces of a table, sums over them, how these are added up; and memory.

Work is done in blocks that fit the cache, on all cores. Sums are whole numbers, so neither the
blocks nor the threads show in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DataError, IncompleteError
from dpbinagg.kernel.maps import Completeness, OneHot
from dpbinagg.kernel.questions import Engine, Question, Sum, alone
from dpbinagg.kernel.view import FACTOR_BITS, BlockSums, Part, Rows, Sums, add_up, parted
from dpbinagg.public.threads import n_workers, pool, single_thread
from dpbinagg.public.variables import Records, Variables
from dpbinagg.reading import Source
from dpbinagg.reading.columns import Private

S = TypeVar("S")
T = TypeVar("T")

CHUNK = 2**14
"""Rows of one step: its temporaries fit the cache, and threads that hold
Python's lock between steps seldom wait for each other (with 2^13 two threads
are slower than one)."""
BLOCK = 2**18
"""Rows of one task. Up to here a table is worked on by the thread that asks: another one would
wait for Python's lock longer than it helps, while noise can be drawn without that lock."""
CACHED = 2**17
"""Numbers of one step on many columns, which stay in a core's own cache: with 28 columns a round of
scores takes half as long as in steps of `CHUNK` rows."""
LONG_CHUNK = 2**16
"""Rows of one step where memory is no concern: a table that is read in batches is
larger than its temporaries, and longer steps leave Python's lock free more of the time."""


def chunks(stop: int, size: int = CHUNK, start: int = 0) -> Iterator[slice]:
    """Slices of at most `size` rows, all about as long."""
    n = stop - start
    pieces = -(-n // size)
    step = -(-n // pieces) if n else size
    return (slice(low, min(low + step, stop)) for low in range(start, stop, step))


def step_rows(n: int, columns: int) -> int:
    """Rows of one step on so many columns of n records, at most `CHUNK`.

    Shorter than `CHUNK` only where one thread works, which waits for no other.
    """
    if n > BLOCK:
        return CHUNK
    return min(CHUNK, max(CHUNK // 4, 1 << (CACHED // columns).bit_length() - 1))


def map_blocks(n: int, function: Callable[[slice], T], size: int = BLOCK) -> Iterator[T]:
    """``function(rows)`` for all blocks of n rows, in order, on several threads."""
    if n <= size or single_thread():
        return map(function, chunks(n, size))
    return pool("records", n_workers()).map(function, chunks(n, size))


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


@dataclass(frozen=True, slots=True)
class PackedFactors:
    """Whole factors in three bytes each: ``256 high + low``.

    At most 2^20 in size, they fit into 22 bits; a table that is read in batches
    may have room for three quarters of what 32 bits would take.
    """

    high: NDArray[np.int16]
    low: NDArray[np.uint8]

    BYTES: ClassVar[int] = 3

    @classmethod
    def of(cls, factors: NDArray[Any]) -> PackedFactors:
        """Pack whole numbers, (rows, n)."""
        whole = factors.astype(np.int32)
        return cls((whole >> 8).astype(np.int16), whole.astype(np.uint8))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the factors."""
        return self.high.shape

    def __getitem__(self, place: Any) -> PackedFactors:
        return PackedFactors(self.high[place], self.low[place])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return ((self.high.astype(np.int32) << 8) | self.low).astype(dtype or np.int32, copy=False)


assert 2 ** (FACTOR_BITS - 8) < 2**15


class Piece:
    """Some records in memory, and what row maps gave for those that are complete.

    Parameters
    ----------
    records : Records
    chunk : int
        Records of one step.
    """

    def __init__(self, records: Records, chunk: int = CHUNK) -> None:
        self.records: Records | None
        self.records, rest = parted(records)
        self.n = len(next(iter(self.records.values())))
        self._rest = rest
        self._chunk = chunk
        self._kept: dict[object, list[list[Any]]] = {}

    def run(self, task: Sum, keep: bool, pack: bool = False) -> list[BlockSums]:
        """Sums of every block; what the row map gives is kept if `keep`, packed if `pack`."""
        if not task.needs_records and task.keys and task.keys[0] in self._kept:
            return self._run_on_kept(task, task.keys[0])
        records, known = self.records, {k: v for k, v in self._kept.items() if k in task.keys}
        assert records is not None
        places = {block.start: place for place, block in enumerate(chunks(self.n, BLOCK))}

        def over(block: slice) -> tuple[BlockSums, dict[object, list[Any]]]:
            found: dict[object, list[Any]] = {key: [] for key in task.keys}

            def parts() -> Iterator[Part]:
                place = places[block.start]
                for step, rows in enumerate(chunks(block.stop, self._chunk, block.start)):
                    held = {
                        key: blocks[place][step]
                        for key, blocks in known.items()
                        if not isinstance(key, Rows)
                    }
                    part = Part({name: column[rows] for name, column in records.items()}, held)
                    yield part
                    for key in found if keep else ():
                        if key in part.found:
                            found[key].append(compact(key, part.found[key], pack))

            return (block.stop - block.start, task.run(parts())), found

        results = list(map_blocks(self.n, over))
        incomplete = self._run_on_rest(task) if task.all_records else []
        for key in task.keys if keep else ():
            kept = [found[key] for _, found in results]
            if any(kept):
                # Those of an earlier row map are of no more use.
                others = {k: v for k, v in self._kept.items() if not isinstance(k, type(key))}
                self._kept = {**others, key: kept}
        return [*(sums for sums, _ in results), *incomplete]

    def _run_on_rest(self, task: Sum) -> list[BlockSums]:
        """Sums over the incomplete records."""
        rest = self._rest
        if rest is None:
            return []

        def over(block: slice) -> BlockSums:
            steps = chunks(block.stop, self._chunk, block.start)
            parts = (Part({name: column[rows] for name, column in rest.items()}) for rows in steps)
            return block.stop - block.start, task.run(parts)

        return list(map_blocks(self.n_rest, over))

    @property
    def n_rest(self) -> int:
        """Number of incomplete records."""
        return 0 if self._rest is None else len(next(iter(self._rest.values())))

    def _run_on_kept(self, task: Sum, key: object) -> list[BlockSums]:
        def over(arrays: list[Any]) -> BlockSums:
            def parts() -> Iterator[Part]:
                for array in arrays:
                    n, rows = array.shape[-1], len(array.shape) > 1 and array.shape[0]
                    # A single thread keeps to what its cache holds.
                    step = step_rows(self.n, rows + 1) if self._chunk == CHUNK else self._chunk
                    for some in chunks(n, step):
                        yield Part(None, {key: array[..., some]})

            return sum(array.shape[-1] for array in arrays), task.run(parts())

        blocks = self._kept[key]
        if len(blocks) == 1:
            return [over(blocks[0])]
        return list(map_blocks(len(blocks), lambda one: over(blocks[one.start]), 1))

    def keeps(self, key: object) -> bool:
        """Whether the results of a row map are held."""
        return key in self._kept

    def without_records(self) -> Piece:
        """This piece with what row maps gave alone."""
        self.records = self._rest = None
        return self


def compact(key: object, array: NDArray[Any], pack: bool) -> Any:
    """What a row map gave in as little memory as it takes."""
    if not isinstance(key, Rows):
        return array.astype(np.uint32)
    return PackedFactors.of(array) if pack else array.astype(np.int32)


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
        (records,) = source.batches(domain, variables)
        self._piece = Piece(records)

    def _sums(self, task: Sum) -> Iterable[BlockSums]:
        return self._piece.run(task, keep=True)
