"""Workbooks: cells have types of their own, columns have none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from dpbinagg.errors import DataError
from dpbinagg.public.variables import Variables
from dpbinagg.reading.readers import reading
from dpbinagg.reading.source import ColumnType, Source


class SheetSource(Source):
    """One sheet of a workbook, the first by default.

    The first row names the columns. Each cell is read by itself, as text, number or truth value.
    """

    def __init__(self, path: str, sheet: str | None = None) -> None:
        self._path, self._sheet = path, sheet
        header = reading(path, "pandas", lambda pd: _parsed(pd, path, sheet, nrows=1))
        if header is None:
            raise DataError(
                f"data file {path!r} has no sheet {sheet!r}; check sheet= (--sheet), or leave it "
                "out for the first"
            )
        names = [str(name).strip() for name in header.iloc[0]] if len(header) else []
        if not any(names):
            raise DataError(f"data file {path!r}: the first row must name the columns")
        self._names = names
        self.repeated = frozenset(name for name in names if names.count(name) > 1)
        super().__init__("stream", dict.fromkeys(names, ColumnType("untyped")))

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """The whole sheet, which holds a million rows at most."""
        import pandas as pd

        places = [self._names.index(name) for name in variables]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            frame = _parsed(pd, self._path, self._sheet, skiprows=1)
        # As an empty line of a text file, an empty row is no record.
        frame = frame[(frame != "").any(axis=1)]
        whole = frame.reindex(columns=range(len(self._names)))[places]
        yield whole.set_axis(list(variables), axis=1).astype(object)


def _parsed(pd: Any, path: str, sheet: str | None, **options: Any) -> Any:
    """Cells as they are; None if there is no such sheet."""
    with pd.ExcelFile(path) as book:
        if sheet is not None and sheet not in book.sheet_names:
            return None
        return book.parse(sheet or 0, header=None, dtype=object, na_filter=False, **options)
