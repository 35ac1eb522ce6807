"""The numerics under the tables: carriers, boxes, bin means, the surface beyond the regression."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpbinagg import Domain, Partition
from dpbinagg.analyst.synthesis.adjust import match_means, match_whole_means
from dpbinagg.analyst.synthesis.carriers import Continuous, Discrete, carriers
from dpbinagg.analyst.synthesis.groups import Groups
from dpbinagg.analyst.synthesis.response import beyond, calibrated_response
from dpbinagg.analyst.synthesis.shape import Shape, between, gaussian_rows
from dpbinagg.analyst.synthesis.surface import residual_surface
from dpbinagg.formula import build_design

DOMAIN = Domain(
    {
        "y": (0, 10),
        "a": (0.5, 4),
        "b": (-1, 1),
        "k": range(4),
        "g": ["u", "v", "w"],
        "t": [False, True],
    }
)


def by_name(formula):
    return {carrier.name: carrier for carrier in carriers(build_design(formula, DOMAIN))}


def test_carriers_are_plain_or_monotone_columns_of_one_variable():
    found = by_name("y ~ np.log(a) + I(b**2) + a:b + k + g + t")
    assert isinstance(found["a"], Continuous)
    assert not found["a"].identity
    np.testing.assert_allclose(found["a"].backward(np.log([0.5, 1.3, 4])), [0.5, 1.3, 4], atol=1e-4)
    assert found["b"].column is None
    assert found["k"].identity
    assert isinstance(found["g"], Discrete)
    np.testing.assert_array_equal(found["g"].coding, [[0, 0], [1, 0], [0, 1]])
    assert found["t"].coding.shape == (2, 1)


def test_the_plain_column_is_preferred_and_decreasing_ones_serve():
    both = by_name("y ~ np.log(a) + a")["a"]
    assert both.identity
    falling = by_name("y ~ I(3 - 2 * a)")["a"]
    np.testing.assert_allclose(falling.backward(np.array([-5.0, 2.0])), [4, 0.5])


def test_whole_numbers_coded_as_levels_are_discrete():
    found = by_name("y ~ C(k)")["k"]
    assert isinstance(found, Discrete)
    assert found.values.tolist() == [0, 1, 2, 3]


def test_levels_on_an_edge_belong_to_the_box_above_and_whole_numbers_to_their_own():
    domain = Domain({"y": (0, 1), "x": (0, 1), "k": range(4)})
    formula = "y ~ C(x, levels=[0.25, 0.5, 1.0]) + C(k, levels=[0, 1, 3])"
    found = {carrier.name: carrier for carrier in carriers(build_design(formula, domain))}
    for name in ("x", "k"):
        partition = Partition.grid(domain.subset([name]), 2)
        values = found[name].values
        members = found[name].members(partition.boxes)
        located = partition.locate({name: values})
        np.testing.assert_array_equal(members, located == np.arange(2)[:, None])


@given(
    st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), min_size=1, max_size=60),
    st.lists(st.floats(-0.5, 1.5), min_size=5, max_size=5),
)
def test_matched_means_are_met_inside_the_box(rows, target):
    bins = np.array([k for k, _ in rows])
    groups = Groups(bins, 5)
    values = np.array([2 + 3 * x for _, x in rows])
    low, high = np.full(5, 2.0), np.full(5, 5.0)
    goal = 2 + 3 * np.array(target)
    moved = match_means(values, groups, goal, low, high)
    assert ((moved >= 2) & (moved <= 5)).all()
    found = groups.means(moved)
    for k in np.unique(bins):
        wanted = np.clip(goal[k], 2, 5)
        mean = values[bins == k].mean()
        edge = 5.0 if wanted > mean else 2.0
        if abs(mean - edge) > 1e-6:
            assert found[k] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("target", [0.3, 0.5, 0.7])
def test_matched_rows_fill_their_box(target):
    """A box from which rows had withdrawn would show as a dip at its edge in every histogram."""
    values = np.random.default_rng(7).random(2000)
    bins = Groups(np.zeros(2000, dtype=np.int64), 1)
    low, high = np.zeros(1), np.ones(1)
    moved = match_means(values, bins, np.array([target]), low, high)
    assert moved.mean() == pytest.approx(target, abs=1e-9)
    assert moved.min() < 0.02
    assert moved.max() > 0.98
    np.testing.assert_array_equal(np.argsort(moved), np.argsort(values))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.floats(-0.5, 7.5)), min_size=1, max_size=60),
    st.lists(st.floats(-1, 8), min_size=5, max_size=5),
)
def test_whole_numbers_meet_their_mean_as_nearly_as_they_can(rows, target):
    bins = np.array([k for k, _ in rows])
    latent = np.array([x for _, x in rows])
    low, high = np.zeros(5), np.full(5, 7.0)
    whole = match_whole_means(latent, Groups(bins, 5), np.array(target), low, high)
    assert (whole == np.rint(whole)).all()
    assert ((whole >= 0) & (whole <= 7)).all()
    for k in np.unique(bins):
        n = (bins == k).sum()
        assert abs(whole[bins == k].sum() - np.clip(target[k], 0, 7) * n) <= 0.5 + 1e-9


@given(st.floats(-120, 120), st.floats(0, 40), st.integers(0, 2**32 - 1))
def test_restricted_normals_stay_inside(low, width, seed):
    edges = np.full(20, low, dtype=np.float32), np.full(20, low + width, dtype=np.float32)
    inside = between(np.zeros(20, dtype=np.float32), 1.0, *edges, np.random.default_rng(seed))
    assert ((edges[0] <= inside) & (inside <= edges[1])).all()


def test_restricted_normals_have_their_law():
    rng = np.random.default_rng(0)
    for low, high in ((-1.0, 0.5), (2.0, 3.0), (-10.0, -7.0), (-30.0, 30.0), (0.5, np.inf)):
        edges = np.float32([low]), np.float32([high])
        drawn = between(np.zeros(4000, dtype=np.float32), 1.0, *edges, rng)
        assert stats.kstest(drawn, stats.truncnorm(low, high).cdf).pvalue > 0.001


def test_gaussian_rows_in_narrow_boxes_have_their_law():
    """Against accepted draws: x in [0, 1]^3 although the mean is outside, one edge narrow."""
    cov = np.array([[1.0, 0.8, -0.4], [0.8, 1.0, 0.0], [-0.4, 0.0, 1.0]])
    shape = Shape(np.array([-0.5, 0.5, 1.0]), cov)
    rng = np.random.default_rng(5)
    low, high = np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.3])
    plain = rng.multivariate_normal(shape.mean, cov, 400_000)
    accepted = plain[((plain >= low) & (plain <= high)).all(axis=1)]
    edges, one_bin = (low[:, None], high[:, None]), np.zeros(8_000, dtype=np.int64)
    rows = gaussian_rows(shape, np.zeros((0, 8_000)), *edges, one_bin, rng).T
    # At most 1/2 wide: standard errors of means are below .007, of covariances below .003.
    np.testing.assert_allclose(rows.mean(axis=0), accepted.mean(axis=0), atol=0.025)
    np.testing.assert_allclose(np.cov(rows.T), np.cov(accepted.T), atol=0.01)
    for j in range(3):
        assert stats.ks_2samp(rows[:, j], accepted[:, j]).pvalue > 0.001


def test_gaussian_rows_have_mean_and_covariance_when_boxes_are_wide():
    cov = np.array([[1.0, 0.7, 0.3], [0.7, 4.0, 0.0], [0.3, 0.0, 0.5]])
    shape = Shape(np.array([1.0, -2.0, 0.0]), cov)
    wide, bins = np.full((3, 2), 50.0), np.arange(20_000) % 2
    none = np.zeros((0, 20_000))
    rows = gaussian_rows(shape, none, -wide, wide, bins, np.random.default_rng(1)).T
    # Standard errors are at most .03 for the variances and .015 for the means.
    np.testing.assert_allclose(rows.mean(axis=0), shape.mean, atol=0.06)
    np.testing.assert_allclose(np.cov(rows.T), cov, atol=0.15)


def test_gaussian_rows_condition_on_what_is_fixed():
    cov = np.array([[1.0, 0.8], [0.8, 1.0]])
    kept, bins, wide = (
        np.full((1, 4000), 1.5),
        np.zeros(4000, dtype=np.int64),
        np.full((1, 1), 50.0),
    )
    rng = np.random.default_rng(2)
    (drawn,) = gaussian_rows(Shape(np.zeros(2), cov), kept, -wide, wide, bins, rng)
    assert drawn.mean() == pytest.approx(1.2, abs=0.04)
    assert drawn.std() == pytest.approx(0.6, abs=0.03)


def test_what_is_beyond_a_regression_is_orthogonal_to_it_also_when_columns_are_dependent():
    rng = np.random.default_rng(6)
    z = np.column_stack([np.ones(500), rng.normal(1e4, 1, 500), np.zeros(500), np.full(500, 3.0)])
    rest = beyond(z, z @ [1.0, 0.1, 5.0, 2.0] + rng.normal(0, 1, 500))
    fit, *_ = np.linalg.lstsq(z, rest, rcond=None)
    np.testing.assert_allclose(z @ fit, 0.0, atol=1e-6)
    assert np.var(rest) == pytest.approx(1.0, abs=0.2)


def test_calibrated_responses_have_the_coefficients_and_the_variance():
    rng = np.random.default_rng(3)
    z = np.column_stack([np.ones(50), rng.normal(1e4, 1, 50), rng.normal(0, 1e-3, 50)])
    b = np.array([5.0, -0.3, 200.0])
    y = calibrated_response(z, b, rng.normal(0, 9, 50), 4.0)
    fit, square, *_ = np.linalg.lstsq(z, y, rcond=None)
    np.testing.assert_allclose(fit, b, rtol=1e-8)
    assert square[0] / 47 == pytest.approx(4.0)


def test_the_surface_finds_a_misfit_and_ignores_noise():
    rng = np.random.default_rng(4)
    points = rng.random((200, 2))
    truth = np.sin(4 * points[:, 0])
    bins = np.arange(200)
    noise = np.full(200, 0.2)
    values = truth + rng.normal(0, np.sqrt(0.2), 200)
    found = residual_surface(values, noise, points).at(points, bins)
    assert np.mean((found - truth) ** 2) < 0.25 * np.mean(truth**2)
    nothing = residual_surface(rng.normal(0, np.sqrt(0.2), 200), noise, points)
    assert np.mean(nothing.at(points, bins) ** 2) < 0.02


def test_the_surface_of_no_bins_is_flat():
    surface = residual_surface(np.full(3, np.nan), np.ones(3), np.zeros((3, 1)))
    assert not surface.at(np.zeros((2, 1)), np.array([0, 2])).any()


@pytest.mark.parametrize("panel", [1, 3, 5, 100])
def test_panels_of_coordinates_do_not_show(monkeypatch, panel):
    """Eleven coordinates, edges that differ between bins for some and bind for most."""
    rng = np.random.default_rng(8)
    root = rng.normal(size=(13, 13))
    shape = Shape(rng.normal(size=13), root @ root.T)
    low = np.repeat(shape.mean[:11, None] - 2.0, 4, axis=1)
    low[:3] += rng.random((3, 4))
    bins, kept = rng.integers(0, 4, 300), rng.normal(size=(2, 300))

    def rows(size):
        monkeypatch.setattr("dpbinagg.analyst.synthesis.shape.PANEL", size)
        return gaussian_rows(shape, kept, low, low + 3.0, bins, np.random.default_rng(9))

    # Rounding of single precision; rows are about one apart.
    np.testing.assert_allclose(rows(panel), rows(4), rtol=0, atol=1e-4)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_groups_know_sizes_means_and_what_bins_have(bins, seed):
    rng = np.random.default_rng(seed)
    bins, values, per_bin = np.array(bins), rng.normal(size=len(bins)), rng.normal(size=5)
    groups = Groups(bins, 5)
    np.testing.assert_array_equal(groups.each(per_bin), per_bin[bins])
    assert groups.each(np.full(5, 2.5)).tolist() == [2.5]
    for k, (size, mean) in enumerate(zip(groups.sizes, groups.means(values), strict=True)):
        assert size == (bins == k).sum()
        assert mean == pytest.approx(values[bins == k].mean()) if size else np.isnan(mean)
