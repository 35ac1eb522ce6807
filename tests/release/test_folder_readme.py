"""The README of a folder: every file, every fact that was given, nothing invented."""

import datetime
import platform
import re
import warnings

import pytest
from release_data import wages

from dpbinagg import Budget, ReleaseError, __version__, dp_ols, dp_release
from dpbinagg.release.readme import FILES, About

GIVEN = {
    "title": "Wage survey 2024",
    "unit_of_observation": "one employee aged 18 or older",
    "description": "A survey of pay.\nFielded in spring.",
    "provenance": "Office of Statistics; access on application",
    "steward": "Research data centre | wages",
    "contact": "rdc@example.org",
    "licence": "CC BY 4.0",
    "date": datetime.date(2026, 11, 18),
}
SECTIONS = (
    "Overview",
    "Data availability and provenance",
    "Description of files",
    "Computational requirements",
    "Instructions to replicators",
    "References",
)


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    bounds = {
        "wage": {"lower": 0.5, "upper": 100, "unit": "euro", "description": "Gross hourly wage"},
        "educ": {"type": "integer", "lower": 6, "upper": 18},
        "region": {
            "levels": ["01", "NA", "E, W", "no"],
            "labels": ["north", "none", "east or west", "not said"],
            "description": "Where | the firm is",
        },
    }
    res = dp_ols("np.log(wage) ~ educ + C(region)", wages(), 1, bounds=bounds, rng=1)
    folder = tmp_path_factory.mktemp("described") / "x"
    return res.save(folder, rng=1, copies=2, formats=["dta", "parquet"], **GIVEN)


def test_it_lists_every_file_and_every_file_has_a_word(described, saved, odd_saved):
    for folder in (described, saved, odd_saved):
        text = (folder / "README.md").read_text(encoding="utf-8")
        held = {path.name for path in folder.iterdir()}
        assert held <= set(FILES)
        assert set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)) == held
        assert "$" not in text
        assert [line[3:] for line in text.splitlines() if line[:3] == "## "][:4] == [*SECTIONS[:4]]
        assert all(f"## {section}" in text for section in SECTIONS)


def test_what_is_given_stands_there(described):
    text = (described / "README.md").read_text(encoding="utf-8")
    assert text.startswith("# README and guide to replication: Wage survey 2024\n")
    for words in (
        "| Unit of observation | one employee aged 18 or older |",
        "| Description | A survey of pay. Fielded in spring. |",
        r"| Data steward | Research data centre \| wages |",
        "| Licence of this folder | CC BY 4.0 |",
        "| Date | 2026-11-18 |",
        " | euro | Gross hourly wage |",
        "| educ | 6 to 18, whole numbers |  | not stated |",
        "01 = north, NA = none",
        r"Where \| the firm is",
        f"dpbinagg {__version__}, Python {platform.python_version()}, numpy ",
        "`synthetic_copies.csv` has 2 synthetic tables",
    ):
        assert words in text
    assert "Wage survey 2024" in (described / "report.html").read_text(encoding="utf-8")


def test_what_is_not_given_is_not_stated(saved):
    text = (saved / "README.md").read_text(encoding="utf-8")
    facts = text.split("| Data |")[1].split("\n\n")[0]
    assert facts.count("| not stated |") == 7


def test_the_statement_is_there(release, saved):
    for name in ("README.md", "privacy.txt"):
        assert release.privacy.statement in (saved / name).read_text(encoding="utf-8")


def test_it_warns_and_names_the_files_that_are_there(saved, tmp_path):
    assert "**NOT FOR PUBLICATION" in (saved / "README.md").read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bounds = {"educ": (6, 19), "wage": (0.5, 100)}
        made = dp_release("wage ~ educ", wages(), mu=1, bounds=bounds, budget=Budget.paper())
        made.save(tmp_path / "secure")
        twice = dp_release("wage ~ educ + I(2 * educ)", wages(), mu=1, bounds=bounds)
        twice.save(tmp_path / "weak")
    text = (tmp_path / "secure" / "README.md").read_text()
    assert "NOT FOR PUBLICATION" not in text
    assert "moments.csv" not in text
    held = "The statistics in\n`bins.csv`, `release.json` and `transcript.json` are noisy sums"
    assert held in text
    assert "**CAUTION" in (tmp_path / "weak" / "README.md").read_text()


def test_facts_are_texts():
    assert About(date=datetime.datetime(2026, 1, 2, 3)).date == "2026-01-02"
    assert About(title="  ").said("title") == "not stated"
    with pytest.raises(ReleaseError, match="contact must be a text, got list"):
        About(contact=["a"])
