"""Refinement by residual scores: limits, intervals, singular designs, odd errors."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from simulated import exact_scores, refine, scaled

from dpbinagg.analyst.refinement import planning
from dpbinagg.analyst.refinement.clipping import (
    mean_clipped_square,
    sd_from_noisy_spread,
    sd_from_spread,
)
from dpbinagg.analyst.refinement.hidden import direction
from dpbinagg.analyst.refinement.refine import plan_round, round_mus
from dpbinagg.analyst.refinement.schedule import LONG, ONE
from dpbinagg.analyst.refinement.tails import TailCount, Tails, excess, lattice


def problem(rng, n, d, errors=None, scale=0.5):
    x = rng.uniform(size=(n, d))
    slopes = rng.uniform(1, 2, size=d)
    noise = scale * rng.normal(size=n) if errors is None else errors(x)
    return np.column_stack([np.ones(n), x]), x @ slopes + noise, np.r_[0.0, slopes]


def box(d, y, widen=1.1):
    half = (y.max() - y.min()) / 2 * widen
    centre, scale = np.r_[1.0, np.full(d, 0.5)], np.r_[0.0, np.full(d, widen / 2)]
    return centre, scale, (y.max() + y.min()) / 2, half


def least_squares(z, y):
    return np.linalg.lstsq(z, y, rcond=None)[0]


def coverage(n, d, replicates, errors=None):
    hits, ratio = [], []
    for seed in range(replicates):
        rng = np.random.default_rng(seed)
        noise = None if errors is None else lambda x, rng=rng: errors(rng, x)
        z, y, truth = problem(rng, n, d, noise)
        estimate, _ = refine(z, y, *box(d, y), 1.0, rng)
        quantile = stats.t.ppf(0.975, estimate.df_resid)
        hits.append(np.abs(estimate.params - truth) < quantile * estimate.bse)
        error = [np.sum((b - truth) ** 2) for b in (estimate.params, least_squares(z, y))]
        ratio.append(error)
    ratio = np.mean(ratio, axis=0)
    return np.mean(hits, axis=0), np.sqrt(ratio[0] / ratio[1])


@pytest.mark.parametrize("schedule", [ONE, LONG])
def test_rounds_compose_to_the_budget(schedule):
    mus = round_mus(0.7, schedule)
    assert len(mus) == len(schedule)
    assert 0.7 * (1 - 1e-12) < np.sqrt(np.sum(np.square(mus))) <= 0.7


def test_one_round_where_its_clip_hides_nothing():
    """With many records, or much mu, no round probes the tails first; the estimate is as good."""
    rng = np.random.default_rng(3)
    z, y, truth = problem(rng, 400_000, 3, lambda x: rng.standard_t(3, size=len(x)) * x[:, 0])
    for mu, rounds in ((1.0, 5), (20.0, 1)):
        estimate, state = refine(z, y, *box(3, y), mu, rng)
        assert len(state.schedule) == rounds
        assert np.allclose(estimate.params, least_squares(z, y), atol=0.5 * estimate.bse.max())
        assert (np.abs(estimate.params - truth) < 4.0 * estimate.bse).all()


@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_it_is_least_squares(intercept):
    rng = np.random.default_rng(1)
    z, y, _ = problem(rng, 1000, 3)
    centre, scale, middle, half = box(3, y)
    keep = slice(None) if intercept else slice(1, None)
    estimate, _ = refine(z[:, keep], y, centre[keep], scale[keep], middle, half, 1e7, rng)
    np.testing.assert_allclose(estimate.params, least_squares(z[:, keep], y), atol=1e-6)
    residuals = y - z[:, keep] @ estimate.params
    bread = np.linalg.inv(z[:, keep].T @ z[:, keep])
    meat = (z[:, keep] * residuals[:, None] ** 2).T @ z[:, keep]
    robust = np.sqrt(np.diag(bread @ meat @ bread))
    np.testing.assert_allclose(estimate.bse, robust, rtol=0.06)
    assert estimate.identified


def test_sensitivity_of_a_record():
    """Contributions of 2000 records of any size have the norm that the request states."""
    rng = np.random.default_rng(2)
    z, y, _ = problem(rng, 500, 3)
    _, state = refine(z, y, *box(3, y), 1.0, rng)
    for done, widen in ((1, 1.0), (3, 6.0), (4, 0.01)):
        request = plan_round(replace(state, done=done), 0.3)
        f = np.column_stack([np.ones(2000), rng.uniform(-1, 1, size=(2000, 4)) * widen])
        values = rng.normal(size=2000) * np.exp(3 * rng.normal(size=2000))
        unit = request.noise_scales(request.sensitivity)
        for record in range(0, 2000, 20):
            sums = exact_scores(request, f[record : record + 1], values[record : record + 1])
            upper = np.triu_indices(request.whitening.shape[0])
            parts = [
                sums.score / unit.score,
                (sums.hessian / unit.hessian)[upper],
                (sums.spread / unit.spread)[upper],
                [sums.inside / unit.inside],
                (sums.tails / unit.tails).ravel(),
                sums.norms / unit.norms,
            ]
            assert np.linalg.norm(np.concatenate(parts)) <= request.sensitivity * (1 + 1e-9)


def test_close_to_least_squares_with_intervals_that_hold():
    """120 samples, 6 coefficients: within 4 binomial errors of 0.95; error at most 1.25 OLS's."""
    hits, ratio = coverage(1500, 5, 120)
    assert 0.92 < np.mean(hits) < 0.985
    assert ratio < 1.25


@pytest.mark.parametrize("law", ["exponential", "lognormal", "t3"])
def test_skewed_and_heavy_tailed_errors(law):
    """80 samples; every slope over 0.87 (four binomial errors below 0.96)."""

    def errors(rng, x):
        scale = 0.1 + 1.2 * x[:, 0]
        if law == "exponential":
            return scale * (rng.exponential(size=len(x)) - 1)
        if law == "lognormal":
            return scale * (np.exp(rng.normal(size=len(x))) - np.exp(0.5)) / 2.16
        return 0.5 * rng.standard_t(3, size=len(x))

    hits, _ = coverage(2000, 3, 80, errors)
    assert np.all(hits[1:] > 0.87)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_singular_designs(factor):
    """x2 = factor * x1: the fit is good, the difference of slopes is said to be unknown."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.uniform(size=(1500, 1))
        z = np.column_stack([np.ones(1500), x, factor * x])
        y = 1 + 2 * x[:, 0] + 0.3 * rng.normal(size=1500)
        centre, scale = np.r_[1, 0.5, factor / 2], np.r_[0, 0.5, factor / 2]
        estimate, _ = refine(z, y, centre, scale, y.mean(), 3.0, 1.0, rng)
        assert not estimate.identified
        assert any("directions of the design" in note for note in estimate.notes)
        assert np.mean((y - z @ estimate.params) ** 2) < 0.1
        total = np.array([0.0, 1.0, factor])
        assert np.sqrt(total @ estimate.cov @ total) < 0.5
        assert estimate.bse[1] > 0.5


@pytest.mark.parametrize(("n", "most"), [(60, 5.0), (182, 0.5)])
def test_few_records(n, most):
    """Error of prediction relative to the middle of the range: median and largest."""
    ratio = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z, y, _ = problem(rng, n, 4)
        centre, scale, middle, half = box(4, y)
        estimate, _ = refine(z, y, centre, scale, middle, half, 1.0, rng)
        ratio.append(np.mean((y - z @ estimate.params) ** 2) / np.mean((y - middle) ** 2))
        assert np.all(np.isfinite(estimate.cov))
        assert estimate.identified or n == 60
    assert np.median(ratio) < 0.7
    assert np.max(ratio) < most


def test_scale_of_a_clipped_normal():
    rng = np.random.default_rng(3)
    r = 0.7 * rng.normal(size=200000)
    for clip in (0.5, 1.5, 7.0):
        mean = float(np.mean(np.minimum(1, (r / clip) ** 2)))
        assert sd_from_spread(mean, clip) == pytest.approx(0.7, rel=0.01)


def test_hidden_mean_of_an_exponential_tail():
    """Exact counts: the hidden mean is found within 30%; balanced tails hide nothing."""
    rng = np.random.default_rng(4)
    r = rng.exponential(size=50000) - 1
    start, thresholds = lattice(2.0, 6)
    cell = np.searchsorted(thresholds, np.abs(r), side="right")
    upper = np.bincount(cell[r > 0], minlength=7)[1:].astype(float)
    lower = np.bincount(cell[r <= 0], minlength=7)[1:].astype(float)
    skewed = excess(Tails.merge((TailCount(start, lower, upper, 1.0, 1.0),), 50000.0))
    for clip in (2.5, 3.0):
        assert np.sqrt(skewed.hidden2(clip)) == pytest.approx(np.exp(-1 - clip), rel=0.3)
        assert skewed.hidden(clip) == pytest.approx(np.exp(-1 - clip), rel=0.3)
    even = excess(Tails.merge((TailCount(start, upper, upper, 1.0, 1.0),), 50000.0))
    assert even.balanced > 0.8
    assert even.hidden2(3.0) < 0.01 * skewed.hidden2(3.0)


def test_what_the_clip_hides_is_sought_along_the_scale_of_the_errors(monkeypatch):
    """Errors whose scale follows the first covariate: the correction moves the intercept and that
    slope up, and hardly the others; with equal errors it moves the intercept alone."""
    monkeypatch.setattr(planning, "AMPLE", np.inf)  # a single round's clip would hide nothing
    rng = np.random.default_rng(8)

    def moves(scale):
        def errors(x):
            return scale(x[:, 0]) * (rng.exponential(size=len(x)) - 1)

        z, y, _ = problem(rng, 20_000, 3, errors)
        _, state = refine(z, y, *box(3, y), 50.0, rng)
        along = direction(state)
        return state.back @ state.whitening.T @ along, along

    growing, whitened = moves(lambda x: 0.1 + 1.2 * x)
    assert growing[1] > 1.5
    assert np.abs(growing[2:]).max() < 0.2 * growing[1]
    assert np.linalg.norm(whitened) < 4.0
    equal, _ = moves(lambda x: 0.7 + 0 * x)
    assert equal == pytest.approx([1, 0, 0, 0], abs=0.25)


def test_scaling_is_cut_to_the_range():
    f, y = scaled(np.array([[1.0, 9.0]]), np.array([99.0]), np.r_[1, 0], np.r_[0, 2], 0.0, 5.0)
    np.testing.assert_array_equal(f, [[1, 1, 1]])
    assert y[0] == 5.0


def test_scale_from_a_noisy_square():
    """Without noise the square is inverted; with noise it moves a guess, and never to nothing."""
    exact = float(mean_clipped_square(1.5 / 0.7))
    for guess in (0.1, 0.7, 3.0):
        assert sd_from_noisy_spread(exact, 1e-6, 1.5, guess) == pytest.approx(0.7, rel=1e-4)
    assert sd_from_noisy_spread(exact, 1e6, 1.5, 0.5) == pytest.approx(0.5, rel=1e-4)
    between = sd_from_noisy_spread(exact, 0.05, 1.5, 0.3)
    assert 0.3 < between < 0.7
    for mean in (-0.1, 0.0, 0.01):
        assert 0.2 < sd_from_noisy_spread(mean, 0.06, 1.5, 0.6) < 0.6
