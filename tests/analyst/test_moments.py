"""Estimates from moments, and their combination with bins."""

import numpy as np
import pytest
from scipy import stats

from dpbinagg.analyst.combine import combined
from dpbinagg.analyst.covariance import noise_of_product
from dpbinagg.analyst.moments import from_moments
from dpbinagg.analyst.types import Estimate, Moments


def release_moments(z, y, mu, rng, centre=None, scale=None, middle=0.0, half=4.0):
    """Second moments of (1, z*, y*) with the noise law of the method (mu = inf: none)."""
    centre = np.r_[1.0, np.full(z.shape[1] - 1, 0.5)] if centre is None else centre
    scale = np.r_[0.0, np.full(z.shape[1] - 1, 0.5)] if scale is None else scale
    varying = scale > 0
    f = np.column_stack(
        [np.ones(len(y)), (z[:, varying] - centre[varying]) / scale[varying], (y - middle) / half]
    )
    q = f.shape[1] - 1
    sd = np.full((q + 1, q + 1), np.sqrt(q * q / 2 + 0.75 * q + 1) / mu)
    draws = np.triu(sd * rng.normal(size=sd.shape))
    noise = draws + np.triu(draws, 1).T
    noise[np.arange(1, q + 1), np.arange(1, q + 1)] += noise[0, 0] / 2
    return Moments.from_scaling(f.T @ f + noise, sd, centre, scale, middle, half)


def sample(rng, n, slopes, sd=0.5):
    x = rng.uniform(size=(n, len(slopes)))
    return np.column_stack([np.ones(n), x]), 0.2 + x @ slopes + sd * rng.normal(size=n)


def test_noise_of_product_matches_simulation():
    """20000 draws: every entry within 5 standard errors."""
    rng = np.random.default_rng(1)
    sd = np.abs(rng.normal(size=(4, 4))) + 0.5
    sd = (sd + sd.T) / 2
    centring = np.array([0.0, 0.5, 0.5, 0.5])
    v = np.array([0.7, -1.0, 0.3, 2.0])
    upper = np.triu(rng.normal(size=(20000, 4, 4)) * sd)
    noise = upper + np.transpose(np.triu(upper, 1), (0, 2, 1))
    index = np.arange(4)
    noise[:, index, index] += centring * noise[:, :1, 0]
    products = noise @ v
    empirical = products.T @ products / len(products)
    error = np.sqrt(np.einsum("ri,rj->ij", products**2, products**2)) / len(products)
    expected = noise_of_product(sd, centring, np.outer(v, v))
    assert np.all(np.abs(empirical - expected) < 5 * error)


@pytest.mark.parametrize("intercept", [True, False])
def test_exact_moments_give_least_squares(intercept):
    rng = np.random.default_rng(2)
    z, y = sample(rng, 500, np.array([1.0, -2.0, 0.5]))
    if not intercept:
        z = z[:, 1:]
    centre = np.r_[1.0, 0.5, 0.5, 0.5][not intercept :]
    scale = np.r_[0.0, 0.5, 0.5, 0.5][not intercept :]
    estimate = from_moments(release_moments(z, y, np.inf, rng, centre, scale))
    expected, rss, *_ = np.linalg.lstsq(z, y, rcond=None)
    np.testing.assert_allclose(estimate.params, expected, atol=1e-8)
    assert estimate.scale == pytest.approx(rss[0] / (500 - z.shape[1]), rel=1e-8)
    np.testing.assert_allclose(estimate.cov, estimate.scale * np.linalg.inv(z.T @ z), rtol=1e-6)
    assert estimate.identified


def test_far_from_the_origin():
    """A calendar year: the basis keeps the digits that the raw normal equations lose."""
    rng = np.random.default_rng(3)
    year = rng.integers(1990, 2011, size=800).astype(float)
    y = 3 + 0.1 * (year - 2000) + 0.2 * rng.normal(size=800)
    z = np.column_stack([np.ones(800), year])
    scaling = (np.r_[1.0, 2000.0], np.r_[0.0, 10.0])
    estimate = from_moments(release_moments(z, y, 1e9, rng, *scaling))
    expected = np.polyfit(year - 2000, y, 1)
    assert estimate.params[1] == pytest.approx(expected[0], abs=1e-7)
    assert estimate.params @ [1, 2000] == pytest.approx(expected[1], abs=1e-6)


def test_singular_designs_do_not_explode():
    rng = np.random.default_rng(4)
    x = rng.uniform(size=2000)
    z = np.column_stack([np.ones(2000), x, x, 2 * x])
    y = 1 + 2 * x + 0.3 * rng.normal(size=2000)
    scaling = (np.r_[1.0, 0.5, 0.5, 1.0], np.r_[0.0, 0.5, 0.5, 1.0])
    for seed in range(20):
        noisy = release_moments(z, y, 0.5, np.random.default_rng(seed), *scaling)
        estimate = from_moments(noisy)
        assert not estimate.identified
        assert "directions of the design" in estimate.notes[0]
        fitted = z @ estimate.params
        assert np.mean((y - fitted) ** 2) < np.mean((y - 0.0) ** 2)
        assert np.sum(estimate.params[1:] ** 2) < 100


def test_repeated_column_in_the_map():
    rng = np.random.default_rng(5)
    z, y = sample(rng, 400, np.array([1.0, 2.0]))
    moments = release_moments(z, y, np.inf, rng)
    twice = Moments(
        moments.matrix,
        moments.sd,
        moments.design_map[:, [0, 1, 1, 2]],
        moments.response_map,
        moments.centring,
    )
    estimate = from_moments(twice)
    assert "exact combinations" in estimate.notes[0]
    expected = np.linalg.lstsq(z, y, rcond=None)[0]
    np.testing.assert_allclose(estimate.params, expected[[0, 1, 1, 2]] / [1, 2, 2, 1], atol=1e-8)


def test_intervals_cover():
    """300 samples x 4 coefficients: coverage within 4.5 binomial errors of 0.95."""
    hits = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        z, y = sample(rng, 2000, np.array([1.0, 1.5, 2.0]))
        estimate = from_moments(release_moments(z, y, 0.6, rng))
        quantile = stats.t.ppf(0.975, estimate.df_resid)
        hits.append(np.abs(estimate.params - [0.2, 1, 1.5, 2]) < quantile * estimate.bse)
    assert 0.922 < np.mean(hits) < 0.978


def _estimate(params, cov, noise=None, identified=True):
    return Estimate(
        "x", np.array(params), np.array(cov), noise, 1.0, 10.0, 100.0, "model", (), identified
    )


def test_combined_is_the_closed_form():
    sampling, noise, first = np.diag([1.0, 2.0]), np.diag([3.0, 1.0]), np.diag([2.0, 4.0])
    a = _estimate([1.0, 1.0], first)
    b = _estimate([0.0, 0.0], sampling + noise, noise)
    result = combined(a, b)
    gain = noise @ np.linalg.inv(first + sampling + noise - 2 * sampling)
    np.testing.assert_allclose(result.params, gain @ [1.0, 1.0], rtol=1e-9)
    np.testing.assert_allclose(result.cov, sampling + noise - gain @ noise, rtol=1e-9)


def test_combined_leaves_out_unidentified_bins():
    noise = np.eye(2)
    b = _estimate([0.5, 0.5], 2 * noise, noise)
    result = combined(_estimate([9.0, 9.0], noise, identified=False), b)
    np.testing.assert_array_equal(result.params, b.params)
    with pytest.raises(ValueError, match="noise_cov"):
        combined(b, _estimate([1.0, 1.0], noise))
