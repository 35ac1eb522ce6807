"""Files and other engines' tables: no record decides how a call ends, none shows in an error."""

from __future__ import annotations

import gzip
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_canaries import WORD, assert_clean, everything

from dpbinagg import Budget, Release, dp_release
from dpbinagg.errors import DPBinAggError

BOUNDS = {"x": (0, 10), "g": ["a", "b"], "y": (0, 10)}
SMALL = Budget(ranges=0, scores=0)
SECRET = 987654.321


def lines(n: int = 60) -> list[str]:
    rng = np.random.default_rng(1)
    levels = rng.choice(["a", "b"], n)
    return [f"{rng.uniform(0, 10):.3f},{g},{rng.uniform(0, 10):.3f}" for g in levels]


ODD: dict[str, bytes] = {
    "text for a number": f"{WORD},a,1".encode(),
    "too few cells": f"{SECRET}".encode(),
    "too many cells": f"{SECRET},a,1,2,3,4,5".encode(),
    "an empty line": b"",
    "only commas": b",,",
    "a stray quote": f'1{WORD}"2,a,1'.encode(),
    "quoted": f'"{SECRET}","a","1"'.encode(),
    "a line break in quotes": f'"1\n{SECRET}",a,1'.encode(),
    "quotes in quotes": f'1,"""{WORD}""",1'.encode(),
    "bytes that are no text": b"\xff\xfe\xfa," + str(SECRET).encode() + b",1",
    "bytes that are no text in a level": b"1,\xff\xfe" + WORD.encode("latin-1") + b",1",
    "a null byte": b"1\x00" + str(SECRET).encode() + b",a,1",
    "a very long cell": b"1," + b"q" * 3_000_000 + str(SECRET).encode() + b",1",
    "a very long number": b"9" * 400 + b",a,1",
    "infinity": b"inf,a,nan",
    "a comment": f"# {SECRET}".encode(),
    "an undeclared level": f"1,{WORD},1".encode(),
    "unicode digits": "١٢,a,1".encode(),
}
MALFORMED: dict[str, bytes] = {
    "an open quote": f'"{SECRET},a,1'.encode(),
    "a carriage return": f"1,a,1\r{SECRET}".encode(),
    "a carriage return in a number": f"1\r{SECRET},a,1".encode(),
}
"""What no program writes that knows how to write CSV: these are not records."""


def write(path: Path, extra: list[bytes], where: str) -> Path:
    body = [line.encode() for line in lines()]
    rows = [*extra, *body] if where == "first" else [*body, *extra]
    content = b"\n".join([b"x,g,y", *rows]) + b"\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def outcome(data: Any, **changes: Any) -> tuple[str, list[str], str]:
    """How a call ends: kind and text, warnings, and all that its error holds."""
    given = {"bounds": BOUNDS, "budget": SMALL, "rng": 1, **changes}
    held = ""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            end = type(dp_release("y ~ x + C(g)", data, 1.0, **given)).__name__
        except Exception as error:
            end, held = f"{type(error).__name__}: {error}", everything(error)
    return end, [str(warning.message) for warning in heard], held


@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_lines_of_a_csv_file(name: str, where: str, suffix: str, tmp_path: Path) -> None:
    plain = outcome(str(write(tmp_path / f"plain{suffix}", [], where)))
    odd = outcome(str(write(tmp_path / f"odd{suffix}", [ODD[name]], where)))
    assert_clean("error", odd[0] + odd[2])
    assert odd == plain
    assert plain[0] == Release.__name__


@pytest.mark.parametrize("name", ODD)
def test_a_line_counts_as_one_record_at_most(name: str, tmp_path: Path) -> None:
    """No line of a well-formed file takes others with it: that would be worth more than one."""
    path = write(tmp_path / "a.csv", [ODD[name]], "first")
    made = dp_release("y ~ x", str(path), 1e6, bounds=BOUNDS, partition="grid", budget=SMALL, rng=1)
    assert 59.9 < float(made.statistics["count"].sum()) < 61.1


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_files(name: str, tmp_path: Path) -> None:
    """They may end in an error, but in one that quotes nothing."""
    end, heard, held = outcome(str(write(tmp_path / "a.csv", [MALFORMED[name]], "first")))
    assert end.startswith(("Release", "DataError"))
    assert not heard
    assert_clean("error", end + held)


def frames() -> dict[str, Callable[[dict[str, list[Any]]], Any]]:
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")

    def relation(columns: dict[str, list[Any]]) -> Any:
        import duckdb

        return duckdb.from_arrow(pa.table(columns), connection=duckdb.connect())

    return {
        "polars": pl.DataFrame,
        "polars lazy": pl.LazyFrame,
        "arrow": pa.table,
        "duckdb": relation,
    }


VALUES: dict[str, dict[str, Any]] = {
    "nan": {"x": float("nan")},
    "infinite": {"x": float("inf"), "y": float("-inf")},
    "beyond the bounds": {"x": 1e300, "y": -1e300},
    "null": {"x": None, "g": None},
    "undeclared": {"g": WORD},
    "empty text": {"g": ""},
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("kind", ["polars", "polars lazy", "arrow", "duckdb"])
def test_values_in_other_tables(kind: str, name: str) -> None:
    rng = np.random.default_rng(1)
    columns: dict[str, list[Any]] = {
        "x": rng.uniform(0, 10, 40).tolist(),
        "g": rng.choice(["a", "b"], 40).tolist(),
        "y": rng.uniform(0, 10, 40).tolist(),
    }
    record = {"x": 1.0, "g": "a", "y": 1.0, **VALUES[name]}
    more = {key: [*column, record[key]] for key, column in columns.items()}
    make = frames()[kind]
    plain, odd = outcome(make(columns)), outcome(make(more))
    assert odd == plain
    assert plain[0] == Release.__name__
    assert outcome(pd.DataFrame(columns)) == plain


def _file(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


HIDDEN = str(SECRET).encode()
BROKEN: dict[str, Callable[[Path], str]] = {
    "an empty csv": lambda folder: _file(folder / "a.csv", b""),
    "a header only": lambda folder: _file(folder / "a.csv", b"x,g,y\n"),
    "no header": lambda folder: _file(folder / "a.csv", HIDDEN + b",a,1\n"),
    "a header that is no text": lambda folder: _file(folder / "a.csv", b"\xff\xfe," + HIDDEN),
    "a damaged parquet": lambda folder: _file(folder / "a.parquet", HIDDEN * 50),
    "a damaged gz": lambda folder: _file(folder / "a.csv.gz", HIDDEN * 50),
    "a cut gz": lambda folder: _file(
        folder / "a.csv.gz", gzip.compress(("\n".join(["x,g,y", *lines()])).encode())[:200]
    ),
    "no such file": lambda folder: str(folder / "none.csv"),
    "an empty folder": str,
    "another ending": lambda folder: _file(folder / "a.xyz", HIDDEN),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(name: str, tmp_path: Path) -> None:
    data = BROKEN[name](tmp_path)
    if name == "a header only":
        assert isinstance(dp_release("y ~ x", data, 1.0, bounds=BOUNDS, rng=1), Release)
        return
    with pytest.raises((DPBinAggError, ValueError, TypeError)) as caught:
        dp_release("y ~ x", data, 1.0, bounds=BOUNDS, rng=1)
    assert len(str(caught.value)) > 20
    assert_clean("error", everything(caught.value))
