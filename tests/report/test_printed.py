"""Printed forms: golden files, notes, and the frames behind them."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from make_golden import FOLDER, comparison_text, summary_text
from report_factory import (
    BSE,
    DOMAIN,
    PARAMS,
    make_estimate,
    make_family,
    make_release,
    make_results,
)

from dpbinagg.errors import ReleaseError
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition
from dpbinagg.report import tables
from dpbinagg.report.notes import range_source


def golden(name: str) -> str:
    return (Path(FOLDER) / name).read_text(encoding="utf-8")


def test_summary_is_the_golden_file() -> None:
    assert summary_text() == golden("summary.txt")


def test_comparison_is_the_golden_file() -> None:
    assert comparison_text() == golden("compare.txt")


def test_summary_is_aligned_and_within_its_width() -> None:
    lines = summary_text().splitlines()
    rules = [line for line in lines if set(line) == {"="}]
    assert len(rules) == 3
    assert len({len(rule) for rule in rules}) == 1
    assert max(len(line) for line in lines) <= len(rules[0])
    labels = ("   R-squared", "   Adj.", "   F-stat", "   Privacy")
    starts = {line.index(label) for line in lines for label in labels if label in line}
    assert len(starts) == 1


def flat(results) -> str:
    return " ".join(str(results.summary()).split())


def test_notes_on_privacy() -> None:
    assert "NOT FOR PUBLICATION" in flat(make_results(release=make_release(secure=False)))
    plain = flat(make_results())
    assert "NOT FOR PUBLICATION" not in plain
    assert "against adding or removing one record" in plain
    assert "epsilon = 4.89 at delta = 1e-6" in plain
    replaced = flat(make_results(release=make_release(neighbours="replace")))
    assert "against replacing one record by another" in replaced


def test_published_calibration_shows_the_true_mu() -> None:
    text = flat(make_results(release=make_release(calibration="paper")))
    assert "it claims mu = 1, and the true guarantee is the mu = 2.236" in text
    assert "Privacy (mu-GDP): 2.236" in text


def test_notes_on_ranges_tell_where_they_came_from() -> None:
    declared = Domain({"educ": (0, 20), "region": list("NSEW")})
    text = flat(make_results(release=make_release(declared=declared)))
    assert "wage 1 to 200 (found privately), educ 0 to 20, exper 0 to 50 (found privately)." in text
    many = Domain({f"x{i}": (0, 1) for i in range(15)} | {"y": (0, 1)})
    names = " + ".join(f"x{i}" for i in range(15))
    release = make_release(f"y ~ {names}", many)
    family = {"refined": make_estimate(params=np.ones(16), bse=np.ones(16))}
    assert "and 4 more (see release.domain)" in flat(make_results("refined", release, family))


def test_a_declared_range_that_was_narrowed_is_said_to_be() -> None:
    declared = Domain({**DOMAIN, "wage": (0.01, 1e6)})
    res = make_results(release=make_release(declared=declared))
    source = "found privately within 0.01 to 1,000,000"
    assert f"wage 1 to 200 ({source}), educ 0 to 20, exper 0 to 50." in flat(res)
    assert range_source(res.release, "wage", res.release.domain["wage"]) == source


def test_published_calibration_that_keeps_its_word_is_not_blamed() -> None:
    release = make_release(calibration="paper")
    privacy = replace(release.privacy, mechanisms=release.privacy.mechanisms[:-1])
    text = flat(make_results(release=replace(release, privacy=privacy)))
    assert "as published, which for this model protects as it says" in text
    assert "less than it says" not in text


@pytest.mark.parametrize(
    ("right", "note", "found"),
    [
        ("C(region)", "Reference category, with which the others are compared: region = N.",
         {"region": "N"}),
        ("C(region, Treatment('W')) + educ", "compared: region = W.", {"region": "W"}),
        ("region * educ", "compared: region = N.", {"region": "N"}),
        ("C(educ, levels=[8, 12, 16]) + region", "compared: educ = 8 and region = N.",
         {"educ": 8.0, "region": "N"}),
        ("C(region, Sum)", "Levels of region are compared with the mean over all levels.", {}),
        ("I(educ > 12)", "", {"educ > 12": False}),
        ("0 + C(region) + educ", "", {}),
        ("exper", "", {}),
    ],
)  # fmt: skip
def test_reference_categories_are_named(right: str, note: str, found: dict) -> None:
    release = make_release(f"wage ~ {right}")
    p = len(release.column_names)
    family = {"refined": make_estimate(params=np.ones(p), bse=np.ones(p))}
    res = make_results("refined", release, family)
    assert res.references == found
    printed = res.summary()
    if note:
        for text in (str(printed), printed.as_html(), printed.as_latex(), printed.as_markdown()):
            assert note in " ".join(text.replace("\\_", "_").split())
    else:
        assert not [one for one in printed.notes if "Reference" in one or "Levels of" in one]


def test_naive_is_labelled_as_such() -> None:
    text = flat(make_results("naive"))
    assert "when the noise is ignored" in text
    assert "include the noise that was added" not in text


def test_variables_that_no_bin_splits_are_named() -> None:
    release = make_release()
    whole = Partition.grid(release.partition.domain, {"educ": 4, "region": 2})
    res = make_results(release=replace(release, partition=whole))
    assert "No bin edge cuts exper: the bins tell little about it." in flat(res.corrected)
    assert "No bin edge" not in flat(res)
    assert "No bin edge" not in flat(make_results("corrected"))


def test_small_coefficients_keep_their_digits() -> None:
    res = make_results(family={"refined": make_estimate(params=PARAMS * 1e-3, bse=BSE * 1e-3)})
    row = next(line for line in str(res.summary()).splitlines() if line.startswith("I(exper"))
    assert row.split()[3:6] == ["-0.00000050", "0.00000012", "-4.167"]
    tiny = make_results(family={"refined": make_estimate(params=PARAMS * 1e-9, bse=BSE * 1e-9)})
    assert "8.000e-11" in str(tiny.summary())
    large = make_results(family={"refined": make_estimate(params=PARAMS * 1e7, bse=BSE * 1e7)})
    assert "1.100e+07" in str(large.summary())
    assert "40000.0" in str(large.summary())


def test_other_names_and_levels() -> None:
    res = make_results()
    text = str(res.summary(yname="log wage", xname=list("abcdefg"), title="Wages", alpha=0.1))
    assert text.splitlines()[0].strip() == "Wages"
    assert "[0.05" in text
    assert "log wage" in text
    assert "educ  " not in text.split("Notes")[0]
    with pytest.raises(ReleaseError, match="7 names"):
        res.summary(xname=["a"])
    assert len(str(res.summary(slim=True)).splitlines()) < len(text.splitlines())


def test_html_is_escaped_and_has_the_notes() -> None:
    domain = Domain({**DOMAIN, "region": ["N", "<b>", "E", "W"]})
    res = make_results(release=make_release(domain=domain))
    html = res.summary().as_html()
    assert "<b>" not in html
    assert "C(region)[T.&lt;b&gt;]" in html
    assert html.count("<table") == html.count("</table>") == 2
    assert "<li>Privacy: mu = 1" in html
    assert res._repr_html_() == html
    assert "<b>" not in res.compare()._repr_html_()


def test_latex_compiles_in_principle() -> None:
    latex = make_results(notes=("share 50% of a_b & c",)).summary().as_latex()
    assert r"share 50\% of a\_b \& c" in latex
    for name in ("table", "tabular", "minipage"):
        assert latex.count(f"\\begin{{{name}}}") == latex.count(f"\\end{{{name}}}") > 0


def test_csv_reads_back() -> None:
    rows = list(csv.reader(io.StringIO(make_results().summary().as_csv())))
    assert ["educ", "0.0800", "0.0040", "20.000", "0.000", "0.0722", "0.0878"] in rows
    assert ["No. Observations:", "5,000 (noisy)", "Prob (F-statistic):", "4.32e-98"] in rows


def test_markdown_table_has_equal_cells() -> None:
    lines = make_results().to_markdown().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 9
    assert len({len(line) for line in table}) == 1
    assert any(line.startswith("| educ ") for line in table)
    assert any(line.startswith("2. Standard errors") for line in lines)


def test_tidy_and_glance() -> None:
    res = make_results()
    tidy = res.tidy(alpha=0.1)
    assert list(tidy.columns) == [
        "term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high",
    ]  # fmt: skip
    np.testing.assert_array_equal(tidy["estimate"], PARAMS)
    np.testing.assert_allclose(tidy[["conf_low", "conf_high"]], res.conf_int(0.1))
    glance = res.glance()
    assert len(glance) == 1
    row = glance.iloc[0]
    assert row["nobs"] == 5_000.0
    assert row["sigma"] == 0.5
    assert row["mu"] == 1.0
    assert row["estimator"] == "refined"
    assert np.isnan(row["r_squared"])
    assert row["statistic"] == res.fvalue


def test_comparison_frame() -> None:
    comparison = make_results().compare(alpha=0.1)
    frame = comparison.frame
    assert len(frame) == 7 * 4
    assert list(frame["estimator"][:4]) == ["naive", "corrected", "combined", "refined"]
    educ = frame[frame["term"] == "educ"].set_index("estimator")
    assert educ.loc["naive", "bias_removed"] == 0.0
    assert educ.loc["corrected", "bias_removed"] == pytest.approx(0.08 * 0.25)
    np.testing.assert_allclose(comparison.bias_removed, PARAMS * 0.25)
    corrected = make_results("corrected").conf_int(0.1).loc["educ"]
    assert educ.loc["corrected", "conf_low"] == pytest.approx(corrected[0])
    assert comparison.to_markdown().count("\n|") >= 7 * 3


def test_comparison_of_fewer_estimators() -> None:
    family = {"combined": make_family()["combined"]}
    comparison = make_results("combined", family=family).compare()
    assert comparison.bias_removed is None
    assert "bias removed" not in str(comparison)
    assert comparison.frame["bias_removed"].isna().all()


def test_decimals_of_a_comparison_follow_errors_that_can_be_believed() -> None:
    """One bin fits exactly: its naive standard error is a rounding error, not a scale."""
    exact = make_estimate("naive", PARAMS, BSE * 1e-15)
    text = str(make_results(family={**make_family(), "naive": exact}).compare())
    assert "e-" not in text
    assert "e+" not in text
    assert "(0.0040)" in text


def test_the_published_estimate_is_not_among_those_that_account_for_the_noise() -> None:
    family = {**make_family(), "paper": make_estimate("paper")}
    note = " ".join(str(make_results(family=family).compare()).split())
    assert "the published one (paper) hardly corrects for it; the others account for it." in note
    assert "(paper)" not in str(make_results().compare())


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5, -0.05, float("nan")])
def test_alpha_must_be_a_probability(alpha: float) -> None:
    res = make_results()
    for make in (res.conf_int, res.tidy, res.compare, lambda alpha: res.summary(alpha=alpha)):
        with pytest.raises(ReleaseError, match="alpha must lie strictly between 0 and 1"):
            make(alpha)


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.12345, 4, "0.1235"),
        (-0.00001, 4, "0.0000"),
        (12345.678, 4, "12345.7"),
        (2.5e7, 4, "2.500e+07"),
        (float("nan"), 4, ""),
        (float("inf"), 4, "inf"),
        (1.5e-9, 9, "1.500e-09"),
    ],
)
def test_numbers(value: float, decimals: int, text: str) -> None:
    assert tables.number(value, decimals) == text


def test_decimals_follow_the_standard_error() -> None:
    assert tables.decimals_for(0.5) == 4
    assert tables.decimals_for(0.0012) == 4
    assert tables.decimals_for(0.00012) == 5
    assert tables.decimals_for(0.0) == 4
    assert tables.decimals_for(1e-30) == 9


words = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=30)


@given(
    st.lists(st.lists(words, min_size=4, max_size=4), min_size=1, max_size=5),
    st.integers(0, 200),
)
def test_aligned_rows_have_one_width(rows: list[list[str]], least: int) -> None:
    lines = tables.aligned(rows, least)
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) >= least
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(row[0])
        assert line.endswith(row[-1])


@given(st.floats(1e-12, 1e12), st.floats(-50, 50))
def test_printed_numbers_are_within_a_tenth_of_a_standard_error(error: float, t: float) -> None:
    value = error * t
    printed = float(tables.number(value, tables.decimals_for(error)))
    assert abs(printed - value) <= max(0.1 * error, 0.0006 * abs(value))


@given(st.text(max_size=40))
def test_escaped_text_has_no_raw_marks(text: str) -> None:
    assert "<" not in tables.html_table(None, [[text, text]]).replace("<t", "").replace("</t", "")
    markdown = tables.markdown(["a", "b"], [[text.replace("\n", " "), "1"]])
    assert markdown.splitlines()[2].replace("\\\\", "").replace("\\|", "").count("|") == 3
