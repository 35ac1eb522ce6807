"""A real Dask cluster and a real Spark session give the aggregates of the in-memory engine."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_for_engines import FORMULA, dask, frame, write_parquet
from test_engines import aggregates_of, assert_same, designs, sums_of, total_of

from dpbinagg.engines import cluster
from dpbinagg.errors import DataError
from dpbinagg.formula import build_design
from dpbinagg.protocol.conduct import open_table
from dpbinagg.public.domain import Domain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SPLINE = "wage ~ cr(hours, knots=[20, 40, 60], lower_bound=0, upper_bound=80) + C(region) + wild"


def test_a_dask_cluster() -> None:
    pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    people = frame()
    workers = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with workers, distributed.Client(workers):
        table = dask(people)
        assert_same(aggregates_of(table), aggregates_of(people))
        assert isinstance(open_table(table, designs()[0], "drop"), cluster.DaskEngine)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java, which this machine lacks")
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.parametrize("formula", [FORMULA, SPLINE])
def test_a_spark_session(formula: str, spark: Any, tmp_path: Path) -> None:
    people = frame(1500)
    table = spark.read.parquet(str(write_parquet(people, tmp_path / "people")))
    assert_same(aggregates_of(table, formula), aggregates_of(people, formula))
    assert isinstance(open_table(table, designs(formula)[0], "drop"), cluster.SparkEngine)


def test_a_spark_table_without_records(spark: Any) -> None:
    people = frame(40)
    none = spark.createDataFrame(people.head(1)).where("false")
    assert_same(aggregates_of(none), aggregates_of(people.head(0)))


def test_whole_numbers_that_64_bits_do_not_hold(spark: Any) -> None:
    """Spark's own floor fails on them: an error that a single record would cause."""
    bounds = {"age": range(16, 91), "wild": (0.0, 1e25), "wage": (0.0, 400.0)}
    formula = "wage ~ age + np.floor(wild) + I(wild // 3) + np.ceil(wild) + np.trunc(wild)"
    design = build_design(formula, Domain(bounds))
    odd = [1e300, -1e300, math.inf, -math.inf, math.nan, 2.0**63, 40.5, 41.5, -0.0]
    for name in ("age", "wild"):
        people = pd.DataFrame({"age": 40.0, "wild": 3.5, "wage": 7.0}, index=range(len(odd)))
        people[name] = odd
        assert_same(sums_of(spark.createDataFrame(people), design), sums_of(people, design))


def test_errors_of_executors_are_not_quoted(spark: Any) -> None:
    query = "SELECT 1.0D AS x, CAST(raise_error('canary-4711') AS DOUBLE) AS y"
    design = build_design("y ~ x", Domain({"x": (0, 1), "y": (0, 1)}))
    with pytest.raises(DataError, match="the engine that holds the table failed") as caught:
        total_of(spark.sql(query), design)
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


def test_long_spark_partitions_are_added_up_in_pieces() -> None:
    pa = pytest.importorskip("pyarrow")
    short, long = (pa.record_batch({"x": np.zeros(n)}) for n in (10_000, 5 * cluster.ROWS // 2))
    batches = [short] * 3 + [long, short[:0], short]
    lengths = [sum(b.num_rows for b in piece) for piece in cluster.pieces(iter(batches))]
    assert sum(lengths) == sum(batch.num_rows for batch in batches)
    assert all(length >= cluster.ROWS for length in lengths[:-1])
    assert max(lengths) < 2 * cluster.ROWS
    assert list(cluster.pieces(iter([short[:0]]))) == []
