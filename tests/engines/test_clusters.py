"""A real Dask cluster and a real Spark session give the aggregates of the in-memory engine."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from dpbinagg.curator.engines.frame import FrameEngine
from dpbinagg.curator.engines.partitions import PartitionsEngine
from dpbinagg.curator.engines.stream import StreamEngine
from tables_for_engines import dask, frame, write_parquet
from test_engines import aggregates_of, assert_same

from dpbinagg.curator.engines import open_engine
from dpbinagg.formula import build_design
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition
from dpbinagg.public.scaling import bin_scaling, column_scaling

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SHORT = "wage ~ age + C(region) + member + wild"
SPLINE = "wage ~ cr(hours, knots=[20, 40, 60], lower_bound=0, upper_bound=80)"


def test_a_dask_cluster() -> None:
    pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    people = frame()
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with cluster, distributed.Client(cluster):
        table = dask(people)
        assert_same(aggregates_of(table), aggregates_of(people))
        design = build_design(SHORT, Domain({"region": ["N", "E"], "member": [False, True]}))
        assert isinstance(open_engine(table, design, "drop"), PartitionsEngine)


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


def test_a_spark_session(spark: Any, tmp_path: Path) -> None:
    people = frame(1500)
    table = spark.read.parquet(str(write_parquet(people, tmp_path / "people")))
    expected = aggregates_of(people, formula=SHORT)
    assert_same(aggregates_of(table, formula=SHORT), expected)
    assert_same(aggregates_of(table, StreamEngine, SHORT), expected)


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


def sums_of(table: Any, design: Any) -> Any:
    engine = open_engine(table, design, "drop")
    partition = Partition.grid(design.domain.subset(design.variables), 2)
    scaling = bin_scaling(design, partition, "joint")
    moments = engine.moment_sums(design, column_scaling(design))
    return engine.total(), engine.bin_sums(design, partition, scaling), moments


def test_which_engine_serves_spark(spark: Any, tmp_path: Path) -> None:
    table = spark.read.parquet(str(write_parquet(frame(30), tmp_path / "people")))
    bounds = {"region": ["N", "E"], "member": [False, True], "hours": (0, 80)}
    for formula, kind in ((SHORT, FrameEngine), (SPLINE, StreamEngine)):
        design = build_design(formula, Domain(bounds))
        assert type(open_engine(table, design, "drop")) is kind
