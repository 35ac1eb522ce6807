"""Files: CSV and Parquet, read by DuckDB without loading them."""

from __future__ import annotations

import csv
import glob
import gzip
import os
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpbinagg.errors import DataError

PARQUET = (".parquet", ".pq", ".parq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
DELIMITERS = ",;\t|"


def connection() -> Any:
    """A connection of its own, for one table."""
    import duckdb

    made = duckdb.connect()
    # Order is of no interest, and keeping it costs memory.
    made.execute("SET preserve_insertion_order = false")
    return made


def open_path(path: str) -> tuple[Any, bool]:
    """A DuckDB relation over the files at `path`, and whether its columns are plain text."""
    pattern, text = _pattern(path)
    made = connection()
    if text:
        return _read_csv(made, pattern), True
    relation = None
    # Raised outside the except block: the original message may quote what it read.
    with suppress(Exception):
        relation = made.read_parquet(pattern)
    if relation is None:
        raise DataError(f"data: {path!r} cannot be read as Parquet; is it damaged?")
    return relation, False


def _read_csv(made: Any, pattern: str) -> Any:
    """A CSV file as text.

    The first line, with the names, is public. Types, and a delimiter guessed
    from values, would be learnt from records; lines that do not fit the header
    are left out like other incomplete records.
    """
    names, delimiter = _header(pattern)
    return made.read_csv(
        pattern,
        header=True,
        auto_detect=False,
        delimiter=delimiter,
        quotechar='"',
        escapechar='"',
        columns=dict.fromkeys(names, "VARCHAR"),
        ignore_errors=True,
        null_padding=False,
    )


def _header(pattern: str) -> tuple[list[str], str]:
    """Names and delimiter in the first line of the first file."""
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise DataError(f"data: no file matches {pattern!r}; check the path")
    line = _first_line(found[0])
    delimiter = max(DELIMITERS, key=line.count)
    names = next(csv.reader([line], delimiter=delimiter), [])
    if not names or len(set(names)) != len(names):
        raise DataError(
            f"data: the first line of {found[0]!r} must name the columns, each once; add a header"
        )
    return names, delimiter


def _first_line(path: str) -> str:
    """The first line alone: what follows it are records, also in an error of the decoder."""
    opened = gzip.open if path.endswith(".gz") else open
    line = None
    with suppress(OSError, EOFError, UnicodeDecodeError, zlib.error), opened(path, "rb") as file:
        line = file.readline().decode("utf-8-sig")
    if line is None:
        raise DataError(
            f"data: the first line of {path!r} cannot be read as UTF-8 text; save the file as "
            "UTF-8, or as Parquet"
        )
    return line.rstrip("\r\n")


def as_numbers(relation: Any, names: Sequence[str]) -> Any:
    """Read the columns `names` as numbers, null where they hold something else."""
    columns = []
    for name in relation.columns:
        quoted = '"' + name.replace('"', '""') + '"'
        # A bare cast would be moved into the scan, where it fails on text.
        cast = f"TRY_CAST(trim({quoted}) AS DOUBLE) AS {quoted}"
        columns.append(cast if name in names else quoted)
    return relation.project(", ".join(columns))


def _pattern(path: str) -> tuple[str, bool]:
    """What DuckDB should read, and whether it is CSV."""
    if os.path.isdir(path):
        for endings, text in ((PARQUET, False), (CSV, True)):
            for ending in endings:
                if next(Path(path).rglob(f"*{ending}"), None) is not None:
                    return os.path.join(path, "**", f"*{ending}"), text
        raise DataError(f"data: the folder {path!r} holds no Parquet or CSV file")
    lower = path.lower()
    if not any(mark in path for mark in "*?[") and "://" not in path and not os.path.exists(path):
        raise DataError(f"data: there is no file {path!r}; check the path")
    if lower.endswith(PARQUET):
        return path, False
    if lower.endswith(CSV):
        return path, True
    raise DataError(
        f"data: cannot tell the format of {path!r}; the name must end in .parquet or .csv, or "
        "name a folder of such files"
    )
