"""Readers with a fault, which the tests of reading and the audit must both find."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbinagg.reading import cells
from dpbinagg.reading.text import Block

READ_NUMBERS = cells.read_numbers


def learns_types(data: Any, *places: Any) -> Any:
    """A column with a word in it is no number, as programs guess that read a whole file."""
    values = READ_NUMBERS(data, *places)
    return np.full_like(values, np.nan) if np.isnan(values).any() else values


class QuotesCrossLines(Block):
    """A quote is open until the next one, whatever lies between, as in most readers."""

    def _split(self, marks: Any, starts: Any, ends: Any, expected: int) -> Any:
        if self._quotes is not None:
            marks = marks[self._quotes[marks] % 2 == 0]
        found = np.diff(np.searchsorted(marks, ends), prepend=0)
        return marks, found, found == expected
