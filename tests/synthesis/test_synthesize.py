"""Synthetic tables: three kinds, types, boxes, sums, calibrated regressions."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples

from dpbinagg import Budget, dp_ols
from dpbinagg.analyst.fit import released_bins
from dpbinagg.analyst.synthesis.copies import combine_copies
from dpbinagg.errors import DPBinAggWarning, IdentificationWarning, ReleaseError
from dpbinagg.report.refit import refit

WAGE = "np.log(wage) ~ educ + exper + I(exper**2) + C(region) + union"
BOUNDS = {
    "wage": (0.5, 100),
    "educ": range(6, 19),
    "exper": (0, 40),
    "region": ["N", "S", "E", "W"],
}
REGIONS = ["N", "S", "E", "W"]


def wages(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "educ": rng.integers(6, 19, n),
            "exper": rng.uniform(0, 40, n),
            "region": pd.Categorical(rng.choice(REGIONS, n), categories=REGIONS),
            "union": rng.random(n) < 0.3,
        }
    )
    index = 0.5 + 0.08 * data.educ + 0.03 * data.exper - 0.0005 * data.exper**2
    data["wage"] = np.exp(index + 0.1 * data.union + rng.normal(0, 0.4, n))
    return data


@pytest.fixture(scope="module")
def res():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        return dp_ols(WAGE, wages(), mu=1, bounds=BOUNDS, rng=1)


def test_calibrated_rows_give_the_released_regression_back(res):
    table = res.synthesize(rng=2)
    fit = smf.ols(WAGE, table).fit()
    np.testing.assert_allclose(fit.params, res.params, atol=1e-8, rtol=0)
    assert list(fit.params.index) == list(res.params.index)
    # The response has its own law, whose spread the regression stretches as far as counts let it:
    # over 12 surveys and releases by .031 on average, by .086 at most.
    assert fit.scale == pytest.approx(res.scale, rel=0.1)
    assert len(table) == round(res.release.statistics["moments"][0, 0])


def test_predictive_responses_scatter_half_as_much():
    """Around the same regression: slopes within 5%, standard error within 10% of a half."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 20_000)})
    data["y"] = 5 + 2 * data.x + rng.normal(0, 0.3, 20_000)
    result = dp_ols("y ~ x", data, mu=5, bounds={"x": (0, 1), "y": (0, 10)}, rng=1)
    fit = smf.ols("y ~ x", result.synthesize(kind="predictive", rng=2)).fit()
    np.testing.assert_allclose(fit.params, result.params, rtol=0.05)
    assert np.sqrt(fit.scale) == pytest.approx(0.15, rel=0.1)


@pytest.mark.parametrize("kind", ["calibrated", "predictive", "bounded"])
@pytest.mark.parametrize("size", [None, 40, 777])
def test_covariates_keep_their_types_and_boxes(res, kind, size):
    table = res.synthesize(size=size, kind=kind, bin_id=True, rng=3)
    assert list(table.columns) == ["wage", "educ", "exper", "region", "union", "bin_id"]
    assert size is None or len(table) == size
    assert table.educ.dtype == np.int64
    assert table.educ.between(6, 18).all()
    assert table.exper.between(0, 40).all()
    assert list(table.region.cat.categories) == REGIONS
    assert table.union.dtype == bool
    records = {
        "educ": table.educ.to_numpy(float),
        "exper": table.exper.to_numpy(),
        "region": table.region.cat.codes.to_numpy(np.int64),
        "union": table.union.to_numpy(np.int64),
    }
    assert (res.release.partition.locate(records) == table.bin_id).all()
    if kind != "calibrated":
        assert table.wage.between(0.5, 100).all()


@pytest.mark.parametrize(
    ("formula", "name", "levels"),
    [
        ("y ~ x + C(g, levels=['u', 'v'])", "g", ["u", "v"]),
        ("y ~ x:C(g, levels=['u', 'v'])", "g", ["u", "v"]),
        ("y ~ C(k, levels=[3, 7, 12]) * x", "k", [3, 7, 12]),
        ("y ~ x:C(k, levels=[3, 7, 12])", "k", [3, 7, 12]),
        ("y ~ k + C(k, levels=[3, 7, 12])", "k", [3, 7, 12]),
        ("y ~ x + C(wide, levels=[3, 7, 1234])", "wide", [3, 7, 1234]),
    ],
)
@pytest.mark.parametrize("kind", ["calibrated", "predictive", "bounded"])
def test_values_that_the_levels_of_a_formula_leave_out_are_never_drawn(formula, name, levels, kind):
    rng = np.random.default_rng(0)
    n = 3000
    data = pd.DataFrame(
        {
            "y": rng.random(n),
            "x": rng.random(n),
            "g": rng.choice(["u", "v", "w"], n),
            "k": rng.choice([3, 5, 7, 12], n),
            "wide": rng.choice([3, 7, 1234, 4000], n),
        }
    )
    bounds = {"y": (0, 1), "x": (0, 1), "g": ["u", "v", "w"], "k": range(20), "wide": range(5001)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        table = dp_ols(formula, data, mu=5, bounds=bounds, rng=1).synthesize(kind=kind, rng=2)
    assert table.notna().all(axis=None)
    share = table[name].value_counts(normalize=True)
    assert set(share[share > 0].index) == set(levels)
    # Each level has a third of the complete records, a quarter and more of the rows.
    assert share[levels].min() > 0.2


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + z", "y ~ z + C(k)"])
def test_columns_that_are_constant_in_double_precision(formula):
    """Bounds so near to each other, compared with their size, that nothing is released of x."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"y": rng.random(500), "x": 1e14 + rng.random(500), "z": rng.random(500)})
    data["k"] = rng.integers(0, 2, 500)
    bounds = {"y": (0, 1), "x": (1e14, 1e14 + 1), "z": (0, 1), "k": range(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        result = dp_ols(formula, data, mu=3, bounds=bounds, rng=1)
    for kind in ("calibrated", "predictive", "bounded"):
        table = result.synthesize(kind=kind, rng=1)
        assert next(iter(table)) == "y"
        assert table.notna().all(axis=None)
        assert table.filter(["x"]).apply(lambda x: x.between(1e14, 1e14 + 1)).all(axis=None)


def test_bounded_bin_means_are_the_released_ones_inside_the_box(res):
    release = res.release
    table = res.synthesize(kind="bounded", bin_id=True, rng=4)
    bins = released_bins(release)
    names = list(release.column_names)
    rows = table.groupby("bin_id")
    checked = 0
    for j, name in ((names.index("exper"), "exper"), (names.index("educ"), "educ")):
        mean = bins.sum_x[:, j] / bins.counts
        for k, group in rows:
            low = release.partition.boxes.lower[name][k]
            high = release.partition.boxes.upper[name][k]
            if low <= mean[k] <= high and bins.counts[k] >= 1 and bins.half_width[k, j] > 0:
                # A whole-number mean is as near as the number of rows allows.
                step = 0.5 / len(group) if name == "educ" else 0.0
                assert abs(group[name].mean() - mean[k]) <= step + 1e-9
                checked += 1
    assert checked > 20


def test_binagg_sums_are_the_released_ones(res):
    bins = released_bins(res.release)
    for size in (None, 5000):
        table = res.synthesize(kind="binagg", bin_id=True, size=size, rng=5)
        sums = table.groupby("bin_id").sum()
        for j, name in enumerate(res.release.column_names):
            if name != "Intercept":
                np.testing.assert_allclose(sums[name], bins.sum_x[:, j], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums["np.log(wage)"], bins.sum_y, rtol=1e-9, atol=1e-9)
        assert size is None or len(table) == size


@pytest.mark.parametrize("cov_type", ["sandwich", "model"])
def test_refit_gives_the_stewards_numbers(res, cov_type, tmp_path):
    table = res.synthesize(kind="binagg", bin_id=True, rng=6)
    table.to_csv(tmp_path / "rows.csv", index=False)
    back = pd.read_csv(tmp_path / "rows.csv")
    steward = res.release.ols(estimator="corrected", cov_type=cov_type)
    for source in (table, back):
        again = refit(WAGE, source, res.release, cov_type=cov_type)
        np.testing.assert_allclose(again.params, steward.params, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(again.bse, steward.bse, rtol=1e-9, atol=1e-9)


def test_refit_does_not_take_the_sums_from_the_release(res):
    table = res.synthesize(kind="binagg", bin_id=True, rng=6)
    table["np.log(wage)"] += 1.0
    steward = res.release.ols(estimator="corrected")
    shifted = refit(WAGE, table, res.release)
    assert abs(shifted.params["Intercept"] - steward.params["Intercept"]) > 0.5


def test_refit_names_the_argument_that_is_wrong(res):
    table = res.synthesize(kind="binagg", bin_id=True, rng=2)
    with pytest.raises(ReleaseError, match=r"synthetic must be a pandas DataFrame, got int; pass"):
        refit(None, 3, res.release)
    with pytest.raises(
        ReleaseError, match=r"release must be a Release, got DPResultsWrapper; pass"
    ):
        refit(None, table, res)


def test_refit_refuses_tables_that_do_not_belong(res):
    table = res.synthesize(kind="binagg", bin_id=True, rng=6)
    with pytest.raises(ReleaseError, match="bin_id"):
        refit(WAGE, table[table.bin_id > 0], res.release)
    with pytest.raises(ReleaseError, match="lacks the column"):
        refit(WAGE, table.drop(columns="educ"), res.release)
    with pytest.raises(ReleaseError, match="lacks the column"):
        refit(WAGE, res.synthesize(rng=1), res.release)


@pytest.mark.parametrize("copies", [2, 5, 20])
def test_combined_copies_give_the_released_standard_errors(res, copies):
    table = res.synthesize(copies=copies, size=300, rng=7)
    assert sorted(table["copy"].unique()) == list(range(1, copies + 1))
    fits = [smf.ols(WAGE, group).fit() for _, group in table.groupby("copy")]
    both = combine_copies(fits)
    # The draws are matched: nothing is left to chance in mean and variances.
    np.testing.assert_allclose(both.params, res.params, atol=1e-8)
    np.testing.assert_allclose(both.bse, res.bse, rtol=1e-6)
    if copies > len(res.params):
        np.testing.assert_allclose(both.cov, res.cov_params(), rtol=1e-5, atol=1e-12)
    # Each copy has its own coefficients, or the spread would be nothing.
    assert np.std([fit.params["educ"] for fit in fits]) > 0.5 * res.bse["educ"]


def test_coefficients_of_copies_are_normal_draws(res):
    from dpbinagg.analyst.synthesis.copies import draw_params

    draws = np.concatenate(
        [draw_params(res.estimate, 40, np.random.default_rng(seed)) for seed in range(50)]
    )
    z = (draws - res.estimate.params) / res.estimate.bse
    # 2,000 draws per coefficient: standard error of the share inside 1.96 is .005.
    assert np.abs((np.abs(z) < 1.96).mean(axis=0) - 0.95).max() < 0.02


def test_combine_copies_says_what_it_needs():
    with pytest.raises(ReleaseError, match="at least two"):
        combine_copies([np.zeros(2)])
    with pytest.raises(ReleaseError, match="list"):
        combine_copies(3)
    with pytest.raises(ReleaseError, match="same coefficients"):
        combine_copies([np.zeros(2), np.zeros(3)])


@pytest.mark.parametrize(
    ("formula", "name"),
    [
        ("wage ~ educ", "wage"),
        ("np.log(wage) ~ educ", "wage"),
        # Responses keep their law, so that no root is negative.
        ("np.sqrt(wage) ~ educ", "wage"),
        ("I(wage / exper) ~ educ", "I_wage_exper"),
    ],
)
@pytest.mark.filterwarnings("ignore::dpbinagg.errors.IdentificationWarning")
def test_responses_are_raw_where_the_transform_can_be_undone(formula, name):
    data = wages(1500)
    data["wage"] = np.random.default_rng(0).uniform(0, 2, 1500) ** 2
    bounds = {**BOUNDS, "exper": (1, 40), "wage": (0 if "sqrt" in formula else 0.01, 4)}
    result = dp_ols(formula, data, mu=2, bounds=bounds, rng=3)
    table = result.synthesize(rng=1)
    assert table.columns[0] == name
    fit = smf.ols(table.attrs["formula"], table).fit()
    np.testing.assert_allclose(fit.params, result.params, atol=1e-8)


@pytest.mark.parametrize(
    "formula",
    [
        "wage ~ 1",
        "wage ~ 0 + educ",
        "wage ~ C(educ)",
        "wage ~ C(educ, levels=[8, 12, 16]) + exper",
        "wage ~ C(region, Sum) * exper",
        "wage ~ region:union",
        "I(100 - wage) ~ Q('exper')",
        "np.log(wage) ~ bs(exper, knots=(20,), degree=2, lower_bound=0, upper_bound=40)",
    ],
)
@pytest.mark.filterwarnings("ignore::dpbinagg.errors.IdentificationWarning")
def test_formulas_of_all_sorts(formula):
    result = dp_ols(formula, wages(1500), mu=1, bounds=BOUNDS, rng=3)
    table = result.synthesize(rng=1)
    fit = smf.ols(table.attrs["formula"], table).fit()
    np.testing.assert_allclose(fit.params, result.params, atol=1e-8)
    for kind in ("predictive", "bounded"):
        assert result.synthesize(kind=kind, size=50, rng=1).notna().all(axis=None)
    rows = result.synthesize(kind="binagg", bin_id=True, rng=1)
    steward = result.release.ols(estimator="corrected")
    again = refit(formula, rows, result.release)
    np.testing.assert_allclose(again.params, steward.params, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.bse, steward.bse, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::dpbinagg.errors.IdentificationWarning")
def test_smaller_models_are_calibrated_too(res):
    formula = "np.log(wage) ~ educ + union"
    small = res.release.ols(formula)
    table = small.synthesize(rng=1)
    fit = smf.ols(formula, table).fit()
    np.testing.assert_allclose(fit.params, small.params, atol=1e-8)
    rows = res.synthesize(kind="binagg", bin_id=True, rng=1)
    again = refit(formula, rows, res.release)
    steward = res.release.ols(formula, estimator="corrected")
    np.testing.assert_allclose(again.params, steward.params, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(again.bse, steward.bse, rtol=1e-9, atol=1e-9)


def test_a_level_without_rows_does_not_spoil_the_design():
    data = wages(600)
    data["region"] = pd.Categorical(["N"] * 599 + ["S"], categories=REGIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        result = dp_ols("wage ~ educ + C(region)", data, mu=5, bounds=BOUNDS, rng=3)
        table = result.synthesize(size=60, rng=1)
    fit = smf.ols("wage ~ educ + C(region)", table).fit()
    assert result.identified.to_list() == [True, False, False, False, True]
    # Levels that the table does not show still have numbers behind it.
    np.testing.assert_allclose(fit.params, result.estimate.params, atol=1e-8)


def test_seeds_repeat_and_entropy_does_not(res):
    pd.testing.assert_frame_equal(res.synthesize(size=50, rng=9), res.synthesize(size=50, rng=9))
    assert not res.synthesize(size=50).equals(res.synthesize(size=50))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"kind": "exact"}, "kind"),
        ({"size": 0}, "size"),
        ({"size": 5}, "size"),
        ({"size": 10.5}, "size"),
        ({"copies": 0}, "copies"),
        ({"kind": "binagg", "size": 3}, "size"),
    ],
)
def test_arguments_are_checked(res, options, word):
    with pytest.raises(ReleaseError, match=word):
        res.synthesize(**options)


@pytest.mark.parametrize(
    "budget",
    [
        Budget(moments=0, scores=0),
        Budget(count=0, sum_x=0, sum_y=0),
    ],
    ids=["bins only", "moments only"],
)
def test_releases_with_some_components_only(budget):
    result = dp_ols("wage ~ educ + exper", wages(800), mu=1, bounds=BOUNDS, budget=budget, rng=2)
    table = result.synthesize(rng=3)
    fit = smf.ols("wage ~ educ + exper", table).fit()
    np.testing.assert_allclose(fit.params, result.params, atol=1e-8)
    assert result.synthesize(kind="bounded", size=20, rng=1).shape == (20, 3)
    if not budget.count:
        with pytest.raises(ReleaseError, match="binagg"):
            result.synthesize(kind="binagg")


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n=st.integers(1, 400),
    mu=st.floats(0.05, 20),
    size=st.integers(30, 200),
    terms=st.lists(
        st.sampled_from(["educ", "exper", "C(region)", "union", "np.sqrt(exper)", "educ:exper"]),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    kind=st.sampled_from(["calibrated", "predictive", "bounded"]),
    seed=st.integers(0, 1000),
)
def test_any_release_gives_a_table(n, mu, size, terms, kind, seed):
    formula = "wage ~ " + " + ".join(terms)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = dp_ols(formula, wages(n, seed), mu=mu, bounds=BOUNDS, rng=seed)
        table = result.synthesize(size=size, kind=kind, rng=seed)
    assert len(table) == size
    assert not table.isna().any().any()
    if "educ" in table:
        assert table.educ.between(6, 18).all()
    if "exper" in table:
        assert table.exper.between(0, 40).all()
    if kind == "calibrated":
        fit = smf.ols(formula, table).fit()
        # Those that are not identified have numbers too, which the results do not show.
        behind = result.estimate.params
        scale = np.maximum(1.0, np.abs(behind))
        assert (np.abs(fit.params - behind) / scale).max() < 1e-8


@pytest.mark.parametrize("n", [1, 5, 20])
@pytest.mark.parametrize(("mu", "terms", "seed"), [(5, "educ", 7), (0.5, "educ + exper", 266)])
def test_hardly_any_records_give_numbers_all_the_same(n, mu, terms, seed):
    """Noise that is larger than all records: a matrix with negative eigenvalues, nothing cut."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DPBinAggWarning)
        result = dp_ols(f"wage ~ {terms}", wages(n, seed), mu=mu, bounds=BOUNDS, rng=seed)
        table = result.synthesize(size=50, rng=1)
    assert np.isfinite(result.estimate.params).all()
    assert np.isfinite(result.estimate.cov).all()
    assert np.isfinite(table).all(axis=None)
