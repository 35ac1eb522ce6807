"""Neighbouring CSV files: two that differ in one line, which may be no record at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg.audit.tables import Record

if TYPE_CHECKING:
    import pandas as pd

ODD_LINE = "an odd line"
"""The kind of neighbour that only a file has."""
LINES: dict[str, bytes] = {
    "a stray quote": b'{first},"{rest}',
    "a quote that closes too early": b'"{first}"0,{rest}',
    "two stray quotes": b'{first}"0,"{rest}',
    "a trailing comma": b"{whole},",
    "a leading comma": b",{whole}",
    "one cell": b"{first}",
    "many cells": b"{whole},{whole},{whole}",
    "a blank cell": b",{rest}",
    "a word for a number": b"fifty,{rest}",
    "a lone carriage return": b"{first}\r0,{rest}",
    "a NUL": b"{first}\0,{rest}",
    "bytes that are no text": b"\xff\xfe,{rest}",
    "an exponent": b"1e308,{rest}",
    "a number of 500 digits": b"9" * 500 + b",{rest}",
    "infinity": b"inf,{rest}",
    "the header again": b"{header}",
    "a comment": b"# {whole}",
    "nothing": b"",
}
"""Lines that readers are known to stumble over, made of an ordinary one."""
PLACES = ("first", "middle", "last")


class Files:
    """Files of one table and of its neighbours.

    Parameters
    ----------
    folder : Path
        Where they are written.
    table : pandas.DataFrame
    neighbours : {"add-remove", "replace"}
        Whether an odd line comes in addition to the others, or in the place of the last one.
    """

    def __init__(self, folder: Path, table: pd.DataFrame, neighbours: str) -> None:
        self._folder, self._written = folder, 0
        self._header, *self._lines = [_line(row) for row in [list(table), *table.values.tolist()]]
        self._kept = self._lines if neighbours == "add-remove" else self._lines[:-1]
        self.table = self._write(self._lines)

    def with_record(self, record: Record) -> str:
        """The file with one line more, of a record, at each place in turn."""
        return self._with(_line(list(record.values())), PLACES[self._written % len(PLACES)])

    def with_odd_lines(self) -> Iterator[str]:
        """Files with one line more that is none of the usual kind."""
        whole = self._lines[0]
        first, _, rest = whole.partition(b",")
        parts = {b"{whole}": whole, b"{first}": first, b"{rest}": rest, b"{header}": self._header}
        for line in LINES.values():
            for name, part in parts.items():
                line = line.replace(name, part)
            for place in PLACES:
                yield self._with(line, place)

    def _with(self, line: bytes, place: str) -> str:
        at = {"first": 0, "middle": len(self._kept) // 2, "last": len(self._kept)}[place]
        return self._write([*self._kept[:at], line, *self._kept[at:]])

    def _write(self, lines: list[bytes]) -> str:
        self._written += 1
        path = self._folder / f"{self._written}.csv"
        path.write_bytes(b"\n".join([self._header, *lines]) + b"\n")
        return str(path)


def _line(cells: list[Any]) -> bytes:
    """Cells as a line of a CSV file; numbers as Python writes them, to the last bit."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue().encode()
