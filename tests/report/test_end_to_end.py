"""From a table to the printed results, against ordinary least squares."""

from __future__ import annotations

import pickle
import struct
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpbinagg import Budget, Domain, Partition, dp_ols, dp_release
from dpbinagg.analyst.fitstats import FitStatistics
from dpbinagg.datasets import load_school
from dpbinagg.errors import IdentificationWarning, NotIdentifiedError
from dpbinagg.report.results import DPResultsWrapper
from dpbinagg.report.verbs import Release

BOUNDS = {"y": (-2.0, 12.0), "x": (0.0, 4.0), "g": ["a", "b", "c"]}
FORMULA = "y ~ x + I(x**2) + C(g)"
SECRET = 2.718281828


def simulated(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x, g = rng.uniform(0, 4, n), rng.choice(["a", "b", "c"], n)
    y = 1 + 1.5 * x - 0.2 * x**2 + 0.5 * (g == "b") + rng.normal(0, 0.7, n)
    frame = pd.DataFrame({"y": y, "x": x, "g": g})
    frame.loc[0, "x"] = SECRET
    return frame


@pytest.fixture(scope="module")
def sharp() -> DPResultsWrapper:
    """Almost no noise: everything must agree with least squares on the records."""
    budget = Budget(ranges=0, scores=0)
    release = dp_release(FORMULA, simulated(), mu=1e6, bounds=BOUNDS, budget=budget, rng=1)
    return release.ols(estimator="moments")


@pytest.fixture(scope="module")
def noisy() -> DPResultsWrapper:
    return dp_ols(
        FORMULA,
        simulated(),
        mu=2.0,
        bounds=BOUNDS,
        budget=Budget(ranges=0, scores=0),
        estimator="combined",
        rng=1,
    )


def test_without_noise_the_table_is_that_of_least_squares(sharp: DPResultsWrapper) -> None:
    ols = smf.ols(FORMULA, simulated()).fit()
    np.testing.assert_allclose(sharp.params, ols.params, rtol=1e-4)
    np.testing.assert_allclose(sharp.bse, ols.bse, rtol=1e-3)
    np.testing.assert_allclose(sharp.conf_int(), ols.conf_int(), rtol=1e-2)
    for name in ("rsquared", "rsquared_adj", "fvalue", "aic", "bic", "scale", "nobs", "df_resid"):
        assert getattr(sharp, name) == pytest.approx(getattr(ols, name), rel=1e-3), name
    assert sharp.df_model == ols.df_model
    new = simulated().iloc[:20]
    np.testing.assert_allclose(
        sharp.get_prediction(new).summary_frame(),
        ols.get_prediction(new).summary_frame(),
        rtol=1e-3,
    )


def test_summary_shows_the_fit(noisy: DPResultsWrapper) -> None:
    text = str(noisy.summary())
    assert "not released" not in text
    assert "NOT FOR PUBLICATION" in text
    assert f"{noisy.rsquared:.3f}" in text
    glance = noisy.glance().iloc[0]
    assert glance["r_squared"] == noisy.rsquared
    assert glance["bic"] == noisy.bic


@pytest.mark.parametrize(
    "formula", ["y ~ x", "y ~ C(g)", "y ~ 0 + C(g) + x", "y ~ I(2 * x + x**2)"]
)
def test_smaller_models_come_from_the_same_release(sharp: DPResultsWrapper, formula: str) -> None:
    ols = smf.ols(formula, simulated()).fit()
    small = sharp.release.ols(formula, estimator="moments")
    np.testing.assert_allclose(small.params, ols.params, rtol=1e-3)
    np.testing.assert_allclose(small.bse, ols.bse, rtol=1e-2)
    assert small.rsquared == pytest.approx(ols.rsquared, rel=1e-2)
    expected = smf.ols(FORMULA, simulated()).fit().compare_f_test(ols)
    np.testing.assert_allclose(sharp.compare_f_test(small), expected, rtol=1e-2, atol=1e-12)


def test_r_squared_is_close_at_moderate_privacy() -> None:
    """Ten seeds; its noise has a standard deviation of about 0.01 here."""
    ols = smf.ols(FORMULA, simulated()).fit()
    fits = [dp_ols(FORMULA, simulated(), mu=1.0, bounds=BOUNDS, rng=seed) for seed in range(10)]
    found = [res.rsquared for res in fits]
    assert np.abs(np.array(found) - ols.rsquared).max() < 0.05, found
    small = smf.ols("y ~ x", simulated()).fit()
    assert fits[0].release.ols("y ~ x").rsquared == pytest.approx(small.rsquared, abs=0.05)


def test_a_constant_alone_explains_nothing() -> None:
    res = dp_ols("y ~ 1", simulated(), mu=2.0, bounds=BOUNDS, rng=1)
    assert res.rsquared == res.rsquared_adj == 0.0
    assert "Adj. R-squared: 0.000" in " ".join(str(res.summary()).split())


def test_bins_alone_give_no_r_squared() -> None:
    res = dp_ols(
        FORMULA,
        simulated(),
        mu=5.0,
        bounds=BOUNDS,
        budget=Budget(ranges=0, moments=0, scores=0),
        estimator="corrected",
        rng=1,
    )
    assert not hasattr(res, "rsquared")
    assert not hasattr(res, "combined")
    assert np.isfinite(res.fvalue)
    assert "not released" in str(res.summary())


def test_nothing_private_travels_with_the_results(noisy: DPResultsWrapper) -> None:
    assert struct.pack("<d", SECRET) in pickle.dumps(simulated()["x"].to_numpy())
    data = pickle.dumps(noisy)
    assert struct.pack("<d", SECRET) not in data
    assert struct.pack(">d", SECRET) not in data
    assert len(noisy.model.data.frame) <= 1000
    assert not np.isin(simulated()["x"], noisy.model.data.frame["x"]).any()


def test_average_effects_are_taken_over_synthetic_records(noisy: DPResultsWrapper) -> None:
    pytest.importorskip("polars")
    marginaleffects = pytest.importorskip("marginaleffects")
    effects = marginaleffects.avg_slopes(noisy, variables="x").to_pandas()
    b = noisy.params
    at_mean = b["x"] + 2 * b["I(x ** 2)"] * simulated()["x"].mean()
    # The synthetic mean of x is within 0.1 of the mean of the records.
    assert effects["estimate"].iloc[0] == pytest.approx(at_mean, abs=0.2 * abs(b["I(x ** 2)"]))


@pytest.mark.parametrize("cells", [10, 40, 100])
def test_without_noise_the_bins_give_weighted_least_squares(cells: int) -> None:
    """Naive and corrected coincide, bins with one record or none included."""
    rng = np.random.default_rng(3)
    x = rng.random((4000, 2))
    y = np.clip(1 + x @ [1.0, 2.0] + rng.normal(0, 0.5, len(x)), -3, 8)
    frame = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "y": y})
    bounds = {"x1": (0, 1), "x2": (0, 1), "y": (-3, 8)}
    results = dp_ols(
        "y ~ x1 + x2",
        frame,
        mu=1e6,
        bounds=bounds,
        partition=Partition.grid(Domain(bounds).subset(("x1", "x2")), cells),
        budget=Budget(ranges=0, count=1, sum_x=1, sum_y=1, moments=0, scores=0),
        estimator="corrected",
        rng=1,
    )
    place = np.minimum((x * cells).astype(int), cells - 1) @ [cells, 1]
    sums = frame.assign(one=1.0).groupby(place)[["one", "x1", "x2", "y"]].sum()
    exact = smf.wls("y ~ 0 + one + x1 + x2", sums, weights=1 / sums["one"]).fit()
    np.testing.assert_allclose(results.params, exact.params, atol=1e-6)
    np.testing.assert_allclose(results.naive.params, results.params, atol=1e-9)


def test_a_mistake_inside_a_statistic_is_not_printed_as_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A property that fails by AttributeError looks, to getattr, like one that is absent."""
    school = load_school()
    res = dp_ols("score ~ pretest", school.frame, mu=5, bounds=school.codebook, rng=1)
    assert "not released" not in str(res.summary())
    res = res.release.ols()

    def broken(release: Release, *_: object) -> FitStatistics:
        return release.no_such_name  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr("dpbinagg.report.inference.fit_statistics", broken)
    for show in (res.summary, res.glance):
        with pytest.raises(AttributeError, match="no_such_name"):
            show()


@pytest.fixture(scope="module")
def levels_of_nobody() -> DPResultsWrapper:
    """A factor of which two levels were declared and nobody has them."""
    bounds = {**BOUNDS, "g": ["a", "b", "c", "never", "seldom"]}
    with pytest.warns(IdentificationWarning) as caught:
        res = dp_ols("y ~ x + C(g)", simulated(), mu=1.0, bounds=bounds, rng=1)
    (warning,) = caught
    assert "coefficients of C(g)[T.never] and C(g)[T.seldom]" in str(warning.message)
    assert warning.filename == __file__
    return res


@pytest.mark.filterwarnings("ignore::dpbinagg.errors.IdentificationWarning")
def test_levels_that_nobody_has_are_not_identified(levels_of_nobody: DPResultsWrapper) -> None:
    res, ols = levels_of_nobody, smf.ols("y ~ x + C(g)", simulated()).fit()
    gone = ["C(g)[T.never]", "C(g)[T.seldom]"]
    known = res.identified.index[res.identified].to_list()
    assert res.identified.index[~res.identified].to_list() == gone
    for numbers in (res.params, res.bse, res.tvalues, res.pvalues, res.combined.params):
        assert numbers[gone].isna().all()
        assert numbers[known].notna().all()
    assert (np.abs(res.params[known] - ols.params[known]) < 4 * res.bse[known]).all()
    text = " ".join(str(res.summary()).split())
    assert text.count("not identified") == 3
    assert "No records, or too few to tell from none, have g = never and seldom." in text
    rows = [line.split("  ") for line in str(res.compare()).splitlines()]
    shown = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    for name in gone:
        assert shown[name] == ["not identified"] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        terms = res.wald_test_terms(scalar=True).table
    assert np.isnan(terms.loc["C(g)", "pvalue"])
    assert terms.loc["x", "pvalue"] < 1e-8
    with pytest.raises(NotIdentifiedError, match="never"):
        res.t_test("C(g)[T.never] = 0")
    with pytest.raises(NotIdentifiedError):
        res.t_test("C(g)[T.never] - C(g)[T.seldom] = 0")
    assert np.isfinite(res.t_test("C(g)[T.b] - C(g)[T.c] = 0").pvalue).all()


@pytest.mark.parametrize("estimator", ["refined", "combined"])
def test_smaller_models_do_not_know_more(
    levels_of_nobody: DPResultsWrapper, estimator: str
) -> None:
    """The smaller model once had such a level's coefficient at 1e14, and a wrong constant."""
    with pytest.warns(IdentificationWarning, match="never"):
        small = levels_of_nobody.release.ols("y ~ C(g)", estimator=estimator)
    ols = smf.ols("y ~ C(g)", simulated()).fit()
    assert small.identified.to_list() == [True, True, True, False, False]
    known = ols.params.index
    assert (np.abs(small.params[known] - ols.params) < 4 * small.bse[known]).all()
    assert small.bse[known].max() < 0.3
