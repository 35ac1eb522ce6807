"""What nobody declared is refused by the schema, before anything is charged, with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbinagg import (
    DataError,
    Domain,
    DomainError,
    Ledger,
    NothingLeftError,
    dp_ols,
    dp_release,
)
from dpbinagg.cli import main

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

N = 60
BOUNDS: dict[str, Any] = {"y": (0, 10), "x": (0, 10)}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "y": rng.uniform(0, 10, N),
            "x": rng.uniform(0, 10, N),
            "region": pd.Categorical(rng.choice(["north", "south"], N)),
            "word": rng.choice(["a", "b"], N),
            "flag": rng.random(N) < 0.5,
            "unused": pd.Categorical(["only one"] * N),
        }
    )


CATEGORY = (
    "column 'region' is a category, but its levels are not declared: dtype category lists levels "
    "that may have been learnt from the records, and then the names of the coefficients, and which "
    "level is the reference, could depend on a single person. Declare every level that may occur, "
    'the reference first: bounds={"region": ["first", "second", ...]}. Or, if the categories of '
    "the dtype are public (they come from a questionnaire or a codebook, not from the data), say "
    "so: from dpbinagg import Domain; bounds=Domain.from_frame(df), and with other bounds "
    'bounds=Domain.from_frame(df).updated({"age": (18, 90)})'
)


@pytest.mark.parametrize(
    "formula", ["y ~ region", "y ~ x + C(region)", "y ~ x*region", "y ~ Q('region')"]
)
def test_a_category_whose_levels_nobody_declared(formula: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", mu=1.0)
    with pytest.raises(DomainError) as caught:
        dp_ols(formula, table(), mu=1, bounds=BOUNDS, ledger=ledger)
    assert str(caught.value) == CATEGORY
    assert len(ledger.entries()) == 0
    assert "north" not in str(caught.value)


def test_the_remedies_work_as_they_are_written() -> None:
    df = table()
    by_dtype = dp_ols(
        "y ~ x + region", df, mu=1, bounds=Domain.from_frame(df).updated(BOUNDS), rng=1
    )
    listed = {**BOUNDS, "region": ["north", "south"]}
    by_list = dp_ols("y ~ x + region", df, mu=1, bounds=listed, rng=1)
    in_formula = dp_ols(
        "y ~ x + C(region, levels=['north', 'south'])", df, mu=1, bounds=BOUNDS, rng=1
    )
    np.testing.assert_array_equal(by_list.params, by_dtype.params)
    np.testing.assert_array_equal(in_formula.params, by_dtype.params)


def test_categories_of_other_tables() -> None:
    df = table()[["y", "x", "region"]]
    arrow = pa.Table.from_pandas(df, preserve_index=False)
    enum = pl.from_arrow(arrow).with_columns(pl.col("region").cast(pl.Enum(["north", "south"])))
    for data in (arrow, enum, enum.with_columns(pl.col("region").cast(pl.Categorical)).lazy()):
        with pytest.raises(DomainError, match=r"'region' is a category.+Domain.from_csv"):
            dp_release("y ~ C(region)", data, 1, bounds=BOUNDS)
    assert Domain.from_frame(enum)["region"].levels == ("north", "south")


def test_what_the_formula_does_not_use_is_not_refused() -> None:
    assert dp_release("y ~ x", table(), 1, bounds=BOUNDS, rng=1).n_bins


def test_text_is_neither_guessed_to_be_a_category_nor_a_number() -> None:
    df = table()
    df["word"] = df["word"].astype("string")
    said = r"'word' holds text .+ not declared; .+: bounds=\{\"word\": \[.+\(low, high\)"
    for data in (df, pa.Table.from_pandas(df), pl.from_pandas(df)):
        with pytest.raises(DomainError, match=said):
            dp_release("y ~ word", data, 1, bounds=BOUNDS)
    with pytest.raises(DomainError, match=r"'word' holds objects of any type \(dtype object\)"):
        dp_release("y ~ word", df.astype({"word": object}), 1, bounds=BOUNDS)
    with pytest.raises(NothingLeftError, match=r"word is missing in about 100%"):
        dp_release("y ~ word", df, 1, bounds={**BOUNDS, "word": (None, None)}, rng=1)
    assert dp_release("y ~ word", df, 1, bounds={**BOUNDS, "word": ["a", "b"]}, rng=1).mu <= 1


def test_a_stored_truth_value_has_two_levels_and_pandas_text_has_none() -> None:
    """`pd.read_csv` makes a column of true and false bool, or text if one cell is another word.

    Before pandas 3 text is of type object unless it is asked for.
    """
    df = table()
    truth = dp_release("y ~ flag", df, 1, bounds=BOUNDS, rng=1)
    assert truth.column_names == ("Intercept", "flag[T.True]")
    spoiled = df.astype({"flag": str}).astype({"flag": "string"})
    spoiled.loc[0, "flag"] = "perhaps"
    with pytest.raises(DomainError, match="'flag' holds text"):
        dp_release("y ~ flag", spoiled, 1, bounds=BOUNDS)
    declared = {**BOUNDS, "flag": [False, True]}
    kinds = (df, spoiled, df.astype({"flag": object}), df.astype({"flag": float}))
    assert [released_records("y ~ flag", kind, declared) for kind in kinds] == [N, N - 1, N, N]


@pytest.fixture(params=["dta", "sav"])
def labelled(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Codes with labels for some: 1 and 2 are answers, 9 is none; ages, of which 99 is none."""
    path = tmp_path / f"survey.{request.param}"
    rng = np.random.default_rng(2)
    codes = pd.DataFrame(
        {
            "y": rng.uniform(0, 10, N),
            "sex": rng.choice([1, 2, 9], N).astype("int8"),
            "age": rng.choice([30, 40, 50, 99], N).astype("int8"),
        }
    )
    labels: Any = {"sex": {1: "male", 2: "female", 9: "refused"}, "age": {99: "no answer"}}
    if path.suffix == ".dta":
        codes.to_stata(path, write_index=False, value_labels=labels)
    else:
        spss = pytest.importorskip("pyreadstat")
        spss.write_sav(codes, str(path), variable_value_labels=labels)
    return path


def test_value_labels_do_not_decide_what_a_column_is(labelled: Path) -> None:
    with pytest.raises(DomainError) as caught:
        dp_release("y ~ age", labelled, 1, bounds=BOUNDS)
    said = str(caught.value)
    assert said.startswith("column 'age' has value labels (99 = \"no answer\") and is not declared")
    for remedy in ('bounds={"age": {"levels": [99]}}', 'bounds={"age": (low, high)}', '"missing"'):
        assert remedy in said
    with pytest.raises(DomainError, match='1 = "male", 2 = "female", 9 = "refused"'):
        dp_release("y ~ C(sex)", labelled, 1, bounds=BOUNDS)


def test_codes_of_missing_answers_are_missing_wherever_they_are(labelled: Path) -> None:
    codes = stored_codes(labelled)
    kept = int(((codes["sex"] != 9) & (codes["age"] != 99)).sum())
    assert 0 < kept < N
    age = {"lower": 18, "upper": 90, "missing": [99]}
    by_code = {"levels": [1, 2], "labels": ["male", "female"], "missing": [9]}
    by_label = {"levels": ["male", "female"], "missing": [9]}
    cases = [(labelled, by_code), (labelled, by_label), (codes, by_code)]
    cases += [(codes.astype(str), by_code), (pa.Table.from_pandas(codes), by_code)]
    for data, sex in cases:
        bounds = {"y": (0, 10), "sex": sex, "age": age}
        assert released_records("y ~ C(sex) + age", data, bounds) == kept


def stored_codes(path: Path) -> pd.DataFrame:
    """The codes of a labelled file, by a reader of another package."""
    if path.suffix == ".dta":
        return pd.read_stata(path, convert_categoricals=False)
    import pyreadstat

    frame: pd.DataFrame = pyreadstat.read_sav(str(path), apply_value_formats=False)[0]
    return frame


def released_records(formula: str, data: Any, bounds: dict[str, Any]) -> int:
    """The released number of complete records, with next to no noise."""
    made = dp_release(formula, data, 1e3, bounds=bounds, partition="grid", rng=1)
    return round(float(made.statistics["count"].sum()))


def test_the_way_from_a_labelled_file_to_a_fit(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    book = tmp_path / "codebook.csv"
    assert main(["codebook", str(labelled), "--out", str(book)]) == 0
    text = book.read_text()
    assert "sex,,,,1|2|9,male|female|refused,,,\n" in text
    assert "age,,,,99,no answer,,,\n" in text
    text = text.replace("sex,,,,1|2|9,male|female|refused,", "sex,categorical,,,1|2,male|female,9")
    text = text.replace("age,,,,99,no answer,", "age,integer,18,90,,,99").replace(
        "y,numeric,,", "y,numeric,0,10"
    )
    book.write_text(text)
    fit = ("fit", "y ~ C(sex) + age", str(labelled), "--mu", "1", "--bounds", str(book))
    assert main([*fit, "--rng", "1", "--out", str(tmp_path / "made")]) == 0
    from dpbinagg import load_release

    domain = load_release(tmp_path / "made").domain
    assert domain["sex"].labels == ("male", "female")
    assert domain["sex"].missing == (9,)
    assert domain["age"].missing == (99,)
    capsys.readouterr()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_codebook_for_a_folder(kind: str, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(2):
        frame = table().drop(columns="unused")
        path = folder / f"{part}.{kind}"
        frame.to_parquet(path) if kind == "parquet" else frame.to_csv(path, index=False)
    assert main(["codebook", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    kinds = {line.split(",")[0]: line.split(",")[1] for line in lines[1:]}
    text = {"region": "categorical", "word": "categorical", "flag": "boolean"}
    typed = {"y": "numeric", "x": "numeric", **text}
    assert kinds == (typed if kind == "parquet" else dict.fromkeys(typed, ""))
    assert "north" not in "".join(lines)


def test_names_that_are_nearly_right() -> None:
    df = table().rename(columns={"x": "education"})
    with pytest.raises(DomainError, match=r"bounds\['educaton'\].+did you mean 'education'"):
        dp_release("y ~ education", df, 1, bounds={"y": (0, 10), "educaton": (0, 20)})
    with pytest.raises(DataError, match=r"no column 'educatoin'.+did you mean 'education'\?"):
        dp_release("y ~ educatoin", df, 1, bounds={"y": (0, 10)})
    codebook = {"y": (0, 10), "education": (0, 20), "educations": (0, 1), "other": ["a"]}
    assert dp_release("y ~ education", df, 1, bounds=codebook, rng=1).mu == 1


def test_a_list_of_two_numbers_has_two_readings() -> None:
    with pytest.raises(DomainError) as caught:
        dp_release("y ~ x", table(), 1, bounds={"x": [0, 20]})
    said = str(caught.value)
    assert "{'x': (0, 20)}" in said
    assert "{'x': {\"levels\": [0, 20]}}" in said
    for meant in ((0, 20), {"levels": [0, 20]}):
        assert "x" in Domain({"x": meant})


def test_a_date_is_no_number_and_no_category() -> None:
    df = table().assign(x=pd.Timestamp("2020-01-31"))
    with pytest.raises(DataError, match="'x' must be numeric, but its dtype is datetime64"):
        dp_release("y ~ x", df, 1, bounds=BOUNDS)
