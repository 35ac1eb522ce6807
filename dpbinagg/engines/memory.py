"""The engine for tables in memory: plain numpy."""

from __future__ import annotations

from typing import Any

from dpbinagg.engines.base import Piece
from dpbinagg.kernel.grid import Sums, add_up
from dpbinagg.kernel.questions import Sum
from dpbinagg.public.variables import Variables
from dpbinagg.reading import Source


class MemoryEngine:
    """Exact sums over records held as arrays."""

    def __init__(self, source: Source, domain: Variables, variables: tuple[str, ...]) -> None:
        (records,) = source.batches(domain, variables)
        self._piece = Piece(records)

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def map_reduce(self, task: Sum) -> list[Sums]:
        """Apply `task` to all clean records and add up its sums exactly."""
        return add_up(task.zeros(), self._piece.run(task, keep=True))
