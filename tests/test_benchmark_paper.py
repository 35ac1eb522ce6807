"""The paper's tables: what one command runs, and the arithmetic of Table 3 and its peers."""

from __future__ import annotations

import importlib
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MODULES = ("paper", "synthetic", "marginals", "projections", "deep", "accuracy", "accuracy_report",
           "common", "tables", "peers", "population_cells", "population_cell", "population_nasty",
           "population_surveys", "population_runs", "population_truth",
           "population_laws")  # fmt: skip
DATA = os.environ.get("DPBINAGG_BENCH_DATA")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    for name in MODULES:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def test_one_command_runs_every_table_and_figure(scripts) -> None:
    for quick in (True, False):
        found = scripts.paper.steps(quick)
        assert {step.part for step in found} == {
            "table1", "table2", "table3", "figure1", "figure2"
        }  # fmt: skip
        for step in found:
            assert (BENCHMARKS / step.script).is_file()
            named = [
                b for a, b in zip(step.options, step.options[1:], strict=False) if a == "--only"
            ]
            if step.script == "synthetic.py":
                assert set(named) <= set(scripts.synthetic.METHODS)
            command = step.command("FOLDER", Path("OUT"))
            assert command[command.index("--out") + 1] == "OUT"
            assert ("--data" in command) == step.data
    full = {name for step in scripts.paper.steps(False) for name in step.options}
    assert set(scripts.synthetic.METHODS) <= full


def test_quick_runs_leave_the_results_alone(scripts, monkeypatch, capsys) -> None:
    commands = []
    monkeypatch.setattr(scripts.paper.subprocess, "run", lambda said, check: commands.append(said))
    scripts.paper.main(["--quick", "--only", "table1", "--only", "figure2"])
    assert len(commands) == 2
    for said in commands:
        assert said[said.index("--out") + 1] == str(BENCHMARKS / "results-quick")
        assert int(said[said.index("--replicates") + 1]) <= 20
    assert "figure2.png" in capsys.readouterr().out


def rows(**errors: list[float]) -> pd.DataFrame:
    found = [
        {"set": "D1", "method": name.replace("_", " "), "replicate": r, "seconds": 2.0, "mean": e}
        for name, values in errors.items()
        for r, e in enumerate(values)
    ]
    return pd.DataFrame(found)


def test_table_3_gives_each_peer_its_best_cells(scripts) -> None:
    table = scripts.synthetic.table3(
        rows(
            original=[0.1, 0.3],
            predictive=[0.4],
            mst_8=[0.9, 0.7],
            mst_16=[0.6, 0.8, 0.7],
            mst_even_16=[2.0],
            aim_8=[0.5],
        )
    )
    line = table.iloc[0]
    assert line["original"] == pytest.approx(0.2)
    assert line["mst"] == pytest.approx(0.7)
    assert line["mst_cells"] == "16"
    assert line["mst_tables"] == 3
    assert line["aim_cells"] == "8"
    assert line["published_patectgan"] == 1.344
    assert math.isnan(line["published_pategan"])
    text = scripts.tables.synthetic(table)
    assert "| D1 | 0.20 | 0.40 | 0.70 | 0.50 | 0.94 |" in text
    assert "Cells of MST: D1 16." in text
    assert "| D1 | 2.00 | 2.00 | 2.00 |" in scripts.tables.seconds(table)


@pytest.mark.parametrize("even", [False, True])
def test_cells_hold_their_values(scripts, even: bool) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "money": np.where(rng.random(2000) < 0.4, 0.0, rng.lognormal(size=2000).round(3)),
            "age": rng.integers(18, 90, 2000),
            "sex": rng.integers(0, 2, 2000),
        }
    ).astype(float)
    bounds = {"money": (0.0, 60.0), "age": (18.0, 89.0), "sex": (0.0, 1.0)}
    scheme = scripts.marginals.Scheme(16, even=even)
    cells = scripts.marginals.Cells(frame, bounds, {"age", "sex"}, scheme)
    codes = cells.codes(frame)
    for name, code in codes.items():
        values = frame[name].to_numpy()
        assert (cells.low[name][code] <= values).all()
        assert (values <= cells.high[name][code]).all()
        assert cells.sizes()[name] <= 18
    made = cells.values(codes, rng)
    assert (made["sex"] == frame["sex"]).all()
    assert (made["age"] % 1 == 0).all()
    # The lump of zeros is a cell of its own at quantiles, and is lost in even cells.
    assert ((made["money"] == 0) == (frame["money"] == 0)).all() != even
    if not even:
        counts = np.bincount(codes["age"])
        assert counts.max() <= 2 * len(frame) / 16


def test_trees_draw_records_values_and_keep_the_response(scripts) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=1500)
    z = rng.integers(0, 3, 1500)
    frame = pd.DataFrame({"y": 2 * x + z + 0.1 * rng.normal(size=1500), "x": x, "z": z})
    made = scripts.synthetic.cart(SimpleNamespace(frame=frame, rng=np.random.default_rng(2)))
    assert list(made) == ["y", "x", "z"]
    for name in made:
        assert set(made[name]) <= set(frame[name])
    slopes = np.linalg.lstsq(np.column_stack([made["x"], made["z"], np.ones(1500)]), made["y"])[0]
    assert slopes == pytest.approx([2, 1, 0], abs=0.1)


def test_deep_peers_stop_before_epsilon_is_passed(scripts) -> None:
    deep = scripts.deep
    for epsilon in (0.5, 1.0, 2.5):
        count = deep.most(lambda k: deep.spent_in_votes("pategan", k, 1e-4), epsilon, 10_000)
        spent = [deep.spent_in_votes("pategan", k, 1e-4) for k in (count, count + 1)]
        assert spent[0] <= epsilon < spent[1]
    # By hand, two iterations of 320 labels, order 85 = sqrt(log(1e4)/(2e-6 * 640)).
    by_hand = 2e-6 * 640 * 86 + math.log(1e4) / 85
    assert deep.spent_in_votes("pategan", 2, 1e-4) == pytest.approx(by_hand)
    assert deep.most(lambda k: k / 10, 1.0, 7) == 7
    assert deep.most(lambda k: k + 2, 1.0, 7) == 0
    assert deep.descents("dpgan", 145, 64) == 4


def test_peers_that_are_not_there_are_named(scripts, monkeypatch, capsys) -> None:
    monkeypatch.delenv(scripts.synthetic.DEEP, raising=False)
    assert scripts.synthetic.available(["predictive", "dpgan"]) == ["predictive"]
    assert "deep.py" in capsys.readouterr().out


def test_rows_of_other_methods_stay(scripts, tmp_path) -> None:
    old = pd.DataFrame(
        {"setting": ["a", "a", "b", "b"], "method": ["ols", "refined"] * 2, "median": [1, 2, 3, 4]}
    )
    old.to_csv(tmp_path / "old.csv", index=False)
    new = pd.DataFrame({"setting": ["a", "b"], "method": "refined", "median": [5, 6]})
    both = scripts.accuracy.with_earlier(new, tmp_path / "old.csv")
    assert both.to_dict("list") == {**old.to_dict("list"), "median": [1, 5, 3, 6]}
    assert scripts.accuracy.with_earlier(new, tmp_path / "none.csv") is new


def test_peers_are_measured_in_errors_of_least_squares(scripts) -> None:
    peers = scripts.peers
    rng = np.random.default_rng(0)
    slopes = np.array([False, True, True, False])

    def line(method: str, number: int, squares: np.ndarray) -> dict[str, object]:
        return {"cell": "c", "n": 10, "mu": 1.0, "method": method, "replicate": number,
                "predicted": squares.sum(), "identified": 1.0, "coverage": 0.9,
                "squares": squares, "slopes": slopes}  # fmt: skip

    rows = []
    for number in range(50):
        base = rng.chisquare(1, 4)
        rows += [line("ols", number, base), line("ours", number, base * [9, 4, 4, 100])]
    table = peers.summarised(pd.DataFrame(rows)).set_index("method")
    assert table.loc["ols", "error"] == pytest.approx(1)
    assert table.loc["ours", "error"] == pytest.approx(2)
    assert table.loc["ours", "error_se"] == pytest.approx(0, abs=1e-9)
    assert table.loc["ours", "predicted"] > 3
    assert table.loc["ours", "slopes"] == 2
    wide = scripts.tables.peers(table.reset_index())
    assert "| c | 10 | 2 | **2.00** | 100% | 0.90 |" in wide


@pytest.mark.skipif(DATA is None, reason="no UCI data: set DPBINAGG_BENCH_DATA to their folder")
def test_a_quick_table_2_and_3_of_the_smallest_set(scripts) -> None:
    found = scripts.accuracy.predict_uci((DATA, "D1", 1.0, 0, ("ols", "refined")))
    ols, ours = (row["error"] for row in found)
    assert ols == pytest.approx(0.038, abs=5e-4)
    assert ols <= ours < 0.06
    synthetic = scripts.synthetic
    tasks = [(DATA, "D1", method, 0) for method in ("original", "cart", "predictive")]
    table = synthetic.table3(pd.DataFrame([row for task in tasks for row in synthetic.run(task)]))
    line = table.iloc[0]
    assert line["original"] < line["cart"] < 0.3
    assert line["predictive"] < line["published_binagg"]
