"""Other people's tables take the results object as they take statsmodels' own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from report_factory import BSE, PARAMS, make_estimate, make_results
from statsmodels.iolib.summary2 import summary_col

NEW = pd.DataFrame({"educ": [12, 16], "exper": [5.0, 10.0], "region": ["N", "S"]})


def test_summary_col_has_rows_for_n_and_mu() -> None:
    table = summary_col(
        [make_results("corrected"), make_results()], stars=True, model_names=["bins", "refined"]
    )
    frame = table.tables[0]
    assert frame.loc["educ", "refined"] == "0.0800***"
    assert frame.loc["C(region)[T.E]", "refined"] == "-0.0200"
    assert frame.loc["N (noisy)", "refined"] == "5,000"
    assert frame.loc["Privacy (mu)", "bins"] == "1"
    assert frame.loc["Estimator", "bins"] == "corrected"
    assert "R-squared" not in frame.index
    assert "refined" in table.as_text()
    assert "refined" in table.as_latex()


def test_stargazer() -> None:
    stargazer = pytest.importorskip("stargazer.stargazer")
    table = stargazer.Stargazer([make_results("corrected"), make_results()])
    html = table.render_html()
    assert "0.080<sup>***</sup>" in html
    assert "Observations</td><td>5000" in html.replace('<td style="text-align:left">', "").replace(
        "<tr>", ""
    )
    assert "Residual Std. Error" not in html
    table.show_confidence_intervals(True)
    assert "0.072" in table.render_latex()


def test_maketables() -> None:
    maketables = pytest.importorskip("maketables")
    table = maketables.ETable(
        [make_results("corrected"), make_results()],
        custom_model_stats={"Privacy (mu)": ["1", "1"]},
    )
    latex = table.make(type="tex")
    assert "0.080***" in latex
    assert "Privacy (mu)" in latex
    assert "5,000" in latex


def test_marginaleffects_takes_the_results_as_they_are() -> None:
    pytest.importorskip("polars", minversion="1.0")
    marginaleffects = pytest.importorskip("marginaleffects")
    res = make_results()
    slopes = marginaleffects.slopes(res, newdata=NEW, variables="exper").to_pandas()
    np.testing.assert_allclose(
        slopes["estimate"], [0.03 - 2 * 0.0005 * x for x in (5, 10)], rtol=1e-4
    )
    cov = np.asarray(res.cov_params())[5:, 5:]
    errors = [np.sqrt(np.array([1, 2 * x]) @ cov @ np.array([1, 2 * x])) for x in (5, 10)]
    np.testing.assert_allclose(slopes["std_error"], errors, rtol=0.02)
    predictions = marginaleffects.predictions(res, newdata=NEW).to_pandas()
    np.testing.assert_allclose(predictions["estimate"], res.predict(NEW), rtol=1e-9)
    frame = res.get_prediction(NEW).summary_frame()
    np.testing.assert_allclose(predictions["std_error"], frame["mean_se"], rtol=1e-4)
    contrasts = marginaleffects.avg_comparisons(res, variables="region").to_pandas()
    np.testing.assert_allclose(sorted(contrasts["estimate"]), sorted(PARAMS[1:4]), rtol=1e-6)
    np.testing.assert_allclose(sorted(contrasts["std_error"]), sorted(BSE[1:4]), rtol=1e-4)


def test_the_number_of_records_is_the_same_everywhere() -> None:
    """4,721.7 records are 4,722 in our tables, and in those that cut the fraction off."""
    stargazer = pytest.importorskip("stargazer.stargazer")
    res = make_results(family={"refined": replace(make_estimate(), nobs=4_721.7)})
    assert res.nobs == 4_722.0
    assert "4,722 (noisy)" in str(res.summary())
    assert ">4722<" in stargazer.Stargazer([res]).render_html()
    maketables = pytest.importorskip("maketables")
    assert "4,722" in maketables.ETable([res]).make(type="tex")
