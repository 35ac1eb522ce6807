"""The results object against plain formulas, on hand-made estimates."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from report_factory import (
    BSE,
    DOMAIN,
    PARAMS,
    make_estimate,
    make_family,
    make_release,
    make_results,
)
from scipy import stats
from statsmodels.base.wrapper import ResultsWrapper

from dpbinagg.analyst.fit import choose
from dpbinagg.analyst.ols.finish import CLIPPED
from dpbinagg.errors import (
    DataError,
    FormulaError,
    IdentificationWarning,
    NotReleasedError,
    ReleaseError,
)
from dpbinagg.formula.union import smaller
from dpbinagg.public.domain import Domain
from dpbinagg.report.results import DPResults, DPResultsWrapper
from dpbinagg.report.unavailable import REASONS

NEW = pd.DataFrame(
    {"educ": [12, 16, 3], "exper": [5.0, 10.0, 49.0], "region": ["N", "S", "W"]}, index=[7, 8, 9]
)


@pytest.fixture(scope="module")
def res() -> DPResultsWrapper:
    return make_results()


def design_rows(frame: pd.DataFrame) -> np.ndarray:
    """The columns of the test formula, written out."""
    levels = [(frame["region"] == level).to_numpy(float) for level in ("S", "E", "W")]
    exper = frame["exper"].to_numpy(float)
    return np.column_stack(
        [np.ones(len(frame)), *levels, frame["educ"].to_numpy(float), exper, exper**2]
    )


def test_numbers_are_the_estimates(res: DPResultsWrapper) -> None:
    assert isinstance(res, ResultsWrapper)
    names = list(res.design.column_names)
    assert list(res.params.index) == names
    np.testing.assert_array_equal(res.params, PARAMS)
    np.testing.assert_allclose(res.bse, BSE, rtol=1e-12)
    np.testing.assert_array_equal(res.cov_params(), res.estimate.cov)
    assert list(res.cov_params().columns) == names
    assert (res.nobs, res.df_resid, res.df_model, res.scale) == (5_000.0, 4_993.2, 6.0, 0.25)
    assert res.use_t


def test_t_and_intervals_use_student_with_df_resid(res: DPResultsWrapper) -> None:
    t = PARAMS / BSE
    np.testing.assert_allclose(res.tvalues, t)
    np.testing.assert_allclose(res.pvalues, 2 * stats.t.sf(np.abs(t), 4_993.2))
    small = make_results("corrected")
    quantile = stats.t.ppf(0.95, 57)
    expected = np.column_stack(
        [PARAMS * 1.05 - quantile * 3 * BSE, PARAMS * 1.05 + quantile * 3 * BSE]
    )
    np.testing.assert_allclose(small.conf_int(0.1), expected)


def test_infinite_df_means_normal_quantiles() -> None:
    family = {"paper": make_estimate("paper", df_resid=np.inf)}
    paper = make_results("paper", family=family)
    assert not paper.use_t
    np.testing.assert_allclose(paper.conf_int()[0], PARAMS - stats.norm.ppf(0.975) * BSE)
    assert "P>|z|" in str(paper.summary())
    expected = stats.chi2.sf(6 * paper.fvalue, 6)
    assert paper.f_pvalue == pytest.approx(expected, rel=1e-6)
    assert float(paper.f_test("educ = 0.075").pvalue) == pytest.approx(
        float(np.squeeze(paper.t_test("educ = 0.075").pvalue)), rel=1e-6
    )


def test_f_statistic_is_the_wald_test_of_all_slopes(res: DPResultsWrapper) -> None:
    slopes, cov = PARAMS[1:], np.asarray(res.cov_params())[1:, 1:]
    expected = slopes @ np.linalg.solve(cov, slopes) / 6
    assert res.fvalue == pytest.approx(expected, rel=1e-9)
    assert res.f_pvalue == pytest.approx(stats.f.sf(expected, 6, 4_993.2), rel=1e-9)


def test_f_statistic_without_intercept_column_finds_the_implicit_constant() -> None:
    release = make_release("wage ~ 0 + C(region) + educ")
    params, bse = np.array([3.0, 3.0, 3.0, 3.0, 0.0]), np.full(5, 0.1)
    res = make_results("refined", release, {"refined": make_estimate(params=params, bse=bse)})
    assert res.model.k_constant == 1
    assert res.df_model == 4.0
    assert res.fvalue == pytest.approx(0.0, abs=1e-12)


def test_f_statistic_without_any_constant_tests_all_coefficients() -> None:
    release = make_release("wage ~ 0 + educ + exper")
    family = {"refined": make_estimate(params=np.array([1.0, 0.0]), bse=np.array([0.25, 0.5]))}
    res = make_results("refined", release, family)
    assert res.model.k_constant == 0
    assert res.df_model == 2.0
    assert res.fvalue == pytest.approx(16.0 / (1 - 0.2**2) / 2)


def test_a_constant_alone_has_no_f() -> None:
    release = make_release("wage ~ 0 + C(region)", Domain({"wage": (0, 9), "region": ["all"]}))
    family = {"refined": make_estimate(params=np.array([1.0]), bse=np.array([0.25]))}
    res = make_results("refined", release, family)
    assert np.isnan(res.fvalue)
    assert np.isnan(res.f_pvalue)


def test_strings_in_tests(res: DPResultsWrapper) -> None:
    test = res.t_test("educ = 0.07")
    assert float(np.squeeze(test.tvalue)) == pytest.approx((0.08 - 0.07) / 0.004)
    joint = res.f_test("exper = 0, I(exper ** 2) = 0")
    b, v = PARAMS[5:], np.asarray(res.cov_params())[5:, 5:]
    assert float(joint.statistic) == pytest.approx(b @ np.linalg.solve(v, b) / 2)
    terms = res.wald_test_terms().table
    assert list(terms.index) == ["Intercept", "C(region)", "educ", "exper", "I(exper ** 2)"]
    assert terms.loc["C(region)", "df_constraint"] == 3
    pairs = res.t_test_pairwise("C(region)").result_frame
    assert pairs.loc["W-S", "coef"] == pytest.approx(0.06)


def test_predictions_and_their_intervals(res: DPResultsWrapper) -> None:
    rows = design_rows(NEW)
    predicted = res.predict(NEW)
    np.testing.assert_allclose(predicted, rows @ PARAMS)
    assert list(predicted.index) == [7, 8, 9]
    frame = res.get_prediction(NEW).summary_frame(alpha=0.1)
    variance = np.sum(rows @ np.asarray(res.cov_params()) * rows, axis=1)
    quantile = stats.t.ppf(0.95, res.df_resid)
    np.testing.assert_allclose(frame["mean_se"], np.sqrt(variance))
    np.testing.assert_allclose(frame["mean_ci_upper"], predicted + quantile * np.sqrt(variance))
    np.testing.assert_allclose(
        frame["obs_ci_lower"], predicted - quantile * np.sqrt(variance + 0.25)
    )
    assert list(frame.index) == [7, 8, 9]


def test_predictions_take_polars_and_ready_columns(res: DPResultsWrapper) -> None:
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(res.predict(polars.from_pandas(NEW)), design_rows(NEW) @ PARAMS)
    np.testing.assert_allclose(
        res.predict(design_rows(NEW), transform=False), design_rows(NEW) @ PARAMS
    )


def test_predictions_refuse_what_the_model_does_not_know(res: DPResultsWrapper) -> None:
    with pytest.raises(DataError, match="lack the variable 'region'"):
        res.predict(NEW[["educ", "exper"]])
    with pytest.raises(DataError, match="level of 'region' that is not declared; the levels are"):
        res.get_prediction(NEW.assign(region="Mars"))
    gaps = res.predict(NEW.assign(region=["N", None, "W"]))
    np.testing.assert_array_equal(gaps.isna(), [False, True, False])


@pytest.mark.parametrize("method", ["predict", "get_prediction"])
def test_no_predictions_for_the_records(res: DPResultsWrapper, method: str) -> None:
    with pytest.raises(NotReleasedError, match="pass a table"):
        getattr(res, method)()


@pytest.mark.parametrize("name", sorted(REASONS))
def test_what_is_not_released_says_why_and_what_instead(res: DPResultsWrapper, name: str) -> None:
    assert not hasattr(res, name)
    with pytest.raises(NotReleasedError, match=f"^{name} .+; .+") as caught:
        getattr(res, name)
    assert isinstance(caught.value, AttributeError)


def test_unknown_names_are_plain_attribute_errors(res: DPResultsWrapper) -> None:
    with pytest.raises(AttributeError, match="nonsense") as caught:
        _ = res.nonsense
    assert not isinstance(caught.value, NotReleasedError)


def test_siblings_come_from_the_same_release(res: DPResultsWrapper) -> None:
    for name, factor in (("naive", 0.8), ("corrected", 1.05), ("combined", 1.02), ("refined", 1)):
        sibling = getattr(res, name)
        assert isinstance(sibling, DPResultsWrapper)
        assert sibling.estimator == name
        assert sibling.release is res.release
        np.testing.assert_allclose(sibling.params, PARAMS * factor)
    bins_only = make_results("naive", family={"naive": make_family()["naive"]})
    with pytest.raises(NotReleasedError, match="residual scores"):
        _ = bins_only.refined


def test_error_variance_of_the_corrected_estimate_comes_from_the_moments(
    res: DPResultsWrapper,
) -> None:
    assert res.corrected.scale == 0.25
    assert res.naive.scale == 3.0
    np.testing.assert_allclose(res.corrected.bse, 3 * BSE)
    alone = make_results("corrected", family={"corrected": make_family()["corrected"]})
    assert alone.scale == 9.0


def test_nested_f_test_is_the_wald_test_of_the_left_out_terms(res: DPResultsWrapper) -> None:
    f, p, df = res.compare_f_test("np.log(wage) ~ educ + C(region)")
    joint = res.f_test("exper = 0, I(exper ** 2) = 0")
    assert df == 2
    assert f == pytest.approx(float(joint.statistic))
    assert p == pytest.approx(float(joint.pvalue))
    same_span, _, df = res.compare_f_test("np.log(wage) ~ educ + exper + I(exper**2)")
    assert df == 3
    assert same_span == pytest.approx(res.wald_test_terms().table.loc["C(region)", "statistic"])
    with pytest.raises(FormulaError, match="same model"):
        res.compare_f_test("np.log(wage) ~ 0 + C(region) + educ + exper + I(exper**2)")
    with pytest.raises(FormulaError, match="left side"):
        res.compare_f_test("wage ~ educ")


def test_a_smaller_model_keeps_its_own_design(res: DPResultsWrapper) -> None:
    design = smaller(res.release.design, "np.log(wage) ~ educ")
    estimate = make_estimate(params=np.array([1.0, 0.1]), bse=np.array([0.1, 0.01]))
    small = DPResultsWrapper(DPResults(res.release, estimate, {"refined": estimate}, design))
    assert list(small.params.index) == ["Intercept", "educ"]
    np.testing.assert_allclose(small.predict(NEW), 1.0 + 0.1 * NEW["educ"])
    again = pickle.loads(pickle.dumps(small))
    assert again.design.formula == "np.log(wage) ~ educ"
    assert str(again.summary()) == str(small.summary())
    assert "exper" not in str(small.summary())
    f, _, df = res.compare_f_test(small)
    assert df == 5
    slopes = [1, 2, 3, 5, 6]
    b, v = PARAMS[slopes], np.asarray(res.cov_params())[np.ix_(slopes, slopes)]
    assert f == pytest.approx(b @ np.linalg.solve(v, b) / 5)
    with pytest.raises(FormulaError, match="left side"):
        smaller(res.release.design, "wage ~ educ")
    with pytest.raises(FormulaError, match="not a linear combination"):
        res.compare_f_test("np.log(wage) ~ np.sqrt(educ)")


def test_a_smaller_model_says_which_variable_was_not_released() -> None:
    release = make_release()
    with pytest.raises(FormulaError, match="'sex' was not released; what was is"):
        smaller(release.design, "np.log(wage) ~ educ + C(sex)")
    with pytest.raises(FormulaError, match="df= places knots"):
        smaller(release.design, "np.log(wage) ~ bs(exper, df=4)")
    with pytest.raises(FormulaError, match="must be a string"):
        smaller(release.design, 3)


def test_a_covariance_without_full_rank_prints_without_warnings() -> None:
    from dataclasses import replace

    cov = np.outer(BSE, BSE)
    for bad in (cov, np.full_like(cov, np.nan), np.zeros_like(cov)):
        res = make_results(family={"refined": replace(make_estimate(), cov=bad)})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert "Intercept" in str(res.summary())
            assert "Intercept" in str(res.compare())


def test_pickle_and_copies_keep_everything(res: DPResultsWrapper) -> None:
    for again in (pickle.loads(pickle.dumps(res)), copy.deepcopy(res), copy.copy(res)):
        assert type(again) is DPResultsWrapper
        np.testing.assert_array_equal(again.params, res.params)
        np.testing.assert_array_equal(again.cov_params(), res.cov_params())
        assert str(again.summary()) == str(res.summary())
        assert again.estimator == res.estimator
        np.testing.assert_allclose(again.predict(NEW), res.predict(NEW))
    assert type(pickle.loads(pickle.dumps(res._results))) is DPResults


def test_save_is_no_pickle_and_statsmodels_still_loads_one(res: DPResultsWrapper, tmp_path) -> None:
    path = tmp_path / "fit.pickle"
    for one in (res, res._results):
        with pytest.raises(ReleaseError, match=r"pickle\.dump"):
            one.save(path)
    path.write_bytes(pickle.dumps(res))
    np.testing.assert_array_equal(DPResultsWrapper.load(str(path)).params, res.params)
    np.testing.assert_allclose(res.predict(NEW), design_rows(NEW) @ PARAMS)


def test_repr_is_one_short_line(res: DPResultsWrapper) -> None:
    assert repr(res).startswith("<DP-OLS results of")
    assert "\n" not in repr(res)
    assert "refined" in repr(res)


def test_the_model_keeps_public_rows_only(res: DPResultsWrapper) -> None:
    frame, design = res.model.data.frame, res.design
    assert set(frame.columns) == {"wage", "educ", "exper", "region"}
    assert len(frame) == 1000
    assert frame["educ"].between(0, 20).all()
    assert frame["wage"].between(1, 200).all()
    assert set(frame["region"]) == set(DOMAIN["region"].levels)
    assert np.linalg.matrix_rank(res.model.exog) == len(design.column_names)
    assert res.model.endog_names == "np.log(wage)"
    again = pickle.loads(pickle.dumps(res.model))
    assert again.exog_names == list(design.column_names)
    pd.testing.assert_frame_equal(again.data.frame, frame)


@pytest.mark.parametrize(
    ("formula", "domain"),
    [
        ("y ~ C(x, levels=[1, 2, 3])", {"y": (0, 1), "x": range(50)}),
        ("y ~ flag + x", {"y": (0, 1), "x": (0, 1), "flag": [False, True]}),
        ("y ~ C(kind)", {"y": (0, 1), "kind": [1, "a", 2.5]}),
        ("np.log(y) ~ x", {"y": (1e-3, 1e9), "x": (-1e9, 1e9)}),
    ],
)
def test_public_rows_of_unusual_domains(formula: str, domain: dict) -> None:
    release = make_release(formula, Domain(domain))
    p = len(release.column_names)
    family = {"refined": make_estimate(params=np.ones(p), bse=np.ones(p))}
    res = make_results("refined", release, family)
    assert np.isfinite(res.model.exog).all()
    assert res.df_model == p - 1
    assert str(res.summary())


def test_a_weakly_identified_model_warns_and_says_so() -> None:
    notes = (f"{CLIPPED} at 2.0 times their usual size.", "3 bins cannot identify 7 coefficients.")
    weak = make_estimate(notes=notes, identified=False)
    family = {**make_family(), "combined": weak}
    res = make_results(family=family)
    with pytest.warns(IdentificationWarning, match="3 bins cannot.+tighter bounds") as caught:
        sibling = res.combined
    assert caught[0].filename == __file__
    assert CLIPPED not in str(caught[0].message)
    text = " ".join(str(sibling.summary()).split())
    assert f"{CLIPPED} at 2.0 times their usual size." in text
    assert "CAUTION: the release does not determine this model well" in text
    assert "3 bins cannot identify 7 coefficients." in text
    assert "fewer terms would help" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        note = " ".join(str(res.compare()).split())
        assert "Not well determined by this release: combined; the notes of each say why" in note
        assert "as in results.combined.notes." in note
        assert "CAUTION" not in str(res.summary())


def test_choice_of_the_estimator() -> None:
    family = make_family()
    assert choose(family, None) == (family["refined"], ())
    assert choose(family, "naive") == (family["naive"], ())
    del family["refined"]
    estimate, notes = choose(family, "refined")
    assert estimate.name == "combined"
    assert "residual scores (Budget.scores)" in notes[0]
    moments_only = {"combined": family["combined"]}
    assert choose(moments_only, "corrected")[0].name == "combined"
    assert choose(moments_only, "paper")[0].name == "combined"
    with pytest.raises(ReleaseError, match="estimator must be one of"):
        choose(family, "ridge")
    with pytest.raises(ReleaseError, match="nothing can be estimated"):
        choose({}, None)


def test_delta_falls_below_one_over_n() -> None:
    from dataclasses import replace

    assert make_results().delta == 1e-6
    large = {"refined": replace(make_estimate(), nobs=3e7)}
    assert make_results(family=large).delta == pytest.approx(1e-9)
