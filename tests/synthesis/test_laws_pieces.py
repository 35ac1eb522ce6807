"""The numerics under the laws: where heaps lie, what counts usually are, orders of numbers."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from dpbinagg import dp_ols
from dpbinagg.analyst.synthesis.heaps import round_points
from dpbinagg.analyst.synthesis.orders import PLACES, before_laws, normal_given
from dpbinagg.analyst.synthesis.usual import usual_counts

NORMAL = ndtri((np.arange(PLACES) + 0.5) / PLACES)


def around(points, width, seed=0):
    """Cells of one width that hold the points, anywhere in them."""
    low = points - width * np.random.default_rng(seed).random(len(points))
    return low, low + width


SAID = np.array([12_000.0, 25_000, 30_000, 45_000, 60_000, 100_000])


@pytest.mark.parametrize(
    ("points", "width"),
    [
        (SAID, 900.0),
        (np.log(SAID), 0.01),
        (np.log1p([25.0, 50.0, 95.0, 100.0]), 0.004),
        (np.array([0.5, 12.5, 17.5]), 0.3),
        (np.array([-40.0, -7.5, 20.0]), 0.4),
    ],
)
def test_heaps_lie_where_all_of_them_are_round(points, width):
    found = round_points(*around(points, width), False)
    np.testing.assert_allclose(found, points, rtol=1e-12)


def test_heaps_that_are_round_nowhere_stay_in_their_cells():
    for seed in range(100):
        points = np.random.default_rng(seed).uniform(9.0, 11.0, 5)
        low, high = around(points, 0.01, seed)
        found = round_points(low, high, False)
        assert ((found > low) & (found <= high)).all()


def test_heaps_of_an_outcome_in_logarithms_keep_their_values():
    """Also in the calibrated table, whose other responses move: within 5 noise deviations."""
    rng = np.random.default_rng(1)
    n = 4000
    x = rng.normal(0, 1, n).clip(-3, 3)
    pay = np.exp(10.4 + 0.2 * x + rng.normal(0, 0.5, n))
    said = rng.random(n) < 0.5
    pay[said] = np.maximum(pay[said].round(-4), 10_000)
    data = pd.DataFrame({"log_pay": np.log(pay).clip(8, 13), "x": x})
    res = dp_ols("log_pay ~ x", data, mu=1, bounds={"log_pay": (8, 13), "x": (-3, 3)}, rng=4)
    table = res.synthesize(rng=5)
    for value in np.log([20_000.0, 30_000.0, 40_000.0]):
        share = (np.abs(data.log_pay - value) < 1e-9).mean()
        assert share > 0.05
        assert (np.abs(table.log_pay - value) < 1e-9).mean() == pytest.approx(share, abs=0.015)


def test_counts_are_nearer_to_records_with_those_beside():
    """Smooth laws, 200 surveys of each: the mean squared error falls by a third at least."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(200):
        centre, spread = rng.uniform(20, 60), rng.uniform(8, 20)
        share = np.exp(-0.5 * ((np.arange(80) - centre) / spread) ** 2)
        counts = rng.multinomial(2000, share / share.sum()).astype(float)
        noisy = counts + 10.0 * rng.standard_normal(80)
        usual = usual_counts(noisy, np.maximum(noisy, 0.0), np.ones(80), 10.0)
        assert usual is not None
        mean, spread = usual
        nearest = (noisy / 100.0 + mean / spread**2) / (1 / 100.0 + 1 / spread**2)
        ratios.append(np.mean((nearest - counts) ** 2) / np.mean((noisy - counts) ** 2))
    assert np.mean(ratios) < 2 / 3


def test_heaps_and_gaps_are_not_smoothed_away():
    rng = np.random.default_rng(2)
    counts = np.full(60, 50.0)
    counts[40] = 900.0
    noisy = counts + 8.0 * rng.standard_normal(60)
    mean, spread = usual_counts(noisy, noisy, np.ones(60), 8.0)
    assert np.isinf(spread[40])
    np.testing.assert_allclose(np.delete(mean, 40), 50.0, atol=10.0)
    # Every other cell has a value, the others none: counts tell nothing of those beside.
    gaps = np.where(np.arange(60) % 2 == 0, 150.0, 0.0) + 8.0 * rng.standard_normal(60)
    assert usual_counts(gaps, gaps.clip(0), np.ones(60), 8.0) is None
    assert usual_counts(noisy[:5], noisy[:5], np.ones(5), 8.0) is None
    assert usual_counts(counts, counts, np.ones(60), 0.0) is None


@pytest.mark.parametrize("rho", [-0.9, -0.3, 0.0, 0.5, 0.95])
def test_orders_have_the_correlation_that_laws_turn_into_the_released_one(rho):
    """Against closed forms: of lognormal variables, and of signs."""
    target = np.array([[1.0, np.expm1(0.49 * rho) / np.expm1(0.49)], [0.0, 1.0]])
    values = np.exp(0.7 * np.array([NORMAL, NORMAL]))
    assert before_laws(target + np.triu(target, 1).T, values)[0, 1] == pytest.approx(rho, abs=0.03)
    # The other column decreases.
    values[1] = -values[1]
    assert before_laws(-target - np.triu(target, 1).T, values)[0, 1] == pytest.approx(rho, abs=0.03)
    signs = np.array([[1.0, 2.0 / np.pi * np.arcsin(rho)], [2.0 / np.pi * np.arcsin(rho), 1.0]])
    steps = np.sign([NORMAL, NORMAL])
    assert before_laws(signs, steps)[0, 1] == pytest.approx(rho, abs=0.03)
    # With what is normal already, only the first polynomial counts.
    mixed = np.array([[1.0, rho * np.sqrt(2.0 / np.pi)], [rho * np.sqrt(2.0 / np.pi), 1.0]])
    assert before_laws(mixed, steps[:1])[0, 1] == pytest.approx(rho, abs=0.01)


def test_a_square_follows_its_root():
    """The correlation of x and its square, which is below 1, is that of one order."""
    x = np.linspace(0.0, 40.0, PLACES)
    values = np.array([x, x**2])
    target = np.corrcoef(values)
    assert before_laws(target, values)[0, 1] == pytest.approx(1.0, abs=1e-3)


def test_normal_variables_given_others():
    """Covariances within 5 standard errors, n = 100,000."""
    wanted = np.array([[1.0, 0.6, 0.3], [0.6, 1.0, -0.4], [0.3, -0.4, 1.0]])
    rng = np.random.default_rng(6)
    kept = rng.standard_normal((1, 100_000))
    found = np.vstack([normal_given(wanted, kept, rng), kept])
    np.testing.assert_allclose(np.cov(found), wanted, atol=5 * np.sqrt(2 / 100_000))


def test_tables_of_many_covariates_are_calibrated():
    """More than numpy has dimensions for."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(70)]
    data = pd.DataFrame(rng.uniform(0, 1, (1500, 70)), columns=names)
    data["y"] = data.x0 + rng.normal(0, 0.2, 1500)
    bounds = dict.fromkeys(names, (0, 1)) | {"y": (-1, 2)}
    res = dp_ols(f"y ~ {' + '.join(names)}", data, mu=5, bounds=bounds, rng=1)
    table = res.synthesize(rng=2)
    x = np.column_stack([np.ones(len(table)), table[names]])
    found = np.linalg.lstsq(x, table["y"].to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(found, res.estimate.params, atol=1e-8)
