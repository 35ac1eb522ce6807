"""What callers may pass, named."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyspark.sql as spark

    from dpbinagg.public.domain import Domain
    from dpbinagg.public.partition import Partition
    from dpbinagg.reading import Source

Table: TypeAlias = (
    "pd.DataFrame | pl.DataFrame | pl.LazyFrame | pa.Table | pa.RecordBatch | ds.Dataset | "
    "duckdb.DuckDBPyRelation | dd.DataFrame | spark.DataFrame"
)
"""A table of one of these packages, of which only pandas and DuckDB need be installed."""

Data: TypeAlias = "Table | Source | str | PathLike[str]"
"""A table, a path, or what `open_source` gave."""

Bounds: TypeAlias = "Domain | Mapping[str, object] | None"
"""Public bounds and levels: ``{"educ": (0, 20), "region": ["N", "S"], "age": range(16, 91)}``."""

Seed: TypeAlias = "np.random.Generator | int | None"
"""Where random numbers come from; None is the operating system."""

PartitionKind = Literal["privtree", "grid"]
PartitionChoice: TypeAlias = "Partition | PartitionKind"
Calibration = Literal["joint", "paper"]
EstimatorName = Literal["refined", "combined", "corrected", "naive", "paper"]
"""What a caller may ask for, the best first."""
CovType = Literal["sandwich", "model"]
"""Covariances of the estimate from bins."""
Missing = Literal["drop", "raise"]
SyntheticKind = Literal["calibrated", "predictive", "bounded", "binagg"]
