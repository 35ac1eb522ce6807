"""The populations benchmark: its truth, its arithmetic and its checks, without long runs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MODULES = (
    "populations",
    "population_cell",
    "population_cells",
    "population_checks",
    "population_laws",
    "population_nasty",
    "population_runs",
    "population_summary",
    "population_surveys",
    "population_tables",
    "population_truth",
    "common",
)
RUNS = 40


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    """The benchmark's modules by their short names, without any folder of data."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delenv("DPBINAGG_BENCH_DATA", raising=False)
    loaded = {name.removeprefix("population_"): importlib.import_module(name) for name in MODULES}
    yield SimpleNamespace(**loaded)
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.gamma(2.0, 1.0, 400), "g": rng.choice(["a", "b"], 400)})
    return frame.assign(
        y=1.0 + frame.x + (frame.g == "b") + rng.normal(size=400) * (1.0 + frame.x),
        twin=2.0 * frame.x,
    )


# --- truth -------------------------------------------------------------------------------------


def test_least_squares_is_that_of_statsmodels(bench, table) -> None:
    import statsmodels.formula.api as smf

    data = bench.truth.matrices("y ~ x + I(x**2) + C(g)", table, {"g": ["a", "b"]})
    ours = bench.truth.least_squares(data)
    theirs = smf.ols("y ~ x + I(x**2) + C(g)", table).fit(cov_type="HC1", use_t=True)
    order = list(theirs.params.reindex(data.names))
    np.testing.assert_allclose(ours.params, order, rtol=1e-9)
    np.testing.assert_allclose(ours.bse, theirs.bse.reindex(data.names), rtol=1e-9)
    truth = ours.params + np.array([0.1, 1.9, 0.0, 2.1]) * ours.bse
    low, high = theirs.conf_int().reindex(data.names).to_numpy().T
    assert ours.covers(truth).tolist() == [True, True, True, False]
    assert ours.covers(truth).tolist() == ((low <= truth) & (truth <= high)).tolist()
    tested = np.array([name != "Intercept" for name in data.names])
    restriction = (np.eye(4)[tested], truth[tested])
    # statsmodels orders its columns as patsy does: factors first, as ours.
    assert list(theirs.params.index) == list(data.names)
    expected = float(theirs.wald_test(restriction, use_f=True, scalar=True).pvalue)
    assert ours.joint_p(truth, tested) == pytest.approx(expected, rel=1e-6)


def test_an_empty_declared_level_has_a_column_and_no_coefficient(bench, table) -> None:
    data = bench.truth.matrices("y ~ x + C(g)", table, {"g": ["a", "b", "c"]})
    fit = bench.truth.least_squares(data)
    assert data.names == ("Intercept", "C(g)[T.b]", "C(g)[T.c]", "x")
    assert not data.x[:, 2].any()
    assert fit.determined.tolist() == [True, True, False, True]
    np.testing.assert_allclose(fit.params, np.linalg.pinv(data.x) @ data.y, atol=1e-9)
    tested = np.array([False, True, True, False])
    assert np.isnan(fit.joint_p(fit.params, tested))


def test_collinear_columns_take_the_smallest_coefficients(bench, table) -> None:
    data = bench.truth.matrices("y ~ x + twin", table, {})
    fit = bench.truth.least_squares(data)
    assert fit.determined.tolist() == [True, False, False]
    np.testing.assert_allclose(fit.params, np.linalg.pinv(data.x) @ data.y, atol=1e-9)
    alone = bench.truth.least_squares(bench.truth.matrices("y ~ x", table, {}))
    # The intercept's interval does not depend on how the pair is split, but for its rank.
    assert fit.bse[0] == pytest.approx(alone.bse[0], rel=1e-6)


# --- cells -------------------------------------------------------------------------------------


def test_cells_are_many_and_named_ones_are_among_them(bench, tmp_path) -> None:
    every = bench.cells.cells()
    at_one = [cell for cell in every.values() if cell.mu == 1.0]
    assert len(at_one) >= 40
    assert {cell.mu for cell in every.values()} == {0.25, 0.5, 1.0, 2.0}
    assert min(cell.n for cell in at_one) == 200
    assert max(cell.n for cell in at_one) == 80_000
    named = {n for n in bench.checks.NAMED.values() if not n.startswith("cps")}
    assert named <= set(every)
    assert not any(name.startswith("cps") for name in every)
    with_census = [*bench.cells.REPEATED, *bench.checks.NAMED.values()]
    (tmp_path / bench.tables.CENSUS).write_bytes(b"")
    assert set(with_census) <= set(bench.cells.cells(str(tmp_path)))


def test_no_population_reaches_beyond_its_bounds(bench) -> None:
    for cell in bench.cells.cells().values():
        if cell.mu != 1.0:
            continue
        frame = cell.population()
        assert len(frame) >= 50
        for name, bound in cell.bounds.items():
            if name not in frame:
                continue
            if isinstance(bound, list):
                assert set(frame[name]) <= set(bound), (cell.name, name)
            else:
                assert frame[name].between(bound[0], bound[-1]).all(), (cell.name, name)


def test_a_draw_has_n_rows_of_the_population(bench) -> None:
    cell = bench.cells.cells()["ccard_200"]
    one, same = (cell.draw(np.random.default_rng(1)) for _ in range(2))
    pd.testing.assert_frame_equal(one, same)
    assert len(one) == 200
    assert len(one.merge(cell.population().drop_duplicates())) == 200


def test_wider_bounds_keep_their_middle_and_levels(bench) -> None:
    bounds = {"x": (0, 10), "g": ["a"], "k": range(3)}
    assert bench.cell.wide(bounds, 10) == {"x": (-45, 55), "g": ["a"], "k": range(3)}
    assert bench.cell.without(bounds, "x") == {"g": ["a"], "k": range(3)}


# --- runs --------------------------------------------------------------------------------------


def test_half_the_terms_make_the_smaller_model(bench) -> None:
    smaller = bench.runs.smaller_formula
    assert smaller("np.log(y) ~ a * b + I(c**2)") == "np.log(y) ~ a + b"
    assert smaller("y ~ a + b + c") == "y ~ a"
    assert smaller("y ~ a") is None


def test_ranges_that_cut(bench) -> None:
    frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 9.0], "y": [0.0, 5.0, 0.0, 5.0]})
    ranges = {"x": (0.0, 2.0), "y": (0.0, 5.0)}
    assert bench.runs.share_outside(frame, ranges) == 0.25
    assert bench.runs.share_outside(frame, {**ranges, "y": (0.0, 4.0)}) == 0.5
    assert bench.runs.clipped(frame, ranges)["x"].tolist() == [0.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("said", "bse", "expected"),
    [
        (True, [1.0, 1.0], [1.0, 0.0]),
        (False, [1.0, 1.0], [np.nan, np.nan]),
        (pd.Series([True, False]), [1.0, np.nan], [1.0, np.nan]),
    ],
)
def test_identified_by_term_or_for_the_model(bench, said, bse, expected) -> None:
    ends = np.array([[-1.0, 1.0], [2.0, 3.0]])
    result = SimpleNamespace(
        params=[0.0, 2.5], bse=bse, identified=said, conf_int=lambda alpha: ends
    )
    np.testing.assert_array_equal(bench.runs.covered(result, np.zeros(2)), expected)


def test_a_replicate_is_reproducible_and_complete(bench) -> None:
    cell = bench.cells.cells()["mixed_5000"]
    whole = bench.runs.reference(cell, cell.population())
    one, same, other = (bench.runs.replicate(cell, whole, 0, k) for k in (0, 0, 1))
    for key, value in one.items():
        if key != "seconds":
            np.testing.assert_array_equal(value, same[key])
    assert (one["error"] != other["error"]).any()
    assert one["known"].tolist() == [1.0] * 4
    assert one["tested"] == 3.0
    assert 0.0 <= one["joint_p"] <= 1.0
    assert (np.abs(one["ols_error"]) < 6 * one["ols_se"]).all()
    assert one["cut"] in (0.0, 1.0)


def test_ranges_that_are_found_move_the_truth(bench) -> None:
    cell = bench.cells.cells()["earnings_absent"]
    frame = cell.population()
    ranges = {"earned": (0.0, 30.0)}
    whole = bench.runs.reference(cell, frame)
    cut = bench.runs.reference(cell, bench.runs.clipped(frame, ranges))
    assert cut.full.data.y.max() == 30.0
    place = whole.full.data.names.index("past1")
    assert cut.full.fit.params[place] < whole.full.fit.params[place]


# --- summary -----------------------------------------------------------------------------------


def fabricated(covered: float, ols_covered: float, known: float) -> list[dict[str, object]]:
    """Runs of a model with an intercept, a slope and a rare level; the slope as asked for."""
    rng = np.random.default_rng(0)
    runs = []
    for number in range(RUNS):
        share = (number + 0.5) / RUNS
        answered = share < known
        hit = float(share / known < covered) if answered else np.nan
        error = rng.normal(size=3)
        flags = np.array([1.0, float(answered), 0.0])
        nan = np.where(flags > 0, 1.0, np.nan)
        run: dict[str, object] = {
            "known": flags,
            "error": 2.0 * error * nan,
            "covered": np.array([1.0, hit, np.nan]),
            "se": 1.5 * nan,
            "significant": np.array([1.0, 1.0, float(number < 4)]),
            "ols_error": error,
            "ols_se": np.ones(3),
            "ols_covered": np.array([1.0, float(share < ols_covered), 1.0]),
            "combined_covered": np.array([1.0, 1.0, np.nan]),
            "corrected_covered": np.full(3, np.nan),
            "tested": 1.0 if answered else 0.0,
            "joint_p": (0.01 if number == 0 else 0.5) if answered else np.nan,
            "ols_joint_p": 0.5,
            "cut": float(number < 10),
            "seconds": 1.0 + number,
        }
        for name in ("predicted", "ols_predicted", "small_covered", "ols_small_covered"):
            run[name] = 1.0
        for name in ("rsquared_covered", "sigma_covered"):
            run[name] = np.nan
        runs.append(run)
    return runs


def summary_of(bench, runs) -> tuple[pd.DataFrame, pd.Series]:
    names = ("Intercept", "x", "C(g)[T.rare]")
    fit = SimpleNamespace(params=np.zeros(3), determined=np.array([True, True, True]))
    model = SimpleNamespace(fit=fit, data=SimpleNamespace(names=names))
    cell = bench.cell.Cell("c", "y ~ x + C(g)", {}, 5000, pd.DataFrame, rare=names[2:])
    whole = SimpleNamespace(full=model)
    rows, summary = bench.summary.summarise_cell(cell, whole, runs, 7)
    return pd.DataFrame(rows), pd.Series(summary)


def test_summary_counts_what_was_identified(bench) -> None:
    rows, cell = summary_of(bench, fabricated(0.75, 0.95, 0.8))
    slope = rows.set_index("coefficient").loc["x"]
    assert slope.identified == pytest.approx(0.8)
    assert slope.coverage == pytest.approx(24 / 32)
    assert slope.ols_coverage == pytest.approx(0.95)
    assert slope.rmse_ratio == pytest.approx(2.0)
    assert slope.rmse_ratio_error == pytest.approx(0.0, abs=1e-12)
    assert slope.se_ratio == pytest.approx(1.5)
    assert slope.combined_runs == RUNS
    assert slope.corrected_runs == 0
    assert slope.silent
    assert rows.silent.sum() == cell.silent == 1
    assert (cell.seed, cell.replicates, cell["columns"]) == (7, RUNS, 3)
    assert cell.identified == pytest.approx(0.9)
    assert cell.flagged_runs == pytest.approx(0.2)
    assert not cell.flagged
    assert cell.false_findings == pytest.approx(4 / RUNS)
    assert cell.joint_runs == 32
    assert cell.joint_size == pytest.approx(1 / 32)
    assert cell.cut_runs == pytest.approx(0.25)
    assert cell.rmse_worst == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("covered", "ols_covered", "known", "expected"),
    [
        (0.75, 0.95, 1.0, True),
        (0.85, 0.95, 1.0, False),  # covered well enough
        (0.75, 0.85, 1.0, False),  # least squares fails too
        (0.75, 0.95, 0.4, False),  # flagged
    ],
)
def test_silent_failure(bench, covered, ols_covered, known, expected) -> None:
    rows, _ = summary_of(bench, fabricated(covered, ols_covered, known))
    assert rows.silent.any() == expected


def test_ratio_of_errors_and_its_error(bench) -> None:
    rng = np.random.default_rng(1)
    ratios = []
    for _ in range(300):
        theirs = rng.normal(size=200)
        ours = theirs + rng.normal(size=200)
        ratios.append(bench.summary.rmse_ratio(ours, theirs))
    values, errors = np.array(ratios).T
    # sqrt(2), and a spread that 300 repetitions know to 4%.
    assert values.mean() == pytest.approx(np.sqrt(2.0), abs=0.02)
    assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.15)
    assert np.isnan(bench.summary.rmse_ratio(np.array([np.nan]), np.array([1.0]))[0])


def test_binomial_error_is_never_zero(bench) -> None:
    error = bench.summary.binomial_error
    assert error(np.ones(200)) == pytest.approx(np.sqrt(202 * 2) / 204**1.5)
    assert error(np.array([1.0, 0.0] * 5000)) == pytest.approx(0.005, rel=1e-3)
    assert np.isnan(error(np.array([np.nan])))


# --- checks and the program --------------------------------------------------------------------


def outcomes(bench, runs) -> dict[str, bool | None]:
    rows, cell = summary_of(bench, runs)
    cells = pd.DataFrame([cell])
    return {check.claim: check.passed for check in bench.checks.checks(rows, cells)}


def test_checks_pass_and_fail_where_they_should(bench) -> None:
    good, bad = (outcomes(bench, fabricated(c, 0.95, 1.0)) for c in (0.95, 0.7))
    coverage = [claim for claim in good if claim.startswith("mu = 1: ")]
    assert len(coverage) == 4
    assert all(good[claim] for claim in coverage)
    assert not any(bad[claim] for claim in coverage)
    cut = "declared ranges: no run cuts more than 1% of the records"
    assert good[cut] is False
    assert good["50 equal states: coverage"] is None
    precision = "mu = 1, n >= 5,000: RMSE over OLS (median slope), median over cells at most 1.1"
    assert good[precision] is False
    rare = "empty and rare levels, constants, duplicates: significant in at most 8% of the runs"
    assert good[rare] is True  # 10% of 40 runs is within two standard errors of 8%


@pytest.mark.filterwarnings("error:constrained_layout")
def test_without_the_census_a_line_says_so(bench, tmp_path, monkeypatch, capsys) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        bench.populations,
        "replicate_map",
        lambda function, tasks, *_: pd.DataFrame([row for task in tasks for row in function(task)]),
    )
    command = ["populations.py", "--replicates", "2", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", [*command, "--cells", "normal_1_*", "--cells", "cps_*"])
    bench.populations.main()
    monkeypatch.setattr(sys, "argv", [*command, "--cells", "school_200"])
    bench.populations.main()
    assert "no cps2024.csv.gz: pass --data FOLDER or set DPBINAGG_BENCH_DATA; cps cells" in (
        capsys.readouterr().out
    )
    rows = pd.read_csv(tmp_path / "populations.csv")
    # The second run keeps the first one's cell and comes before it in the list.
    assert rows.cell.tolist() == ["school_200"] * 2 + ["normal_1_200"] * 2
    assert rows.replicates.eq(2).all()
    assert len(pd.read_csv(tmp_path / "populations_cells.csv")) == 2
    assert (tmp_path / "populations.png").stat().st_size > 10_000
    assert set(pd.read_csv(tmp_path / "populations_checks.csv").result) <= {"pass", "FAIL", "-"}


def test_quick_and_patterns_choose_cells(bench) -> None:
    every = bench.cells.cells()
    quick = bench.populations.chosen(every, ["*"], quick=True)
    assert quick
    assert all(every[name].mu == 1.0 and every[name].n <= 5000 for name in quick)
    assert bench.populations.chosen(every, ["anes96_?0000"], quick=False) == [
        "anes96_80000",
        "anes96_20000",
    ]
