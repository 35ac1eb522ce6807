"""From a block of lines to the places of its cells.

A record is the bytes between two newlines. Lines are split before anything else is looked at, so
nothing in a line reaches another one. A cell may be quoted: the quote opens at its start, closes
at its end, and is doubled inside. A line is unreadable, and one record of missing values, if it
has another number of cells than the header, a quote that does not close, or a carriage return
(but for one at its end) or a NUL anywhere. Empty lines are no records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.grammar import BLANKS

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

NEWLINE, RETURN, NUL, QUOTE = 10, 13, 0, 34
FEW_BLANKS = 4
"""Blanks that are taken off all cells at once; cells with more are rare, and have a million."""
_BLANK_BYTES = BLANKS.encode()
_BLANK = np.zeros(256, dtype=bool)
_BLANK[list(_BLANK_BYTES)] = True


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column, for the readable lines of a block.

    Attributes
    ----------
    starts, ends : (n,) arrays
        Without blanks and quotes around them.
    quoted : (k,) array
        Which cells hold doubled quotes.
    broken : (k,) array
        Which cells have a quote in a wrong place.
    """

    starts: Integers
    ends: Integers
    quoted: Integers
    broken: Integers


class Block:
    """The lines of a block of bytes, split into cells.

    Parameters
    ----------
    content : bytes
        Whole lines.
    separator : int
        The byte between two cells.
    width : int
        The number of cells in the header.

    Attributes
    ----------
    n : int
        Number of records.
    readable : (m,) array
        Which records are readable; the others have no cells.
    """

    def __init__(self, content: bytes, separator: int, width: int) -> None:
        if not content.endswith(b"\n"):
            content += b"\n"
        self.data: Bytes = np.frombuffer(content, dtype=np.uint8)
        starts, ends = self._lines(content)
        self.n = len(starts)
        marks = np.flatnonzero(self.data == separator)
        good = np.ones(self.n, dtype=bool)
        self._quotes: Integers = np.empty(0, dtype=np.int64)
        if b'"' in content:
            self._quotes = np.flatnonzero(self.data == QUOTE)
            marks, closed = self._outside_quotes(marks, starts, ends)
            good &= closed
        good &= self._clean(content, starts, ends)
        upto = np.searchsorted(marks, ends)
        found = upto - np.searchsorted(marks, starts)
        good &= found == width - 1
        if not good.all():
            marks = marks[np.repeat(good, found)]
            starts, ends = starts[good], ends[good]
        self.readable: Integers = np.flatnonzero(good)
        self._starts, self._ends = starts, ends
        self._marks = marks.reshape(len(starts), width - 1)

    def _lines(self, content: bytes) -> tuple[Integers, Integers]:
        """Starts and ends of the lines that are not empty, newlines excluded."""
        ends = np.flatnonzero(self.data == NEWLINE)
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        if b"\r\n" in content:
            ends = ends - ((self.data[ends - 1] == RETURN) & (ends > starts))
        if (ends == starts).any():
            kept = ends > starts
            return starts[kept], ends[kept]
        return starts, ends

    def _outside_quotes(
        self, marks: Integers, starts: Integers, ends: Integers
    ) -> tuple[Integers, Flags]:
        """Separators with an even number of quotes before them in their line."""
        before = np.searchsorted(self._quotes, starts)
        closed = (np.searchsorted(self._quotes, ends) - before) % 2 == 0
        line = np.searchsorted(starts, marks, side="right") - 1
        inside = (np.searchsorted(self._quotes, marks) - before[line]) % 2 == 1
        return marks[~inside], closed

    def _clean(self, content: bytes, starts: Integers, ends: Integers) -> Flags:
        """Which lines hold neither a NUL nor a carriage return."""
        clean = np.ones(len(starts), dtype=bool)
        for code in (NUL, RETURN):
            if bytes([code]) not in content:
                continue
            found = np.flatnonzero(self.data == code)
            clean &= np.searchsorted(found, ends) == np.searchsorted(found, starts)
        return clean

    def cells(self, column: int) -> Cells:
        """The cells of one column."""
        marks = self._marks
        starts = self._starts if column == 0 else marks[:, column - 1] + 1
        ends = self._ends if column == marks.shape[1] else marks[:, column]
        starts, ends = self._trimmed(starts, ends)
        quoted = broken = np.empty(0, dtype=np.int64)
        if len(self._quotes):
            many = np.searchsorted(self._quotes, ends) - np.searchsorted(self._quotes, starts)
            around = (many >= 2) & (ends - starts >= 2)
            around &= (self.data.take(starts, mode="clip") == QUOTE) & (
                self.data[ends - 1] == QUOTE
            )
            broken = np.flatnonzero((many > 0) & ~around)
            quoted = np.flatnonzero(around & (many > 2))
            starts, ends = self._trimmed(starts + around, ends - around)
        return Cells(starts, ends, quoted, broken)

    def _trimmed(self, starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """Cells without blanks at their ends."""
        for _ in range(FEW_BLANKS):
            before = _BLANK[self.data.take(starts, mode="clip")] & (ends > starts)
            starts = starts + before
            after = _BLANK[self.data[ends - 1]] & (ends > starts)
            ends = ends - after
            if not (before.any() or after.any()):
                return starts, ends
        for place in np.flatnonzero(before | after).tolist():
            cell = self.data[starts[place] : ends[place]].tobytes()
            inner = cell.lstrip(_BLANK_BYTES)
            starts[place] += len(cell) - len(inner)
            ends[place] -= len(inner) - len(inner.rstrip(_BLANK_BYTES))
        return starts, ends
