"""The rules of `records`, as expressions that any engine computes.

A cleaned table has a Float64 column for every numeric variable and an Int64
column of codes for every category, no nulls, and complete records only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from dpbinagg.curator.engines.tables import Table
from dpbinagg.errors import PublicRefusalError
from dpbinagg.public.domain import Categorical, Domain, Numeric

WHOLE = 2.0**52
"""Doubles from here on are whole numbers."""


class Cleaner:
    """Turns a table into its cleaned columns.

    Parameters
    ----------
    table : Table
    domain : Domain
        Declares every variable.
    variables : sequence of str
        The columns to read.

    Raises
    ------
    DataError
        If the schema, which is public, lacks a column or has another type.
    """

    def __init__(self, table: Table, domain: Domain, variables: Sequence[str]) -> None:
        import narwhals.stable.v2 as nw

        self.table = table
        self.variables = tuple(variables)
        self._nw = nw
        self._domain = domain
        schema = table.frame.collect_schema()
        if table.text:
            numeric = [name for name in variables if isinstance(domain[name], Numeric)]
            table.read_numbers([name for name in numeric if name in schema])
        self._values = {
            name: self._value(name, domain[name], _dtype(schema, name)) for name in self.variables
        }

    def _value(self, name: str, variable: Numeric | Categorical, dtype: Any) -> Any:
        if isinstance(variable, Numeric):
            return self._number(name, variable, dtype)
        return self._category(name, variable, dtype)

    def _number(self, name: str, variable: Numeric, dtype: Any) -> Any:
        nw = self._nw
        if not (self.table.text or dtype.is_numeric() or dtype == nw.Boolean):
            raise PublicRefusalError(
                f"column {name!r} must be numeric, but its dtype is {dtype}; convert it, or "
                "declare its levels in bounds if it is a category"
            )
        x = nw.col(name).cast(nw.Float64)
        return half_even(x) if variable.integer else x

    def _category(self, name: str, variable: Categorical, dtype: Any) -> Any:
        nw = self._nw
        text = isinstance(dtype, nw.String | nw.Categorical | nw.Enum)
        levels = usable_levels(variable, self.table.text, text)
        possible = levels
        if isinstance(dtype, nw.Enum):
            possible = {label: code for label, code in levels.items() if label in dtype.categories}
        if not possible or not (text or dtype.is_numeric() or dtype == nw.Boolean):
            raise PublicRefusalError(
                f"column {name!r}: none of its declared levels can occur, given its dtype "
                f"{dtype}; declare the levels as they are in the table, or convert the column"
            )
        label = nw.col(name).cast(nw.String if text else nw.Float64)
        return code_of(label, levels)

    def read(self, frame: Any) -> Any:
        """The cleaned columns of all records: null, NaN, infinite or negative where missing."""
        frame = self.table.with_doubles(frame, self.variables)
        return frame.select(*(value.alias(name) for name, value in self._values.items()))

    def _complete(self, prefix: str = "") -> Any:
        nw = self._nw
        tests = []
        for name in self.variables:
            if isinstance(self._domain[name], Numeric):
                tests.append(nw.col(name).is_finite().fill_null(False))
            else:
                tests.append((nw.col(prefix + name) >= 0).fill_null(False))
        return reduce(lambda one, two: one & two, tests)

    def label_expressions(self) -> dict[str, Any] | None:
        """Labels of the categories as formulas compare them with declared levels.

        None if levels are of several types, or of another type than their column.
        """
        nw = self._nw
        schema = self.table.frame.collect_schema()
        labels: dict[str, Any] = {}
        for name in self.variables:
            variable = self._domain[name]
            if isinstance(variable, Numeric):
                continue
            kinds = {_kind(level) for level in variable.levels}
            dtype = schema[name]
            if kinds == {"text"} and isinstance(dtype, nw.String | nw.Categorical | nw.Enum):
                labels[name] = nw.col(name).cast(nw.String)
            elif kinds == {"truth"} and dtype == nw.Boolean:
                labels[name] = nw.col(name)
            elif kinds == {"number"} and dtype.is_numeric():
                labels[name] = nw.col(name).cast(nw.Float64)
            else:
                return None
        return labels

    def clean_with_labels(self, frame: Any, labels: dict[str, Any]) -> Any:
        """As `clean`, with codes as ``_code_name`` and labels under the names."""
        columns = [
            value.alias(f"_code_{name}" if name in labels else name)
            for name, value in self._values.items()
        ]
        frame = self.table.with_doubles(frame, self.variables)
        both = frame.select(*columns, *(label.alias(name) for name, label in labels.items()))
        return both.filter(self._complete("_code_"))

    def clean(self, frame: Any) -> Any:
        """Complete records of `frame`, cleaned."""
        return self.read(frame).filter(self._complete())

    def incomplete(self, frame: Any) -> Any:
        """One row that tells how many records of `frame` are left out."""
        nw = self._nw
        left_out = (~self._complete()).cast(nw.Int64).sum()
        return self.read(frame).select(left_out.alias("left_out"))


def _kind(level: Hashable) -> str:
    if isinstance(level, bool):
        return "truth"
    return "text" if isinstance(level, str) else "number"


def _dtype(schema: Any, name: str) -> Any:
    if name not in schema:
        raise PublicRefusalError(
            f"data has no column {name!r}, which the formula uses; check the spelling or rename it"
        )
    return schema[name]


def usable_levels(variable: Categorical, plain: bool, text: bool) -> dict[Hashable, int]:
    """Codes of the levels that a column can hold, by what it holds.

    Parameters
    ----------
    plain : bool
        A CSV file: all values are text, numbers included.
    text : bool
        The column holds text.
    """
    levels: dict[Hashable, int] = {}
    for code, level in enumerate(variable.levels):
        if isinstance(level, str):
            if text:
                levels[level] = code
        elif plain:
            for label in plain_labels(level):
                levels.setdefault(label, code)
        elif not text:
            levels[float(level)] = code  # type: ignore[arg-type]
    return levels


def plain_labels(level: Hashable) -> tuple[str, ...]:
    """How a number or truth value may be written in a CSV file."""
    if isinstance(level, bool):
        word = str(level)
        return word, word.lower(), word.upper(), str(int(level))
    assert isinstance(level, int | float)
    whole = float(level).is_integer()
    return (str(level), str(int(level)), str(float(level))) if whole else (str(level),)


def code_of(label: Any, levels: dict[Hashable, int]) -> Any:
    """The code of a label, -1 for other values.

    Levels are compared in a balanced tree of conditions, so that expressions
    stay shallow for many levels.
    """
    import narwhals.stable.v2 as nw

    def among(some: list[tuple[Hashable, int]]) -> Any:
        if len(some) == 1:
            level, code = some[0]
            return nw.when(label == level).then(nw.lit(code)).otherwise(nw.lit(-1))
        half = len(some) // 2
        first = [level for level, _ in some[:half]]
        return nw.when(label.is_in(first)).then(among(some[:half])).otherwise(among(some[half:]))

    return among(list(levels.items())).cast(nw.Int64).fill_null(-1)


def half_even(x: Any) -> Any:
    """Round to whole numbers, halves to even ones, as numpy does.

    Numbers of `WHOLE` and beyond stay as they are: Spark's floor has 64 bits and fails on
    larger ones.
    """
    import narwhals.stable.v2 as nw

    inside = x.clip(-WHOLE, WHOLE)
    below = inside.floor()
    rest = inside - below
    odd = below - (below / 2.0).floor() * 2.0
    rounded = (
        nw.when(rest < 0.5)
        .then(below)
        .otherwise(nw.when(rest > 0.5).then(below + 1.0).otherwise(below + odd))
    )
    return nw.when(x.abs() < WHOLE).then(rounded).otherwise(x)


def records_of(batch: dict[str, Any], domain: Domain) -> dict[str, np.ndarray[Any, Any]]:
    """The complete records of a batch that was read: floats and whole codes."""
    records: dict[str, np.ndarray[Any, Any]] = {}
    incomplete = None
    for name, column in batch.items():
        if isinstance(domain[name], Categorical):
            records[name] = np.asarray(column, dtype=np.int64)
            missing = records[name] < 0
        else:
            records[name] = np.asarray(column, dtype=np.float64)
            missing = ~np.isfinite(records[name])
        if missing.any():
            incomplete = missing if incomplete is None else incomplete | missing
    if incomplete is None:
        return records
    complete = ~incomplete
    return {name: column[complete] for name, column in records.items()}
