"""Synthetic rows keep heaps, zeros, whole numbers and tails, and the released regression."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.stats.diagnostic import het_breuschpagan

from dpbinagg import dp_ols
from dpbinagg.analyst.ols.coordinates import Margin
from dpbinagg.analyst.synthesis.laws import Cells, Fact, Law, nearest_counts, number_law
from dpbinagg.analyst.synthesis.raking import Cells as Raked
from dpbinagg.analyst.synthesis.raking import raked, systematic
from dpbinagg.public.domain import Numeric

ZERO_TO_8 = Numeric(0.0, 8.0)
BOUNDS = {
    "employed": range(2),
    "visits": range(61),
    "earned": (0, 200),
    "hours": range(81),
    "educ": range(21),
    "smoker": {"levels": [0, 1]},
    "region": ["n", "s", "e"],
}


def people(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    hours = np.where(rng.random(n) < 0.45, 40, np.clip(rng.normal(35, 12, n).round(), 0, 80))
    educ = np.where(rng.random(n) < 0.3, 12, rng.integers(8, 19, n))
    data = pd.DataFrame({"hours": hours.astype(int), "educ": educ.astype(int)})
    data["smoker"] = (rng.random(n) < 0.5 - 0.02 * (educ - 8)).astype(int)
    data["region"] = rng.choice(["n", "s", "e"], n, p=[0.6, 0.3, 0.1])
    index = -1.0 + 0.08 * educ + 0.01 * hours - 0.3 * data["smoker"]
    data["employed"] = (rng.random(n) < 1 / (1 + np.exp(-index))).astype(int)
    data["visits"] = np.minimum(rng.poisson(np.exp(0.5 + 0.4 * data["smoker"])), 60)
    data.loc[rng.random(n) < 0.4, "visits"] = 0
    wage = np.exp(1.5 + 0.08 * educ + rng.normal(0, 0.1 + 0.03 * (educ - 8), n))
    data["earned"] = np.where(data["employed"] == 1, np.minimum(wage, 200), 0.0)
    return data


RIGHT = "educ + hours + C(smoker) + C(region)"


@pytest.fixture(scope="module")
def tables():
    data = people()
    made = {}
    for outcome in ("employed", "visits", "earned"):
        res = dp_ols(f"{outcome} ~ {RIGHT}", data, mu=1, bounds=BOUNDS, rng=5)
        made[outcome] = (res, res.synthesize(rng=3))
    return data, made


def gaps(res, table):
    """Distance of least squares on the table from the release, in released standard errors."""
    levels = pd.CategoricalDtype(["n", "s", "e"])
    fit = smf.ols(res.design.formula, table.astype({"region": levels})).fit()
    return (np.asarray(fit.params) - res.estimate.params) / res.estimate.bse, fit


@pytest.mark.parametrize(("name", "value"), [("hours", 40), ("educ", 12)])
def test_heaps_survive(tables, name, value):
    data, made = tables
    for _, table in made.values():
        assert (table[name] == value).mean() == pytest.approx(
            (data[name] == value).mean(), abs=0.02
        )
        beside = ((table[name] - value).abs() == 1).mean()
        assert beside == pytest.approx(((data[name] - value).abs() == 1).mean(), abs=0.02)


def test_zero_and_one_stay_numbers(tables):
    data, made = tables
    res, table = made["employed"]
    assert set(table["employed"]) == {0, 1}
    assert table["employed"].dtype.kind == table["smoker"].dtype.kind == "i"
    assert table["employed"].mean() == pytest.approx(data["employed"].mean(), abs=0.02)
    assert np.abs(gaps(res, table)[0]).max() < 0.05


def test_a_logit_on_a_synthetic_outcome_of_zero_and_one(tables):
    data, made = tables
    formula = "employed ~ educ + hours + smoker"
    real = smf.logit(formula, data).fit(disp=0)
    mine = smf.logit(formula, made["employed"][1]).fit(disp=0)
    # The release is noisy: its own standard errors are up to twice those of the records.
    assert (np.abs(mine.params - real.params) / real.bse).max() < 4


def test_counts_stay_counts(tables):
    data, made = tables
    res, table = made["visits"]
    assert table["visits"].dtype.kind == "i"
    assert table["visits"].min() == 0
    assert (table["visits"] == 0).mean() == pytest.approx((data["visits"] == 0).mean(), abs=0.03)
    assert np.abs(gaps(res, table)[0]).max() < 0.05


def test_zeros_and_tail_of_money(tables):
    data, made = tables
    res, table = made["earned"]
    gap, fit = gaps(res, table)
    assert np.abs(gap).max() < 1e-6
    assert (table["earned"] == 0).mean() == pytest.approx((data["earned"] == 0).mean(), abs=0.05)
    assert table["earned"].quantile(0.99) == pytest.approx(data["earned"].quantile(0.99), rel=0.2)
    assert fit.scale == pytest.approx(res.scale, rel=0.1)


def test_heteroscedasticity_is_visible():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 5000)})
    data["y"] = data["x"] + rng.normal(0, 0.2 + data["x"])
    data["flat"] = data["x"] + rng.normal(0, 0.7, 5000)
    found = {}
    for outcome in ("y", "flat"):
        bounds = {"x": (0, 1), outcome: (-8, 8)}
        table = dp_ols(f"{outcome} ~ x", data, mu=1, bounds=bounds, rng=2).synthesize(rng=3)
        fit = smf.ols(f"{outcome} ~ x", table).fit()
        found[outcome] = het_breuschpagan(fit.resid, sm.add_constant(table[["x"]]))[1]
    assert found["y"] < 1e-6 < 0.001 < found["flat"]


def shares_between(law, edges, n=20_000):
    values = law.quantiles((np.arange(n) + 0.5) / n)
    # A cell holds its upper end.
    return np.histogram(values, np.nextafter(edges, np.inf))[0] / n


def test_counts_nearest_to_noisy_ones_and_their_total_are_not_negative():
    counts = np.array([50.0, 3.0, -4.0, 0.5, 20.0])
    near = nearest_counts(counts, 2.0, 60.0, 1.0)
    kept = near > 0
    # All that are kept are lowered alike, by as much as the total is missed, and none below zero.
    lowered = counts[kept] - near[kept]
    np.testing.assert_allclose(lowered, (near.sum() - 60.0) * 2.0**2 / 1.0**2)
    assert not near[counts <= lowered[0]].any()
    np.testing.assert_allclose(nearest_counts(counts, 2.0, counts.sum(), 1e6), counts.clip(0))


def test_a_law_is_the_nearest_to_counts_their_total_and_moments():
    counts = np.array([100.0, 3.0, -4.0, 2.0, 80.0, 5.0, -2.0, 9.0])
    bounds, cells = Numeric(-1.0, 9.0), Cells.of(Margin(np.arange(9.0), counts, 2.0), ZERO_TO_8)
    total = Fact(np.ones(8), counts.sum(), 2.0)
    found = shares_between(number_law(cells, [total], bounds, ZERO_TO_8), np.arange(9.0))
    np.testing.assert_allclose(found[[0, 4]] * counts.sum(), [100, 80], atol=2.0)
    assert (found[[2, 6]] < 0.001).all()
    # A mean square that says so lets the far cell go.
    middle = np.arange(8) + 0.5
    square = Fact(middle**2, float(middle[:7] ** 2 @ counts[:7].clip(0)), 10.0)
    less = shares_between(number_law(cells, [total, square], bounds, ZERO_TO_8), np.arange(9.0))
    assert less[7] < found[7] / 2


def test_a_closer_look_says_where_in_a_cell_the_records_are():
    wide = Cells.of(Margin(np.array([0.0, 4.0, 8.0]), np.array([300.0, 100.0]), 3.0), ZERO_TO_8)
    parts = np.array([20.0, 15.0, 250.0, 22.0, 25.0, 26.0, 24.0, 22.0])
    cells = wide.cut(Margin(np.arange(9.0), parts, 6.0), ZERO_TO_8)
    law = number_law(cells, [Fact(np.ones(8), 400.0, 3.0)], ZERO_TO_8, ZERO_TO_8)
    found = shares_between(law, np.arange(9.0)) * 400
    assert found[2] == pytest.approx(250, abs=8)
    # The first look tells the sum of the parts better than the parts do.
    assert found[:4].sum() == pytest.approx(300, abs=2)
    assert found[4:].sum() == pytest.approx(100, abs=2)


def test_heaps_of_money_survive():
    rng = np.random.default_rng(3)
    pay = np.where(rng.random(4000) < 0.2, 30_000.0, rng.lognormal(10.2, 0.6, 4000).clip(0, 5e5))
    data = pd.DataFrame({"pay": pay, "x": rng.normal(size=4000).clip(-5, 5)})
    res = dp_ols("x ~ pay", data, mu=1, bounds={"pay": (0, 500_000), "x": (-5, 5)}, rng=1)
    made = res.synthesize(rng=1)["pay"]
    for half in (1500, 4000):
        real = (np.abs(pay - 30_000) <= half).mean()
        assert (np.abs(made - 30_000) <= half).mean() == pytest.approx(real, abs=0.03)


def test_quantiles_of_whole_numbers_have_the_shares():
    law = Law(np.array([0.5, 0.0, 0.3, 0.2]), np.arange(4) - 0.5, np.arange(4) + 0.5, True)
    values = law.quantiles((np.arange(1000) + 0.5) / 1000)
    np.testing.assert_array_equal(np.bincount(values.astype(int)), [500, 0, 300, 200])


def test_raking_brings_counts_and_moments_together():
    rng = np.random.default_rng(0)
    columns = np.column_stack([np.ones(20_000), rng.normal(size=(20_000, 2))])
    group = rng.integers(0, 3, 20_000)
    target = np.array([[1.0, 0.1, 0.0], [0.1, 1.2, 0.5], [0.0, 0.5, 0.9]])
    shares = np.array([0.5, 0.3, 0.2])
    weight = raked(columns, target, 0.0, [Raked(group, shares)])
    found = (columns * weight[:, None]).T @ columns / weight.sum()
    np.testing.assert_allclose(found, target, atol=0.05)
    have = np.bincount(group, weights=weight) / weight.sum()
    np.testing.assert_allclose(have, shares, atol=0.01)
    kept = systematic(weight, 5000, rng)
    assert np.abs(columns[kept].T @ columns[kept] / 5000 - target).max() < 0.06
    # A moment that noise drowns is not followed.
    loose = raked(columns, target, 1e6, [])
    assert np.abs(loose - 1).max() < 0.01
