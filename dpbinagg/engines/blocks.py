"""Work on records in blocks that fit the cache, on all cores.

Sums are whole numbers, so neither the blocks nor the threads show in them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from dpbinagg.public.threads import alone, n_workers, pool

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
    if n <= size or alone():
        return map(function, chunks(n, size))
    return pool("records", n_workers()).map(function, chunks(n, size))


def map_stream(items: Iterable[S], function: Callable[[S], T]) -> Iterator[T]:
    """``function(item)`` for all items, in order, on several threads.

    Items are taken from their iterator one by one, a few ahead of the results.
    """
    if alone():
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
