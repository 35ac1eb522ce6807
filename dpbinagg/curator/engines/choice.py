"""Which engine computes on which table."""

from __future__ import annotations

from dpbinagg.curator.engines import Engine
from dpbinagg.curator.engines.stream import StreamEngine
from dpbinagg.curator.engines.tables import Table
from dpbinagg.formula import Design


def engine_for(table: Table, design: Design, missing: str) -> Engine:
    """The engine for a table.

    Spark computes by expressions on its own executors, Dask by the kernels of
    the in-memory engine on its workers. Engines of this process (DuckDB,
    Polars, Arrow) read, clean and filter, and hand batches of the few columns
    needed to the same kernels: faster than sums by expressions, and no
    function of a formula differs in the last bit. So is a Spark table whose
    formula has no expression: a spline, or levels of several types.
    """
    if table.kind == "dask":
        from dpbinagg.curator.engines.partitions import PartitionsEngine

        return PartitionsEngine(table, design, missing)
    if table.kind == "pyspark":
        from dpbinagg.curator.engines.frame import FrameEngine, can_push_down

        if can_push_down(table, design):
            return FrameEngine(table, design, missing)
    return StreamEngine(table, design, missing)
