"""Every engine gives the aggregates of the in-memory engine, to the last unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tables_for_engines import BOUNDS, FORMULA, frame, in_process, write_parquet

from dpbinagg import Domain, Partition, dp_release
from dpbinagg.accounting.budget import Allocation
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.scaling import column_scaling
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.maps import LevelCells, NumberCells, OneHot, Outer, PrefixCells, UnitInside
from dpbinagg.kernel.questions import Engine, Question, Sum, alone, weigh
from dpbinagg.kernel.view import Projection
from dpbinagg.protocol.conduct import open_table, rows_of
from dpbinagg.protocol.ranges import histogram_edges
from dpbinagg.public.bins import Paths
from dpbinagg.public.domain import Numeric
from dpbinagg.public.rounds import MomentRequest, RoundRequest
from dpbinagg.release.questions import (
    bin_questions,
    count_question,
    margin_question,
    moment_question,
    round_question,
)

pytest.importorskip("pyarrow")
WORKING = {"wild": (-8.0, 64.0)}
SCHEMA = {"member": [False, True]}


def designs(formula: str = FORMULA) -> tuple[Design, Design]:
    """The design as declared, and with working ranges."""
    design = build_design(formula, Domain({**BOUNDS, **SCHEMA}))
    return design, design.with_domain(design.domain.updated(WORKING))


def moments_of(design: Design) -> Question:
    """Structured moments in some coordinates."""
    rows = rows_of(design, coded=True)
    whitening = np.random.default_rng(3).normal(size=(3, rows.size))
    request = MomentRequest(whitening, 2.0, np.zeros(rows.size), 50.0, rows.levels)
    return moment_question(request, rows)


def round_of(design: Design, last: bool) -> Question:
    """A round of scores in some coordinates."""
    rows, rng = rows_of(design, coded=True), np.random.default_rng(4)
    request = RoundRequest(
        coefficients=rng.normal(0.0, 10.0, rows.size),
        whitening=rng.normal(size=(5, rows.size)),
        clip=60.0,
        edges=np.array([20.0, 40.0, 80.0, 160.0]),
        radius=None if last else 2.0,
        far_edges=np.array([2.0, 3.0, 5.0]) if not last else np.empty(0),
        meat_clip=40.0 if last else 60.0,
        last=last,
    )
    return round_question(request, rows)


def sums(engine: Engine, design: Design, *questions: Question) -> list[Any]:
    """Exact sums of some questions, in one pass."""
    return engine.map_reduce(Sum(questions, rows_of(design)))


def coded_sums(engine: Engine, design: Design, *questions: Question) -> list[Any]:
    """The same, of numbers and codes."""
    return engine.map_reduce(Sum(questions, rows_of(design, coded=True)))


def total_of(data: Any, design: Design, missing: str = "drop") -> int:
    """Number of complete records."""
    engine = open_table(data, design, missing)
    (count,) = engine.map_reduce(Sum((count_question(),), None))
    return int(count[0])


def sums_of(data: Any, design: Design, missing: str = "drop") -> Any:
    """Number of complete records, second moments, and sums in the bins of a grid."""
    engine = open_table(data, design, missing)
    partition = Partition.grid(design.domain.subset(design.variables), 2)
    shares = Allocation(0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    bins, _ = bin_questions(design, partition, shares, "joint")
    moments = coded_sums(engine, design, moments_of(design))
    return [*moments, *sums(engine, design, count_question(), *bins)]


def joint_question(design: Design) -> Question:
    """Contributions clipped as a whole, and their outer products."""
    size = column_scaling(design).size
    rng = np.random.default_rng(9)
    projection = Projection(rng.normal(size=(3, size)), rng.normal(size=size), 200.0, 200.0)
    groups = [(1.0, UnitInside("wr", 90.0)), (0.4, Outer("wr", 200.0)), (0.3, Outer("w", 2.0))]
    return Question("joint", weigh(groups), projection)


def aggregates_of(data: Any, formula: str = FORMULA) -> dict[str, Any]:
    """All kinds of sums over a table, in the order of a release, through the engine for it."""
    declared, design = designs(formula)
    engine = open_table(data, declared, "drop")
    variables = dict(declared.domain.items())
    edges = {n: histogram_edges(v) for n, v in variables.items() if isinstance(v, Numeric)}
    found: dict[str, Any] = {
        "ranges": engine.map_reduce(Sum((margin_question(edges, variables),), None)),
        "total": engine.map_reduce(Sum((count_question(),), None)),
    }
    paths = Paths(design.domain.subset(design.variables), design.variables, 24)
    found["codes"] = engine.map_reduce(
        Sum((Question("codes", alone(OneHot(PrefixCells(paths, 16, 0, np.zeros(1, int))))),))
    )
    tree = Partition.of_tree(Curator(engine, 0).partition(paths, 3.0, 4.0))
    found["tree"] = tree.to_dict()
    grid = Partition.grid(design.domain.subset(design.variables), 2)
    shares = Allocation(0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    moments = moments_of(design)
    in_tree, in_grid = (bin_questions(design, p, shares, "joint")[0] for p in (tree, grid))
    found["bins of the tree"] = sums(engine, design, *in_tree)
    found["moments"] = coded_sums(engine, design, moments)
    found["scores"] = coded_sums(engine, design, round_of(design, last=False))
    found["the last scores"] = coded_sums(engine, design, round_of(design, last=True))
    found["joint"] = sums(engine, design, joint_question(design))
    # What was computed in passing before, and bins that were not asked for then.
    found["moments again"] = coded_sums(engine, design, moments)
    found["bins of the grid"] = sums(engine, design, *in_grid)
    found["of all records"] = engine.map_reduce(Sum(questions_of_all_records(declared), None))
    return found


def questions_of_all_records(design: Design) -> tuple[Question, ...]:
    """Counts in which missing values have cells of their own."""
    maps = []
    for name in dict.fromkeys((*design.variables, *design.response_variables)):
        variable = design.domain[name]
        if isinstance(variable, Numeric):
            maps.append(OneHot(NumberCells(name, np.array([0.0, 30.0, 60.0]), missing=True)))
        else:
            maps.append(OneHot(LevelCells(name, len(variable.levels), missing=True)))
    return tuple(Question("all", alone(map_), records="all") for map_ in maps)


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
    count, *_ = expected["bins of the tree"]
    assert 1500 < expected["total"][0][0] < 2900
    assert len(count) > 50
    assert sum(expected["of all records"][0]) == 3000
    for name in (
        "scores",
        "the last scores",
        "moments",
        "joint",
        "bins of the grid",
        "of all records",
    ):
        assert all(np.any(part != 0) for part in expected[name]), name


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
