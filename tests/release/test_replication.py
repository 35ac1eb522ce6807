"""What a replicator finds: scripts that stop unless they find the released coefficients."""

import dataclasses
import io
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
from release_data import BOUNDS, ODD_BOUNDS, wages
from stata import DoFile, evaluate

from dpbinagg import Domain, combine_copies, dp_ols
from dpbinagg.release import exports
from dpbinagg.release.dialects import (
    R_WORDS,
    STATA_WORDS,
    is_plain_in_stata,
    r_dialect,
    r_variables,
    short_names,
    stata_dialect,
    stata_variables,
)
from dpbinagg.report.results import DPResults


@pytest.fixture(params=["saved", "odd_saved"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def changed(folder, tmp_path):
    """The folder with one coefficient changed in its fifth digit."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    table = pd.read_csv(copy / "coefficients.csv")
    table.loc[1, "estimate"] += 1e-3 * table.loc[1, "std_error"]
    table.to_csv(copy / "coefficients.csv", index=False)
    return copy


def test_the_python_script_reproduces_the_coefficients(folder, changed, run_python):
    done = run_python(folder, "replicate.py")
    assert done.returncode == 0, done.stderr
    assert "AssertionError" in run_python(changed, "replicate.py").stderr


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_the_r_script_reproduces_the_coefficients(folder, run_r, locale):
    run_r(folder, "replicate.R", LC_ALL=locale)


def test_the_r_script_stops_at_another_coefficient(changed, run_r):
    with pytest.raises(AssertionError, match="Execution halted"):
        run_r(changed, "replicate.R")


def test_the_do_file_checks_every_coefficient(folder, tmp_path):
    found = DoFile(folder)
    released = pd.read_csv(folder / "coefficients.csv")
    assert found.checks == len(released)
    in_order = [*list(found.coefficients)[-1:], *list(found.coefficients)[:-1]]
    np.testing.assert_allclose(
        [found.coefficients[name] for name in in_order], released["estimate"], rtol=1e-7
    )
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    text = (copy / "replicate.do").read_text(encoding="utf-8")
    # As Python reads it: pandas 2 is off by a last bit.
    value = repr(float(pd.read_csv(folder / "coefficients.csv", dtype=str)["estimate"][1]))
    assert text.count(f"({value})") == 1
    other = float(value) + 1e-3 * released["std_error"][1]
    (copy / "replicate.do").write_text(text.replace(value, repr(float(other))), encoding="utf-8")
    with pytest.raises(AssertionError, match="assert abs"):
        DoFile(copy)


def evaluate_like_r(text, columns):
    return evaluate(text.replace("`", ""), {**columns, "TRUE": True, "FALSE": False})


@pytest.mark.parametrize("dialect", [r_dialect, stata_dialect])
def test_scripts_compute_the_design_columns(release, saved, dialect):
    table = pd.read_csv(saved / "synthetic.csv", keep_default_na=False, dtype={"region": str})
    columns = {name: table[name].to_numpy() for name in table}
    if dialect is stata_dialect:
        columns["union"] = np.where(table["union"], "TRUE", "FALSE")
    text = dialect(release.domain, list(table)).columns(release.design)
    records = {
        name: table[name].map({v: i for i, v in enumerate(BOUNDS[name])}).to_numpy()
        if isinstance(BOUNDS[name], list)
        else table[name].to_numpy()
        for name in release.design.variables
    }
    expected = release.design.columns(records)
    compute = evaluate if dialect is stata_dialect else evaluate_like_r
    assert text[0] == "1"
    for j in range(1, len(text)):
        got = compute(text[j], columns)
        np.testing.assert_allclose(got, expected[:, j], rtol=1e-12, atol=1e-12)
    response = dialect(release.domain, list(table)).response(release.design)
    assert response == ("log(wage)" if dialect is r_dialect else "ln(wage)")


def test_scripts_read_words_as_words_and_fit_by_raw_names(saved):
    script = (saved / "replicate.R").read_text()
    header = (saved / "synthetic.csv").read_text().splitlines()[0].split(",")
    kinds = dict.fromkeys(header, "numeric") | {"region": "character", "union": "logical"}
    quoted = ", ".join(f'"{kind}"' for kind in kinds.values())
    assert f"colClasses = c({quoted})" in script
    assert "lm(log(wage) ~ " in script
    do_file = (saved / "replicate.do").read_text()
    places = [header.index("region") + 1, header.index("union") + 1]
    assert f"stringcols({' '.join(map(str, sorted(places)))})" in do_file
    assert "generate double dp_y = ln(wage)" in do_file


def test_names_in_r_and_stata():
    columns = ["if", "in", "TRUE", "using", "hours per week", "größe", "dp_v1", "a`b", "x" * 40]
    stata = stata_variables(columns)
    assert stata["dp_v1"] == "dp_v1"
    assert stata["TRUE"] == "TRUE"
    assert stata["if"] == "dp_v1_2"
    assert all(is_plain_in_stata(name) for name in stata.values())
    assert len(set(stata.values())) == len(columns)
    r = r_variables(columns)
    assert [r[name] for name in columns[:5]] == [
        "`if`", "`in`", "`TRUE`", "using", "`hours per week`",
    ]  # fmt: skip
    assert r["größe"] == "dp_v6"
    assert r["a`b"] == "dp_v8"
    assert r["x" * 40] == "x" * 40
    assert {"if", "TRUE"} <= R_WORDS
    assert {"if", "in", "using"} <= STATA_WORDS


def test_short_names_are_names_and_differ():
    terms = ["Intercept", "a b", "a.b", "a_b", 'Q("if")', "1", "_cons", "x" * 50, "x" * 51, "é", ""]
    names = short_names(terms, 0)
    assert names[:4] == ["_cons", "a_b", "a_b_2", "a_b_3"]
    assert len(set(names)) == len(names)
    assert all(is_plain_in_stata(name) for name in names[1:])
    assert all(len(name) <= 32 for name in names)


def test_formulas_beyond_r_come_with_their_design_columns(tmp_path, run_python):
    formula = "wage ~ bs(exper, knots=(10, 20), degree=3, lower_bound=0, upper_bound=40) + educ"
    result = dp_ols(formula, wages(3000), mu=3, bounds=BOUNDS, rng=1)
    folder = result.save(tmp_path / "x", rng=1, report=False)
    assert "synthetic_design.csv" in (folder / "replicate.R").read_text()
    assert run_python(folder, "replicate.py").returncode == 0
    assert DoFile(folder).checks == len(result.params)
    assert "`synthetic_design.csv`" in (folder / "README.md").read_text()


def test_formulas_beyond_r_are_fitted_in_r(tmp_path, run_r):
    formula = "wage ~ 0 + bs(exper, knots=(10, 20), degree=3, lower_bound=0, upper_bound=40)"
    result = dp_ols(formula, wages(3000), mu=3, bounds=BOUNDS, rng=1)
    folder = result.save(tmp_path / "x", rng=1, report=False)
    run_r(folder, "replicate.R")
    assert DoFile(folder).checks == len(result.params)


@pytest.mark.parametrize(
    "formula",
    [
        "wage ~ 1",
        "wage ~ 0 + educ",
        "np.sqrt(wage) ~ educ + I(np.where(exper > 10, exper, 10)) + np.abs(exper - 20)",
        "I(wage > 5) ~ C(region, Sum) * educ",
    ],
)
def test_scripts_of_other_formulas(tmp_path, run_python, run_r, formula):
    result = dp_ols(formula, wages(3000), mu=3, bounds=BOUNDS, rng=1)
    folder = result.save(tmp_path / "x", rng=1, report=False)
    assert run_python(folder, "replicate.py").returncode == 0
    assert DoFile(folder).checks == len(result.params)
    run_r(folder, "replicate.R")
    run_r(folder, "-e", 'source("dpbinagg.R"); m <- read_release("."); summary(m); tidy(m)')


def test_the_codebook_is_a_domain(release, saved):
    declared = Domain.from_csv(saved / "codebook.csv")
    table = pd.read_csv(saved / "synthetic.csv", keep_default_na=False, dtype={"region": str})
    assert list(declared) == list(table.columns)
    assert declared["educ"] == release.domain["educ"]
    assert declared["region"].levels == tuple(BOUNDS["region"])


def test_copies_give_the_errors(odd, odd_saved):
    copies = pd.read_csv(odd_saved / "synthetic_copies.csv")
    assert sorted(copies["copy"].unique()) == list(range(1, 13))
    copies["using"] = pd.Categorical(copies["using"], ODD_BOUNDS["using"])
    import statsmodels.formula.api as smf

    formula = odd.synthesize(size=50, rng=0).attrs["formula"]
    fits = [smf.ols(formula, copy).fit() for _, copy in copies.groupby("copy")]
    combined = combine_copies(fits, odd_saved)
    np.testing.assert_allclose(combined.params, odd.params, rtol=1e-6)
    np.testing.assert_allclose(combined.bse, odd.bse, rtol=1e-6)
    assert "12 synthetic tables" in (odd_saved / "README.md").read_text()


def test_a_large_table_is_a_parquet_file(odd, tmp_path, monkeypatch, run_python):
    monkeypatch.setattr(exports, "LARGE_CELLS", 1000)
    folder = odd.save(tmp_path / "x", rng=3, report=False)
    held = {path.name for path in folder.iterdir()}
    assert "synthetic.parquet" in held
    assert "synthetic.csv" not in held
    assert "arrow::read_parquet" in (folder / "replicate.R").read_text()
    assert "with the package arrow" in (folder / "README.md").read_text()
    assert "by python replicate.py --csv" in (folder / "replicate.do").read_text()
    done = run_python(folder, "replicate.py", "--csv")
    assert done.returncode == 0, done.stderr
    assert DoFile(folder).checks == len(odd.params)


def test_parquet_keeps_numbers_that_are_levels():
    table = pd.DataFrame({"k": pd.Categorical([2, 1], [1, 2]), "w": pd.Categorical(["a", "b"])})
    back = pd.read_parquet(io.BytesIO(exports.table_bytes(table, ".parquet")))
    assert back["k"].dtype == "int64"
    assert list(back["w"]) == ["a", "b"]


def test_without_pyarrow_a_large_table_is_csv(monkeypatch):
    table = pd.DataFrame({"x": np.arange(5.0)})
    monkeypatch.setattr(exports, "LARGE_CELLS", 1)
    assert list(exports.table_files(table, "t")) == ["t.parquet"]
    monkeypatch.setattr(exports, "find_spec", lambda name: None)
    assert exports.table_files(table, "t") == {"t.csv": b"x\n0.0\n1.0\n2.0\n3.0\n4.0\n"}


def test_bins_are_readable_by_others(release, saved):
    table = pd.read_csv(saved / "bins.csv")
    assert len(table) == release.n_bins
    # Up to a last bit, by which pandas 2 is off.
    np.testing.assert_allclose(table["count"], release.statistics["count"], rtol=1e-15)
    np.testing.assert_array_equal(table["exper from"], release.partition.boxes.lower["exper"])
    moments = pd.read_csv(saved / "moments.csv")
    assert len(moments) == release.statistics["moments"].size


def test_a_smaller_model_has_scripts_of_its_own(release, tmp_path, run_python, run_r):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = release.ols("np.log(wage) ~ educ + np.sqrt(exper)")
    folder = small.save(tmp_path / "small", rng=1)
    assert run_python(folder, "replicate.py").returncode == 0
    assert DoFile(folder).checks == 3
    run_r(folder, "replicate.R")


def test_a_coefficient_that_is_not_identified_is_left_open(odd, tmp_path, run_python, run_r):
    """No number in any file, and scripts that check the others."""
    inner = odd._results
    known = np.arange(len(inner.params)) != 2
    estimate = dataclasses.replace(inner.estimate, identified_terms=known)
    family = {**inner._family, estimate.name: estimate}
    res = DPResults(inner.release, estimate, family, inner.design)
    folder = res.save(tmp_path / "x", rng=1)
    table = pd.read_csv(folder / "coefficients.csv")
    cov = pd.read_csv(folder / "vcov.csv").iloc[:, 1:].to_numpy()
    np.testing.assert_array_equal(table["estimate"].notna(), known)
    np.testing.assert_array_equal(np.isfinite(cov), np.outer(known, known))
    assert table["short_name"].notna().all()
    assert run_python(folder, "replicate.py").returncode == 0
    assert DoFile(folder).checks == known.sum()
    run_r(folder, "replicate.R")
