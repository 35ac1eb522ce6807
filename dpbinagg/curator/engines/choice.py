"""Which engine computes on which table."""

from __future__ import annotations

from dpbinagg.curator.engines import Engine
from dpbinagg.curator.engines.stream import StreamEngine
from dpbinagg.formula import Design
from dpbinagg.reading import Source
from dpbinagg.reading.clusters import DaskSource, SparkSource


def engine_for(source: Source, design: Design, missing: str) -> Engine:
    """The engine for a source.

    Clusters compute by the kernels of the in-memory engine where the records are: Spark on its
    executors, Dask on its workers. Engines of this process (DuckDB, Polars, Arrow) read, clean
    and filter, and hand batches of the few columns needed to the same kernels.
    """
    if isinstance(source, DaskSource):
        from dpbinagg.curator.engines.partitions import PartitionsEngine

        return PartitionsEngine(source, design, missing)
    if isinstance(source, SparkSource):
        from dpbinagg.curator.engines.executors import ExecutorsEngine

        return ExecutorsEngine(source, design, missing)
    return StreamEngine(source, design, missing)
