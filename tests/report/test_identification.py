"""What is not identified is said to be so everywhere, and nothing else suffers."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_factory import (
    BSE,
    PARAMS,
    make_estimate,
    make_family,
    make_release,
    make_results,
)

from dpbinagg.errors import (
    DPBinAggError,
    FormulaError,
    IdentificationWarning,
    NotIdentifiedError,
)
from dpbinagg.report import charts, inference, page, pictures

EDUC, EXPER, SQUARE = 4, 5, 6
NEW = pd.DataFrame({"educ": [0, 12], "exper": [5.0, 10.0], "region": ["N", "S"]})


def partial(name: str = "refined", unknown: tuple[int, ...] = (EDUC,), dependence=None):
    """An estimate that does not tell some terms."""
    known = np.ones(len(PARAMS), dtype=bool)
    known[list(unknown)] = False
    return replace(make_estimate(name), identified_terms=known, dependence=dependence)


def results(**options):
    return make_results(family={**make_family(), "refined": partial(**options)})


@pytest.fixture(scope="module")
def res():
    return results()


def test_identified_is_a_series_by_term(res):
    assert isinstance(res.identified, pd.Series)
    assert list(res.identified.index) == list(res.params.index)
    assert res.identified.dtype == bool
    assert not res.identified["educ"]
    assert res.identified.drop("educ").all()
    assert make_results().identified.all()
    assert not res.determined
    assert make_results().determined
    assert list(res.glance()["identified"]) == [False]


def test_numbers_of_what_is_not_identified_are_missing(res):
    whole, ends = make_results(), res.conf_int()
    for name in ("params", "bse", "tvalues", "pvalues"):
        shown = getattr(res, name)
        assert np.isnan(shown["educ"]), name
        pd.testing.assert_series_equal(shown.drop("educ"), getattr(whole, name).drop("educ"))
    assert ends.loc["educ"].isna().all()
    pd.testing.assert_frame_equal(ends.drop("educ"), whole.conf_int().drop("educ"))
    cov = res.cov_params()
    assert cov["educ"].isna().all()
    others = [name for name in cov if name != "educ"]
    pd.testing.assert_frame_equal(cov.loc[others, others], whole.cov_params().loc[others, others])
    tidy = res.tidy().set_index("term")
    assert tidy.loc["educ"].isna().all()
    assert not tidy.drop("educ").isna().any().any()


def test_every_printed_table_says_so(res):
    printed = res.summary()
    for text in (str(printed), printed.as_html(), printed.as_latex(), printed.as_csv()):
        assert text.count("not identified") >= 2
    assert "| educ " in res.to_markdown()
    row = next(line for line in str(printed).splitlines() if line.startswith("educ"))
    assert row.split() == ["educ", "not", "identified"]
    comparison = res.compare()
    assert "not identified" in str(comparison)
    assert "not identified" in comparison.to_markdown()
    assert "not identified" in comparison._repr_html_()
    assert "Not well determined by this release: refined" in str(comparison)
    frame = comparison.frame.query("term == 'educ'").set_index("estimator")
    assert np.isnan(frame.loc["refined", "estimate"])
    assert frame.loc["combined", "estimate"] == pytest.approx(PARAMS[EDUC] * 1.02)


def test_the_note_names_the_term_the_reason_and_the_remedy(res):
    notes = [note for note in res.summary().notes if "not identified" in note]
    assert len(notes) == 1
    assert notes[0].startswith("CAUTION: not identified: educ. The noise leaves too little")
    assert "fewer terms or levels would help" in notes[0]
    assert "does not determine this model" not in " ".join(res.summary().notes)


def test_terms_that_no_data_could_tell_have_another_reason():
    """Both powers of a range that makes them the same column."""
    release = make_release("wage ~ educ + I(2 * educ) + exper")
    known = np.array([True, False, False, True])
    estimate = replace(
        make_estimate(params=np.ones(4), bse=np.full(4, 0.1)), identified_terms=known
    )
    res = make_results(release=release, family={"refined": estimate})
    note = next(note for note in res.summary().notes if note.startswith("CAUTION"))
    assert note.startswith("CAUTION: not identified: educ and I(2 * educ). By the formula itself")


def test_tests_of_it_are_refused_with_a_sentence(res):
    for test in (res.t_test, res.wald_test, res.f_test):
        with pytest.raises(NotIdentifiedError, match="does not identify educ, so there is nothing"):
            test("educ = 0")
        with pytest.raises(NotIdentifiedError, match=r"educ - exper"):
            test("educ - exper = 0")
    with pytest.raises(NotIdentifiedError):
        res.t_test(np.eye(len(PARAMS)))
    with pytest.raises(NotIdentifiedError, match="educ"):
        res.compare_f_test("np.log(wage) ~ exper + I(exper**2) + C(region)")
    assert issubclass(NotIdentifiedError, DPBinAggError)


def test_tests_of_the_others_are_what_they_were(res):
    whole = make_results()
    for constraint in ("exper = 0", "C(region)[T.S] - C(region)[T.E] = 0.01"):
        np.testing.assert_array_equal(
            res.t_test(constraint).conf_int(), whole.t_test(constraint).conf_int()
        )
    joint = "exper = 0, I(exper ** 2) = 0"
    assert float(res.f_test(joint).fvalue) == float(whole.f_test(joint).fvalue)
    assert res.compare_f_test("np.log(wage) ~ educ + C(region)") == whole.compare_f_test(
        "np.log(wage) ~ educ + C(region)"
    )
    pairs = res.t_test_pairwise("C(region)").result_frame
    pd.testing.assert_frame_equal(pairs, whole.t_test_pairwise("C(region)").result_frame)
    terms, before = res.wald_test_terms().table, whole.wald_test_terms().table
    assert terms.loc["educ", ["statistic", "pvalue"]].isna().all()
    pd.testing.assert_frame_equal(terms.drop("educ"), before.drop("educ"))


def test_the_f_test_is_of_what_is_identified(res):
    others = [j for j in range(1, len(PARAMS)) if j != EDUC]
    expected = make_results().f_test(np.eye(len(PARAMS))[others])
    assert res.fvalue == pytest.approx(float(expected.fvalue))
    assert res.f_pvalue == pytest.approx(float(expected.pvalue))
    assert "The F test is of the coefficients that are identified." in res.summary().notes
    assert "The F test is" not in str(make_results().summary())
    nothing = results(unknown=tuple(range(len(PARAMS))))
    assert np.isnan(nothing.fvalue)
    line = next(line for line in str(nothing.summary()).splitlines() if "F-statistic:" in line)
    assert line.endswith("not identified")


def test_constraints_that_cannot_be_read_name_the_coefficients(res):
    for test in (res.t_test, res.f_test):
        with pytest.raises(FormulaError, match="coefficients are named Intercept, C") as caught:
            test("schooling = 0")
        assert "schooling" in str(caught.value)


def test_predictions_work_and_say_so(res):
    whole = make_results()
    with pytest.warns(IdentificationWarning, match="1 of 2 predictions lean on") as caught:
        predicted = res.predict(NEW)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(predicted, whole.predict(NEW))
    with pytest.warns(IdentificationWarning, match="1 of 2"):
        frame = res.get_prediction(NEW).summary_frame()
    pd.testing.assert_frame_equal(frame, whole.get_prediction(NEW).summary_frame())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res.predict(NEW[:1])


def test_a_contrast_is_judged_by_its_own_dependence():
    """Two coefficients that only their sum is told of."""
    cov = np.diag(BSE**2)
    cov[EDUC, EDUC] = cov[EXPER, EXPER] = 4.0
    cov[EDUC, EXPER] = cov[EXPER, EDUC] = -3.999
    left = np.zeros_like(cov)
    left[EDUC, EDUC] = left[EXPER, EXPER] = 3.9
    left[EDUC, EXPER] = left[EXPER, EDUC] = -3.9
    estimate = replace(partial(unknown=(EDUC, EXPER), dependence=left), cov=cov)
    res = make_results(family={"refined": estimate})
    together = res.t_test("educ + exper = 0")
    assert float(np.squeeze(together.effect)) == pytest.approx(PARAMS[EDUC] + PARAMS[EXPER])
    assert float(np.squeeze(together.sd)) == pytest.approx(np.sqrt(0.002))
    with pytest.raises(NotIdentifiedError, match="educ - exper"):
        res.t_test("educ - exper = 0")
    with pytest.raises(NotIdentifiedError, match="does not identify educ"):
        res.wald_test("educ = 0, exper = 0", scalar=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res.predict(pd.DataFrame({"educ": [0], "exper": [0.0], "region": ["N"]}))


def test_the_limit_is_half_a_standard_error():
    for share, told in ((0.48, True), (0.51, False)):
        left = np.zeros((7, 7))
        left[EXPER, EXPER] = (share * BSE[EXPER]) ** 2
        estimate = replace(make_estimate(), dependence=left)
        row = np.eye(7)[[EXPER]]
        assert inference.contrasts_identified(estimate, row)[0] == told
        assert inference.jointly_identified(estimate, np.eye(7)[[EXPER, SQUARE]]) == told


def test_joint_tests_need_every_combination():
    """Each of two contrasts is told, but what is left in them is the same."""
    cov = np.diag(BSE**2)
    left = np.zeros_like(cov)
    pair = np.ix_([EDUC, EXPER], [EDUC, EXPER])
    cov[pair] = [[1.0, 0.9], [0.9, 1.0]]
    left[pair] = [[0.1, -0.1], [-0.1, 0.1]]
    estimate = replace(make_estimate(), cov=cov, dependence=left)
    assert inference.contrasts_identified(estimate, np.eye(7)).all()
    res = make_results(family={"refined": estimate})
    with pytest.raises(NotIdentifiedError, match="one by one"):
        res.f_test("educ = 0, exper = 0")
    assert np.isfinite(float(np.squeeze(res.t_test("educ = 0").pvalue)))


def test_pictures_and_page_say_so(res):
    shown = pictures.coefficients(res)
    assert "educ (not identified)" in shown.names
    place = shown.names.index("educ (not identified)")
    assert np.isnan(shown.series[0].estimate[place])
    assert np.isfinite(shown.series[1].estimate[place])
    assert "refined not identified" in charts.coefficient_chart(shown)
    text = page.render(res, rng=0)
    assert text.count("not identified") >= 4
    banner = text[text.index('class="banner"') :]
    assert "CAUTION: not identified: educ" in banner[:200]
    findings = text[text.index('class="findings"') :].split("</ul>")[0]
    assert "educ" not in findings
    assert "exper" in findings
    rest = text[text.index("Not to be told from zero") :].split("</p>")[0]
    assert "educ" not in rest


def test_matplotlib_draws_the_others(res):
    pytest.importorskip("matplotlib").use("Agg")
    axes = res.plot_coefficients()
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert "educ (not identified)" in labels
    axes.figure.canvas.draw()


def test_other_packages_see_nothing_there(res):
    from statsmodels.iolib.summary2 import summary_col

    frame = summary_col([res, make_results()], model_names=["partly", "whole"]).tables[0]
    assert "0.08" not in frame.loc["educ", "partly"]
    assert frame.loc["exper", "partly"] == frame.loc["exper", "whole"]


def test_fitting_warns_and_names_the_terms(monkeypatch):
    family = {**make_family(), "refined": partial()}
    monkeypatch.setattr("dpbinagg.report.verbs.Estimates", lambda *_: family)
    with pytest.warns(IdentificationWarning, match="does not determine the coefficients of educ"):
        make_release().ols()


def test_what_nobody_judged_counts_as_identified():
    estimate = make_estimate()
    assert estimate.identified_terms is None
    assert inference.identified(estimate).all()
    assert inference.masked(estimate) is estimate


def test_contrasts_in_words():
    names = ["a", "b", "c"]
    assert inference.contrast_text(np.array([1.0, 0.0, -1.0]), names) == "a - c"
    assert inference.contrast_text(np.array([-2.0, 0.5, 0.0]), names) == "-2 a + 0.5 b"
