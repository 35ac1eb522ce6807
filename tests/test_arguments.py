"""Arguments that people type: names that do not exist, covariances by other names."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import dpbinagg
from dpbinagg import Budget, dp_ols, dp_release, plan
from dpbinagg.analyst.fit import resolve
from dpbinagg.datasets import load_school
from dpbinagg.errors import ArgumentError, DPBinAggError, FormulaError

SCHOOL = load_school()
FORMULA = "score ~ pretest + treatment"

# argument, its value, a part of the sentence
UNKNOWN = [
    ("subset", "pretest > 0", "data=frame[frame.age >= 18]"),
    ("weights", "w", "weighted regressions do not exist here"),
    ("freq_weights", "w", "weighted regressions do not exist here"),
    ("cluster", "school", "one record is one person"),
    ("clusters", "school", "cov_type='HC1'"),
    ("cov_kwds", {"groups": 1}, "one record is one person"),
    ("vcov", "HC1", "cov_type='HC1'"),
    ("vcov", {"CRV1": "school"}, "cov_type='HC1'"),
    ("se_type", "stata", "cov_type='HC1'"),
    ("robust", True, "cov_type='HC1'"),
    ("family", "binomial", "linear"),
    ("fixef", "school", "write them as a term"),
    ("absorb", "school", "C(region)"),
    ("hasconst", True, "'- 1'"),
    ("fit_intercept", False, "'- 1'"),
    ("offset", "z", "I(y - z)"),
    ("seed", 3, "rng="),
    ("random_state", 3, "rng="),
    ("na_action", "omit", "missing='raise'"),
    ("dropna", True, "missing='raise'"),
    ("alpha", 0.1, "conf_int(alpha)"),
    ("unit", "person", "one row for each person"),
    ("eps", 1.0, "epsilon"),
    ("epsilom", 1.0, "did you mean 'epsilon'?"),
    ("bound", {}, "did you mean 'bounds'?"),
    ("domain", {}, "bounds="),
    ("bounds_X", (0, 1), "did you mean 'bounds'?"),
    ("sensitivity", 1.0, "bounds="),
    ("covtype", "HC1", "did you mean 'cov_type'?"),
    ("neighbors", "replace", "did you mean 'neighbours'?"),
    ("estimators", "naive", "did you mean 'estimator'?"),
    ("X", np.ones(3), "dp_ols('y ~ x1 + x2', data, mu=1)"),
    ("df", 3, "the argument data"),
    ("zzz", 3, "the arguments are formula, data, mu"),
]


@pytest.mark.parametrize(("name", "value", "part"), UNKNOWN, ids=[one[0] for one in UNKNOWN])
def test_unknown_arguments_name_the_one_that_exists(name, value, part):
    with pytest.raises(ArgumentError) as caught:
        dp_ols(FORMULA, SCHOOL.frame, mu=1, **{name: value})
    assert f"dp_ols has no argument {name!r}; " in str(caught.value)
    assert part in str(caught.value)
    assert isinstance(caught.value, DPBinAggError)
    assert isinstance(caught.value, TypeError)
    with pytest.raises(ArgumentError, match=f"dp_release has no argument '{name}'; "):
        dp_release(FORMULA, SCHOOL.frame, mu=1, **{name: value})


def test_unknown_arguments_are_found_before_anything_is_charged(tmp_path):
    ledger = dpbinagg.Ledger(tmp_path / "ledger.db", mu=1.0)
    with pytest.raises(ArgumentError):
        dp_ols(FORMULA, SCHOOL.frame, mu=1, ledger=ledger, cluster="school")
    with pytest.raises(DPBinAggError, match="'HC3' is not done"):
        dp_ols(FORMULA, SCHOOL.frame, mu=1, ledger=ledger, cov_type="HC3")
    assert len(ledger.entries()) == 0


def test_calls_that_do_not_fit():
    with pytest.raises(ArgumentError, match="missing a required argument: 'data'; write the"):
        dp_ols(FORMULA, mu=1)
    with pytest.raises(
        ArgumentError, match="too many positional arguments; write the arguments by"
    ):
        dp_ols(FORMULA, SCHOOL.frame, 1.0, SCHOOL.codebook)
    with pytest.raises(ArgumentError, match="plan has no argument 'cluster'; errors"):
        plan(FORMULA, 500, mu=1, bounds=SCHOOL.codebook, cluster="school")


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("estimator", "Refined", "did you mean 'refined'?"),
        ("estimator", "naiv", "did you mean 'naive'?"),
        ("estimator", "best", "'best' is called 'refined' here"),
        ("neighbours", "substitute", "'substitute' is called 'replace' here"),
        ("neighbours", "add/remove", "'add/remove' is called 'add-remove' here"),
        ("neighbours", "unbounded", "'unbounded' is called 'add-remove' here"),
        ("missing", "na.omit", "'na.omit' is called 'drop' here"),
        ("partition", "kdtree", "'kdtree' is called 'privtree' here"),
        ("calibration", "published", "'published' is called 'paper' here"),
        ("missing", "zzz", "must be one of 'drop', 'raise', got 'zzz'"),
        ("missing", 3, "must be one of 'drop', 'raise', got int"),
    ],
)
def test_words_of_others_are_translated(name, value, part):
    with pytest.raises(DPBinAggError) as caught:
        dp_ols(FORMULA, SCHOOL.frame, mu=1, **{name: value})
    assert part in str(caught.value)


def test_formula_and_table_the_other_way_round():
    with pytest.raises(ArgumentError, match=r"the other way round; write dp_ols\(formula, data"):
        dp_ols(SCHOOL.frame, FORMULA, mu=1)


def test_a_category_that_is_misspelt_names_the_nearest():
    with pytest.raises(FormulaError, match=r"'gendr' are not declared \(did you mean 'gender'"):
        dp_ols("score ~ C(gendr)", SCHOOL.frame, mu=1, bounds=SCHOOL.codebook)


def test_the_signature_stays_what_it_is():
    assert list(inspect.signature(dp_ols).parameters)[:3] == ["formula", "data", "mu"]
    assert all(p.kind is not p.VAR_KEYWORD for p in inspect.signature(dp_ols).parameters.values())
    assert "Differentially private linear regression" in dp_ols.__doc__


@pytest.fixture(scope="module")
def res():
    return dp_ols(FORMULA, SCHOOL.frame, mu=1, bounds=SCHOOL.codebook, rng=2, cov_type="HC1")


def test_results_name_the_nearest_argument_too(res):
    with pytest.raises(ArgumentError, match=r"size="):
        res.synthesize(n=100)
    with pytest.raises(ArgumentError, match="did you mean 'copies'"):
        res.synthesize(copy=2)
    with pytest.raises(ArgumentError, match=r"rng="):
        res.synthesize(seed=1)
    with pytest.raises(ArgumentError, match="summary has no argument 'n'; the arguments are yname"):
        res.summary(n=3)
    with pytest.raises(ArgumentError, match="has no argument 'vcov'; the covariance is"):
        res.release.ols(FORMULA, vcov="HC1")


def test_tables_tell_which_covariance_it_is(res):
    assert res.cov_type == "HC1 + privacy"
    assert "Covariance Type:        HC1 + privacy" in str(res.summary())
    assert res.glance()["cov_type"][0] == "HC1 + privacy"
    assert "nonrobust + privacy" in str(res.combined.summary())
    lines = [line.split("  ") for line in str(res.compare()).splitlines()]
    rows = {line[0]: [cell.strip() for cell in line[1:] if cell] for line in lines}
    assert rows["Covariance"] == ["nonrobust", "sandwich", "nonrobust", "HC1"]
    assert rows["Privacy noise in it"] == ["ignored", "included", "included", "included"]


@pytest.mark.parametrize(
    ("asked", "estimator", "done"),
    [
        ("HC1", None, "HC1 + privacy"),
        ("hetero", "refined", "HC1 + privacy"),
        ("robust", "refined", "HC1 + privacy"),
        ("sandwich", "refined", "HC1 + privacy"),
        ("nonrobust", "combined", "nonrobust + privacy"),
        ("iid", "naive", "nonrobust, noise ignored"),
        ("nonrobust", "corrected", "nonrobust + privacy"),
        ("sandwich", "corrected", "sandwich + privacy"),
    ],
)
def test_names_of_what_is_done_are_taken(res, asked, estimator, done):
    assert res.release.ols(estimator=estimator, cov_type=asked).cov_type == done


@pytest.mark.parametrize(
    ("asked", "estimator", "part"),
    [
        ("HC1", "combined", "errors of one variance"),
        ("HC1", "naive", "estimator='refined' has HC1"),
        ("HC1", "corrected", "'sandwich' (over bins) or 'model'"),
        ("nonrobust", "refined", "it has HC1"),
        ("nonrobust", None, "leave cov_type out"),
        ("HC0", "refined", "n/(n - p)"),
        ("HC2", "refined", "leverage of every record"),
        ("HC3", "combined", "leverage of every record"),
        ("cluster", "refined", "one record is one person"),
        ("CRV1", "refined", "one record is one person"),
        ("HAC", "refined", "no order in time"),
        ("HC9", "refined", "got 'HC9'"),
        (3, "refined", "got int"),
        (None, "refined", "got NoneType"),
    ],
)
def test_names_of_what_is_not_done_are_refused(asked, estimator, part):
    with pytest.raises(DPBinAggError) as caught:
        resolve(asked, estimator)
    assert part in str(caught.value)


def test_the_next_best_estimate_does_not_pass_for_what_was_asked():
    release = dp_release(
        FORMULA,
        SCHOOL.frame,
        mu=1,
        bounds=SCHOOL.codebook,
        rng=2,
        budget=Budget().without("scores"),
    )
    with pytest.raises(DPBinAggError, match="not what the combined estimate has"):
        release.ols(cov_type="HC1")
    assert release.ols(cov_type="nonrobust", estimator="combined").cov_type == "nonrobust + privacy"


def test_own_words_that_do_not_concern_the_estimate_are_noted(res):
    said = "the covariance of this one is"
    assert any(f"{said} HC1 + privacy" in note for note in res.release.ols(cov_type="model").notes)
    for words in ({"cov_type": "model", "estimator": "naive"}, {"cov_type": "sandwich"}):
        assert not any(said in note for note in res.release.ols(**words).notes)
