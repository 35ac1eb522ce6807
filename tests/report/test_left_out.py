"""What a regression did without is said, from noisy counts: nothing is lost in silence.

At mu = 100 the noise of a count is below one record, so that what is said is nearly exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbinagg import Ledger, NothingLeftError, dp_ols, load_release

N = 1000
BOUNDS: dict[str, Any] = {"x": (0, 10), "g": ["a", "b"], "y": (-20, 40)}
FORMULA = "y ~ x + C(g)"


def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.uniform(0.5, 9.5, N)
    g = np.where(np.arange(N) % 2, "a", "b")
    return pd.DataFrame({"x": x, "g": g, "y": 2 * x + (g == "b") + rng.normal(0, 1, N)})


def fit(data: pd.DataFrame, mu: float = 100, **more: Any) -> Any:
    bounds = {**BOUNDS, **more.pop("bounds", {})}
    return dp_ols(FORMULA, data, mu=mu, bounds=bounds, rng=1, **more)


def said(results: Any) -> str:
    return " ".join(results.summary().notes)


def test_nothing_is_said_where_nothing_is_left_out() -> None:
    results = fit(table())
    assert results.notes[1:] == fit(table()).notes[1:]
    for words in ("left out", "not declared", "above", "below", "No records"):
        assert words not in said(results)
    assert results.summary().first == ""


def test_missing_values_and_strange_levels_are_told_by_variable() -> None:
    data = table()
    data.loc[:99, "x"] = np.nan
    data.loc[200:249, "g"] = "elsewhere"
    results = fit(data)
    assert results.notes[0] == (
        "About 15% of about 1,000 records were left out, because a variable of the release has no "
        "value: x is missing in about 10%; g has a level that was not declared in about 5%."
    )
    assert results.notes[0] in results.summary().notes
    assert "elsewhere" not in results.summary().as_text()


@pytest.mark.parametrize("code", [-9, "refused"])
def test_a_missing_code_is_missing_not_strange(code: Any) -> None:
    data = table()
    data["g"] = data["g"].astype(object)
    data.loc[:99, "g"] = code
    bounds = {"g": {"levels": ["a", "b"], "missing": [code]}}
    assert "g is missing in about 10%" in said(fit(data, bounds=bounds))
    assert "g has a level that was not declared in about 10%" in said(fit(data))


def test_values_outside_their_bounds_are_counted_on_either_side() -> None:
    data = table()
    data.loc[:19, "x"] = 11.0
    data.loc[20:29, "x"] = -1.0
    data.loc[30:34, "x"] = [0.0, 10.0, 0.0, 10.0, 10.0]
    results = fit(data)
    assert "x 0 to 10 (about 1% below and 2% above)" in said(results)
    assert "unit of the data" not in said(results)


def test_bounds_in_another_unit_are_doubted() -> None:
    results = fit(table().assign(x=lambda frame: frame["x"] * 100))
    assert "CAUTION: about 100% of the values of x are outside its bounds" in said(results)


def test_open_ends_have_no_outside() -> None:
    data = table()
    data.loc[:199, "x"] = -3.0
    assert "x 0 to" in said(fit(data, bounds={"x": (0, None)}))
    assert "(about 20% below)" in said(fit(data, bounds={"x": (0, None)}))
    assert "below" not in said(fit(data, bounds={"x": (None, None)}))


def test_levels_that_nobody_has_are_named() -> None:
    results = fit(table(), bounds={"g": ["a", "b", "c"]})
    assert "No records, or too few to tell from none, have g = c." in said(results)


def test_few_records_left_are_the_first_line_of_every_table() -> None:
    data = table()
    data.loc[:699, "x"] = np.nan
    results = fit(data)
    line = "CAUTION: only about 300 of about 1,000 records were used."
    shown = results.summary()
    assert shown.as_text().splitlines()[2] == line
    assert shown.as_csv().splitlines()[1].strip('"') == line
    for text in (shown.as_html(), shown.as_markdown()):
        assert text.index(line) < text.index("coef")
    assert shown.as_latex().index(line) < shown.as_latex().index("toprule")
    assert results.notes[0].startswith(line)
    assert any(note.startswith(line) for note in shown.notes)


def test_the_folder_says_it_too(tmp_path: Path) -> None:
    data = table()
    data.loc[:699, "x"] = np.nan
    folder = fit(data).save(tmp_path / "release")
    line = "only about 300 of about 1,000 records were used"
    assert line in (folder / "README.md").read_text()
    assert line in (folder / "report.html").read_text()
    assert line in load_release(folder).ols().summary().as_text()


@pytest.mark.parametrize("mu", [1.0, 100.0])
def test_nothing_left_is_an_error_with_the_reason(mu: float, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", mu=200)
    with pytest.raises(NothingLeftError, match=r"g has a level that was not declared in about"):
        fit(table(), mu, bounds={"g": ["A", "B"]}, ledger=ledger)
    # It was found out from a release.
    assert ledger.remaining < 200


def test_noise_alone_is_no_reason() -> None:
    """Of 40 fits without an incomplete record none says that there are any, at 2.5 deviations."""
    results = [
        dp_ols(FORMULA, table(), mu=0.5, bounds=BOUNDS, rng=seed).release for seed in range(40)
    ]
    high = [r.statistics["incomplete"] > 2.5 * r.noise_scales["incomplete"] for r in results]
    # Binomial with n = 40 and p = 0.006: more than 3 once in 10,000.
    assert sum(high) <= 3


@pytest.mark.parametrize("n", [0, 3])
def test_where_nobody_is_left_nothing_is_identified(n: int) -> None:
    """At mu = 1 the number of so few records cannot be told from none; 20 releases of each."""
    for seed in range(20):
        results = dp_ols(FORMULA, table().head(n), mu=1, bounds=BOUNDS, rng=seed)
        assert not results.identified.any()
        if "CAUTION: no records" in results.summary().as_text():
            break
    else:
        pytest.fail("no table says that nobody is left")
