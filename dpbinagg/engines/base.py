"""What all engines share: pieces of a table, sums over them, how these are added up; and memory.

Work is done in blocks that fit the cache, on all cores. Sums are whole numbers, so neither the
blocks nor the threads show in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
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


def map_blocks(n: int, function: Callable[[slice], T], size: int) -> Iterator[T]:
    """``function(block)`` for blocks of n things, in order, on several threads."""
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


Kept = dict[object, list[Any]]
"""What row maps gave, by their key, for every step."""


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
        self._kept: Kept = {}

    def run(self, task: Sum, keep: bool, pack: bool = False) -> list[BlockSums]:
        """Sums of every block; what the row map gives is kept if `keep`, packed if `pack`."""
        hold = partial(compact, pack=pack) if keep else None
        sums, found = self._run(task, self._records, self.n, self._kept, hold)
        if task.all_records and self.n_rest:
            sums += self._run(task, self._rest, self.n_rest, {}, None)[0]
        for key, kept in found.items():
            # Those of an earlier row map are of no more use.
            others = {k: v for k, v in self._kept.items() if not isinstance(k, type(key))}
            self._kept = {**others, key: kept}
        return sums

    def _run(
        self,
        task: Sum,
        records: Records | None,
        n: int,
        known: Kept,
        hold: Callable[[object, NDArray[Any]], Any] | None,
    ) -> tuple[list[BlockSums], Kept]:
        """Sums over some records, and what was found of every step."""
        steps = list(chunks(n, self._chunk))
        # What the row map gave may be all that is needed.
        alone = not task.needs_records and task.keys[0] in known if task.keys else False
        usable = task.keys[:1] if alone else [k for k in task.keys if not isinstance(k, Rows)]
        some = {key: known[key] for key in usable if key in known}
        size = max(STEP // task.width, 1)

        def over(block: slice) -> tuple[BlockSums, list[dict[object, Any]]]:
            found: list[dict[object, Any]] = []

            def parts() -> Iterator[Part]:
                for place in range(block.start, block.stop):
                    held = {key: kept[place] for key, kept in some.items()}
                    if alone:
                        (array,) = held.values()
                        for rows in chunks(array.shape[-1], size):
                            yield Part(None, {task.keys[0]: array[..., rows]})
                        continue
                    assert records is not None
                    part = Part({name: v[steps[place]] for name, v in records.items()}, held)
                    yield part
                    if hold is not None:
                        found.append({k: hold(k, v) for k, v in part.found.items()})

            n_records = steps[block.stop - 1].stop - steps[block.start].start
            return (n_records, task.run(parts())), found

        per_task = max(TASK // task.width // self._chunk, 1)
        results = list(map_blocks(len(steps), over, per_task))
        each = [found for _, block in results for found in block]
        gathered = {key: [found[key] for found in each] for found in each[:1] for key in found}
        return [sums for sums, _ in results], gathered

    def keeps(self, key: object) -> bool:
        """Whether the results of a row map are held."""
        return key in self._kept

    def without_records(self) -> Piece:
        """This piece with what row maps gave alone."""
        self._records = self._rest = None
        return self


def length_of(records: Records | None) -> int:
    """Number of records."""
    return 0 if records is None else len(next(iter(records.values())))


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
