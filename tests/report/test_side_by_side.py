"""Tables of several models: cells, choices, notes, and every form they take."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from report_factory import BSE, PARAMS, make_estimate, make_family, make_release, make_results

from dpbinagg import summary_table
from dpbinagg.errors import ArgumentError, MissingExtraError, ReleaseError
from dpbinagg.report.side_by_side import STATISTICS


@pytest.fixture(scope="module")
def res():
    return make_results()


@pytest.fixture(scope="module")
def partly():
    known = np.ones(len(PARAMS), dtype=bool)
    known[4] = False
    estimate = replace(make_estimate(), identified_terms=known)
    return make_results(family={**make_family(), "refined": estimate})


def test_cells_are_estimates_with_their_errors(res):
    table = summary_table([res.corrected, res], labels=["bins", "all"])
    frame = table.frame
    assert list(frame.columns) == ["bins", "all"]
    place = list(frame.index).index("educ")
    assert list(frame["all"].iloc[place : place + 2]) == ["0.0800", "(0.0040)"]
    assert list(frame["bins"].iloc[place : place + 2]) == ["0.0840", "(0.0120)"]
    assert frame.loc["exper²", "all"] == "-0.00050"
    assert frame.loc["Observations (noisy)", "all"] == "5,000"
    assert frame.loc["Estimator", "bins"] == "corrected"
    assert frame.loc["Covariance", "all"] == "sandwich + privacy"
    assert frame.loc["Epsilon", "all"] == "4.89 (1e-6)"
    assert frame.loc["R-squared", "all"] == "not released"


def test_models_of_different_terms_have_empty_cells(res):
    release = make_release("wage ~ educ")
    small = make_estimate(params=np.array([1.0, 0.1]), bse=np.array([0.1, 0.01]))
    other = make_results("refined", release, {"refined": small})
    frame = summary_table({"small": other, "large": res}).frame
    assert list(frame.index[:3]) == ["Intercept", "", "educ"]
    assert frame.loc["exper", "small"] == ""
    assert frame.loc["Response", "small"] == "wage"
    assert frame.loc["Response", "large"] == "log(wage)"


def test_terms_are_chosen_by_either_name_and_in_order(res):
    table = summary_table(res, keep=["exper", "C(region)[T.S]", "region: W"], below="none")
    assert list(table.frame.index[:4]) == ["exper", "region: S", "region: W", "Response"]
    table = summary_table(res, drop=["Intercept", "region: S"], below="none", statistics=["mu"])
    assert list(table.frame.index) == [
        "region: E",
        "region: W",
        "educ",
        "exper",
        "exper²",
        "Privacy (mu)",
    ]
    named = summary_table(res, names={"educ": "Years of school"}, keep="Years of school")
    assert named.frame.index[0] == "Years of school"
    with pytest.raises(
        ReleaseError, match="'edcu' is not a term of the models; did you mean 'educ'"
    ):
        summary_table(res, drop="edcu")
    with pytest.raises(ReleaseError, match="names: 'edu' is not known"):
        summary_table(res, names={"edu": "x"})


def test_what_is_below_the_estimates(res):
    def under(**options):
        table = summary_table(res, keep="educ", **options)
        return table.frame.iloc[1, 0], " ".join(table.notes)

    assert under()[0] == "(0.0040)"
    cell, notes = under(below="interval", alpha=0.1)
    low, high = res.conf_int(0.1).loc["educ"]
    assert cell == f"[{low:.4f}, {high:.4f}]"
    assert "90% intervals in brackets" in notes
    assert under(below="p")[0] == "p < 0.001"
    assert summary_table(res, keep="region: S", below="p").frame.iloc[1, 0] == "p = 0.096"
    with pytest.raises(ReleaseError, match="below must be one of 'error', 'interval', 'p', 'none'"):
        summary_table(res, below="t")


def test_stars_only_where_asked_for(res):
    assert "*" not in str(summary_table(res, keep=["educ", "region: S"]))
    starred = summary_table(res, keep=["educ", "region: S", "region: E"], stars=True)
    assert starred.frame.loc["educ", "(1)"] == "0.0800***"
    assert starred.frame.loc["region: S", "(1)"] == "0.050*"
    assert starred.frame.loc["region: E", "(1)"] == "-0.020"
    assert "*** p < 0.01" in " ".join(starred.notes)


def test_every_statistic_can_be_asked_for(res):
    frame = summary_table(res, keep="educ", below="none", statistics=list(STATISTICS)).frame
    assert list(frame.index[1:]) == [heading for heading, _ in STATISTICS.values()]
    assert frame.loc["F-statistic"].iloc[0] == f"{res.fvalue:.4g}"
    with pytest.raises(ReleaseError, match="statistics: 'r2' is not known; choose from response"):
        summary_table(res, statistics=["r2"])


def test_what_is_not_identified_is_said_to_be(res, partly):
    table = summary_table([res, partly])
    assert table.frame.loc["educ", "(2)"] == "not identified"
    assert any(note.startswith("(2): CAUTION: not identified: educ") for note in table.notes)
    for text in (str(table), table.to_html(), table.to_latex(), table.to_markdown()):
        assert text.count("not identified") >= 2


def test_notes_tell_what_a_reader_must_know(res):
    seeded = make_results(release=make_release(secure=False))
    notes = summary_table([res.naive, seeded], labels=["old", "new"]).notes
    assert notes[0].startswith("NOT FOR PUBLICATION")
    assert "They include the privacy noise, except in old." in " ".join(notes)
    assert "region = N" in " ".join(notes)
    assert "2 releases" in notes[-1]
    assert f"mu = {np.sqrt(2):.4g}" in notes[-1]
    assert (
        "All columns are from one release: mu = 1 " in summary_table([res.corrected, res]).notes[-1]
    )


def test_text_is_aligned(res, partly):
    lines = str(summary_table([res.naive, res.corrected, res, partly])).splitlines()
    rules = [line for line in lines if set(line) <= {"=", "-"}]
    assert len({len(rule) for rule in rules}) == 1
    assert max(map(len, lines)) <= len(rules[0])


def test_html_and_markdown(res):
    table = summary_table(res, labels=["<b>"], names={"educ": "a|b"})
    html = table.to_html()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html
    assert html.count("<tr") == 1 + len(table.body) + len(table.foot)
    assert table._repr_html_() == html
    rows = [line for line in table.to_markdown().splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(table.body) + len(table.foot)
    assert "a\\|b" in table.to_markdown()


def test_latex_has_the_rules_of_booktabs(res):
    latex = summary_table(res, names={"educ": "50% & *more*"}).to_latex(label="tab:wage")
    assert [latex.count(rf"\{rule}") for rule in ("toprule", "midrule", "bottomrule")] == [1, 2, 1]
    assert r"\label{tab:wage}" in latex
    assert r"50\% \& *more* & 0.0800 \\" in latex
    assert "$-$0.00050" in latex
    assert "minipage" not in summary_table(res).to_latex(notes=False)
    own = res.to_latex(label="tab:own", notes=False)
    assert r"\label{tab:own}" in own
    assert r"P\textgreater{}\textbar{}t\textbar{}" in own
    assert "minipage" not in own


def test_rows_do_not_pass_for_arguments_of_the_row_before(res):
    latex = summary_table(
        res, names={"educ": "[a]", "exper": "*b"}, keep=["educ", "exper"]
    ).to_latex()
    assert "\n{}[a] & " in latex
    assert "\n{}*b & " in latex


def has_latex() -> bool:
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        return False
    found = subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, timeout=60)
    return found.returncode == 0


@pytest.mark.skipif(not has_latex(), reason="no LaTeX with booktabs here")
def test_latex_compiles(res, partly, tmp_path):
    names = {"educ": r"50% \of $_{x}^2 ~ & # |t| <a> é", "exper": "[b]"}
    tables = [
        summary_table([res, partly], names=names).to_latex("tab:a"),
        res.to_latex(),
        partly.to_latex(),
        summary_table([res] * 9, below="interval").to_latex(),
    ]
    page = "\n".join(
        [
            r"\documentclass{article}\usepackage{booktabs,graphicx}\begin{document}",
            *tables,
            r"\end{document}",
        ]
    )
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120)
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-2000:]
    assert "Overfull" not in said


def test_latex_is_scaled_where_it_is_wider_than_a_page(res):
    few, many = (summary_table([res] * k).to_latex() for k in (2, 9))
    assert "resizebox" not in few
    assert "resizebox" not in res.to_latex()
    assert many.count(r"\resizebox{\linewidth}{!}{%") == 1


def test_word(res, partly, tmp_path):
    docx = pytest.importorskip("docx")
    pytest.importorskip("maketables")
    path = summary_table([res, partly], labels=["a", "b"]).to_word(tmp_path / "table.docx")
    (table,) = docx.Document(str(path)).tables
    rows = [[cell.text for cell in row.cells] for row in table.rows]
    assert rows[0] == ["", "a", "b"]
    assert ["educ", "0.0800", "not identified"] in rows
    assert "Gaussian differential privacy" in rows[-1][0]


def test_without_maketables_the_extra_is_named_in_one_line(res, monkeypatch):
    monkeypatch.setitem(sys.modules, "maketables", None)
    with pytest.raises(MissingExtraError) as caught:
        summary_table(res).to_word("table.docx")
    assert 'pip install "dpbinagg[tables]"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_results_object_is_refused(res):
    from statsmodels.api import OLS

    other = OLS(np.arange(5.0), np.ones(5)).fit()
    with pytest.raises(ReleaseError, match=r"got OLS\w*; .* summary_col, which takes both"):
        summary_table([res, other])
    with pytest.raises(ReleaseError, match="at least one"):
        summary_table([])
    with pytest.raises(ReleaseError, match="labels must have 2 headings, got 1"):
        summary_table([res, res], labels=["a"])


def test_forms_of_one_model_take_their_arguments_by_name(res):
    assert "[0.05" in res.to_latex(alpha=0.1)
    assert res.to_html() == res.summary().as_html()
    with pytest.raises(ArgumentError, match="write the arguments by name"):
        res.to_latex("table.tex")
    with pytest.raises(ReleaseError, match="alpha must lie"):
        res.to_latex(alpha="0.1")
    assert BSE.shape == res.bse.shape
