"""Releases: what they hold, what they cost, and that nothing exact is in them."""

import dataclasses
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg import Budget, Partition, dp_release
from dpbinagg.errors import BudgetError, DomainError, DPBinAggError

BOUNDS = {"x1": (0, 1), "x2": (0, 1), "c": ["a", "b", "c"], "y": (-2, 5)}


def make_frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x1": rng.random(n), "x2": rng.random(n)})
    frame["c"] = rng.choice(["a", "b", "c"], n)
    frame["y"] = 1 + frame.x1 - frame.x2 + 0.3 * rng.normal(size=n)
    return frame


FRAME = make_frame()


@given(
    st.floats(1e-2, 1e4),
    st.lists(st.floats(0.05, 10.0), min_size=6, max_size=6),
    st.sampled_from(["add-remove", "replace"]),
    st.integers(0, 10),
)
@examples(40)
def test_mechanisms_compose_to_the_mu_asked_for_and_never_more(mu, shares, neighbours, seed):
    names = ("ranges", "partition", "count", "sum_x", "sum_y", "moments")
    budget = Budget(**dict(zip(names, shares, strict=True)), scores=0)
    release = dp_release(
        "y ~ x1 + x2 + C(c)",
        FRAME,
        mu=mu,
        bounds=BOUNDS,
        budget=budget,
        neighbours=neighbours,
        rng=seed,
    )
    exact = sum(Fraction(m.mu) ** 2 for m in release.privacy.mechanisms)
    assert exact <= Fraction(mu) ** 2
    assert float(exact) == pytest.approx(mu**2, rel=2e-12)
    assert release.mu == mu


def test_the_published_calibration_states_its_true_mu():
    d = 10
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((300, d)), columns=[f"x{j}" for j in range(d)])
    frame["y"] = rng.random(300)
    bounds = dict.fromkeys(frame.columns, (0, 1))
    formula = "y ~ 0 + " + " + ".join(frame.columns[:d])
    release = dp_release(formula, frame, mu=1, bounds=bounds, calibration="paper", rng=0)
    unit = 1.0 / (1 + 9 + 9 + 9)
    assert release.mu == pytest.approx(np.sqrt(unit * (1 + 9 + 9 * d + 9)), rel=1e-9)
    assert release.privacy.claimed_mu == 1.0


def test_shapes_and_scales():
    release = dp_release("y ~ x1 * x2 + C(c)", FRAME, mu=1, bounds=BOUNDS, rng=1)
    n_bins, p = release.n_bins, len(release.column_names)
    assert release.statistics["count"].shape == (n_bins,)
    assert release.statistics["dev_x"].shape == (n_bins, p)
    assert release.statistics["dev_y"].shape == (n_bins,)
    assert release.statistics["moments"].shape == (p + 1, p + 1)
    for name in ("count", "dev_x", "dev_y", "moments"):
        assert np.shape(release.noise_scales[name]) == np.shape(release.statistics[name])
    assert (release.statistics["dev_x"][:, 0] == 0).all()


def test_release_is_frozen():
    release = dp_release("y ~ x1", FRAME, mu=1, bounds=BOUNDS, rng=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.calibration = "paper"


def test_large_mu_gives_the_exact_sums():
    budget = Budget(ranges=0, partition=1, count=1, sum_x=1, sum_y=1, moments=1, scores=0)
    release = dp_release("y ~ x1 + x2", FRAME, mu=1e6, bounds=BOUNDS, budget=budget, rng=1)
    records = {name: FRAME[name].to_numpy() for name in ("x1", "x2")}
    bins = release.partition.locate(records)
    count = np.bincount(bins, minlength=release.n_bins)
    np.testing.assert_allclose(release.statistics["count"], count, atol=1e-4)
    centre = release.bin_scaling.centre
    for j, name in enumerate(("x1", "x2"), start=1):
        sums = np.bincount(bins, FRAME[name], minlength=release.n_bins)
        released = release.statistics["dev_x"][:, j] + centre[:, j] * count
        np.testing.assert_allclose(released, sums, atol=1e-3)


def test_row_order_does_not_matter():
    shuffled = FRAME.sample(frac=1, random_state=1)
    first = dp_release("y ~ x1 + C(c)", FRAME, mu=1, bounds=BOUNDS, rng=5)
    second = dp_release("y ~ x1 + C(c)", shuffled, mu=1, bounds=BOUNDS, rng=5)
    for name in ("count", "dev_x", "dev_y", "moments"):
        assert (first.statistics[name] == second.statistics[name]).all()


def test_own_partition():
    domain_bounds = {"x1": (0, 1), "y": (-2, 5)}
    release = dp_release("y ~ x1", FRAME, mu=1, bounds=domain_bounds, partition="grid", rng=0)
    assert release.partition.kind == "grid"
    partition = Partition.grid(release.declared.subset(["x1"]), 7)
    budget = Budget(ranges=0)
    release = dp_release(
        "y ~ x1", FRAME, mu=1, bounds=domain_bounds, partition=partition, budget=budget, rng=0
    )
    assert release.n_bins == 7
    assert "partition" not in {m.name for m in release.privacy.mechanisms}
    with pytest.raises(DomainError, match="same bounds"):
        dp_release("y ~ x2", FRAME, mu=1, bounds=BOUNDS, partition=partition, budget=budget, rng=0)


@pytest.mark.parametrize("mu", [0, -1, float("nan"), float("inf"), "1", True, None])
def test_mu_is_checked(mu):
    with pytest.raises(BudgetError):
        dp_release("y ~ x1", FRAME, mu, bounds=BOUNDS)


@pytest.mark.parametrize("argument", ["partition", "calibration", "missing", "neighbours"])
def test_words_are_checked(argument):
    with pytest.raises(DPBinAggError, match=argument):
        dp_release("y ~ x1", FRAME, 1, bounds=BOUNDS, **{argument: "nonsense"})


def test_epsilon_and_delta_instead_of_mu():
    release = dp_release("y ~ x1", FRAME, epsilon=1, delta=1e-6, bounds=BOUNDS, rng=0)
    assert release.privacy.epsilon(1e-6) == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(BudgetError):
        dp_release("y ~ x1", FRAME, 1, epsilon=1, delta=1e-6, bounds=BOUNDS)
    with pytest.raises(BudgetError):
        dp_release("y ~ x1", FRAME, epsilon=1, bounds=BOUNDS)


def test_unbounded_variables_are_given_ranges_from_the_same_budget():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"year": rng.integers(1950, 2010, 5000)})
    frame["y"] = 0.1 * (frame.year - 1980) + rng.normal(size=5000)
    release = dp_release("y ~ year", frame, mu=1, rng=2)
    exact = sum(Fraction(m.mu) ** 2 for m in release.privacy.mechanisms)
    assert exact <= 1
    assert float(exact) == pytest.approx(1.0, rel=2e-12)
    year = release.domain["year"]
    assert year.lower <= 1950
    assert year.upper >= 2009
    assert year.upper - year.lower < 400
