"""Bundled data: regenerated from the seed, inside its codebook, and what the text says."""

from __future__ import annotations

import ast
import csv
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scripts import load

from dpbinagg import datasets
from dpbinagg.datasets import bundled, simulate
from dpbinagg.errors import DataError
from dpbinagg.public.domain import Categorical, Domain, Numeric

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "dpbinagg" / "datasets"
LOADERS: dict[str, Callable[[], datasets.Dataset]] = {
    "wages": datasets.load_wages,
    "school": datasets.load_school,
    "register": lambda: datasets.load_register(n=5_000),
    "fair": datasets.load_fair,
    "ccard": datasets.load_ccard,
    "anes96": datasets.load_anes96,
    "randhie": datasets.load_randhie,
}
MAKERS = {
    "wages": (simulate.make_wages, bundled.WAGES_FORMULA, simulate.WAGE_COEFFICIENTS),
    "school": (simulate.make_school, bundled.SCHOOL_FORMULA, simulate.SCHOOL_COEFFICIENTS),
    "register": (simulate.make_register, bundled.REGISTER_FORMULA, simulate.REGISTER_COEFFICIENTS),
}


@pytest.fixture(scope="module", params=LOADERS)
def loaded(request: pytest.FixtureRequest) -> datasets.Dataset:
    return LOADERS[request.param]()


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    return load(ROOT / "data" / "generate.py")


def test_files_are_what_the_generator_writes(generate: ModuleType) -> None:
    contents = generate.files()
    assert {path.name for path in contents} == {"wages.csv", "school.csv", "wages.md", "school.md"}
    for path, content in contents.items():
        assert path.read_text(encoding="utf-8") == content, path.name


@pytest.mark.parametrize(("name", "n"), [("wages", 5_000), ("school", 3_000)])
def test_seed_is_the_first_typical_one(generate: ModuleType, name: str, n: int) -> None:
    make, formula, truth = MAKERS[name]
    seed = {"wages": generate.WAGES_SEED, "school": generate.SCHOOL_SEED}[name]
    typical = [generate.is_typical(make(n, s), formula, truth) for s in range(1, seed + 1)]
    assert typical == [False] * (seed - 1) + [True]


@pytest.mark.parametrize("name", ["wages", "school"])
def test_loaded_frame_is_the_simulated_one(generate: ModuleType, name: str) -> None:
    seed = {"wages": generate.WAGES_SEED, "school": generate.SCHOOL_SEED}[name]
    frame = LOADERS[name]().frame
    pd.testing.assert_frame_equal(frame, MAKERS[name][0](len(frame), seed))


def test_values_lie_inside_the_codebook(loaded: datasets.Dataset) -> None:
    assert isinstance(loaded.codebook, Domain)
    assert list(loaded.codebook) == list(loaded.frame.columns)
    for name, variable in loaded.codebook.items():
        values = loaded.frame[name].dropna()
        if isinstance(variable, Categorical):
            assert tuple(loaded.frame[name].cat.categories) == variable.levels
        else:
            assert isinstance(variable, Numeric)
            assert values.between(variable.lower, variable.upper).all(), name
            if variable.integer:
                assert (values == values.round()).all(), name


def test_labels_lose_no_record(loaded: datasets.Dataset) -> None:
    missing = loaded.frame.isna().mean()
    gaps = {"wages": {"wage", "union", "hours"}, "school": {"score", "ses"}}
    assert set(missing.index[missing > 0]) == gaps.get(loaded.name, set())
    assert (missing[missing > 0].between(0.01, 0.06)).all()


def test_suggested_formula_fits(loaded: datasets.Dataset) -> None:
    fit = smf.ols(loaded.formula, loaded.frame).fit()
    assert np.isfinite(fit.bse).all()
    assert fit.nobs > 0.9 * len(loaded.frame)
    assert 0.02 < fit.rsquared < 0.7


def test_text_fields_and_repr(loaded: datasets.Dataset) -> None:
    for field in ("description", "formula", "name", "source", "license", "note"):
        assert getattr(loaded, field).strip()
    assert loaded.description.startswith("# ")
    assert f"Dataset {loaded.name}: {len(loaded.frame):,} rows" in repr(loaded)
    assert loaded.formula in repr(loaded)
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", LOADERS)
def test_codebook_file_is_complete(name: str) -> None:
    with datasets.codebook_path(name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "type", "lower", "upper", "levels", "unit", "description"]
    for row in rows:
        assert None not in row, row["name"]
        assert row["description"]
        assert row["type"] in {"numeric", "integer", "categorical"}
        assert bool(row["levels"]) == (row["type"] == "categorical")


def test_wages_look_like_a_wage_survey() -> None:
    wages = datasets.load_wages()
    fit = smf.ols(wages.formula, wages.frame).fit()
    assert 0.07 < fit.params["educ"] < 0.09
    assert fit.params["exper"] > 0 > fit.params["I(exper ** 2)"]
    assert -0.18 < fit.params["C(sex)[T.female]"] < -0.12
    assert 0.35 < fit.rsquared < 0.45
    wage = wages.frame["wage"].dropna()
    assert wage.skew() > 1
    assert (wage % 1 == 0).mean() > 0.4
    assert {8, 12, 16} <= set(_peaks(wages.frame["educ"]))
    assert {20, 35, 40} <= set(_peaks(wages.frame["hours"].dropna()))


def _peaks(values: pd.Series) -> list[float]:
    """Values that are more frequent than both their neighbours."""
    counts = values.value_counts()
    around = {v: (counts.get(v - 1, 0), counts.get(v + 1, 0)) for v in counts.index}
    return [v for v, (below, above) in around.items() if counts[v] > max(below, above)]


@pytest.mark.parametrize("name", MAKERS)
def test_simulation_has_the_stated_coefficients(name: str) -> None:
    """Chi-square of all robust z values, seed fixed; limit: the 0.999 quantile (13 terms: 34.5)."""
    make, formula, truth = MAKERS[name]
    fit = smf.ols(formula, make(60_000, 12345)).fit(cov_type="HC1")
    expected = pd.Series(truth)
    if name == "register":
        expected["Intercept"] += 0.01
    gap = (fit.params[expected.index] - expected).to_numpy()
    cov = fit.cov_params().loc[expected.index, expected.index].to_numpy()
    assert gap @ np.linalg.solve(cov, gap) < {9: 27.9, 8: 26.1, 13: 34.5}[len(expected)]


def test_school_effect_and_lottery() -> None:
    school = datasets.load_school()
    assert simulate.SCHOOL_COEFFICIENTS["treatment"] == 4
    assert "true effect is 4 points" in school.description
    low, high = smf.ols(school.formula, school.frame).fit().conf_int().loc["treatment"]
    assert low < 4 < high
    means = smf.ols("score ~ treatment", school.frame).fit()
    assert f"standard error of {means.bse['treatment']:.2f}" in school.description
    balance = smf.ols("treatment ~ pretest + class_size + C(gender)", school.frame).fit()
    assert balance.f_pvalue > 0.01


def test_register_is_reproducible_and_follows_rng() -> None:
    first, again = datasets.load_register(n=500), datasets.load_register(n=500)
    other = datasets.load_register(n=500, rng=np.random.default_rng(1))
    pd.testing.assert_frame_equal(first.frame, again.frame)
    assert not first.frame.equals(other.frame)
    assert len(datasets.make_register(0)) == 0


def test_register_is_fast() -> None:
    """A million rows took 0.4 s when written; 5 s leaves room for a busy machine."""
    start = time.perf_counter()
    assert len(simulate.make_register(1_000_000, 0)) == 1_000_000
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("n", [-1, 2.5, "10", None])
@pytest.mark.parametrize("name", MAKERS)
def test_size_must_be_a_whole_number(name: str, n: object) -> None:
    with pytest.raises(DataError, match="n must"):
        MAKERS[name][0](n)  # type: ignore[arg-type]


def test_unknown_names_are_refused() -> None:
    assert datasets.data_path("wages").is_file()
    with pytest.raises(DataError, match="school, wages; got 'register'"):
        datasets.data_path("register")
    with pytest.raises(DataError, match="anes96, ccard, fair"):
        datasets.codebook_path("../wages")


def test_statsmodels_labels_follow_the_documented_codes() -> None:
    import statsmodels.api as sm

    raw = sm.datasets.randhie.load_pandas().data
    health = datasets.load_randhie().frame["health"]
    for level, column in (("good", "hlthg"), ("fair", "hlthf"), ("poor", "hlthp")):
        assert ((health == level) == (raw[column] == 1)).all()
    fair = datasets.load_fair().frame["occupation"]
    codes = sm.datasets.fair.load_pandas().data["occupation"]
    assert (fair.cat.codes + 1 == codes).all()


def test_affairs_are_quotients_of_the_codes() -> None:
    """Partners times encounters, coded 1, 3.5, 5.6, 8 or 12, over years: at most 288."""
    frame = datasets.load_fair().frame
    codes = np.array([0, 1, 3.5, 5.6, 8, 12])
    products = np.unique(np.outer(codes, codes))
    total = (frame["affairs"] * frame["yrs_married"]).to_numpy()
    assert np.abs(total[:, None] - products).min(axis=1).max() < 1e-4
    assert products.max() / 0.5 == 288


def test_import_is_light() -> None:
    """No module of the folder imports pandas or statsmodels at top level."""
    for path in FOLDER.glob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Import):
                roots = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                roots = {(node.module or "").split(".")[0]}
            else:
                continue
            assert not roots & {"pandas", "statsmodels"}, path.name
