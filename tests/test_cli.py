"""The command line: what it writes, what it says, how it ends."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpbinagg import Domain, Ledger, dp_ols, load_release
from dpbinagg.analyst.synthesis import tables as synthesis
from dpbinagg.cli import main
from dpbinagg.cli.parser import KINDS
from dpbinagg.cli.synth import write_table
from dpbinagg.datasets import codebook_path, data_path, load_wages
from dpbinagg.errors import DataError, DomainError
from dpbinagg.reading import open_source

FORMULA = "np.log(wage) ~ educ + exper + C(region)"
CODEBOOK = str(codebook_path("wages"))
WAGES = str(data_path("wages"))
CANARY = 98765.4321


def run(*arguments: str) -> int:
    return main(list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("cli") / "release"
    arguments = ("fit", FORMULA, WAGES, "--mu", "1", "--bounds", CODEBOOK, "--rng", "1")
    assert run(*arguments, "--out", str(target), "--format", "dta", "--format", "parquet") == 0
    return target


def test_fit_gives_the_numbers_of_dp_ols(folder):
    wages = load_wages()
    expected = dp_ols(FORMULA, wages.frame, mu=1, bounds=wages.codebook, rng=1)
    saved = load_release(folder).ols()
    np.testing.assert_array_equal(saved.params, expected.params)
    np.testing.assert_array_equal(saved.bse, expected.bse)


def test_fit_writes_everything_that_it_promises(folder):
    names = {path.name for path in folder.iterdir()}
    promised = {"release.json", "synthetic.csv", "report.html", "synthetic.dta"}
    assert promised | {"synthetic.parquet", "coefficients.csv", "privacy.txt"} <= names
    csv = pd.read_csv(folder / "synthetic.csv")
    parquet = pd.read_parquet(folder / "synthetic.parquet")
    stata = pd.read_stata(folder / "synthetic.dta")
    assert list(csv.columns) == list(parquet.columns) == list(stata.columns)
    for other in (parquet, stata):
        np.testing.assert_allclose(other["wage"], csv["wage"], rtol=1e-12)
        assert other["region"].astype(str).tolist() == csv["region"].tolist()


def test_all_files_of_a_fit_hold_the_same_synthetic_records(tmp_path):
    """With secure randomness too, where every draw is another one."""
    target = tmp_path / "release"
    arguments = ("fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", CODEBOOK)
    assert run(*arguments, "--out", str(target), "--format", "dta") == 0
    csv = pd.read_csv(target / "synthetic.csv")
    stata = pd.read_stata(target / "synthetic.dta")
    np.testing.assert_allclose(stata["wage"], csv["wage"], rtol=1e-12)
    link = re.search(
        r'href="data:text/csv;base64,([^"]*)" download="synthetic.csv"',
        (target / "report.html").read_text(encoding="utf-8"),
    )
    offered = pd.read_csv(io.BytesIO(base64.b64decode(link[1])))
    np.testing.assert_allclose(offered["wage"], csv["wage"], rtol=1e-8)


def test_fit_shows_the_table_and_the_ledger(tmp_path, capsys):
    ledger = str(tmp_path / "survey.db")
    assert run("ledger", ledger, "--create", "--mu", "1.2", "--name", "wages") == 0
    fit = ("fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", CODEBOOK, "--ledger", ledger)
    assert run(*fit) == 0
    shown = capsys.readouterr().out
    assert "Differentially Private OLS Regression Results" in shown
    assert "mu = 0.6633 of 1.2 is left" in shown
    assert run(*fit) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "would exceed" in err
    assert run("ledger", ledger, "--json") == 0
    book = json.loads(capsys.readouterr().out)
    assert book["spent"] == 1.0
    assert [entry["outcome"] for entry in book["entries"]] == ["released"]


@pytest.mark.parametrize(
    ("relation", "words", "spent"),
    [
        ("add-remove", "adding or removing one record", 0.5),
        ("replace", "replacing one record by another", 1.0),
    ],
)
def test_a_ledger_says_what_its_total_holds_against(tmp_path, capsys, relation, words, spent):
    ledger = str(tmp_path / "survey.db")
    assert run("ledger", ledger, "--create", "--mu", "2", "--neighbours", relation) == 0
    assert f"total mu = 2 against {words}\n" in capsys.readouterr().out
    fit = ("fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", CODEBOOK, "--ledger", ledger)
    assert run(*fit, "--neighbours", "replace") == 0
    capsys.readouterr()
    assert run("ledger", ledger, "--json") == 0
    book = json.loads(capsys.readouterr().out)
    assert (book["neighbours"], book["spent"]) == (relation, spent)
    assert [(row["neighbours"], row["counted"]) for row in book["entries"]] == [("replace", spent)]
    assert run("ledger", ledger) == 0
    assert ("counted" in capsys.readouterr().out) == (relation == "add-remove")


def test_json_holds_the_results(capsys):
    arguments = ("fit", "wage ~ educ", WAGES, "--epsilon", "4", "--delta", "1e-6")
    assert run(*arguments, "--bounds", CODEBOOK, "--rng", "3", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["term"] for row in found["coefficients"]] == ["Intercept", "educ"]
    assert found["privacy"]["for_publication"] is False
    assert found["privacy"]["epsilon"]["1e-06"] == pytest.approx(4.0, rel=1e-9)
    assert sum(part["mu"] ** 2 for part in found["privacy"]["mechanisms"]) == pytest.approx(
        found["privacy"]["mu"] ** 2
    )


def test_progress_goes_to_the_error_stream(capsys):
    arguments = ("fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", CODEBOOK)
    assert run(*arguments, "--progress", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["estimator"]
    assert "partition" in err


def test_refit_needs_no_records(folder, capsys):
    assert run("refit", str(folder), "np.log(wage) ~ educ", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["term"] for row in found["coefficients"]] == ["Intercept", "educ"]
    assert run("refit", str(folder), "--compare") == 0
    assert "Estimators from the same release" in capsys.readouterr().out


def test_refit_from_a_synthetic_table_gives_the_corrected_numbers(folder, tmp_path, capsys):
    for ending in ("csv", "parquet"):
        table = str(tmp_path / f"published.{ending}")
        arguments = ("synth", str(folder), "--out", table, "--kind", "binagg", "--bin-id")
        assert run(*arguments) == 0
        capsys.readouterr()
        assert run("refit", str(folder), "--synthetic", table, "--json") == 0
        found = json.loads(capsys.readouterr().out)
        expected = load_release(folder).ols(estimator="corrected")
        values = [row["estimate"] for row in found["coefficients"]]
        np.testing.assert_allclose(values, expected.params, rtol=1e-8)


@pytest.mark.parametrize("ending", ["csv", "parquet", "dta"])
def test_synth_writes_copies(folder, tmp_path, ending, capsys):
    table = tmp_path / f"copies.{ending}"
    arguments = ("synth", str(folder), "--out", str(table), "--copies", "3", "--size", "400")
    assert run(*arguments, "--rng", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1200
    reader = {"csv": pd.read_csv, "parquet": pd.read_parquet, "dta": pd.read_stata}[ending]
    assert reader(table)["copy"].value_counts().tolist() == [400] * 3


@pytest.mark.parametrize(("copies", "words"), [("1", "Least squares of"), ("3", "to each copy")])
def test_synth_says_how_to_use_the_table(folder, tmp_path, capsys, copies, words):
    table = str(tmp_path / "synthetic.csv")
    assert run("synth", str(folder), "--out", table, "--copies", copies, "--size", "50") == 0
    assert words in capsys.readouterr().out


def test_synth_makes_every_kind():
    assert KINDS == synthesis.KINDS


def test_plan_needs_no_table(capsys):
    arguments = ("plan", "np.log(wage) ~ educ", "--n", "2000", "--mu", "0.1", "1")
    assert run(*arguments, "--bounds", CODEBOOK, "--json") == 0
    strict, usual = json.loads(capsys.readouterr().out)
    assert strict["mu"] == 0.1
    # At mu = 0.5 the two differ by less than chance.
    assert strict["coefficients"][1]["se"] > 1.2 * usual["coefficients"][1]["se"]
    assert run(*arguments, "--bounds", CODEBOOK) == 0
    shown = capsys.readouterr().out
    assert shown.count("Expected for n = 2,000") == 2
    assert shown.count("Assumed:") == 1


def test_plan_takes_a_public_example(capsys):
    arguments = ("plan", "np.log(wage) ~ educ + C(region)", "--n", "100", "--mu", "0.05")
    assert run(*arguments, "--bounds", CODEBOOK, "--example", str(data_path("wages"))) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "CAUTION: no term is identified" in shown
    assert "(that of the example's)" in shown
    assert "by the example: region" in shown


def test_demo_shows_truth_beside_private(capsys):
    assert run("demo", "--rng", "1") == 0
    shown = capsys.readouterr().out
    assert "No. Observations:" in shown
    assert "ordinary" in shown
    assert "not for publication" in shown.lower()


def test_help_is_instant_and_teaches():
    start = time.perf_counter()
    command = [sys.executable, "-X", "importtime", "-m", "dpbinagg", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 5.0
    assert "dpbinagg demo" in done.stdout
    for heavy in ("numpy", "pandas", "scipy", "statsmodels", "opendp"):
        assert f" {heavy}\n" not in done.stderr


@pytest.mark.parametrize(
    "command", ["fit", "refit", "synth", "ledger", "plan", "codebook", "audit", "demo"]
)
def test_every_command_has_examples(command, capsys):
    with pytest.raises(SystemExit) as stop:
        run(command, "--help")
    assert stop.value.code == 0
    assert f"dpbinagg {command}" in capsys.readouterr().out.split("examples:")[1]


def test_usage_errors_end_with_two():
    for wrong in (["fit"], ["fit", "y ~ x", "d.csv", "--mu", "much"], ["nonsense"]):
        with pytest.raises(SystemExit) as stop:
            run(*wrong)
        assert stop.value.code == 2


def test_no_command_shows_help(capsys):
    assert run() == 0
    assert "start here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "y ~ x", "absent.csv", "--mu", "1"], "does not exist"),
        (["fit", "y ~ x", "table.doc", "--mu", "1"], "must be a file that ends in"),
        (["fit", "wage ~ educ", WAGES], "--mu 1, or --epsilon 2 --delta 1e-6"),
        (["fit", "wage ~ educ", WAGES, "--mu", "1", "--epsilon", "1"], "not both"),
        (["fit", "wage ~ educ", WAGES, "--mu", "-1"], "mu"),
        (["fit", "wage ~ C(region)", WAGES, "--mu", "1"], '--bound "NAME=a|b|c"'),
        (["fit", "wage ~ absent", WAGES, "--mu", "1"], "no column 'absent'"),
        (["fit", "wage ~ educ", WAGES, "--mu", "1", "--bound", "educ"], "--bound must read"),
        (["fit", "wage ~ educ", WAGES, "--mu", "1", "--budget", "all=1"], "--budget must be"),
        (["fit", "wage ~ educ", WAGES, "--mu", "1", "--ledger", "no.db"], "--create --mu 2"),
        (
            ["fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", "no.csv"],
            "codebook 'no.csv' does not",
        ),
        (["refit", "absent"], "does not exist"),
        (["synth", "absent", "--out", "x.doc"], "must be written to a file that ends in"),
        (["ledger", "no.db"], "does not exist"),
        (["ledger", "no.db", "--create"], "needs the total"),
        (["plan", "y ~ x", "--n", "100"], "needs bounds"),
    ],
)
def test_errors_are_one_sentence_and_end_with_one(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert err.startswith("dpbinagg: error: ")
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_a_release_is_refused_before_anything_is_spent(tmp_path, capsys):
    ledger = str(tmp_path / "survey.db")
    run("ledger", ledger, "--create", "--mu", "1")
    taken = tmp_path / "thesis"
    taken.mkdir()
    (taken / "chapter.txt").write_text("mine")
    arguments = ("fit", "wage ~ educ", WAGES, "--mu", "1", "--ledger", ledger)
    assert run(*arguments, "--out", str(taken)) == 1
    assert "is not a release" in capsys.readouterr().err
    run("ledger", ledger, "--json")
    assert json.loads(capsys.readouterr().out)["spent"] == 0.0


def test_a_release_is_replaced_only_on_demand_and_refused_before_it_is_paid_for(tmp_path, capsys):
    ledger, out = str(tmp_path / "book.db"), tmp_path / "out"
    Ledger(ledger, mu=3)
    arguments = ["fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", CODEBOOK, "--out", str(out)]
    assert run(*arguments, "--ledger", ledger) == 0
    before = (out / "release.json").read_bytes()
    assert run(*arguments, "--ledger", ledger) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert (out / "release.json").read_bytes() == before
    assert Ledger(ledger).spent == 1.0
    assert run(*arguments, "--ledger", ledger, "--overwrite", "--copies", "0") == 1
    assert "copies must be" in capsys.readouterr().err
    assert Ledger(ledger).spent == 1.0
    assert run(*arguments, "--ledger", ledger, "--overwrite") == 0
    assert (out / "release.json").read_bytes() != before


def test_the_folder_says_what_its_publisher_says(tmp_path):
    out = tmp_path / "out"
    arguments = ["fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", CODEBOOK, "--out", str(out)]
    said = ["--title", "Wages", "--licence", "CC BY 4.0", "--unit-of-observation", "one employee"]
    assert run(*arguments, *said, "--copies", "3", "--estimator", "corrected") == 0
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "guide to replication: Wages\n" in text
    assert "| Licence of this folder | CC BY 4.0 |" in text
    assert "| Unit of observation | one employee |" in text
    assert "| Data steward | not stated |" in text
    assert pd.read_csv(out / "synthetic_copies.csv")["copy"].max() == 3
    assert load_release(out).ols().estimator == "corrected"


def test_a_release_that_was_paid_for_is_not_lost(tmp_path, monkeypatch, capsys):
    from dpbinagg.report import publish

    original = publish.save_release

    def full_disk(release, folder, **options):
        if folder == tmp_path / "out":
            raise publish.ReleaseError("disk full")
        return original(release, folder, **options)

    monkeypatch.setattr(publish, "save_release", full_disk)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    arguments = ("fit", "wage ~ educ", WAGES, "--mu", "1", "--bounds", CODEBOOK)
    assert run(*arguments, "--out", str(tmp_path / "out")) == 1
    said = capsys.readouterr().err
    assert "was saved in" in said
    (rescued,) = tmp_path.glob("dpbinagg-*/release")
    assert load_release(rescued).mu == 1.0


def test_an_unforeseen_error_hides_its_text(monkeypatch, capsys):
    def explode(*_, **__):
        raise RuntimeError(f"bad value {CANARY}")

    monkeypatch.setattr("dpbinagg.api.dp_ols", explode)
    assert run("fit", "wage ~ educ", WAGES, "--mu", "1") == 1
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert str(CANARY) not in said


@pytest.fixture
def survey() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    age = rng.integers(18, 80, 300)
    sex = rng.choice(["male", "female"], 300)
    return pd.DataFrame({"income": 20.0 + 0.5 * age + rng.normal(size=300), "age": age, "sex": sex})


BOUNDS = {"income": (0, 100), "age": range(18, 91)}


def write_labelled(frame: pd.DataFrame, path: Path) -> None:
    codes = frame.assign(sex=frame["sex"].map({"male": 1, "female": 2}).astype("int8"))
    labels = {"sex": {1: "male", 2: "female"}}
    if path.suffix == ".dta":
        codes.to_stata(path, write_index=False, value_labels=labels)
    else:
        pyreadstat = pytest.importorskip("pyreadstat")
        pyreadstat.write_sav(codes, str(path), variable_value_labels=labels)


@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_levels_are_declared_by_code_or_by_label(survey, tmp_path, ending):
    path = tmp_path / f"survey.{ending}"
    write_labelled(survey, path)
    fits = [
        dp_ols("income ~ age + C(sex)", path, mu=5, bounds={**BOUNDS, "sex": levels}, rng=1)
        for levels in (["male", "female"], {"levels": [1, 2]}, ["1", "2"])
    ]
    assert "C(sex)[T.female]" in fits[0].params.index
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.params, fits[0].params)


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "dta", "sav", "xlsx"])
def test_every_format_gives_the_same_regression(survey, tmp_path, ending):
    path = tmp_path / f"survey.{ending}"
    if ending in ("csv", "tsv"):
        survey.to_csv(path, index=False, sep="," if ending == "csv" else "\t")
    elif ending == "parquet":
        survey.to_parquet(path)
    elif ending == "xlsx":
        pytest.importorskip("openpyxl")
        survey.to_excel(path, index=False)
    else:
        write_labelled(survey, path)
    domain = Domain({**BOUNDS, "sex": ["male", "female"]})
    formula = "income ~ age + C(sex)"
    found = dp_ols(formula, path, mu=5, bounds=domain, rng=1)
    expected = dp_ols(formula, survey, mu=5, bounds=domain, rng=1)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)


@pytest.mark.parametrize("where", ["folder", "folder/*.parquet", "survey.csv.gz"])
def test_folders_patterns_and_packed_files_are_streamed(survey, tmp_path, where, capsys):
    (tmp_path / "folder").mkdir()
    survey[:200].to_parquet(tmp_path / "folder" / "a.parquet")
    survey[200:].to_parquet(tmp_path / "folder" / "b.parquet")
    survey.to_csv(tmp_path / "survey.csv.gz", index=False)
    bounds = ("--bound", "income=0,100", "--bound", "age=18,90", "--bound", "sex=male|female")
    arguments = ("fit", "income ~ age + C(sex)", str(tmp_path / where), "--mu", "5", *bounds)
    assert run(*arguments, "--rng", "1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    domain = {"income": (0, 100), "age": (18, 90), "sex": ["male", "female"]}
    expected = dp_ols("income ~ age + C(sex)", survey, mu=5, bounds=domain, rng=1)
    values = [row["estimate"] for row in found["coefficients"]]
    np.testing.assert_allclose(values, expected.params, rtol=1e-9)


def test_a_sheet_is_found_by_its_name(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"x": [1.0]}).to_excel(book, sheet_name="first", index=False)
        pd.DataFrame({"x": [2.0]}).to_excel(book, sheet_name="second", index=False)
    domain = Domain({"x": (0, 9)})
    for name, value in ((None, 1.0), ("first", 1.0), ("second", 2.0)):
        (batch,) = open_source(path, sheet=name).batches(domain, ["x"])
        assert batch["x"].tolist() == [value]
    with pytest.raises(DataError, match=r"has no sheet 'third'; check sheet= \(--sheet\)"):
        open_source(path, sheet="third")


@pytest.mark.parametrize("ending", ["csv", "parquet", "dta", "sav", "xlsx"])
def test_codebooks_show_the_schema_and_no_value(survey, tmp_path, ending, capsys):
    path = tmp_path / f"survey.{ending}"
    survey["income"] += CANARY
    if ending == "csv":
        survey.to_csv(path, index=False)
    elif ending == "xlsx":
        survey.to_excel(path, index=False)
    elif ending == "parquet":
        survey.astype({"sex": "category"}).to_parquet(path)
    else:
        write_labelled(survey, path)
    out = tmp_path / "codebook.csv"
    assert run("codebook", str(path), "--out", str(out)) == 0
    text = out.read_text()
    header = "name,type,lower,upper,levels,labels,missing,unit,description"
    assert text.splitlines()[0] == header
    assert "98" not in text
    if ending in ("dta", "sav"):
        assert "\nsex,,,,1|2,male|female,,,\n" in text
        with pytest.raises(DomainError, match=r"'sex': type must be .+: fill it in"):
            Domain.from_csv(out)
        out.write_text(text.replace("sex,,", "sex,categorical,"))
        assert Domain.from_csv(out)["sex"].label_of == {"1": "male", "2": "female"}
    assert run("codebook", str(path), "--out", str(out)) == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "spoiled",
    ["12,abc\n", "12\n", "1,2,3,4\n", "é,\xff\n", ",\n", "1e999,nan\n"],
    ids=["word", "short", "long", "letters", "empty", "huge"],
)
def test_one_odd_line_changes_no_message(tmp_path, capsys, spoiled):
    """A neighbouring file must not be told by an error: every line is read by the same rule."""
    rows = "".join(f"{x},{x % 7}\n" for x in range(200))
    path = tmp_path / "table.csv"
    path.write_bytes(("y,x\n" + rows + spoiled).encode("latin-1"))
    bounds = ("--bound", "y=0,200", "--bound", "x=0,7")
    assert run("fit", "y ~ x", str(path), "--mu", "1", *bounds) == 0
    assert "error" not in capsys.readouterr().err


def test_a_damaged_file_is_refused_without_its_content(tmp_path):
    for ending in ("parquet", "dta", "sav", "xlsx"):
        path = tmp_path / f"table.{ending}"
        path.write_bytes(f"this is {CANARY}, not a table".encode())
        with pytest.raises(DataError) as error:
            open_source(path)
        assert str(CANARY) not in str(error.value)
        assert error.value.__cause__ is None


def test_tables_are_written_and_read_back(tmp_path):
    frame = pd.DataFrame(
        {
            "x": [1.5, 2.5],
            "flag": [True, False],
            "sex": pd.Categorical(["f", "m"], categories=["m", "f"]),
        }
    )
    write_table(frame, tmp_path / "t.dta")
    back = pd.read_stata(tmp_path / "t.dta")
    assert list(back["sex"].cat.categories) == ["m", "f"]
    assert back["flag"].tolist() == [1, 0]
    with pytest.raises(DataError, match="its folder does not exist"):
        write_table(frame, tmp_path / "absent" / "t.csv")
