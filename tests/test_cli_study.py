"""Studies on the command line: one file to read and approve, one charge, Table 1 afterwards."""

import json
import shutil

import pytest

from dpbinagg import Ledger, Study, dp_study, load_release
from dpbinagg.cli import main
from dpbinagg.datasets import codebook_path, data_path, load_wages

FORMULAS = {"wage": "np.log(wage) ~ educ + exper", "hours": "hours ~ educ + C(sex)"}
FILE = """\
data = "survey.csv"
codebook = "codebook.csv"
variables = ["region"]
mu = 1.0
ledger = "survey.db"
out = "out/release"
rng = 1

[formulas]
wage = "np.log(wage) ~ educ + exper"
hours = "hours ~ educ + C(sex)"

[bounds]
hours = [0, 80]

[about]
title = "Wages and hours"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    shutil.copy(data_path("wages"), folder / "survey.csv")
    shutil.copy(codebook_path("wages"), folder / "codebook.csv")
    (folder / "study.toml").write_text(FILE)
    Ledger(folder / "survey.db", mu=2.0)
    return folder


def run(*arguments):
    return main(list(map(str, arguments)))


def changed(place, name, old, new):
    file = place / f"{name}.toml"
    file.write_text(FILE.replace(old, new))
    return file


def test_a_check_spends_nothing_and_says_what_would_be(place, capsys):
    assert run("study", place / "study.toml", "--check") == 0
    out = capsys.readouterr().out
    for text in ("hours: hours ~ educ + C(sex)", "one of north, south", "whole number, 0 to 20"):
        assert text in out
    assert "Privacy spent: mu = 1 against adding or removing one record" in out
    assert "rounds of residual scores" in out
    assert "NOT FOR PUBLICATION" in out
    assert Ledger(place / "survey.db").entries().empty
    assert run("study", place / "study.toml", "--check", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert sum(part**2 for part in told["parts"].values()) == pytest.approx(1.0)
    assert told["formulas"] == FORMULAS


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[formulas]", "[formula]", "'formula' is no key; did you mean 'formulas'"),
        ("variables", "variable", "did you mean 'variables'"),
        ("title =", "titel =", "[about] 'titel' is no key; did you mean 'title'"),
        ('data = "survey.csv"', "", "lacks 'data'"),
        ("mu = 1.0", "", "give the privacy of the release"),
        ("mu = 1.0", "mu = ", "is no TOML file"),
        ("variables = [", "variables = [3, ", "variables must be a list of names"),
        ('ledger = "survey.db"', 'ledger = "other.db"', "make it first"),
        ("hours = [0, 80]", 'hours = "none"', "hours"),
    ],
)
def test_a_file_with_a_mistake_is_refused_at_no_cost(place, capsys, old, new, told):
    assert run("study", changed(place, "wrong", old, new)) == 1
    assert told in capsys.readouterr().err
    assert Ledger(place / "survey.db").entries().empty


def test_what_was_not_approved_does_not_run(place, capsys):
    run("study", place / "study.toml", "--check", "--json")
    print_of = json.loads(capsys.readouterr().out)["fingerprint"]
    other = changed(place, "other", "mu = 1.0", "mu = 1.5")
    assert run("study", other, "--approved", print_of) == 1
    assert "was changed since it was approved" in capsys.readouterr().err
    assert run("study", place / "study.toml", "--approved", print_of, "--check") == 0


def test_a_study_is_that_of_python_and_is_charged_once(place, capsys):
    assert run("study", place / "study.toml") == 0
    out = capsys.readouterr().out
    for text in ("Descriptive statistics", "Differentially private regressions", "of 2 is left"):
        assert text in out
    entries = Ledger(place / "survey.db").entries()
    assert entries["mu"].to_list() == [1.0]
    folder = place / "out" / "release"
    assert "<h1>Wages and hours</h1>" in (folder / "report.html").read_text()
    wages = load_wages()
    bounds = wages.codebook.updated({"hours": (0, 80)})
    same = dp_study(FORMULAS, wages.frame, mu=1, variables=["region"], bounds=bounds, rng=1)
    saved = Study(load_release(folder))
    for name in FORMULAS:
        assert (saved[name].params == same[name].params).all()
    assert run("describe", folder) == 0
    assert capsys.readouterr().out.strip() == str(same.describe()).strip()
    assert run("describe", folder, "--by", "sex", "--form", "markdown") == 0
    assert capsys.readouterr().out.startswith("|               |")
    assert run("describe", folder, "--crosstab", "sex", "region", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["numbers"]) == 8
    assert run("describe", folder, "--by", "wage") == 1
    assert "makes no groups" in capsys.readouterr().err
    assert run("refit", folder) == 0
    assert "from one release" in capsys.readouterr().out
    assert run("study", place / "study.toml") == 1
    assert "--overwrite" in capsys.readouterr().err
    assert len(Ledger(place / "survey.db").entries()) == 1


def test_a_plan_takes_the_study_file(place, capsys):
    assert run("plan", place / "study.toml", "--n", 3000, "--mu", 2) == 0
    out = capsys.readouterr().out
    assert "hours: C(sex)[T.female]" in out
    assert "n = 3,000 and mu = 2" in out
