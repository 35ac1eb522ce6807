"""The engine for tables that are read batch by batch, in the memory that is there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpbinagg.engines.base import (
    LONG_CHUNK,
    Piece,
    TableEngine,
    guard,
    map_stream,
)
from dpbinagg.kernel.questions import Sum
from dpbinagg.kernel.view import BlockSums, Rows
from dpbinagg.public.variables import Variables
from dpbinagg.reading import Source, convert

SHARE = 0.4
"""Of the machine's memory."""
SHARE_OF_LIMIT = 0.6
"""Of what a limit for this process or its container leaves."""
PASS = 3 * 2**29
"""Address space that a pass over a table takes, most of it by allocators that hardly use it."""
UNKNOWN = 2**31


def memory_room() -> int:
    """Bytes that may be kept between passes."""
    limits = [limit for limit in (_process_limit(), _container_limit()) if limit is not None]
    room = SHARE * _physical()
    if limits:
        room = min(room, SHARE_OF_LIMIT * min(limits))
    return int(room)


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN


def _process_limit() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    # What is mapped already, libraries among it, counts.
    return None if soft == resource.RLIM_INFINITY else max(soft - _mapped() - PASS, 0)


def _mapped() -> int:
    """Bytes of address space that this process uses now; 0 where that is not told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _container_limit() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 2**60:
            return int(text)
    return None


class StreamEngine(TableEngine):
    """Exact sums over a table read in batches, one pass for each request.

    What fits into the memory that `room` allows is kept: the records themselves, else what the last
    row map gave, which spares a pass for every round of scores.
    """

    def __init__(
        self, source: Source, domain: Variables, variables: tuple[str, ...], columns: int
    ) -> None:
        self._source, self._domain, self._variables = source, domain, variables
        self._room = memory_room()
        self._bytes_per_record = 8 * len(variables) + 12 * columns + 24
        self._n: int | None = None
        self._pieces: list[Piece] = []
        self._holds_records = False

    def _sums(self, task: Sum) -> Iterator[BlockSums]:
        if self._holds_records or self._knows(task):
            for sums in map_stream(self._pieces, lambda piece: piece.run(task, keep=True)):
                yield from sums
        else:
            yield from self._read(task)

    def _knows(self, task: Sum) -> bool:
        """Whether what a row map gave is kept and is all that the task needs."""
        if task.needs_records or not task.keys or not self._pieces:
            return False
        return all(piece.keeps(task.keys[0]) for piece in self._pieces)

    def _read(self, task: Sum) -> Iterator[BlockSums]:
        """A pass over the table, which keeps what fits."""
        keep = self._keeps(task)
        hold = self._n is None

        def apply(part: Any) -> tuple[Piece, list[BlockSums]]:
            piece = Piece(convert(part, self._domain, self._variables), LONG_CHUNK)
            return piece, piece.run(task, keep)

        n, all_of_them, held = 0, 0, list[Piece]()
        results = map_stream(self._source.parts(self._domain, self._variables), apply)
        while (result := guard(lambda: next(results, None))) is not None:
            piece, sums = result
            n, all_of_them = n + piece.n, all_of_them + piece.n + piece.n_rest
            hold = hold and all_of_them * self._bytes_per_record <= self._room
            if hold:
                held.append(piece)
            elif self._n is not None and keep:
                held.append(piece.without_records())
            else:
                held.clear()
            yield from sums
        if hold or (keep and self._n is not None):
            self._pieces, self._holds_records = held, hold
        self._n = n

    def _keeps(self, task: Sum) -> bool:
        """Whether there is room to keep what the row maps give beside a pass."""
        if self._n is None or not task.keys:
            return self._n is None
        size = 4
        if isinstance(rows := task.keys[0], Rows):
            size *= rows.n_numbers - 1 + len(rows.levels)
        return size * self._n <= self._room
