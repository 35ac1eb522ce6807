"""Files: CSV and Parquet, read by DuckDB without loading them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpbinagg.errors import DataError

PARQUET = (".parquet", ".pq", ".parq")
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".csv.zst")


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
    if not text:
        return made.read_parquet(pattern, union_by_name=False), False
    # Types guessed from values would be learnt from private records.
    return made.read_csv(pattern, all_varchar=True, header=True), True


def as_numbers(relation: Any, names: Sequence[str]) -> Any:
    """Read the columns `names` as numbers, null where they hold something else."""
    columns = []
    for name in relation.columns:
        quoted = '"' + name.replace('"', '""') + '"'
        cast = f"TRY_CAST({quoted} AS DOUBLE) AS {quoted}"
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
