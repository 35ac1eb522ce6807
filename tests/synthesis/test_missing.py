"""Missing values appear where they are asked for, and change no regression."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpbinagg import combine_copies, dp_ols
from dpbinagg.errors import ReleaseError

BOUNDS = {
    "pay": (0, 100),
    "school": range(21),
    "age": (16, 80),
    "place": ["n", "s"],
    "union": [False, True],
}
FORMULA = "pay ~ school + age + C(place) + union"


def people(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"school": rng.integers(5, 21, n).astype(float)})
    data["age"] = rng.uniform(16, 80, n)
    data["place"] = rng.choice(["n", "s"], n)
    data["union"] = rng.random(n) < 0.3
    data["pay"] = (10 + 2 * data.school + 0.2 * data.age + rng.normal(0, 6, n)).clip(0, 100)
    data.loc[rng.random(n) < 0.15, "school"] = np.nan
    data.loc[rng.random(n) < 0.05, "pay"] = np.nan
    data.loc[rng.random(n) < 0.10, "place"] = None
    return data


@pytest.fixture(scope="module")
def data():
    return people()


@pytest.fixture(scope="module")
def res(data):
    return dp_ols(FORMULA, data, mu=1, bounds=BOUNDS, rng=1)


def test_shares_of_missing_values_are_the_released_ones(res, data):
    table = res.synthesize(missing=True, rng=2)
    # One-way counts at mu = 1 have noise of about 15 records in 6,000.
    for name in data:
        assert table[name].isna().mean() == pytest.approx(data[name].isna().mean(), abs=0.015)
    complete = data.dropna().shape[0] / len(data)
    assert table.dropna().shape[0] / len(table) == pytest.approx(complete, abs=0.015)
    assert len(table) == pytest.approx(len(data), rel=0.02)


def test_least_squares_is_what_it_was(res):
    table = res.synthesize(missing=True, rng=2)
    np.testing.assert_allclose(smf.ols(FORMULA, table).fit().params, res.params, atol=1e-8)
    assert not res.synthesize(rng=2).isna().any().any()


def test_copies_with_missing_values_are_combined_as_those_without(res):
    copies = res.synthesize(copies=8, missing=True, rng=3)
    fits = [smf.ols(FORMULA, copy).fit() for _, copy in copies.groupby("copy")]
    combined = combine_copies(fits)
    assert combined.support == "exact"
    np.testing.assert_allclose(combined.bse, res.bse, rtol=1e-6)


def test_a_file_with_missing_values_reads_back(res, tmp_path):
    table = res.synthesize(missing=True, rng=4)
    table.to_csv(tmp_path / "t.csv", index=False)
    back = pd.read_csv(tmp_path / "t.csv")
    assert back["union"].notna().all()
    np.testing.assert_allclose(smf.ols(FORMULA, back).fit().params, res.params, atol=1e-8)


def test_where_nothing_is_missing_nothing_is_added():
    res = dp_ols(FORMULA, people().dropna(), mu=1, bounds=BOUNDS, rng=1)
    table = res.synthesize(missing=True, rng=2)
    pd.testing.assert_frame_equal(table, res.synthesize(rng=2))


def test_the_published_kind_has_no_missing_values(res):
    with pytest.raises(ReleaseError, match="missing=True needs raw variables"):
        res.synthesize(kind="binagg", missing=True)
