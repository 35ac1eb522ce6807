"""Tables of other packages: pandas, Arrow, Polars; DuckDB and Parquet; Dask and Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from dpbinagg.errors import DataError
from dpbinagg.public.variables import Variables
from dpbinagg.reading.columns import ColumnType, Stored, arrow_type, pandas_type, polars_type
from dpbinagg.reading.source import Source

ROWS = 2**17
"""Records of one part."""


class FrameSource(Source):
    """A pandas frame. Its dtypes count as public: pandas may have learnt them from a file."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        types = map(pandas_type, frame.dtypes)
        super().__init__("memory", zip(frame.columns, types, strict=True))

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """The frame itself."""
        yield self._frame


class ArrowSource(Source):
    """An Arrow table."""

    def __init__(self, table: Any) -> None:
        self._table = table
        types = map(arrow_type, table.schema.types)
        super().__init__("stream", zip(table.schema.names, types, strict=True))

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Slices."""
        chosen = self._table.select(list(variables))
        for start in range(0, len(chosen), ROWS):
            yield chosen.slice(start, ROWS)


class PolarsSource(Source):
    """A Polars frame, eager or lazy."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame.lazy()
        schema = self._frame.collect_schema()
        types = map(polars_type, schema.values())
        super().__init__("stream", zip(schema, types, strict=True))

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Batches of the columns that are needed; order is of no interest."""
        chosen = self._frame.select(list(variables))
        if hasattr(chosen, "collect_batches"):
            yield from chosen.collect_batches(chunk_size=ROWS, maintain_order=False)
        else:
            yield from chosen.collect().iter_slices(ROWS)


class DaskSource(Source):
    """A Dask frame: each partition is a pandas frame that `convert` reads."""

    def __init__(self, frame: Any) -> None:
        self.native = frame
        types = map(pandas_type, frame.dtypes)
        super().__init__("cluster", zip(frame.columns, types, strict=True))


class SparkSource(Source):
    """A Spark frame: ``mapInArrow`` gives batches that `convert` reads."""

    def __init__(self, frame: Any) -> None:
        self.native = frame
        fields = frame.schema.fields
        super().__init__("cluster", [(one.name, spark_type(one.dataType)) for one in fields])


_SPARK: dict[str, Stored] = {
    **dict.fromkeys(("byte", "short", "integer", "long", "float", "double"), "number"),
    "decimal": "number",
    "void": "number",
    "boolean": "truth",
    **dict.fromkeys(("string", "varchar", "char"), "text"),
}


def spark_type(dtype: Any) -> ColumnType:
    """How Spark stores a column."""
    return ColumnType(_SPARK.get(dtype.typeName(), "other"), dtype.simpleString())


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
        types = map(duckdb_type, relation.types)
        super().__init__("stream", zip(relation.columns, types, strict=True))

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


def arrow_source(data: Any) -> Source:
    """The source of an Arrow table, record batch or dataset."""
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([data]))
    if isinstance(data, pa.Table):
        return ArrowSource(data)
    if isinstance(data, pa.RecordBatchReader):
        raise DataError(
            "data is a RecordBatchReader, which can be read only once; pass the table or the "
            "dataset that it comes from"
        )
    return RelationSource(connection().from_arrow(data))


def table_source(data: Any) -> Source | None:
    """The source of a table in this process or of a cluster; None for what is no table."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return FrameSource(data)
    dask = DaskSource, ("to_delayed", "dtypes")
    kinds: dict[str, tuple[Callable[[Any], Source], tuple[str, ...]]] = {
        "polars": (PolarsSource, ("lazy",)),
        "pyarrow": (arrow_source, ("schema",)),
        "duckdb": (RelationSource, ("project",)),
        "dask": dask,
        "dask_expr": dask,
        "pyspark": (SparkSource, ("mapInArrow",)),
    }
    package = type(data).__module__.split(".")[0].lstrip("_")
    if package not in kinds:
        return None
    make, needed = kinds[package]
    return make(data) if all(hasattr(data, name) for name in needed) else None
