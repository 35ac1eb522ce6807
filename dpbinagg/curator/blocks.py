"""Work on records in blocks that fit the cache, on all cores.

Sums are whole numbers, so neither the blocks nor the threads show in them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

CHUNK = 2**13
"""Rows of one step: its temporaries fit the cache."""
BLOCK = 2**17
"""Rows of one task."""


def chunks(stop: int, size: int = CHUNK, start: int = 0) -> Iterator[slice]:
    """Slices of at most `size` rows."""
    return (slice(low, min(low + size, stop)) for low in range(start, stop, size))


def map_blocks(n: int, function: Callable[[slice], T], size: int = BLOCK) -> Iterator[T]:
    """``function(rows)`` for all blocks of n rows, in order, on several threads."""
    workers = min(os.cpu_count() or 1, 8, -(-n // size))
    if workers <= 1:
        yield from map(function, chunks(n, size))
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(function, chunks(n, size))
