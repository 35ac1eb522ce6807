"""Dask and Spark frames: their schema is read here, their records by their workers."""

from __future__ import annotations

from typing import Any

from dpbinagg.reading.columns import pandas_type
from dpbinagg.reading.source import ColumnType, Source, Stored


class DaskSource(Source):
    """A Dask frame: each partition is a pandas frame that `convert` reads."""

    def __init__(self, frame: Any) -> None:
        self.native = frame
        names = list(frame.columns)
        self.repeated = frozenset(name for name in names if names.count(name) > 1)
        dtypes = zip(names, frame.dtypes, strict=True)
        super().__init__("cluster", {name: pandas_type(dtype) for name, dtype in dtypes})


class SparkSource(Source):
    """A Spark frame: ``mapInArrow`` gives batches that `convert` reads."""

    def __init__(self, frame: Any) -> None:
        self.native = frame
        names = list(frame.columns)
        self.repeated = frozenset(name for name in names if names.count(name) > 1)
        schema = {field.name: spark_type(field.dataType) for field in frame.schema.fields}
        super().__init__("cluster", schema)


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
