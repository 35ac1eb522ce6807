"""Estimators on bins: exact limits, the guard, and what they say when they cannot."""

import numpy as np
import pytest
from scipy import stats

from dpbinagg.analyst.bins import corrected, naive, noise_covariance, noise_gram, paper
from dpbinagg.analyst.types import Bins


def exact_bins(rng, n=4000, per_side=6, slopes=(1.5, -0.7), sd=0.3, intercept=True, power=1):
    """Return the exact bin sums of a plane on a grid, and the data."""
    x = rng.uniform(size=(n, 2)) ** power
    y = 0.4 + x @ np.array(slopes) + sd * rng.normal(size=n)
    cell = np.minimum((x * per_side).astype(int), per_side - 1)
    index = cell[:, 0] * per_side + cell[:, 1]
    n_bins = per_side**2
    z = np.column_stack([np.ones(n), x]) if intercept else x
    centre = (np.indices((per_side, per_side)).reshape(2, -1).T + 0.5) / per_side
    half = np.full_like(centre, 0.5 / per_side)
    if intercept:
        centre = np.column_stack([np.ones(n_bins), centre])
        half = np.column_stack([np.zeros(n_bins), half])
    counts = np.bincount(index, minlength=n_bins).astype(float)
    sum_x = np.zeros((n_bins, z.shape[1]))
    np.add.at(sum_x, index, z)
    sum_y = np.bincount(index, weights=y, minlength=n_bins)
    return Bins(counts, sum_x, sum_y, centre, 0.8, 0.0, 0 * half, 0.0, half, 2.5), z, y


def add_noise(bins, rng, mu):
    """Privatise exact bins: the noise law of the method."""
    width = bins.half_width
    radius = np.sqrt(np.sum(width > 0, axis=1, keepdims=True))
    sd_x, sd_c, sd_y = width * radius / mu, 1 / mu, bins.half_width_y / mu
    extra = sd_c * rng.normal(size=bins.n_bins)
    dev_x = bins.sum_x - bins.centre * bins.counts[:, None] + sd_x * rng.normal(size=sd_x.shape)
    dev_y = bins.sum_y - bins.centre_y * bins.counts + sd_y * rng.normal(size=bins.n_bins)
    counts = bins.counts + extra
    return Bins(
        counts,
        dev_x + bins.centre * counts[:, None],
        dev_y + bins.centre_y * counts,
        bins.centre,
        bins.centre_y,
        sd_c,
        sd_x,
        sd_y,
        width,
        bins.half_width_y,
    )


@pytest.mark.parametrize("intercept", [True, False])
def test_exact_bins_give_weighted_least_squares(intercept):
    bins, _, _ = exact_bins(np.random.default_rng(1), intercept=intercept)
    root = 1 / np.sqrt(bins.counts)
    expected = np.linalg.lstsq(bins.sum_x * root[:, None], bins.sum_y * root, rcond=None)[0]
    for estimate in (naive(bins), corrected(bins), corrected(bins, "count"), paper(bins)):
        np.testing.assert_allclose(estimate.params, expected, atol=1e-9)


def test_huge_mu_agrees_with_weighted_least_squares():
    rng = np.random.default_rng(2)
    bins, _, _ = exact_bins(rng)
    noisy = add_noise(bins, rng, 1e8)
    root = 1 / np.sqrt(bins.counts)
    expected = np.linalg.lstsq(bins.sum_x * root[:, None], bins.sum_y * root, rcond=None)[0]
    np.testing.assert_allclose(corrected(noisy).params, expected, atol=1e-6)
    np.testing.assert_allclose(naive(noisy).params, corrected(noisy).params, atol=1e-6)


def test_naive_estimates_the_error_variance():
    bins, _, _ = exact_bins(np.random.default_rng(3), sd=0.3)
    assert naive(bins).scale == pytest.approx(0.09, rel=0.6)
    assert corrected(bins).scale == pytest.approx(0.09, rel=0.6)


def test_noise_moments_match_simulation():
    """4000 draws: entries within 5 standard errors of the formula."""
    rng = np.random.default_rng(4)
    bins, _, _ = exact_bins(rng, n=300, per_side=2)
    b = np.array([0.3, 1.2, -0.5])
    draws = [add_noise(bins, rng, 0.5) for _ in range(4000)]
    public = draws[0]
    x_noise = np.array([d.sum_x - bins.sum_x for d in draws])
    residual = np.array([d.sum_y - d.sum_x @ b - (bins.sum_y - bins.sum_x @ b) for d in draws])
    product = x_noise * residual[:, :, None]
    error = product.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(product.mean(axis=0) - noise_covariance(public, b)) < 5 * error)
    outer = np.einsum("rki,rkj->rij", x_noise, x_noise)
    error = outer.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(outer.mean(axis=0) - noise_gram(public, np.ones(4))) < 5 * error)


def published_calibration(bins, rng, mu):
    """Return uncentred sums with noise in proportion to the largest absolute value."""
    upper = np.abs(bins.centre) + bins.half_width
    upper[:, 0] = 0.0
    reach = bins.centre_y + bins.half_width_y
    return Bins(
        bins.counts,
        bins.sum_x + upper / mu * rng.normal(size=upper.shape),
        bins.sum_y + reach / mu * rng.normal(size=bins.n_bins),
        np.zeros_like(upper),
        0.0,
        0.0,
        upper / mu,
        reach / mu,
        upper,
        reach,
    )


def test_corrected_removes_the_bias_that_naive_keeps():
    """400 samples; bias of the first slope in Monte Carlo standard errors."""
    slopes = {"naive": [], "count": [], "paper": []}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        noisy = published_calibration(exact_bins(rng, per_side=10, n=2000)[0], rng, 0.2)
        slopes["naive"].append(naive(noisy).params[1])
        slopes["count"].append(corrected(noisy, "count").params[1])
        slopes["paper"].append(paper(noisy).params[1])
    bias = {k: np.mean(v) - 1.5 for k, v in slopes.items()}
    error = {k: np.std(v) / 20 for k, v in slopes.items()}
    assert bias["naive"] < -10 * error["naive"]
    assert bias["paper"] < 0.8 * bias["naive"]
    assert abs(bias["count"]) < 4 * error["count"]


def test_efficient_weights_beat_counts():
    """400 samples of bins with very unequal counts."""
    slopes = {"count": [], "efficient": []}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        noisy = add_noise(exact_bins(rng, per_side=4, n=2000, power=3)[0], rng, 0.2)
        for kind, values in slopes.items():
            values.append(corrected(noisy, kind).params[1] - 1.5)
    assert abs(np.mean(slopes["efficient"])) < 4 * np.std(slopes["efficient"]) / 20
    assert np.std(slopes["efficient"]) < 0.9 * np.std(slopes["count"])


@pytest.mark.parametrize("cov_type", ["sandwich", "model"])
def test_intervals_cover(cov_type):
    """300 samples x 3 coefficients: coverage within 4 binomial errors of 0.95."""
    hits = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        bins, _, _ = exact_bins(rng, n=2000, per_side=5)
        estimate = corrected(add_noise(bins, rng, 0.5), cov_type=cov_type)
        quantile = stats.t.ppf(0.975, estimate.df_resid)
        hits.append(np.abs(estimate.params - [0.4, 1.5, -0.7]) < quantile * estimate.bse)
    assert 0.924 < np.mean(hits) < 0.976


def test_too_few_bins_are_said_in_words():
    bins, _, _ = exact_bins(np.random.default_rng(6), per_side=1)
    for estimate in (naive(bins), corrected(bins), paper(bins)):
        assert not estimate.identified
        assert "1 bin cannot identify 3 coefficients" in estimate.notes[0]
        assert np.all(np.isfinite(estimate.params))
        assert np.all(np.isfinite(estimate.cov))


def test_guard_when_noise_dominates():
    rng = np.random.default_rng(7)
    bins, _, _ = exact_bins(rng, n=50, per_side=3)
    estimate = corrected(add_noise(bins, rng, 0.02))
    assert not estimate.identified
    assert "bias correction" in estimate.notes[0]
    assert np.all(np.linalg.eigvalsh(estimate.cov) > -1e-9)


def test_unknown_options_are_refused():
    bins, _, _ = exact_bins(np.random.default_rng(8))
    with pytest.raises(ValueError, match="weights must be"):
        corrected(bins, weights="equal")
    with pytest.raises(ValueError, match="cov_type must be"):
        corrected(bins, cov_type="HC9")


def test_the_sandwich_is_that_of_leaving_out_bins():
    """A bin of high leverage bends the fit to itself, and its residual does not show it."""
    bins, _, _ = exact_bins(np.random.default_rng(8), n=300, per_side=3, power=3)
    weights = 1 / np.maximum(bins.counts, 0.5)
    root = np.sqrt(weights)
    z, t = bins.sum_x * root[:, None], bins.sum_y * root

    def fit(keep):
        return np.linalg.lstsq(z[keep], t[keep], rcond=None)[0]

    gaps = np.array([fit(np.arange(9) != k) for k in range(9)]) - fit(np.arange(9) >= 0)
    np.testing.assert_allclose(corrected(bins, "count").cov, 8 / 9 * gaps.T @ gaps, rtol=1e-6)


def test_intervals_cover_where_few_bins_are_full():
    """Skewed covariates, 100 samples: .75 when residuals were taken as they are."""
    hits = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        bins, _, _ = exact_bins(rng, n=500, per_side=4, power=4)
        estimate = corrected(add_noise(bins, rng, 1.0))
        quantile = stats.t.ppf(0.975, estimate.df_resid)
        hits.append(np.abs(estimate.params - [0.4, 1.5, -0.7]) < quantile * estimate.bse)
    assert np.mean(hits) > 0.9
