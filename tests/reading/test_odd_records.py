"""One record changes nothing about the others, in any file, wherever it stands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from odd_files import (
    DOMAIN,
    MARK,
    NAMES,
    WRITERS,
    complete_records,
    expected_records,
    frame_with,
    gained,
    inferred,
    lines_with,
    survey,
)
from planted_readers import QuotesCrossLines, learns_types

from dpbinagg import dp_release
from dpbinagg.cli import main
from dpbinagg.reading import tables, text

pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")
pytest.importorskip("pyreadstat")

WHERE = ("first", "middle", "last")
LINES: dict[str, bytes] = {
    "a blank cell": b"50,,5,a,2020-01-31",
    "a trailing comma": b"50,2,5,a,2020-01-31,",
    "a stray quote": b'50,"2,5,a,2020-01-31',
    "a quote that closes too early": b'50,"2"0,5,a,2020-01-31',
    "two stray quotes": b'50,2,5"0,a,"2020-01-31',
    "a lone carriage return": b"50,2,5\r50,a,2020-01-31",
    "a NUL": b"50,2\0,5,a,2020-01-31",
    "bytes that are no text": b"50,2,5,\xff\xfe,2020-01-31",
    "bytes that are no text, where nobody looks": b"50,2,5,a,\xff\xfe",
    "an exponent": b"5e1,2,5,a,2020-01-31",
    "a code with a point": b"50,2.0,5,a,2020-01-31",
    "a word for a number": b"fifty,2,5,a,2020-01-31",
    "a date out of range": b"50,2,5,a,99999-99-99",
    "too few cells": b"50,2",
    "too many cells": b"1,2,3,4,5,6,7,8,9",
    "nothing": b"",
    "blanks": b"   ",
    "a comment": b"# made by hand",
    "a very long cell": b"50,2,5," + b"a" * 300_000 + b",2020-01-31",
    "a very long number": b"50," + b"2" * 500 + b",5,a,2020-01-31",
    "many blanks": b"50,2,5," + b" " * 10_000 + b"a,2020-01-31",
    "infinity": b"inf,2,5,a,2020-01-31",
}
COUNTED = {
    "bytes that are no text, where nobody looks",
    "an exponent",
    "a code with a point",
    "a date out of range",
    "many blanks",
}
"""Odd lines that are complete records."""


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("block", [64, 2**22], ids=["many blocks", "one block"])
def test_an_odd_line(
    name: str, where: str, newline: bytes, block: int, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(text, "BLOCK", block)
    path = tmp_path / "survey.csv"
    path.write_bytes(lines_with(LINES[name], where, newline))
    assert gained(complete_records(path)) == (name in COUNTED)


CELLS: dict[str, dict[str, Any]] = {
    "a blank cell": {"code": None},
    "an empty text": {"code": ""},
    "a word for a code": {"code": "refused"},
    "a number as text": {"x": "5"},
    "an exponent": {"y": "5e1"},
    "a word for a number": {"y": "fifty"},
    "a number for a word": {"g": 1.5},
    "a code with a point": {"code": 2.0},
    "an undeclared level": {"g": "c"},
    "a date out of range": {"when": "99999-99-99"},
    "infinity": {"y": "inf"},
}
KEPT = {"a number as text", "an exponent", "a code with a point", "a date out of range"}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("ending", WRITERS)
def test_an_odd_cell(ending: str, name: str, where: str, tmp_path: Path) -> None:
    path = tmp_path / f"survey{ending}"
    WRITERS[ending](frame_with(CELLS[name], where), path)
    assert gained(complete_records(path)) == (name in KEPT)


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("kind", ["objects", "inferred", "read_csv"])
def test_an_odd_cell_of_a_frame(kind: str, name: str, tmp_path: Path) -> None:
    """pandas learns types from values: with a blank, codes become floats; with a word, text."""
    frame = frame_with(CELLS[name], "middle")
    if kind == "inferred":
        frame = inferred(frame)
    if kind == "read_csv":
        frame.to_csv(tmp_path / "survey.csv", index=False)
        frame = pd.read_csv(tmp_path / "survey.csv")
    assert gained(complete_records(frame)) == (name in KEPT)


@pytest.mark.parametrize("ending", [".parquet", ".dta", ".sav"])
def test_a_text_that_is_none(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"survey{ending}"
    WRITERS[ending](frame_with({"g": MARK}, "middle"), path)
    content = path.read_bytes()
    assert MARK.encode() in content
    path.write_bytes(content.replace(MARK.encode(), b"\xff\xfe\xfa\xfb"))
    assert gained(complete_records(path)) == 0


@pytest.mark.parametrize("ending", WRITERS)
def test_every_format_says_the_same(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"survey{ending}"
    WRITERS[ending](survey(), path)
    assert complete_records(path) == expected_records()
    assert complete_records(survey()) == expected_records()


@pytest.mark.parametrize("name", ["a stray quote", "a trailing comma", "a blank cell"])
@pytest.mark.parametrize("where", WHERE)
def test_the_released_number_of_records(
    name: str, where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through Python and the command line: it moves by one record at most."""
    path = tmp_path / "survey.csv"
    path.write_bytes(lines_with(LINES[name], where))
    made = dp_release("y ~ x + C(code)", path, 200, bounds=DOMAIN, partition="grid", rng=1)
    assert len(survey()) - 0.5 < float(made.statistics["count"].sum()) < len(survey()) + 1.5
    DOMAIN.to_csv(tmp_path / "codebook.csv")
    bounds = ("--bounds", str(tmp_path / "codebook.csv"))
    fit = ("fit", "y ~ x + C(code)", str(path), "--mu", "200", *bounds, "--partition", "grid")
    assert main([*fit, "--rng", "1", "--out", str(tmp_path / "made")]) == 0
    from dpbinagg import load_release

    again = load_release(tmp_path / "made")
    assert again.statistics["count"].sum() == made.statistics["count"].sum()
    capsys.readouterr()


def test_a_column_that_nobody_asks_for_may_hold_anything(tmp_path: Path) -> None:
    """It is neither converted nor refused, whatever its type is."""
    frame = survey().assign(when=pd.Timestamp("2020-01-31"), c=1 + 2j, o=[object()] * 40)
    assert complete_records(frame) == expected_records()
    assert set(NAMES) < set(frame.columns)


@pytest.mark.parametrize(
    ("target", "fault", "line"),
    [
        ("read_numbers", learns_types, "a word for a number"),
        ("Block", QuotesCrossLines, "a stray quote"),
    ],
)
def test_planted_faults_are_caught(
    target: str, fault: Any, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks of this module would see a reader that lets one record change the others."""
    monkeypatch.setattr(text, target, fault)
    path = tmp_path / "survey.csv"
    path.write_bytes(lines_with(LINES[line], "middle"))
    with pytest.raises(AssertionError, match="a record says something else than before"):
        gained(complete_records(path))


def test_parquet_is_read_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB comes with the package, pyarrow does not."""
    path = tmp_path / "survey.parquet"
    survey().to_parquet(path)
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    assert complete_records(path) == expected_records()
    relation = tables.connection().read_parquet(str(path))
    assert complete_records(relation) == expected_records()
