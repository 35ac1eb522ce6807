"""Streams: what is kept in memory changes nothing; refusals name public facts only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_for_engines import BOUNDS, FORMULA, arrow, duckdb_relation, frame, polars_lazy
from test_engines import SCHEMA, aggregates_of, assert_same, sums_of, total_of

from dpbinagg import DataError, Domain, dp_ols
from dpbinagg.engines import cluster, stream
from dpbinagg.formula import build_design
from dpbinagg.kernel.questions import Sum
from dpbinagg.kernel.view import MOST_RECORDS
from dpbinagg.protocol.conduct import open_table
from dpbinagg.reading import tables
from dpbinagg.release.questions import count_question

pa = pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return frame()


@pytest.mark.parametrize("kept", [0, 20_000, 300_000])
def test_what_is_kept_changes_nothing(
    kept: int, people: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room, room for codes only, room for scaled columns but not for records."""
    monkeypatch.setattr(stream, "memory_room", lambda: kept)
    monkeypatch.setattr(tables, "ROWS", 500)
    assert_same(aggregates_of(arrow(people)), aggregates_of(people))


def engine_for(data: Any, missing: str = "drop", **bounds: Any) -> Any:
    domain = Domain({**BOUNDS, **SCHEMA, **bounds})
    return open_table(data, build_design(FORMULA, domain), missing)


def test_a_column_that_is_missing(people: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="no column 'wild'"):
        engine_for(arrow(people.drop(columns="wild")))


def test_a_column_of_another_type(people: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="'hours' must be numeric, but its dtype is timestamp"):
        engine_for(arrow(people.assign(hours=pd.Timestamp("2020-01-01"))))
    with pytest.raises(DataError, match="none of its declared levels can occur"):
        engine_for(arrow(people), grade=["low", "high"])


@pytest.mark.parametrize("make", [arrow, polars_lazy, duckdb_relation])
def test_incomplete_records_are_told_on_request(make: Any, people: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="missing='raise'"):
        engine_for(make(people), missing="raise")
    complete = people.assign(age=30.0, hours=40.0, region="N", grade=1, member=True)
    design = build_design(FORMULA, Domain({**BOUNDS, **SCHEMA}))
    assert total_of(make(complete), design, "raise") == len(people)


def test_a_reader_can_be_read_once_only(people: pd.DataFrame) -> None:
    with pytest.raises(DataError, match="RecordBatchReader"):
        engine_for(arrow(people).to_reader())


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none.parquet", "does not exist"),
        (tmp_path, "holds no Parquet or CSV file"),
    ):
        with pytest.raises(DataError, match=reason):
            dp_ols("y ~ x", path, mu=1)
    (tmp_path / "table.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot be read as a \.xlsx file"):
        dp_ols("y ~ x", tmp_path / "table.xlsx", mu=1)


def test_no_table_at_all() -> None:
    with pytest.raises(DataError, match="data must be a table, got int"):
        dp_ols("y ~ x", 3, mu=1)


def test_errors_of_an_engine_are_not_quoted() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().sql("SELECT 1.0 AS x, error('canary-4711')::DOUBLE AS y")
    design = build_design("y ~ x", Domain({"x": (0, 1), "y": (0, 1)}))
    with pytest.raises(DataError, match="the engine that holds the table failed") as caught:
        total_of(relation, design)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_what_does_not_fit_a_csv_column_is_missing(delimiter: str, tmp_path: Path) -> None:
    """Text in a numeric column, an undeclared level, an empty field, lines of another length."""
    path = tmp_path / "people.csv"
    text = 'x,y,g\n1,2,"a"\ntwo,3,b\n4,,a\n5,6,c\n7,8,b,9\n7\n 7 ,8,b\n'
    path.write_text(text.replace(",", delimiter))
    design = build_design("y ~ x + C(g)", Domain({"x": (0, 9), "y": (0, 9), "g": ["a", "b"]}))
    assert total_of(path, design) == 2


def test_splines_and_numpy_functions_are_the_same_everywhere(people: pd.DataFrame) -> None:
    formula = "np.log(wage) ~ np.exp(hours / 40) + np.tanh(wild) + bs(age, knots=[40], "
    formula += "lower_bound=16, upper_bound=90)"
    bounds = {**BOUNDS, "wage": (1, 400), "wild": (-8, 8)}

    def released(data: Any) -> Any:
        return dp_ols(formula, data, mu=3, bounds=bounds, rng=1).params.to_numpy()

    expected = released(people)
    for make in (arrow, polars_lazy, duckdb_relation):
        np.testing.assert_array_equal(released(make(people)), expected)


@pytest.mark.parametrize("missing", ["drop", "raise"])
def test_a_whole_number_that_no_double_equals(missing: str) -> None:
    """Arrow refuses to convert it: an error that a single record would cause."""
    domain = Domain({"x": (0, 9), "h": {"levels": [1, 2]}, "y": (0, 9)})
    design = build_design("y ~ x + C(h)", domain)
    plain = {"x": [1, 2, 9], "h": [1, 2, 1], "y": [3, 4, 9]}
    large = {**plain, "x": [1, 2, 2**53 + 1], "y": [3, 4, 2**63 - 1]}
    plain_sums = sums_of(pd.DataFrame(plain), design, missing)
    assert_same(sums_of(pa.table(large), design, missing), plain_sums)
    undeclared = pa.table({**plain, "h": [1, 2, 2**53 + 1]})
    assert total_of(undeclared, design) == 2


def test_long_partitions_are_added_up_in_pieces() -> None:
    """The sum of products of factors of so many records must fit 64 bits."""
    n = 2**23
    partition = pd.DataFrame({"x": np.zeros(n)})
    task, domain = Sum((count_question(),), None), Domain({"x": (0, 1)})
    blocks = cluster.sums_of(task, partition, domain, ("x",))
    assert sum(length for length, _ in blocks) == n
    assert sum(int(count[0]) for _, (count,) in blocks) == n
    assert max(length for length, _ in blocks) <= MOST_RECORDS
    assert cluster.sums_of(task, partition[:0], domain, ("x",)) == []


def test_a_limit_leaves_room_for_the_passes_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept under a limit must not starve a pass; without a limit memory decides."""
    unlimited = stream.memory_room()
    assert 0 < unlimited <= stream.SHARE * stream._physical()
    for left in (0, stream.PASS, stream.PASS + 2**20):
        limit = stream._mapped() + left
        monkeypatch.setattr("resource.getrlimit", lambda kind, limit=limit: (limit, limit))
        assert stream.memory_room() <= max(left - stream.PASS, 0) + 2**20
