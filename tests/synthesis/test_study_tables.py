"""One synthetic table for all outcomes of a study."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpbinagg import combine_copies, dp_study
from dpbinagg.analyst.synthesis.supports import EXACT, NOISE

BOUNDS = {
    "pay": (0.5, 300),
    "school": (0, 25),
    "hours": range(81),
    "visits": range(41),
    "employed": range(2),
    "woman": range(2),
    "place": ["north", "south", "west"],
    "wealth": (-50, 500),
}
MODELS = {
    "pay": "np.log(pay) ~ school + hours + woman + C(place)",
    "small": "np.log(pay) ~ school + woman",
    # Pay depends on school here, and school on pay.
    "school": "school ~ np.log(pay) + C(place)",
    "hours": "hours ~ school + woman",
    "visits": "visits ~ hours + woman",
    "employed": "employed ~ school + woman",
}
WHOLE = ("hours", "visits", "employed")


def people(n=4000, seed=3):
    rng = np.random.default_rng(seed)
    woman, place = rng.integers(0, 2, n), rng.choice(["north", "south", "west"], n)
    school = np.clip(rng.normal(13, 3, n), 0, 25)
    hours = np.where(rng.random(n) < 0.4, 40, np.clip(rng.normal(36 - 4 * woman, 9), 0, 80).round())
    log_pay = 1 + 0.08 * school + 0.01 * hours - 0.2 * woman + rng.normal(0, 0.4, n)
    data = pd.DataFrame({"woman": woman, "place": place, "school": school})
    data["hours"], data["pay"] = hours.astype(int), np.exp(log_pay).clip(0.5, 300)
    data["visits"] = np.minimum(rng.poisson(1 + woman), 40) * (rng.random(n) < 0.6)
    data["employed"] = (rng.random(n) < 0.2 + 0.04 * school - 0.1 * woman).astype(int)
    data["wealth"] = np.where(rng.random(n) < 0.3, 0.0, rng.exponential(30, n)).clip(-50, 500)
    return data


@pytest.fixture(scope="module")
def study():
    return dp_study(MODELS, people(), mu=2, variables=["wealth"], bounds=BOUNDS, rng=1)


@pytest.fixture(scope="module")
def table(study):
    return study.synthesize(rng=2)


def off(study, table, name):
    """Distance of least squares from the release, in released standard errors."""
    fit = smf.ols(MODELS[name], table).fit()
    return np.abs((np.asarray(fit.params) - study[name].estimate.params) / study[name].estimate.bse)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "small"])
def test_the_largest_model_of_every_outcome_is_calibrated(study, table, name):
    assert off(study, table, name).max() < (0.05 if name in WHOLE else 1e-6)


def test_a_nested_model_is_near_and_said_to_be(study, table):
    supports = study.supports.set_index("what")["support"]
    assert supports[MODELS["small"]] == NOISE
    assert all(supports[f] == EXACT for name, f in MODELS.items() if name != "small")
    assert off(study, table, "small").max() < 3


def test_types_and_heaps_are_those_of_the_records(table):
    data = people()
    assert list(table.columns[:1]) == ["pay"]
    assert set(table.columns) == set(BOUNDS)
    assert set(table["employed"]) == set(table["woman"]) == {0, 1}
    for name in WHOLE:
        assert table[name].dtype.kind == "i"
    for name, value in (("hours", 40), ("visits", 0)):
        assert (table[name] == value).mean() == pytest.approx(
            (data[name] == value).mean(), abs=0.03
        )


def test_copies_of_a_study_carry_the_errors_of_every_model(study):
    copies = study.synthesize(copies=7, size=1500, rng=3)
    for name in ("pay", "school", "employed"):
        fits = [smf.ols(MODELS[name], copy).fit() for _, copy in copies.groupby("copy")]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            combined = combine_copies(fits)
        assert combined.support == EXACT
        # Seven copies hold variances one by one for models of up to six coefficients.
        rtol = 0.05 if name in WHOLE else 1e-4
        np.testing.assert_allclose(combined.bse, study[name].bse, rtol=rtol)
    fits = [smf.ols(MODELS["small"], copy).fit() for _, copy in copies.groupby("copy")]
    small = combine_copies(fits)
    assert small.support == NOISE
    assert (np.abs(small.params - study["small"].params) < 3 * small.bse).all()
