"""Text files: .csv, .tsv and .txt, one or many, packed or not, read in blocks of whole lines.

The header line is public: it names the columns and, unless the caller does, tells the separator.
Nothing else is learnt from a file. Only the cells of the variables that are asked for are read.

A record is the bytes between two newlines. Lines are split before anything else is looked at, so
nothing in a line reaches another one. A cell may be quoted: the quote opens at its start, closes
at its end, and is doubled inside. A line is unreadable, and one record of missing values, if it
has another number of cells than the header, a quote that does not close, or a carriage return
(but for one at its end) or a NUL anywhere. Empty lines are no records.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DataError
from dpbinagg.public.variables import BLANKS, DECIMALS, Categorical, Records, Variables
from dpbinagg.reading.cells import Bytes, Cells, Integers, Lookup, read_numbers
from dpbinagg.reading.columns import ColumnType, Private, column_at, finished, missing
from dpbinagg.reading.source import Source

Flags = NDArray[np.bool_]

NEWLINE, RETURN, NUL, QUOTE = 10, 13, 0, 34
FEW_BLANKS = 4
"""Blanks that are taken off all cells at once; cells with more are rare, and have a million."""
_BLANK_BYTES = BLANKS.encode()
_BLANK = np.zeros(256, dtype=bool)
_BLANK[list(_BLANK_BYTES)] = True


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


SEPARATORS = ",;\t|"
BLOCK = 2**22
"""Bytes of one block: about as many records as other engines put into a batch."""
LONGEST_LINE = 2**27
"""A line that is longer is unreadable: it would have to be held in memory as a whole."""
UNREADABLE = b"\0\n"
PACKED = ".gz"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a file are to be read: public facts."""

    names: tuple[str, ...]
    separator: str
    decimal: str
    encoding: str


@dataclass(frozen=True, slots=True, repr=False)
class Lines(Private):
    """Some lines of a file, not yet read."""

    content: bytes
    layout: Layout
    levels: Mapping[str, Lookup]

    def records(self, domain: Variables, variables: Sequence[str]) -> Records:
        """The records of these lines; an unreadable line is one of missing values."""
        names, decimal = self.layout.names, self.layout.decimal
        block = Block(self.content, ord(self.layout.separator), len(names))
        records: dict[str, Any] = {}
        for name in variables:
            cells, variable = block.cells(column_at(names, name)), domain[name]
            every = missing(block.n, variable)
            if isinstance(variable, Categorical):
                every[block.readable] = self.levels[name].read(block.data, cells)
            else:
                values = read_numbers(block.data, cells.starts, cells.ends, decimal)
                every[block.readable] = finished(values, variable)
            records[name] = every
        return records


class TextSource(Source):
    """Text files with the same columns.

    Parameters
    ----------
    paths : sequence of str
    separator : str, optional
        Between two cells; taken from the header line by default.
    decimal : {".", ","}
    encoding : str
    """

    def __init__(
        self,
        paths: Sequence[str],
        separator: str | None = None,
        decimal: str = ".",
        encoding: str = "utf-8",
    ) -> None:
        if separator is not None and (len(separator.encode()) != 1 or separator in '"\r\n\0'):
            raise DataError(
                f"separator must be one character such as ',', ';' or a tab, got {separator!r}"
            )
        if decimal not in DECIMALS:
            raise DataError(f"decimal must be '.' or ',', got {decimal!r}")
        if separator == decimal:
            raise DataError(f"separator and decimal are both {decimal!r}; they must differ")
        self._encoding = _known(encoding)
        self._paths = tuple(paths)
        self._layouts = [self._layout(path, separator, decimal) for path in self._paths]
        columns = [(name, ColumnType("untyped")) for name in self._layouts[0].names]
        super().__init__("stream", columns)

    def _layout(self, path: str, separator: str | None, decimal: str) -> Layout:
        line = _first_line(path, self._encoding)
        mark = separator or _sniffed(line, decimal)
        cells: list[str] = []
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=mark), [])
        names = tuple(name.strip(BLANKS) for name in cells)
        if not any(names):
            raise DataError(f"data: the first line of {path!r} must name the columns; add a header")
        inner = self._encoding if _single(self._encoding) else "utf-8"
        return Layout(names, mark, decimal, inner)

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Lines]:
        """Blocks of lines."""
        for layout in self._layouts:
            for name in variables:
                column_at(layout.names, name)
        given = self._layouts[0]
        levels = {
            name: Lookup(variable, given.decimal, given.encoding)
            for name in variables
            if isinstance(variable := domain[name], Categorical)
        }
        for path, layout in zip(self._paths, self._layouts, strict=True):
            with _opened(path, self._encoding) as file:
                file.readline()
                for content in whole_lines(file, BLOCK):
                    yield Lines(content, layout, levels)


def whole_lines(file: Any, size: int = BLOCK, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    """The rest of a file in blocks of whole lines, whatever their length.

    Examples
    --------
    >>> list(whole_lines(io.BytesIO(b"one\\ntwo\\nthree"), size=5))
    [b'one\\n', b'two\\n', b'three']
    """
    rest: list[bytes] = []
    held, skipping = 0, False
    while more := file.read(size):
        cut = more.rfind(b"\n") + 1
        if cut:
            first = more[:cut]
            if skipping:
                first = UNREADABLE + first[first.index(b"\n") + 1 :]
            yield b"".join([*rest, first])
            rest, held, skipping = [], 0, False
            more = more[cut:]
        if not skipping:
            rest.append(more)
            held += len(more)
        if held > longest:
            rest, held, skipping = [], 0, True
    if skipping:
        yield UNREADABLE
    elif held:
        yield b"".join(rest)


def _known(encoding: object) -> str:
    """The name of an encoding, as Python spells it."""
    try:
        return codecs.lookup(encoding).name  # type: ignore[arg-type]
    except (LookupError, TypeError):
        raise DataError(
            f"encoding must be a name such as 'utf-8', 'latin-1' or 'cp1252', got {encoding!r}"
        ) from None


def _single(encoding: str) -> bool:
    """Whether each byte is a letter and ASCII is as usual, so that lines split as bytes."""
    letters = bytes(range(256)).decode(encoding, "replace")
    return len(letters) == 256 and letters[:128].encode("ascii", "replace") == bytes(range(128))


def _opened(path: str, encoding: str) -> BinaryIO:
    """A file as bytes in UTF-8, or in an encoding of single bytes."""
    opened: Any = gzip.open if path.lower().endswith(PACKED) else open
    raw = opened(path, "rb")
    if encoding in ("utf-8", "utf-8-sig") or _single(encoding):
        return raw  # type: ignore[no-any-return]
    return _Transcoded(raw, encoding)  # type: ignore[return-value]


class _Transcoded:
    """A file in another encoding, as UTF-8."""

    def __init__(self, raw: BinaryIO, encoding: str) -> None:
        self._text = io.TextIOWrapper(raw, encoding, errors="replace", newline="\n")

    def read(self, size: int) -> bytes:
        return self._text.read(size).encode("utf-8", "replace")

    def readline(self) -> bytes:
        return self._text.readline().encode("utf-8", "replace")

    def __enter__(self) -> _Transcoded:
        return self

    def __exit__(self, *_: object) -> None:
        self._text.close()


def _first_line(path: str, encoding: str) -> str:
    """The first line alone: what follows it are records, also in an error of the decoder."""
    line = None
    inner = encoding if _single(encoding) else "utf-8-sig"
    with (
        suppress(OSError, EOFError, UnicodeError, zlib.error),
        _opened(path, encoding) as file,
    ):
        line = file.readline().decode(inner)
    if line is None:
        raise DataError(
            f"data: the first line of {path!r} cannot be read as {encoding} text; say which "
            'encoding it has, open_table(path, encoding="latin-1"), or save the file as UTF-8'
        )
    return line.rstrip("\r\n").lstrip("\ufeff")


def _sniffed(line: str, decimal: str) -> str:
    """The separator that occurs most often in the header, outside quotes."""
    bare = "".join(line.split('"')[::2])
    likely = [mark for mark in SEPARATORS if mark != decimal]
    best = max(likely, key=bare.count)
    return best if bare.count(best) or decimal != "," else ";"
