"""DuckDB relations, and the Parquet files that DuckDB reads without loading them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from dpbinagg.errors import DataError
from dpbinagg.public.variables import Variables
from dpbinagg.reading.frames import ROWS
from dpbinagg.reading.source import ColumnType, Source

NUMBERS = frozenset(
    (
        *("tinyint", "smallint", "integer", "bigint", "hugeint"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "uhugeint"),
        *("float", "double", "decimal"),
    )
)
VECTOR = 2048
"""Rows of DuckDB's own batches."""


def connection() -> Any:
    """A connection of its own, for one table."""
    import duckdb

    made = duckdb.connect()
    # Order is of no interest, and keeping it costs memory.
    made.execute("SET preserve_insertion_order = false")
    return made


class RelationSource(Source):
    """A DuckDB relation."""

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        names = list(relation.columns)
        self.repeated = frozenset(name for name in names if names.count(name) > 1)
        types = zip(names, relation.types, strict=True)
        super().__init__("stream", {name: duckdb_type(dtype) for name, dtype in types})

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Batches of the columns that are needed."""
        chosen = self._relation.project(self._selection(variables))
        if find_spec("pyarrow") is None:
            # Without Arrow a relation has no batches: the columns are fetched as a whole.
            yield chosen.df()
            return
        reader = (getattr(chosen, "to_arrow_reader", None) or chosen.fetch_arrow_reader)(ROWS)
        try:
            yield from reader
        finally:
            # An open result would block the connection.
            reader.close()

    def _selection(self, variables: Sequence[str]) -> str:
        return ", ".join(self._selected(name) for name in variables)

    def _selected(self, name: str) -> str:
        quoted = '"' + name.replace('"', '""') + '"'
        kind = {"number": "DOUBLE", "levels": "VARCHAR"}.get(self.schema[name].stored)
        return f"CAST({quoted} AS {kind}) AS {quoted}" if kind else quoted


def duckdb_type(dtype: Any) -> ColumnType:
    """How DuckDB stores a column."""
    said, kind = str(dtype), dtype.id
    if kind in NUMBERS:
        return ColumnType("number", said)
    known = {"boolean": "truth", "varchar": "text", "enum": "levels", "sqlnull": "text"}
    return ColumnType(known.get(kind, "other"), "ENUM" if kind == "enum" else said)  # type: ignore[arg-type]


class ParquetSource(RelationSource):
    """Parquet files. A dictionary is how they are packed, not what they say."""

    def __init__(self, pattern: str, files: Sequence[str]) -> None:
        relation = None
        # Raised outside the except block: the original message may quote what it read.
        with suppress(Exception):
            relation = connection().read_parquet(pattern)
        if relation is None:
            raise DataError(f"data: {pattern!r} cannot be read as Parquet; is it damaged?")
        self._pattern, self._files = pattern, list(files)
        super().__init__(relation)

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Batches of the columns that are needed.

        DuckDB stops at a text that is not UTF-8, Arrow hands it over as it is.
        """
        if find_spec("pyarrow") is None:
            yield from self._chunks(variables)
            return
        texts = any(self.schema[name].stored == "text" for name in variables)
        if not texts or not self._files:
            yield from super().parts(domain, variables)
            return
        from pyarrow import dataset

        files = dataset.dataset(self._files, format="parquet")
        yield from files.scanner(columns=list(variables), batch_size=ROWS).to_batches()

    def _chunks(self, variables: Sequence[str]) -> Iterator[Any]:
        """Batches as pandas frames."""
        query = f"SELECT {self._selection(variables)} FROM read_parquet(?)"
        result = connection().execute(query, [self._pattern])
        while len(chunk := result.fetch_df_chunk(ROWS // VECTOR)):
            yield chunk
