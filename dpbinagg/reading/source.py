"""What a private table is before a record is read: a schema, and pieces that can be converted."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from dpbinagg.errors import DataError, PublicRefusalError
from dpbinagg.public.variables import Categorical, Records, Variables
from dpbinagg.reading.columns import Codes, ColumnType, Private, column_at, convert

Kind = Literal["memory", "stream", "cluster"]


class Source(Private):
    """A private table, opened: its schema is known, no record has been read.

    Attributes
    ----------
    kind : {"memory", "stream", "cluster"}
        Whether the records are in this process, are read batch by batch, or are with workers
        who hold them.
    schema : mapping from str to ColumnType
    native : object
        The Dask or Spark frame of a cluster; None for other kinds.
    """

    native: Any = None

    def __init__(self, kind: Kind, columns: Iterable[tuple[Any, ColumnType]]) -> None:
        named = [(name, column) for name, column in columns if isinstance(name, str)]
        self.kind: Kind = kind
        self.schema = dict(named)
        self._names = [name for name, _ in named]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, which are public."""
        return tuple(self.schema)

    def declared(self) -> dict[str, Categorical]:
        """The levels that a stored type declares: a truth value is false or true."""
        return {
            name: Categorical((False, True))
            for name, column in self.schema.items()
            if column.stored == "truth"
        }

    def check(self, domain: Variables, variables: Sequence[str]) -> None:
        """Refuse variables that the schema, which is public, lacks or stores as something else."""
        for name in variables:
            column_at(self._names, name)
            _check_stored(name, self.schema[name], domain)

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Pieces of the table that `convert` turns into records, on whatever thread."""
        raise NotImplementedError(f"a {type(self).__name__} is read by its own workers")

    def batches(self, domain: Variables, variables: Sequence[str]) -> Iterator[Records]:
        """All records of `variables`, batch by batch: float64 numbers and int64 codes."""
        self.check(domain, variables)
        for part in self.parts(domain, variables):
            yield convert(part, domain, variables)


def _check_stored(name: str, column: ColumnType, domain: Variables) -> None:
    variable = domain[name]
    if isinstance(variable, Categorical):
        numbers = column.stored in ("number", "truth")
        possible = not numbers or bool(Codes(variable).known)
        if column.stored == "other" or not possible:
            raise PublicRefusalError(
                f"column {name!r}: none of its declared levels can occur, given its dtype "
                f"{column.dtype}; declare the levels as they are in the table, or convert the "
                "column"
            )
    elif column.stored == "other":
        raise PublicRefusalError(
            f"column {name!r} must be numeric, but its dtype is {column.dtype}; convert it, or "
            "declare its levels in bounds if it is a category"
        )


PARQUET = (".parquet", ".pq", ".parq")
TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
EXCEL = (".xlsx", ".xlsm", ".xls", ".ods")
READABLE = (".csv", ".tsv", ".txt", ".parquet", ".dta", ".sav", ".xlsx")
TEXT_OPTIONS = ("separator", "decimal", "encoding")


def open_table(
    data: Any,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Source:
    """Open a table: its schema is read, no record is.

    Parameters
    ----------
    data : table or path
        A pandas, Polars, Arrow, DuckDB, Dask or Spark table; or the path of a .csv, .tsv, .txt
        (also .gz), .parquet, .dta, .sav or .xlsx file, a folder of Parquet or CSV files, or a
        pattern such as ``"part-*.csv"``.
    separator : str, optional
        Between two cells of a text file; by default what separates the names in its header line.
    decimal : {".", ","}
        The decimal mark of a text file.
    encoding : str
        Of a text file; UTF-8 by default.
    sheet : str, optional
        The sheet of a workbook; the first by default.

    Returns
    -------
    Source
        Which may be passed as data to `dp_ols`.

    Examples
    --------
    >>> from dpbinagg import dp_ols, open_table
    >>> from dpbinagg.datasets import codebook_path, data_path
    >>> table = open_table(data_path("school"), separator=",", encoding="utf-8")
    >>> table.columns[:2]
    ('score', 'pretest')
    """
    options = {"separator": separator, "decimal": decimal, "encoding": encoding, "sheet": sheet}
    given = {key: value for key, value in options.items() if value is not None}
    if isinstance(data, str | os.PathLike):
        return _path(os.fspath(data), given)
    if given:
        raise DataError(f"{next(iter(given))}= is for files; data is a {type(data).__name__}")
    if isinstance(data, Source):
        return data
    from dpbinagg.reading.tables import table_source

    source = table_source(data)
    if source is None:
        raise DataError(
            f"data must be a table, got {type(data).__name__}; pass a pandas, Polars, Arrow, "
            f"DuckDB, Dask or Spark table, or the path of a file ({', '.join(READABLE)})"
        )
    return source


def _path(path: str, options: dict[str, str]) -> Source:
    pattern, ending = _pattern(path)
    allowed = TEXT_OPTIONS if ending in TEXT else ("sheet",) if ending in EXCEL else ()
    for key in options:
        if key not in allowed:
            kind = "a workbook" if key == "sheet" else "a text file such as .csv"
            raise DataError(f"{key}= is for {kind}, and data is {path!r}; leave it out")
    if "://" in path and ending not in PARQUET:
        raise DataError(
            f"data is an address, got {path!r}; download the file first: only Parquet files are "
            "read from elsewhere"
        )
    found = sorted(glob.glob(pattern, recursive=True)) if _is_pattern(pattern) else [pattern]
    if ending in PARQUET and (found or "://" in pattern):
        from dpbinagg.reading.tables import ParquetSource

        return ParquetSource(pattern, [] if "://" in pattern else found)
    if not found:
        raise DataError(f"data: no file matches {pattern!r}; check the path")
    if ending in TEXT:
        from dpbinagg.reading.text import TextSource

        return TextSource(found, **options)
    if len(found) > 1:
        raise DataError(
            f"data: {path!r} names {len(found)} {ending} files; only Parquet and text files can be "
            "read together"
        )
    if ending in EXCEL:
        from dpbinagg.reading.files import SheetSource

        return SheetSource(found[0], options.get("sheet"))
    from dpbinagg.reading.files import SpssSource, StataSource

    return StataSource(found[0]) if ending == ".dta" else SpssSource(found[0])


def _is_pattern(path: str) -> bool:
    return not os.path.exists(path) and any(mark in path for mark in "*?[")


def _pattern(path: str) -> tuple[str, str]:
    """A path or pattern of files, and how their names end."""
    known = (*PARQUET, *TEXT, ".dta", ".sav", *EXCEL)
    if os.path.isdir(path):
        for endings in (PARQUET, TEXT):
            for ending in endings:
                if next(Path(path).rglob(f"*{ending}"), None) is not None:
                    return os.path.join(glob.escape(path), "**", f"*{ending}"), ending
        raise DataError(f"data: the folder {path!r} holds no Parquet or CSV file")
    lower = path.lower()
    ending = next((end for end in known if lower.endswith(end)), "")
    if not ending:
        raise DataError(
            f"data must be a file that ends in {', '.join(READABLE)}, or a folder of Parquet or "
            f"CSV files, got {path!r}; convert the table, or pass a data frame"
        )
    if not _is_pattern(path) and "://" not in path and not os.path.exists(path):
        raise DataError(f"data file {path!r} does not exist; check the path")
    return path, ending
