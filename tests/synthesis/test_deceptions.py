"""What synthetic tables used to get wrong with confidence: it is right now, or refused.

Heaps, zeros and outcomes of 0 and 1 are in `test_own_laws.py`, missing values in
`test_missing.py`.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpbinagg import combine_copies, dp_ols
from dpbinagg.errors import ReleaseError

BOUNDS = {"y": (-10, 10), "x": (-5, 5), "w": (-5, 5), "g": range(2)}
RELEASES = 6


def records(seed, n=1500):
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(size=n), -5, 5)
    w = np.clip(0.5 * x + rng.normal(size=n), -5, 5)
    g = rng.integers(0, 2, n)
    # For g = 0 the slope of x is 1, for g = 1 it is -1.
    y = np.clip(0.3 * w + (1 - 2 * g) * x + rng.normal(size=n), -10, 10)
    return pd.DataFrame({"y": y, "x": x, "w": w, "g": g})


@pytest.fixture(scope="module")
def releases():
    made = []
    for seed in range(RELEASES):
        data = records(seed)
        res = dp_ols("y ~ x + w + g", data, mu=1, bounds=BOUNDS, rng=seed)
        made.append((data, res.synthesize(copies=10, rng=seed)))
    return made


def fits(copies, formula):
    return [smf.ols(formula, copy).fit() for _, copy in copies.groupby("copy")]


@pytest.mark.parametrize("formula", ["x ~ y + w", "w ~ x + g", "g ~ y + x", "y ~ x"])
def test_errors_of_swapped_and_smaller_models_hold_the_records_coefficients(releases, formula):
    inside, spread, said = [], [], []
    for data, copies in releases:
        real = smf.ols(formula, data).fit().params.to_numpy()[1:]
        found = combine_copies(fits(copies, formula))
        low, high = found.conf_int().to_numpy()[1:].T
        inside.append((low <= real) & (real <= high))
        spread.append(found.params.to_numpy()[1:] - real)
        said.append(found.bse.to_numpy()[1:])
    assert np.mean(inside) >= 0.85
    # What a release does to a coefficient is not more than its error says.
    assert (np.sqrt(np.mean(np.square(spread), axis=0)) < 1.3 * np.mean(said, axis=0)).all()


@pytest.mark.parametrize(
    ("formula", "rows"),
    [("y ~ x * g", None), ("y ~ x + I(x**2)", None), ("y ~ x", "g == 1"), ("y ~ x", "w > 0")],
)
def test_interactions_curves_and_subgroups_that_were_not_released_are_refused(
    releases, formula, rows
):
    _, copies = releases[0]
    groups = [copy if rows is None else copy.query(rows) for _, copy in copies.groupby("copy")]
    with pytest.raises(ReleaseError, match="only as far as bins show"):
        combine_copies([smf.ols(formula, group).fit() for group in groups])


def test_an_interaction_that_was_released_is_right():
    data = records(20)
    formula = "y ~ x * g + w"
    res = dp_ols(formula, data, mu=1, bounds=BOUNDS, rng=20)
    combined = combine_copies(fits(res.synthesize(copies=10, rng=20), formula))
    real = smf.ols(formula, data).fit().params
    assert combined.support == "exact"
    assert abs(combined.params["x:g"] + 2) < 4 * combined.bse["x:g"]
    assert combined.bse["x:g"] < 0.3
    assert (np.abs(combined.params - real) < 3 * combined.bse).all()
