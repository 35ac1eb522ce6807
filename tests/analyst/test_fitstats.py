"""Smaller models and fit statistics from the end of the refinement, against least squares."""

import numpy as np
import pytest
import statsmodels.api as sm
from simulated import noisy_moments, refine, scaled

from dpbinagg.analyst.fitstats import fit_statistics, sums_from_moments, sums_from_state
from dpbinagg.analyst.moments import from_moments
from dpbinagg.analyst.smaller import smaller_model


def problem(rng, n=1500):
    x = rng.uniform(size=(n, 3))
    x[:, 1] = 0.6 * x[:, 0] + 0.4 * x[:, 1]
    z = np.column_stack([np.ones(n), x])
    y = z @ [0.5, 1.0, -1.5, 0.7] + 0.4 * rng.normal(size=n)
    return z, y, (np.r_[1, 0.5, 0.5, 0.5], np.r_[0, 0.5, 0.5, 0.5], 0.5, 3.0)


def test_exact_limit_is_statsmodels():
    rng = np.random.default_rng(1)
    z, y, box = problem(rng)
    estimate, state = refine(z, y, *box, 1e6, rng)
    ols = sm.OLS(y, z).fit()
    stats = fit_statistics(estimate, sums_from_state(state), constant=0)
    assert stats.rsquared == pytest.approx(ols.rsquared, rel=0.02)
    assert stats.fvalue == pytest.approx(ols.fvalue, rel=0.1)
    assert stats.aic == pytest.approx(ols.aic, rel=0.03)
    assert stats.bic - stats.aic == pytest.approx(ols.bic - ols.aic, rel=1e-3)
    f, _ = scaled(z, y, *box)
    moments = noisy_moments(f, *box, 1e6, rng)
    fitted = from_moments(moments)
    stats = fit_statistics(fitted, sums_from_moments(moments, fitted), constant=0)
    assert stats.rsquared == pytest.approx(ols.rsquared, abs=1e-4)
    assert stats.rsquared_adj == pytest.approx(ols.rsquared_adj, abs=1e-4)
    assert stats.fvalue == pytest.approx(ols.fvalue, rel=1e-3)
    assert stats.llf == pytest.approx(ols.llf, rel=1e-4)


def test_uncertainty_of_r_squared():
    """60 releases of one table: their spread is the stated one within a factor of 1.6."""
    z, y, box = problem(np.random.default_rng(2))
    found, stated = [], []
    for seed in range(60):
        estimate, state = refine(z, y, *box, 1.0, np.random.default_rng(seed))
        stats = fit_statistics(estimate, sums_from_state(state), constant=0)
        found.append(stats.rsquared)
        stated.append(stats.rsquared_sd)
    assert np.mean(found) == pytest.approx(sm.OLS(y, z).fit().rsquared, abs=0.02)
    assert 1 / 1.6 < np.std(found) / np.mean(stated) < 1.6


def test_smaller_model_is_least_squares_in_the_limit():
    rng = np.random.default_rng(3)
    z, y, box = problem(rng)
    _, state = refine(z, y, *box, 1e6, rng)
    columns = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    estimate = smaller_model(state, columns)
    ols = sm.OLS(y, z @ columns).fit()
    np.testing.assert_allclose(estimate.params, ols.params, atol=1e-4)
    np.testing.assert_allclose(estimate.bse, ols.bse, rtol=0.08)
    assert estimate.scale == pytest.approx(ols.scale, rel=0.03)


def test_smaller_model_covers():
    """60 samples; the slope of x1 alone, whose truth follows from the joint law of x."""
    columns = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    truth = 1.0 - 1.5 * 0.6
    hits = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        z, y, box = problem(rng)
        _, state = refine(z, y, *box, 1.0, rng)
        estimate = smaller_model(state, columns)
        hits.append(abs(estimate.params[1] - truth) < 1.96 * estimate.bse[1])
    assert np.mean(hits) > 0.85
