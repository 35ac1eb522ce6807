"""Tables that are not pandas frames: what they are and how batches are read from them.

Everything goes through narwhals, so that one set of rules serves Polars,
Arrow, DuckDB, Dask, Spark and files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from dpbinagg.curator.engines import files
from dpbinagg.errors import DataError
from dpbinagg.public.domain import Categorical

BATCH = 2**17
"""Rows of one batch."""
KINDS = ("polars", "pyarrow", "duckdb", "dask", "pyspark")
"""Engines that hold tables, by narwhals' names."""

Batch = dict[str, NDArray[Any]]


class Table:
    """A table that some engine holds.

    Attributes
    ----------
    frame : narwhals frame
        Lazy, where the engine is.
    kind : str
        The engine: "polars", "pyarrow", "duckdb", "dask" or "pyspark".
    text : bool
        Whether every column is read as text: a CSV file has no types.
    """

    def __init__(self, native: Any, text: bool = False) -> None:
        import narwhals.stable.v2 as nw

        frame = nw.from_native(native, allow_series=False)
        self.kind = frame.implementation.value
        self.frame: Any = frame.lazy() if self.kind == "polars" else frame
        self.text = text

    def declared(self) -> dict[str, Categorical]:
        """The levels that the schema declares: truth values and enumerations."""
        import narwhals.stable.v2 as nw

        levels: dict[str, Categorical] = {}
        for name, dtype in self.frame.collect_schema().items():
            if dtype == nw.Boolean:
                levels[name] = Categorical((False, True))
            elif isinstance(dtype, nw.Enum) and len(dtype.categories):
                levels[name] = Categorical(tuple(dtype.categories))
        return levels

    def read_numbers(self, names: Sequence[str]) -> None:
        """Read text columns as numbers; what is no number becomes null."""
        import narwhals.stable.v2 as nw

        self.frame = nw.from_native(files.as_numbers(self.frame.to_native(), names))

    def with_doubles(self, frame: Any, names: Sequence[str]) -> Any:
        """`frame` with whole numbers in the columns `names` as doubles, where casts may fail.

        Arrow's own cast raises an error for a whole number that no double equals.
        """
        if self.kind != "pyarrow":
            return frame
        import narwhals.stable.v2 as nw
        import pyarrow as pa

        native = frame.to_native()
        for place, field in enumerate(native.schema):
            if field.name in names and pa.types.is_integer(field.type):
                doubles = native.column(place).cast(pa.float64(), safe=False)
                native = native.set_column(place, field.name, doubles)
        return nw.from_native(native)

    def rows(self, frame: Any) -> Batch:
        """Fetch the few rows of an aggregate."""
        if hasattr(frame, "collect"):
            frame = frame.collect()
        return {name: frame[name].to_numpy() for name in frame.columns}

    def batches(self, cleaner: Any) -> Iterator[Batch]:
        """Batches of the columns that a `Cleaner` reads, as numbers; clusters are not read."""
        if self.kind == "pyarrow":
            return _arrow_table_batches(self.frame, cleaner.read)
        return _BATCHES[self.kind](cleaner.read(self.frame).to_native())


def _arrow_table_batches(frame: Any, prepare: Any) -> Iterator[Batch]:
    for start in range(0, len(frame), BATCH):
        part = prepare(frame[start : start + BATCH])
        yield {name: part[name].to_numpy() for name in part.columns}


def _record_batch(batch: Any) -> Batch:
    return {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def _polars_batches(native: Any) -> Iterator[Batch]:
    if hasattr(native, "collect_batches"):
        parts = native.collect_batches(chunk_size=BATCH, maintain_order=False)
    else:
        parts = native.collect().iter_slices(BATCH)
    for part in parts:
        yield {name: part[name].to_numpy() for name in part.columns}


def _duckdb_batches(native: Any) -> Iterator[Batch]:
    read = getattr(native, "to_arrow_reader", None) or native.fetch_arrow_reader
    reader = read(BATCH)
    try:
        for batch in reader:
            yield _record_batch(batch)
    finally:
        # An open result would block the connection.
        reader.close()


_BATCHES = {
    "polars": _polars_batches,
    "duckdb": _duckdb_batches,
}


def open_table(data: Any) -> Table:
    """The table that `data` is or names.

    Parameters
    ----------
    data : str, path, or table
        A path to a CSV or Parquet file, a folder of Parquet files or a glob
        pattern, all read by DuckDB; an Arrow table or dataset; a Polars frame,
        eager or lazy; a DuckDB relation; a Dask or Spark frame.
    """
    if isinstance(data, Table):
        return data
    if isinstance(data, str | os.PathLike):
        relation, text = files.open_path(os.fspath(data))
        return Table(relation, text)
    module = type(data).__module__
    if module.startswith("pyarrow"):
        data = _from_arrow(data)
    failed = False
    try:
        table = Table(data)
        failed = table.kind not in KINDS
    except TypeError:
        failed = True
    if failed:
        raise DataError(
            f"data must be a table, got {type(data).__name__}; pass a pandas, Polars, Arrow, "
            "DuckDB, Dask or Spark table, or a path to CSV or Parquet files"
        )
    return table


def _from_arrow(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatchReader):
        raise DataError(
            "data is a RecordBatchReader, which can be read only once; pass the table or the "
            "dataset that it comes from"
        )
    return files.connection().from_arrow(data)
