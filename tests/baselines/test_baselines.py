"""Baselines: agreement with OLS without noise, scales of noise, options."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dpbinagg import baselines
from dpbinagg.accounting import gdp
from dpbinagg.baselines import sketch, sufficient
from dpbinagg.baselines.descent import COUNT_SHARE, descend
from dpbinagg.baselines.problem import prepare
from dpbinagg.errors import BudgetError, DataError, DomainError, FormulaError

Array = NDArray[np.float64]
BOUNDS = ([(-3.0, 5.0), (10.0, 14.0), (0.0, 1.0)], (-10.0, 60.0))
NO_PRIVACY = 1e9


def table(n: int = 400, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    columns = np.column_stack([rng.uniform(low, high, n) for low, high in BOUNDS[0]])
    return columns, 2.0 + columns @ [1.0, 2.0, -3.0] + rng.normal(size=n)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", ["ssp", "adassp"])
def test_without_noise_they_are_ols(name: str, intercept: bool, scale: bool) -> None:
    model = table()
    fit = getattr(baselines, name)(
        model, mu=NO_PRIVACY, bounds=BOUNDS, rng=1, intercept=intercept, scale=scale
    )
    exact = baselines.ols(model, intercept=intercept)
    assert fit.names == exact.names
    np.testing.assert_allclose(fit.params, exact.params, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
def test_descent_without_noise_reaches_ols(intercept: bool) -> None:
    model = table()
    fit = baselines.dpgd(
        model, mu=NO_PRIVACY, bounds=BOUNDS, rng=1, intercept=intercept,
        rate=1.0, clip=100.0, epochs=4000,
    )  # fmt: skip
    np.testing.assert_allclose(
        fit.params, baselines.ols(model, intercept=intercept).params, rtol=1e-3, atol=1e-3
    )


def test_sketch_without_noise_is_ols_up_to_its_own_sampling_error() -> None:
    model = table()
    fit = baselines.jlt(model, mu=1e4, bounds=BOUNDS, rng=1, rows=200_000, delta=1e-3)
    exact = baselines.ols(model)
    assert exact.cov is not None
    # The sketch's own error is sqrt(n/r) = 0.045 standard errors of OLS; 5 of them.
    assert np.all(abs(fit.params - exact.params) < 0.23 * np.sqrt(np.diag(exact.cov)))


def wages() -> tuple[pd.DataFrame, dict[str, object]]:
    rng = np.random.default_rng(5)
    n = 500
    frame = pd.DataFrame(
        {
            "educ": rng.integers(0, 21, n),
            "exper": rng.uniform(0, 40, n),
            "region": rng.choice(["N", "S", "E"], n),
        }
    )
    frame["wage"] = np.exp(1 + 0.08 * frame.educ + 0.02 * frame.exper + rng.normal(0, 0.3, n))
    frame.loc[3, "exper"] = np.nan
    bounds = {"educ": (0, 20), "exper": (0, 40), "region": ["N", "S", "E"], "wage": (0.1, 1000)}
    return frame, bounds


@pytest.mark.parametrize("name", ["ssp", "adassp"])
@pytest.mark.parametrize(
    "formula",
    ["np.log(wage) ~ educ + exper + I(exper**2) + C(region)", "wage ~ 0 + educ + region"],
)
def test_formulas_agree_with_ols(formula: str, name: str) -> None:
    frame, bounds = wages()
    fit = getattr(baselines, name)(formula, frame, mu=1e10, bounds=bounds, rng=0)
    exact = baselines.ols(formula, frame, bounds=bounds)
    assert len(fit.names) == len(exact.names)
    np.testing.assert_allclose(fit.params, exact.params, rtol=1e-5, atol=1e-6)


def test_formulas_need_bounds() -> None:
    frame, bounds = wages()
    del bounds["exper"]
    with pytest.raises(DomainError, match="exper"):
        baselines.ssp("wage ~ exper", frame, mu=1.0, bounds=bounds)


def test_ols_agrees_with_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api")
    columns, response = table()
    fit = baselines.ols((columns, response))
    other = api.OLS(response, api.add_constant(columns)).fit()
    np.testing.assert_allclose(fit.params, other.params, rtol=1e-9)
    np.testing.assert_allclose(fit.cov, other.cov_params(), rtol=1e-8)


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_noise_scales_follow_the_joint_sensitivity(mu: float) -> None:
    problem = prepare(table(), None, BOUNDS)
    rng = np.random.default_rng(0)
    size = 4
    noisy = sufficient.ssp_moments(problem, mu, rng, intervals=False)
    assert noisy.sd_gram == pytest.approx(np.sqrt(size * (size + 1) / 2 + size) / mu)
    noisy = sufficient.ssp_moments(problem, mu, rng)
    assert noisy.sd_gram == pytest.approx(np.sqrt(size * (size + 1) / 2 + size + 2) / mu)
    noisy = sufficient.adassp_moments(problem, mu, rng)
    assert noisy.sd_gram == pytest.approx(np.sqrt(3 * size * (size + 1) / 2) / mu)
    assert noisy.sd_cross == pytest.approx(np.sqrt(3 * size) / mu)


def test_gram_sensitivity_is_reached_and_not_exceeded() -> None:
    rng = np.random.default_rng(3)
    limits = np.array([1.0, 0.3, 2.0, 1.5])
    bound = sufficient.gram_sensitivity(limits)
    distinct = np.triu_indices(4)

    def moved(record: Array) -> float:
        return float(np.linalg.norm(np.outer(record, record)[distinct]))

    assert moved(limits) == pytest.approx(bound, rel=1e-12)
    assert max(moved(rng.uniform(-limits, limits)) for _ in range(500)) <= bound


def test_ssp_intervals_cover() -> None:
    """95% intervals, 400 replicates: 4 binomial standard errors are 0.044."""
    covered = []
    truth = np.array([2.0, 1.0, 2.0, -3.0])
    for seed in range(400):
        fit = baselines.ssp(table(2000, seed), mu=1.0, bounds=BOUNDS, rng=seed + 10_000)
        assert fit.cov is not None
        covered.append(abs(fit.params - truth) < 1.96 * np.sqrt(np.diag(fit.cov)))
    assert np.all(abs(np.mean(covered, axis=0) - 0.95) < 0.044)


def test_descent_noise_is_calibrated_to_the_whole_of_mu() -> None:
    """One epoch from the start: noise sd of theta is rate C / (n mu_g)."""
    problem = prepare(table(), None, BOUNDS)
    rates, clips = np.full(20_000, 0.5), np.full(20_000, 0.7)
    mu, epochs = 0.8, 1
    theta = descend(problem, mu, rates, clips, epochs, np.random.default_rng(0))
    spent = gdp.compose(mu * np.sqrt(COUNT_SHARE), mu * np.sqrt(1 - COUNT_SHARE))
    assert spent == pytest.approx(mu)
    expected = 0.5 * 0.7 / (mu * np.sqrt(1 - COUNT_SHARE)) / len(problem.target)
    # 20,000 draws: relative error of an sd 0.5%; the noisy count is off by 2% (sd 8.8 of 400).
    np.testing.assert_allclose(theta.std(axis=0), expected, rtol=0.08)


def test_paper_grid_says_that_its_choice_is_not_private() -> None:
    fit = baselines.dpgd(table(), mu=1.0, bounds=BOUNDS, rng=0, paper_grid=True)
    assert "not private" in fit.notes[0]
    assert baselines.dpgd(table(), mu=1.0, bounds=BOUNDS, rng=0).notes == ()


@pytest.mark.parametrize(("epsilon", "delta", "rows"), [(1.0, 1e-3, 50), (3.0, 1e-5, 2000)])
def test_sketch_ratio_is_exact(epsilon: float, delta: float, rows: int) -> None:
    """The delta of chi2_r against (1 + g) chi2_r, integrated numerically, is the one asked for."""
    from scipy.stats import chi2

    ratio = sketch.largest_ratio(epsilon, delta, rows)
    grid = np.linspace(1e-9, rows + 40 * np.sqrt(rows), 400_001) * (1 + ratio)
    absent = chi2.pdf(grid, rows)
    present = chi2.pdf(grid / (1 + ratio), rows) / (1 + ratio)
    step = grid[1] - grid[0]
    adding = np.maximum(present - np.exp(epsilon) * absent, 0).sum() * step
    removing = np.maximum(absent - np.exp(epsilon) * present, 0).sum() * step
    assert max(adding, removing) == pytest.approx(delta, rel=1e-3)


def test_sketch_has_the_distribution_of_the_projected_records() -> None:
    problem = prepare(table(60), None, BOUNDS)
    rng = np.random.default_rng(0)
    records = np.column_stack([problem.features, problem.target])
    ridge = 5.0 / sketch.largest_ratio(2.0, 1e-3, 40_000)
    padded = np.vstack([records, np.sqrt(ridge) * np.eye(5)])
    direct = rng.normal(size=(40_000, len(padded))) @ padded
    drawn = sketch.sketch_rows(problem, 2.0, 1e-3, 40_000, rng)
    size = np.sqrt(np.diag(direct.T @ direct))
    gap = (direct.T @ direct - drawn.T @ drawn) / np.outer(size, size)
    assert abs(gap).max() < 5 * np.sqrt(2 * 2 / 40_000)


def test_same_seed_same_result() -> None:
    for name in ("ssp", "adassp", "jlt", "dpgd"):
        one, two, three = (
            getattr(baselines, name)(table(), mu=1.0, bounds=BOUNDS, rng=seed).params
            for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(one, two)
        assert not np.array_equal(one, three)


def test_records_outside_the_bounds_are_clipped() -> None:
    columns, response = table()
    wild = columns.copy()
    wild[0] = 1e6
    tame = columns.copy()
    tame[0] = [high for _, high in BOUNDS[0]]
    one, two = (
        baselines.ssp((each, response), mu=1.0, bounds=BOUNDS, rng=0) for each in (wild, tame)
    )
    np.testing.assert_array_equal(one.params, two.params)


@pytest.mark.parametrize(
    ("model", "changes", "error"),
    [
        (table(), {"mu": 0.0}, BudgetError),
        (table(), {"mu": float("nan")}, BudgetError),
        (table(), {"bounds": None}, DomainError),
        (table(), {"bounds": ([(0, 1), (1, 0), (0, 1)], (0, 1))}, DomainError),
        (table(), {"bounds": {"x1": (0, 1)}}, DomainError),
        ("y ~ x", {}, DataError),
        ((np.zeros((3, 2)), np.zeros(4)), {"bounds": ([(0, 1)] * 2, (0, 1))}, DataError),
        (3, {}, FormulaError),
    ],
)
def test_errors(model: object, changes: dict[str, object], error: type[Exception]) -> None:
    arguments = {"mu": 1.0, "bounds": BOUNDS, **changes}
    with pytest.raises(error):
        baselines.ssp(model, **arguments)  # type: ignore[arg-type]
