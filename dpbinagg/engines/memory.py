"""The engine for tables in memory: plain numpy."""

from __future__ import annotations

from typing import Any

from dpbinagg.engines.base import Piece
from dpbinagg.kernel.grid import Sums, add_up
from dpbinagg.kernel.questions import Sum
from dpbinagg.kernel.view import complete
from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Domain
from dpbinagg.reading import Source


class MemoryEngine:
    """Exact sums over records held as arrays."""

    def __init__(self, source: Source, domain: Domain, variables: tuple[str, ...]) -> None:
        self._source, self._domain, self._variables = source, domain, variables
        self._piece = Piece(complete(self._all()))

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def _all(self) -> Records:
        """All records, incomplete ones too."""
        (records,) = self._source.batches(self._domain, self._variables)
        return records

    def map_reduce(self, task: Sum) -> list[Sums]:
        """Apply `task` to all clean records and add up its sums exactly."""
        if task.all_records:
            return add_up(task.zeros(), Piece(self._all()).run(task, keep=False))
        return add_up(task.zeros(), self._piece.run(task, keep=True))
