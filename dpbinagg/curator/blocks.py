"""Work on records in blocks that fit the cache, on all cores.

Sums are whole numbers, so neither the blocks nor the threads show in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

T = TypeVar("T")

CHUNK = 2**13
"""Rows of one step: its temporaries fit the cache."""
BLOCK = 2**16
"""Rows of one task."""
MAX_WORKERS = 8


def chunks(stop: int, size: int = CHUNK, start: int = 0) -> Iterator[slice]:
    """Slices of at most `size` rows."""
    return (slice(low, min(low + size, stop)) for low in range(start, stop, size))


@cache
def n_workers() -> int:
    """Threads that may run at once."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, MAX_WORKERS)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_workers(), thread_name_prefix="dpbinagg")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child starts its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def map_blocks(n: int, function: Callable[[slice], T], size: int = BLOCK) -> Iterator[T]:
    """``function(rows)`` for all blocks of n rows, in order, on several threads.

    `function` must not call `map_blocks` itself: its threads are shared.
    """
    if n <= size or n_workers() == 1:
        return map(function, chunks(n, size))
    return _pool().map(function, chunks(n, size))


def each_block(n: int, function: Callable[[slice], None], size: int = BLOCK) -> None:
    """Run ``function(rows)`` for all blocks of n rows."""
    for _ in map_blocks(n, function, size):
        pass
