"""A study lets nothing private out, takes any table, and lists all that it spends."""

from __future__ import annotations

import math
import pickle
import warnings
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_canaries import (
    BOUNDS,
    NUMBERS,
    assert_clean,
    assert_no_exact_count,
    assert_object_clean,
    outside,  # noqa: F401
    table,
)

from dpbinagg import Ledger, Study, dp_study
from dpbinagg.audit.content import differences
from dpbinagg.cli import main
from dpbinagg.errors import DPBinAggError, FormulaError, NothingLeftError

MODELS = {"y": "y ~ x + C(g)", "x": "x ~ y", "high": "I(y > 0) ~ C(g)"}


def study(data: Any = None, **changes: Any) -> Study:
    given = {"mu": 1.0, "bounds": BOUNDS, "rng": 3, **changes}
    formulas = given.pop("formulas", MODELS)
    return dp_study(formulas, table() if data is None else data, **given)


@pytest.mark.parametrize("changes", [{}, {"bounds": {"g": ["a", "b"]}}, {"neighbours": "replace"}])
def test_nothing_private_comes_out(changes: dict[str, Any], outside: Path) -> None:  # noqa: F811
    found = study(**changes)
    for name in MODELS:
        assert_object_clean(name, found.release.told_of(name).statistics["scores"])
    assert_object_clean("counts", found.release.statistics["margins"])
    assert_clean("pickle", pickle.dumps(found.release))
    tables = (found.describe(), found.describe(by="g"), found.corr(), found.summary())
    for one in (*tables, found.crosstab("g", "g")):
        assert_clean("table", f"{one}{one.to_html()}{one.to_latex()}{one.frame.to_csv()}")
    assert_clean("words", f"{found!r}{found}{found.privacy.statement}{found.conf_int(joint=True)}")
    assert_clean("free", str(found.ols("y ~ C(g)").summary()))
    synthetic = found.synthesize(rng=1)
    assert not set(np.ravel(synthetic.select_dtypes("number").to_numpy())) & set(NUMBERS)
    found.save(outside / "folder", rng=1)
    assert_no_exact_count(lambda seed: study(**changes, rng=seed).release)


def test_nor_by_the_command(outside: Path) -> None:  # noqa: F811
    place = outside.parent / "private"
    place.mkdir(exist_ok=True)
    table().to_csv(place / "table.csv", index=False)
    file = place / "study.toml"
    file.write_text(
        'data = "table.csv"\nmu = 1\nrng = 1\n[formulas]\n"one" = "y ~ x + C(g)"\n'
        '"two" = "x ~ y"\n[bounds]\nx = [0, 1000000]\ny = [-100000, 100000]\ng = ["a", "b"]\n'
    )
    assert main(["study", str(file)]) == 0


def test_the_statement_lists_all_that_is_spent() -> None:
    privacy = study(neighbours="replace").privacy
    parts = [part.mu for part in privacy.mechanisms]
    assert math.sqrt(math.fsum(mu**2 for mu in parts)) <= 1.0
    assert math.sqrt(math.fsum(mu**2 for mu in parts)) > 0.95
    names = {part.name for part in privacy.mechanisms}
    assert {"residual scores of all models", *(f"squares of {name}" for name in MODELS)} <= names
    for name in names:
        assert name in privacy.statement


ODD: dict[str, dict[str, Any]] = {
    "infinite": {"x": np.inf},
    "huge": {"x": 1e308, "y": -1e308},
    "tiny": {"x": 5e-324, "y": -5e-324},
    "missing": {"x": np.nan, "y": np.nan, "g": None},
    "undeclared": {"g": "?"},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_values_do_no_harm(name: str) -> None:
    frame = table()[["x", "g", "y"]].reset_index(drop=True).astype({"g": object})
    for column, value in ODD[name].items():
        frame.loc[:2, column] = value
    with warnings.catch_warnings():
        # numpy's warnings tell of single values.
        warnings.simplefilter("error")
        release = study(frame).release
    for entry in release.transcript:
        for values, scales in zip(entry.answer.values, entry.answer.scales, strict=True):
            assert np.isfinite(values).all()
            assert (scales > 0).all()


def test_neither_the_order_of_rows_nor_odd_ones_beside_them_show() -> None:
    frame = table()[["x", "g", "y"]].reset_index(drop=True)
    one, other = study(frame).release, study(frame.sample(frac=1, random_state=1)).release
    assert not list(differences(one, other))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_few_records_are_no_special_case(rows: int) -> None:
    """Noise decides whether anything is left: the same for tables that differ in one record."""
    frame = table().head(rows)
    with suppress(NothingLeftError), warnings.catch_warnings():
        # Nor is arithmetic that has no result.
        warnings.simplefilter("error", RuntimeWarning)
        found = study(frame)
        assert str(found.summary())
        assert str(found.describe())


@pytest.mark.parametrize(
    ("changes", "error", "told"),
    [
        ({"variables": ["shoe"]}, DPBinAggError, "shoe"),
        ({"variables": 3}, FormulaError, "variables must be a list of names"),
        ({"formulas": {"a": "y ~ x", "b": "y ~ nosuch"}}, DPBinAggError, "nosuch"),
        ({"formulas": {"": "y ~ x"}}, FormulaError, "texts as names"),
        ({"mu": -1}, DPBinAggError, "mu must be"),
        ({"mu": None}, DPBinAggError, "give the privacy"),
        ({"bounds": {**BOUNDS, "x": (1, 0)}}, DPBinAggError, "x"),
        ({"missing": "keep"}, DPBinAggError, "missing must be one of"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_spent(
    changes: dict[str, Any], error: type[Exception], told: str, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "table.db", mu=2.0)
    with pytest.raises(error, match=told):
        study(ledger=ledger, **changes)
    assert ledger.remaining == 2.0


def test_names_of_models_may_be_any_text(tmp_path: Path) -> None:
    odd = {"Löhne (1), log": "y ~ x", "a/b: ~c": "x ~ y", "\n": "y ~ C(g)"}
    with pytest.raises(FormulaError, match="texts as names"):
        study(formulas=odd)
    odd.pop("\n")
    found = study(formulas=odd)
    found.save(tmp_path / "folder", rng=1)
    assert list(pd.read_csv(tmp_path / "folder" / "models.csv")["model"].unique()) == list(odd)


@pytest.mark.parametrize("mu", [0.05, 1.0, 40.0])
def test_models_of_one_design_spend_what_is_stated(mu: float) -> None:
    """Each question is stated with the mu that it was asked with; their squares, exactly added."""
    formulas = {
        "a": "y ~ x + C(g)",
        "b": "I(y > 0) ~ x + C(g)",
        "c": "x ~ y",
        "d": "I(x > 5e5) ~ y",
    }
    release = study(formulas=formulas, mu=mu).release
    asked = [(entry.question.name, entry.mu) for entry in release.transcript]
    stated = [(one.name, one.mu) for one in release.privacy.mechanisms]
    assert [one for one in stated if one[0] != "partition"] == asked
    assert [name for name, _ in asked].count("squares of b") == 1
    total = sum(Fraction(part) ** 2 for _, part in stated)
    assert 0.999 * mu**2 < total <= Fraction(mu) ** 2
