"""The plan: what it promises is what a release then gives."""

import numpy as np
import pandas as pd
import pytest

from dpbinagg import dp_ols, dp_study, plan
from dpbinagg.errors import BudgetError, DataError, DomainError, DPBinAggError

BOUNDS = {"x": (0, 10), "k": range(5), "c": ["a", "b"], "y": (0, 100)}


def draw(n, sd, rng):
    frame = pd.DataFrame({"x": rng.uniform(0, 10, n), "k": rng.integers(0, 5, n)})
    frame["c"] = rng.choice(["a", "b"], n)
    frame["y"] = 40 + 2 * frame.x - frame.k + (frame.c == "b") + sd * rng.normal(size=n)
    return frame


@pytest.mark.parametrize(("n", "mu"), [(800, 1.0), (3000, 0.5), (60_000, 1.0)])
def test_the_plan_agrees_with_simulated_releases(n, mu):
    """Median of 12 releases; the standard errors themselves vary by a few per cent."""
    formula = "y ~ x + k + C(c)"
    planned = plan(formula, n, mu, BOUNDS, sd=8.0, coefficients={"x": 2.0, "k": -1.0}, rng=1)
    rng = np.random.default_rng(2)
    found = [
        dp_ols(formula, draw(n, 8.0, rng), mu=mu, bounds=BOUNDS, rng=rng).bse for _ in range(12)
    ]
    ratio = planned.frame["se"] / pd.DataFrame(found).median()
    assert ratio.between(0.8, 1.25).all(), ratio


def test_the_table_and_its_words():
    planned = plan("y ~ x", 1000, 1, {"x": (0, 1), "y": (0, 8)})
    assert planned.sd == 1.0
    assert (planned.frame["ratio"] > 0.95).all()
    assert planned.frame["detectable"]["x"] == pytest.approx(2.8 * planned.frame["se"]["x"])
    text = str(planned)
    assert "n = 1,000" in text
    assert "spread evenly" in text
    assert max(map(len, text.splitlines())) <= 78
    assert text.startswith(planned.table())
    with pytest.raises(DataError, match="at least 2, got 1"):
        plan("y ~ x", 1, 1, {"x": (0, 1), "y": (0, 8)})


def test_less_privacy_and_more_records_help():
    bounds = {"x": (0, 1), "y": (0, 8)}
    base = plan("y ~ x", 1000, 1, bounds).frame["se"]["x"]
    assert plan("y ~ x", 1000, 4, bounds).frame["se"]["x"] < base
    assert plan("y ~ x", 8000, 1, bounds).frame["se"]["x"] < base / 2


def test_transformed_response_and_public_example():
    example = pd.DataFrame({"x": np.random.default_rng(0).normal(0.5, 0.05, 400)})
    bounds = {"x": (0, 1), "w": (1, 100)}
    even = plan("np.log(w) ~ x", 2000, 1, bounds, sd=0.4)
    narrow = plan("np.log(w) ~ x", 2000, 1, bounds, sd=0.4, example=example)
    assert narrow.frame["se"]["x"] > 2 * even.frame["se"]["x"]


def skewed(n, rng):
    """Money: its errors grow with x and have a long right tail."""
    x = rng.gamma(2.0, 2.0, n).clip(0, 20)
    y = (5 + 2 * x + (1 + x) * (rng.lognormal(0, 0.8, n) - np.exp(0.32))).clip(0, 200)
    return pd.DataFrame({"x": x, "y": y})


def test_an_example_with_its_response_foresees_errors_that_are_not_normal():
    """Median of 16 releases, and of 12; each varies by some ten per cent."""
    rng, bounds = np.random.default_rng(6), {"x": (0, 20), "y": (0, 200)}
    example = skewed(4000, rng)
    planned = plan("y ~ x", 3000, 1, bounds, example=example)
    blind = plan("y ~ x", 3000, 1, bounds, sd=planned.sd, example=example[["x"]])
    found = pd.DataFrame(
        [dp_ols("y ~ x", skewed(3000, rng), mu=1, bounds=bounds, rng=rng).bse for _ in range(12)]
    ).median()
    ratio = planned.frame["se"] / found
    assert ratio.between(1 / 1.3, 1.3).all(), ratio
    assert blind.frame["se"]["x"] < 0.7 * found["x"]
    assert "those of the example" in str(planned)
    assert "up to twofold" in str(blind)


def test_what_will_not_be_identified_is_named():
    bounds = {"x": (0, 1), "z": (0, 1), "y": (0, 8)}
    example = pd.DataFrame({"x": np.random.default_rng(0).random(500)})
    example["z"] = example.x
    planned = plan("y ~ x + z", 2000, 1, bounds, example=example)
    assert list(planned.frame.index[planned.frame["se"].isna()]) == ["x", "z"]
    assert "CAUTION: x, z will not be identified" in planned.table()


def test_rare_levels_of_the_example_are_named():
    example = pd.DataFrame({"c": ["a"] * 900 + ["b"] * 98 + ["d"] * 2})
    bounds = {"c": ["a", "b", "d", "e"], "y": (0, 8)}
    text = " ".join(str(plan("y ~ C(c)", 2000, 1, bounds, example=example)).split())
    assert "by the example: c d (about 4), c e (about 0)." in text
    assert "nothing here can tell" in " ".join(str(plan("y ~ C(c)", 2000, 1, bounds)).split())


def test_each_made_up_record_stands_for_several():
    """Standard errors go on with the root of n where no more records are made up."""
    bounds = {"x": (0, 1), "y": (0, 8)}
    some, many = (plan("y ~ x", n, 1, bounds) for n in (20_000, 8_000_000))
    ordinary = some.frame["se_ols"] / many.frame["se_ols"]
    assert ordinary.between(19, 21).all()
    assert many.frame["ratio"].between(1.0, 1.07).all()
    assert (many.frame["ratio"] < some.frame["ratio"]).all()


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (DomainError, {"bounds": {"x": (0, 1)}}),
        (DataError, {"n": 1}),
        (DataError, {"n": 10.5}),
        (DataError, {"sd": -1.0}),
        (DataError, {"replicates": 0}),
        (DataError, {"example": pd.DataFrame({"z": [1.0]})}),
        (DataError, {"example": pd.DataFrame({"x": [np.nan]})}),
        (DataError, {"example": pd.DataFrame({"x": [0.1, 0.2, 0.3], "y": [0.1, 0.2, 0.3]})}),
        (BudgetError, {"mu": 0}),
        (DPBinAggError, {"coefficients": {"z": 1.0}}),
    ],
)
def test_bad_plans_get_a_sentence(error, options):
    arguments = {"n": 100, "mu": 1, "bounds": {"x": (0, 1), "y": (0, 1)}} | options
    with pytest.raises(error):
        plan("y ~ x", **arguments)


def test_a_plan_of_a_study_agrees_with_simulated_studies():
    """Median of 8 studies; the standard errors themselves vary by a few per cent."""
    bounds = {**BOUNDS, "z": (0, 50)}
    models = {"y": "y ~ x + k", "z": "z ~ x + C(c)"}
    planned = plan(models, 3000, 1, bounds, sd={"y": 8.0, "z": 4.0}, rng=1)
    rng = np.random.default_rng(2)
    found = []
    for _ in range(8):
        frame = draw(3000, 8.0, rng)
        frame["z"] = np.clip(25 + 4 * rng.normal(size=3000), 0, 50)
        study = dp_study(models, frame, mu=1, bounds=bounds, rng=rng)
        found.append(pd.concat({name: one.bse for name, one in study.items()}))
    ratio = planned.frame["se"] / pd.DataFrame(found).median()
    assert ratio.index.names == ["model", "term"]
    assert ratio.between(0.8, 1.25).all(), ratio
    text = str(planned)
    assert "y: x" in text
    assert "each outcome by the first model that has it" in text.replace("\n", " ")


def test_two_more_models_cost_a_little():
    bounds = {**BOUNDS, "z": (0, 50)}
    one = {"y": "y ~ x + k"}
    more = one | {"z": "z ~ x", "big": "I(y > 50) ~ x + z"}
    few, many = (plan(m, 2000, 1, bounds, sd={"y": 8.0}).frame["se"]["y"] for m in (one, more))
    # Medians of 16 releases vary by a few per cent.
    assert many.div(few).between(0.95, 1.5).all()


def test_an_example_with_all_variables_is_drawn_as_it_is():
    rng = np.random.default_rng(3)
    example = draw(500, 8.0, rng)
    planned = plan({"y": "y ~ x + C(c)", "k": "k ~ y"}, 4000, 2, BOUNDS, example=example)
    assert "records as in the example" in planned.assumptions
    assert planned.frame["se_ols"]["y", "x"] == pytest.approx(8 / 4000**0.5 / 2.89, rel=0.2)
    with pytest.raises(DataError, match="no column 'c'"):
        plan({"y": "y ~ x + C(c)"}, 4000, 2, BOUNDS, example=example[["x", "y"]])


def test_guesses_of_a_study_go_by_model():
    for wrong, told in (({"sd": 8.0}, "by the name of the model"), ({"sd": {"Y": 1}}, "no model")):
        with pytest.raises(DataError, match=told):
            plan({"y": "y ~ x"}, 1000, 1, BOUNDS, **wrong)
    with pytest.raises(DataError, match="belongs to a study"):
        plan("y ~ x", 1000, 1, BOUNDS, variables=["k"])
