"""The plan: what it promises is what a release then gives."""

import numpy as np
import pandas as pd
import pytest

from dpbinagg import dp_ols, plan
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


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (DomainError, {"bounds": {"x": (0, 1)}}),
        (DataError, {"n": 1}),
        (DataError, {"n": 10.5}),
        (DataError, {"sd": -1.0}),
        (DataError, {"replicates": 0}),
        (DataError, {"example": pd.DataFrame({"z": [1.0]})}),
        (BudgetError, {"mu": 0}),
        (DPBinAggError, {"coefficients": {"z": 1.0}}),
    ],
)
def test_bad_plans_get_a_sentence(error, options):
    arguments = {"n": 100, "mu": 1, "bounds": {"x": (0, 1), "y": (0, 1)}} | options
    with pytest.raises(error):
        plan("y ~ x", **arguments)
