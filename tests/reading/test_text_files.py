"""Text files: separators, decimal marks, encodings, headers, long lines, folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpbinagg import DataError, Domain, dp_release, open_table
from dpbinagg.reading import open_source, text

DOMAIN = Domain({"x": (0, 10), "g": ["süd", "nord"], "y": (0, 10)})


def columns(source: Any, *names: str, domain: Domain = DOMAIN) -> dict[str, list[float]]:
    batches = list(open_source(source).batches(domain, names))
    return {n: np.concatenate([b[n] for b in batches]).tolist() for n in names}


def test_separator_decimal_and_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    text = "x;g;y\n1,5;süd;2\n2,5;nord;3,25\n"
    for encoding in ("utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le"):
        path.write_bytes(text.encode(encoding))
        table = open_table(path, decimal=",", encoding=encoding)
        assert columns(table, "x", "g", "y") == {"x": [1.5, 2.5], "g": [0, 1], "y": [2, 3.25]}
    path.write_bytes(text.replace(";", "\t").encode())
    found = columns(open_table(path, separator="\t", decimal=","), "x", "g")
    assert found == {"x": [1.5, 2.5], "g": [0, 1]}


def test_the_separator_comes_from_the_header_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1;2\n3;4\n5,6\n")
    found = columns(path, "x", "y")
    assert found["x"][2:] == [5.0]
    assert np.isnan(found["x"][:2]).all()


def test_only_the_header_must_be_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,y\n1,2\n\xff,3\n")
    np.testing.assert_array_equal(columns(path, "x", "y")["x"], [1.0, np.nan])
    path.write_bytes(b"\xff,y\n1,2\n")
    with pytest.raises(DataError, match=r"first line .+ cannot be read as utf-8 text; say which"):
        open_source(path)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"separator": ";;"}, "separator must be one character"),
        ({"separator": '"'}, "separator must be one character"),
        ({"decimal": "'"}, "decimal must be '.' or ','"),
        ({"separator": ",", "decimal": ","}, "they must differ"),
        ({"encoding": "klingon"}, "encoding must be a name"),
        ({"sheet": "one"}, "sheet= is for a workbook"),
    ],
)
def test_options_that_cannot_be(options: dict[str, str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match=said):
        open_table(path, **options)


def test_options_of_files_are_not_for_tables() -> None:
    import pandas as pd

    with pytest.raises(DataError, match="decimal= is for files; data is a DataFrame"):
        open_table(pd.DataFrame({"x": [1.0]}), decimal=",")


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_blocks_of_any_size_hold_the_same_lines(size: int, tmp_path: Path) -> None:
    content = b"1\n22\n\n" + b"3" * 50 + b"\nlast"
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with open(path, "rb") as file:
        blocks = list(text.whole_lines(file, size))
    assert b"".join(blocks) == content
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def test_a_line_that_never_ends_is_one_unreadable_record(tmp_path: Path) -> None:
    for tail in (b"\n5\n", b""):
        path = tmp_path / "a.txt"
        path.write_bytes(b"1\n" + b"9" * 1000 + tail)
        with open(path, "rb") as file:
            content = b"".join(text.whole_lines(file, 16, longest=100))
        assert content == b"1\n" + text.UNREADABLE + tail[1:]


def test_files_of_a_folder_name_their_own_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,g,y\n1,nord,2\n")
    (tmp_path / "b.csv").write_text("y;x;extra;g\n4;3;;nord\n")
    for data in (tmp_path, str(tmp_path / "*.csv")):
        assert columns(data, "x", "y") == {"x": [1.0, 3.0], "y": [2.0, 4.0]}
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    with pytest.raises(DataError, match="no column 'g'"):
        dp_release("y ~ C(g)", tmp_path, 1, bounds=DOMAIN)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("", "must name the columns"),
        (",,", "must name the columns"),
        ("x,y,x", "several columns named 'x'"),
        ("x\ry,y", "must name the columns"),
    ],
)
def test_headers_that_name_no_columns(header: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(header.encode() + b"\n1,2,3\n")
    with pytest.raises(DataError, match=said):
        dp_release("y ~ x", path, 1, bounds=DOMAIN)


def test_a_column_that_is_named_twice_but_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('"x","y","",z,z\n1,2,3,4,5\n')
    assert columns(path, "x", "y") == {"x": [1.0], "y": [2.0]}


def test_nothing_of_a_source_shows() -> None:
    import pickle

    from dpbinagg.datasets import data_path

    source = open_table(data_path("school"))
    assert repr(source) == "<TextSource: private>"
    (part, *_) = source.parts(DOMAIN, [])
    for guarded in (source, part):
        with pytest.raises(TypeError, match="private records are not pickled"):
            pickle.dumps(guarded)
    assert "score" not in repr(part)
