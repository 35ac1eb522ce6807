"""Which engine computes on which table."""

from __future__ import annotations

from dpbinagg.curator.engines import Engine
from dpbinagg.curator.engines.stream import StreamEngine
from dpbinagg.curator.engines.tables import Table
from dpbinagg.formula import Design


def engine_for(table: Table, design: Design, missing: str) -> Engine:
    """The engine for a table.

    Clusters compute by the kernels of the in-memory engine where the records are: Spark on its
    executors, Dask on its workers. Engines of this process (DuckDB, Polars, Arrow) read, clean
    and filter, and hand batches of the few columns needed to the same kernels.
    """
    if table.kind == "dask":
        from dpbinagg.curator.engines.partitions import PartitionsEngine

        return PartitionsEngine(table, design, missing)
    if table.kind == "pyspark":
        from dpbinagg.curator.engines.executors import ExecutorsEngine

        return ExecutorsEngine(table, design, missing)
    return StreamEngine(table, design, missing)
