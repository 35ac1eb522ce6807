"""What a cell says: numbers, levels and missing codes, in text and in stored types alike."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbinagg import Domain
from dpbinagg.public.variables import number, spelled
from dpbinagg.reading import cells as many
from dpbinagg.reading import convert
from dpbinagg.reading.cells import Lookup
from dpbinagg.reading.columns import UNDECLARED, Codes
from dpbinagg.reading.text import Block

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

NUMBERS = {
    "1": 1.0,
    " 7\t": 7.0,
    "-12.50": -12.5,
    "+3": 3.0,
    ".5": 0.5,
    "5.": 5.0,
    "1e5": 1e5,
    "2.5E-3": 0.0025,
    "TRUE": 1.0,
    "False": 0.0,
}
NO_NUMBERS = (
    *("", " ", ".", "-", "e5", "1e", "1,000", "1 000", "1_000", "0x10", "1.2.3", "--1", "1-"),
    *("inf", "-Infinity", "nan", "NA", "1e999", "١٢", "twelve", "1\u00a0", "yes"),
)


def test_the_grammar_of_numbers() -> None:
    assert {text: number(text) for text in NUMBERS} == NUMBERS
    assert all(math.isnan(number(text)) for text in NO_NUMBERS)
    assert number("2,5", decimal=",") == 2.5
    assert math.isnan(number("2.5", decimal=","))
    assert math.isnan(number("1.234,5", decimal=","))


def cells_of(texts: list[str]) -> Block:
    """A block with one column, which no text of the lists here would break."""
    return Block("".join(f"{text};\n" for text in texts).encode(), ord(";"), 2)


def block_numbers(texts: list[str], decimal: str = ".") -> Any:
    block = cells_of(texts)
    assert len(block.readable) == len(texts)
    cells = block.cells(0)
    return many.read_numbers(block.data, cells.starts, cells.ends, decimal)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_blocks_and_single_cells_follow_one_grammar() -> None:
    texts = [*NUMBERS, *NO_NUMBERS]
    same(block_numbers(texts), [number(text) for text in texts])
    commas = [text.replace(".", ",") for text in texts]
    same(block_numbers(commas, ","), [number(text, ",") for text in commas])


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.lists(st.text(alphabet="0123456789.-+eE x,", max_size=25), min_size=1, max_size=20))
def test_any_text_is_read_alike_in_blocks(texts: list[str]) -> None:
    same(block_numbers(texts), [number(text) for text in texts])


@pytest.mark.parametrize("long", [True, False])
def test_numbers_in_blocks_are_the_nearest_doubles(long: bool, monkeypatch: Any) -> None:
    """Also half-way between two doubles, where rounding twice would go wrong."""
    monkeypatch.setattr(many, "LONG", long and many.LONG)
    rng = np.random.default_rng(8)
    texts = [repr(float(x)) for x in rng.normal(size=2000)]
    texts += [f"{x:.2f}" for x in rng.normal(20, 300, 500)]
    texts += [str(int(x)) for x in rng.integers(2**53, 2**63, 1000)]
    texts += [f"{int(x)}.5" for x in rng.integers(2**52, 2**53, 1000)]
    texts += [f"{int(x)}.{int(y):03d}" for x, y in rng.integers(0, 2**53, (1000, 2))]
    same(block_numbers(texts), [float(text) for text in texts])


NOT = UNDECLARED
LEVELS: dict[str, tuple[Any, dict[Any, int]]] = {
    "words": (["N", "south west"], {"N": 0, " N ": 0, "south west": 1, "n": NOT, "": -1, "E": NOT}),
    "numbers": ([1, 2, 3], {"1": 0, "2.0": 1, "03": 2, "4": NOT, "1.5": NOT, "x": NOT}),
    "numbers as text": (["1", "2", "3"], {"1": 0, "2.0": 1, "03": 2, "1e0": 0, "": -1}),
    "leading zeros": (["01", "02", "10"], {"01": 0, "1": 0, "2.0": 1, "10": 2}),
    "told apart by spelling": (["1", "01"], {"1": 0, "01": 1, "1.0": NOT, "001": NOT}),
    "fractions": ({"levels": [0.5, 1.5]}, {"0.5": 0, ".50": 0, "1.5": 1, "1": NOT}),
    "truth": ([False, True], {"TRUE": 1, "no": 0, "T": 1, "0": 0, "1.0": 1, "yEs": 1, "2": NOT}),
    "truth as text": (["FALSE", "TRUE"], {"TRUE": 1, "True": 1, "false": 0, "1": 1, "yes": NOT}),
    "NA": (["NA", "b"], {"NA": 0, "b ": 1, "nan": NOT}),
    "missing": (
        {"levels": ["1", "2"], "missing": [-9, "refused"]},
        {"1": 0, "-9": -1, "-9.0": -1, "refused": -1, "3": NOT},
    ),
}


@pytest.mark.parametrize("name", LEVELS)
def test_levels(name: str) -> None:
    spec, expected = LEVELS[name]
    variable = Domain({"v": spec})["v"]
    codes = Codes(variable)
    assert {text: codes.of_text(text) for text in expected} == expected
    block = cells_of(list(expected))
    same(Lookup(variable, ".", "utf-8").read(block.data, block.cells(0)), [*expected.values()])


STORED: dict[str, tuple[Any, list[Any], list[int]]] = {
    "numbers among texts": (["1", "2"], [1, 2, 3], [0, 1, NOT]),
    "floats among texts": (["1", "2"], [1.0, 2.0, 1.5], [0, 1, NOT]),
    "numbers with zeros in front": (["01", "02"], [1, 2, 3], [0, 1, NOT]),
    "truth values": ([False, True], [True, False, True], [1, 0, 1]),
    "truth values among texts": (["FALSE", "TRUE"], [True, False, True], [1, 0, 1]),
    "truth values among numbers": ({"levels": [0, 1]}, [True, False, True], [1, 0, 1]),
    "texts": ({"levels": [1, 2]}, ["2.0", " 1", "x"], [1, 0, NOT]),
}


def tables(values: list[Any]) -> dict[str, Any]:
    """A column as every table of this process stores it."""
    return {
        "pandas": pd.DataFrame({"v": values}),
        "objects": pd.DataFrame({"v": pd.Series(values, dtype=object)}),
        "category": pd.DataFrame({"v": pd.Categorical(values)}),
        "arrow": pa.table({"v": values}),
        "arrow dictionary": pa.table({"v": pa.array(values).dictionary_encode()}),
        "polars": pl.DataFrame({"v": values}),
        "nullable": pd.DataFrame({"v": values}).convert_dtypes(),
    }


@pytest.mark.parametrize("name", STORED)
def test_stored_types_are_converted_by_the_same_rule(name: str) -> None:
    spec, values, expected = STORED[name]
    for kind, table in tables(values).items():
        found = convert(table, Domain({"v": spec}), ["v"])["v"]
        assert found.tolist() == expected, kind
        assert found.dtype == np.int64
    with_none = convert(pa.table({"v": [*values, None]}), Domain({"v": spec}), ["v"])["v"]
    assert with_none.tolist() == [*expected, -1]


def test_numbers_in_stored_types() -> None:
    domain = Domain({"v": {"lower": 0, "upper": 9, "missing": [-9, 99, "refused"]}})
    expected = [1.0, np.nan, np.nan, 2.5]
    for values in ([1.0, -9.0, 99.0, 2.5], ["1", "-9.0", "refused", "2.5"]):
        for kind, table in tables(values).items():
            found = convert(table, domain, ["v"])["v"]
            np.testing.assert_array_equal(found, expected, kind)
    odd = [Decimal("1"), -9, None, Fraction(5, 2)]
    found = convert(pd.DataFrame({"v": pd.Series(odd, dtype=object)}), domain, ["v"])["v"]
    np.testing.assert_array_equal(found, expected)


def test_whole_numbers_are_rounded_after_missing_codes_are_found() -> None:
    domain = Domain({"v": {"type": "integer", "lower": 0, "upper": 9, "missing": [99]}})
    found = convert(pd.DataFrame({"v": [2.5, 99.0, 98.7]}), domain, ["v"])["v"]
    np.testing.assert_array_equal(found, [2.0, np.nan, 99.0])


def test_numbers_are_spelled_as_people_write_them() -> None:
    assert [spelled(value) for value in (2.0, 0.1, -0.0, 1e300)] == ["2", "0.1", "0", "1e+300"]


def test_long_and_strange_levels_are_found(tmp_path: Any) -> None:
    levels = ["é", "中文", "a" * 64, "b" * 65, "with; separator", 'with "quotes"', "tab\tinside"]
    variable = Domain({"v": levels})["v"]
    lines = ['"' + level.replace('"', '""') + '";' for level in levels]
    block = Block(("\n".join(lines) + "\n").encode(), ord(";"), 2)
    assert Lookup(variable, ".", "utf-8").read(block.data, block.cells(0)).tolist() == [*range(7)]
