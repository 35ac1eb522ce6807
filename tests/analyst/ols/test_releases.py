"""From a release to the estimate: replay, budgets, wide factors, unknown bounds."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpbinagg import Budget, dp_release, load_release
from dpbinagg.release.questions import SCORES

BOUNDS = {"x": (0, 10), "g": list("abcd"), "y": (-10, 20)}
FORMULA = "y ~ x + C(g)"


def people(n, seed=0, levels="abcd"):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(0, 10, n), "g": rng.choice(list(levels), n)})
    effect = rng.normal(size=len(levels))
    frame["y"] = 1 + 0.5 * frame.x + effect[frame.g.map(list(levels).index)] + rng.normal(size=n)
    return frame


@pytest.mark.parametrize(
    "budget", [None, Budget(ranges=0), Budget(scores=0), Budget(ranges=0, scores=0),
               Budget(ranges=0, partition=0, count=0, sum_x=0, sum_y=0, scores=0)]
)  # fmt: skip
def test_a_saved_release_gives_the_same_estimate_to_the_last_bit(budget, tmp_path):
    partition = "grid" if budget is not None and not budget.partition else "privtree"
    release = dp_release(
        FORMULA, people(2000), mu=1.0, bounds=BOUNDS, budget=budget, partition=partition, rng=1
    )
    made = release.ols()
    release.save(tmp_path / "saved")
    again = load_release(tmp_path / "saved")
    assert again.statistics.keys() == release.statistics.keys()
    found = again.ols()
    np.testing.assert_array_equal(found.params, made.params)
    np.testing.assert_array_equal(found.cov_params(), made.cov_params())
    for model in ("y ~ x", "y ~ C(g)"):
        one, other = release.ols(model), again.ols(model)
        np.testing.assert_array_equal(one.params, other.params)
    exact = smf.ols("y ~ x + C(g)", people(2000)).fit().params.to_numpy()
    assert np.all(np.abs(made.params.to_numpy() - exact) < 4 * made.bse.to_numpy())


def test_a_factor_of_two_hundred_levels():
    levels = [f"l{i}" for i in range(200)]
    frame = people(40_000, 3, levels)
    bounds = {**BOUNDS, "g": levels}
    fit = dp_release(FORMULA, frame, mu=2.0, bounds=bounds, rng=3).ols()
    exact = smf.ols("y ~ x + C(g, levels=lv)".replace("lv", repr(levels)), frame).fit()
    apart = (fit.params.to_numpy() - exact.params.to_numpy()) / fit.bse.to_numpy()
    assert np.all(np.abs(apart) < 4.5)
    assert fit.bse["x"] < 2.0 * exact.bse["x"]


def test_bounds_that_nobody_knows():
    frame = people(5000, 4)
    fit = dp_release(FORMULA, frame, mu=1.0, bounds={"g": list("abcd")}, rng=4).ols()
    exact = smf.ols(FORMULA, frame).fit()
    assert np.all(np.abs(fit.params - exact.params.to_numpy()) < 4 * fit.bse)
    assert fit.bse["x"] < 1.5 * exact.bse["x"]


def test_steps_are_handed_on_but_never_kept():
    """What a release led to is known to who made it; copies and files fold the transcript again."""
    release = dp_release(FORMULA, people(2000), mu=1.0, bounds=BOUNDS, rng=1)
    assert "steps" in vars(release)
    for copy in (replace(release), pickle.loads(pickle.dumps(release))):
        assert "steps" not in vars(copy)
        assert copy.ols().params.equals(release.ols().params)
        assert copy.ols().cov_params().equals(release.ols().cov_params())
    other = replace(release, transcript=release.transcript.without(SCORES))
    assert other.ols().estimator == "combined"
