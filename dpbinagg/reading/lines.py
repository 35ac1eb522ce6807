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
        quoted = b'"' in content
        self._quotes = self._counts(QUOTE) if quoted else None
        # Blanks that separate cells are no blanks of a cell.
        blanks = BLANKS if quoted else BLANKS.replace(chr(separator), "")
        self._blanks = any(blank.encode() in content for blank in blanks)
        marks = np.flatnonzero(self.data == separator)
        marks, found, good = self._split(marks, starts, ends, width - 1)
        for code in (NUL, RETURN):
            if bytes([code]) in content:
                counts = self._counts(code)
                good &= counts[ends] == counts[starts]
        if not good.all():
            marks = marks[np.repeat(good, found)]
            starts, ends = starts[good], ends[good]
        self.readable: Integers = np.flatnonzero(good)
        self._starts, self._ends = starts, ends
        self._marks = marks.reshape(len(starts), width - 1)

    def _counts(self, code: int) -> NDArray[np.int32]:
        """How often a byte occurs before each place."""
        counts = np.zeros(len(self.data) + 1, dtype=np.int32)
        np.cumsum(self.data == code, dtype=np.int32, out=counts[1:])
        return counts

    def _split(
        self, marks: Integers, starts: Integers, ends: Integers, expected: int
    ) -> tuple[Integers, Integers, Flags]:
        """Separators outside quotes, how many in each line, and which lines have so many."""
        found = np.diff(np.searchsorted(marks, ends), prepend=0)
        good = np.ones(self.n, dtype=bool)
        if self._quotes is not None:
            before = self._quotes[starts]
            good = (self._quotes[ends] - before) % 2 == 0
            inside = (self._quotes[marks] - np.repeat(before, found)) % 2 == 1
            if inside.any():
                marks = marks[~inside]
                found = np.diff(np.searchsorted(marks, ends), prepend=0)
        return marks, found, good & (found == expected)

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

    def cells(self, column: int) -> Cells:
        """The cells of one column."""
        marks = self._marks
        starts = self._starts if column == 0 else marks[:, column - 1] + 1
        ends = self._ends if column == marks.shape[1] else marks[:, column]
        starts, ends = self._trimmed(starts, ends)
        quoted = broken = np.empty(0, dtype=np.int64)
        if self._quotes is not None:
            many = self._quotes[ends] - self._quotes[starts]
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
        if not self._blanks:
            return starts, ends
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
