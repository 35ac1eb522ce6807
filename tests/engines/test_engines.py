"""Every engine gives the aggregates of the in-memory engine, to the last unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_for_engines import BOUNDS, FORMULA, frame, in_process, write_parquet

from dpbinagg import Domain, Partition, dp_release
from dpbinagg.curator.engines import Engine, open_engine
from dpbinagg.curator.noise import SeededNoise
from dpbinagg.curator.privtree import privtree
from dpbinagg.curator.ranges import histogram_edges
from dpbinagg.formula import Design, build_design
from dpbinagg.public.domain import Numeric
from dpbinagg.public.paths import Paths
from dpbinagg.public.rounds import GroupWeights, ScoreRequest
from dpbinagg.public.scaling import bin_scaling, column_scaling

pytest.importorskip("pyarrow")
WORKING = {"wild": (-8.0, 64.0)}
SCHEMA = {"member": [False, True]}


def designs(formula: str = FORMULA) -> tuple[Design, Design]:
    """The design as declared, and with working ranges."""
    design = build_design(formula, Domain({**BOUNDS, **SCHEMA}))
    return design, design.with_domain(design.domain.updated(WORKING))


def request_for(size: int) -> ScoreRequest:
    rng = np.random.default_rng(3)
    return ScoreRequest(
        coefficients=rng.normal(size=size),
        whitening=rng.normal(size=(size - 1, size)),
        radius=2.0,
        clip=90.0,
        spread_clip=60.0,
        thresholds=np.array([10.0, 50.0, 100.0, 200.0]),
        norm_edges=np.array([1.0, 4.0, 9.0]),
        weights=GroupWeights(hessian=0.5, tails=0.3, norms=0.2),
    )


def aggregates_of(data: Any, formula: str = FORMULA) -> dict[str, Any]:
    """All aggregates of a table, through the engine for it."""
    declared, design = designs(formula)
    engine: Engine = open_engine(data, declared, "drop")
    edges = {
        name: histogram_edges(variable)
        for name, variable in declared.domain.items()
        if isinstance(variable, Numeric)
    }
    found: dict[str, Any] = {"histograms": engine.histograms(edges), "total": engine.total()}
    paths = Paths(design.domain.subset(design.variables), design.variables, 24)
    noise = SeededNoise(np.random.default_rng(0))
    tree = privtree(paths, engine.code_counts(paths), 3.0, noise, theta=4.0)
    found["tree"] = tree.to_dict()
    grid = Partition.grid(design.domain.subset(design.variables), 2)
    columns = column_scaling(design)
    scaling = bin_scaling(design, tree, "joint")
    engine.expect_bins(design, tree, scaling)
    found["moments"] = engine.moment_sums(design, columns)
    scores = engine.score_sums(design, columns, request_for(columns.size))
    found["scores"] = [getattr(scores, name) for name in scores.__slots__]
    found["bins of the tree"] = engine.bin_sums(design, tree, scaling)
    # Bins that were not announced.
    scaling = bin_scaling(design, grid, "joint")
    found["bins of the grid"] = engine.bin_sums(design, grid, scaling)
    return found


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return frame()


@pytest.fixture(scope="module")
def expected(people: pd.DataFrame) -> dict[str, Any]:
    return aggregates_of(people)


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, two in zip(found, expected, strict=True):
            assert_same(one, two)
    else:
        np.testing.assert_array_equal(found, expected)


def test_the_table_is_not_trivial(expected: dict[str, Any]) -> None:
    count = expected["bins of the tree"][0]
    assert 1500 < expected["total"] < 2900
    assert len(count) > 50
    assert all(np.any(part != 0) for part in expected["scores"])


@pytest.mark.parametrize("kind", in_process())
def test_tables_in_this_process(kind: str, people: pd.DataFrame, expected: dict[str, Any]) -> None:
    assert_same(aggregates_of(in_process()[kind](people)), expected)


def test_a_folder_of_parquet(
    people: pd.DataFrame, expected: dict[str, Any], tmp_path: Path
) -> None:
    folder = write_parquet(people, tmp_path / "people")
    assert_same(aggregates_of(folder), expected)
    assert_same(aggregates_of(str(folder / "part-*.parquet")), expected)


def test_a_csv_file(people: pd.DataFrame, expected: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    # The shortest text that gives a single back as a double.
    people.assign(wage=people["wage"].astype(float)).to_csv(path, index=False)
    assert_same(aggregates_of(path), expected)


def test_the_same_rng_gives_the_same_release(people: pd.DataFrame, tmp_path: Path) -> None:
    def statistics(data: Any) -> Any:
        return dp_release(FORMULA, data, mu=2, bounds=BOUNDS, rng=5).statistics

    expected = statistics(people)
    for data in (in_process()["polars-lazy"](people), write_parquet(people, tmp_path / "people")):
        assert_same(statistics(data), expected)
