"""From stored columns to records: the one rule of each type, for every kind of table.

A number: see `public.variables`; a missing code is missing. A category: a cell is the level that is
spelled like it. Failing that, if both are numbers, the cell is the level that is the same number:
``2``, ``2.0`` and ``02`` are the level 2, whether it was declared as 2 or "2", so that it does not
matter how a program prints or stores codes. Levels that are the same number ("1" and "01") are
told apart by spelling alone. Anything else was not declared. Each cell is read by itself.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import PublicRefusalError
from dpbinagg.public.variables import (
    BLANKS,
    Categorical,
    Numeric,
    Records,
    Variable,
    Variables,
    number,
    spelled,
)

Stored = Literal["number", "truth", "text", "levels", "labelled", "object", "untyped", "other"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNDECLARED = -2
"""Code of a value that is no level; -1 is missing. Such records are as incomplete as others."""

YES, NO = ("true", "t", "yes", "1"), ("false", "f", "no", "0")
"""How truth values are written, in any case, for a variable of type boolean."""


class Private:
    """What holds records: it neither shows them nor is pickled."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How the table stores a column: a public fact.

    Attributes
    ----------
    stored : str
        "number"; "truth"; "text"; "levels", a type that lists values which may have been learnt
        from the records; "labelled", numbers with value labels; "object", anything cell by cell;
        "untyped", a file without types; "other", which no variable is read from.
    dtype : str
        The name of the type, for messages.
    labels : mapping
        Value labels, by code.
    description : str
    """

    stored: Stored
    dtype: str = ""
    labels: Mapping[Any, str] = field(default_factory=dict)
    description: str = ""


def column_at(names: Sequence[str], name: str) -> int:
    """The place of a column that must be there once."""
    found = [place for place, column in enumerate(names) if column == name]
    if len(found) > 1:
        raise PublicRefusalError(f"data has several columns named {name!r}; keep one of them")
    if not found:
        near = [one for one in names if one.casefold() == name.casefold()]
        near = near or difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; check the spelling or rename it"
        raise PublicRefusalError(f"data has no column {name!r}, which is asked for{hint}")
    return found[0]


class Codes:
    """Codes of the levels of one category.

    Attributes
    ----------
    texts : dict of str to int
        Code by spelling; -1 for missing codes.
    numbers : dict of float to int
        Code by number, where spelling does not tell; -1 for missing codes.
    known : dict of float to int
        Code of a cell that holds a number: by its spelling, else by number.
    """

    def __init__(self, variable: Categorical, decimal: str = ".") -> None:
        self.boolean = variable.boolean
        self.decimal = decimal
        self.texts = {_text(level): code for code, level in enumerate(variable.levels)}
        self.texts |= {str(code): -1 for code in variable.missing}
        if self.boolean:
            for code, words in enumerate((NO, YES)):
                for word in words:
                    spellings = (word, word.upper(), word.capitalize())
                    self.texts = dict.fromkeys(spellings, code) | self.texts
        found: dict[float, list[int]] = {}
        for code, level in enumerate(variable.levels):
            value = number(_text(level), decimal if isinstance(level, str) else ".")
            if not math.isnan(value):
                found.setdefault(value, []).append(code)
        self.numbers = {value: codes[0] for value, codes in found.items() if len(codes) == 1}
        self.numbers |= {float(c): -1 for c in variable.missing if not isinstance(c, str)}
        values = {text: number(text) for text in self.texts}
        by_spelling = {v: self.texts[t] for t, v in values.items() if v == v and spelled(v) == t}
        self.known = self.numbers | by_spelling

    def of_text(self, text: str) -> int:
        """The code of a cell that holds a text."""
        word = text.strip(BLANKS)
        code = self.texts.get(word)
        if code is None and self.boolean:
            code = self.texts.get(word.lower())
        if code is None:
            code = self.numbers.get(number(word, self.decimal), UNDECLARED) if word else -1
        return code

    def of_number(self, value: float) -> int:
        """The code of a cell that holds a number."""
        return self.known.get(value, UNDECLARED) if math.isfinite(value) else -1

    def of_numbers(self, values: Floats) -> Integers:
        """Codes of a column of numbers: `of_number` of each."""
        codes = np.full(len(values), UNDECLARED)
        if self.known:
            keys = np.array(sorted(self.known))
            place = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
            found = np.array([self.known[key] for key in keys.tolist()])
            codes = np.where(keys[place] == values, found[place], UNDECLARED)
        codes[~np.isfinite(values)] = -1
        return codes


def _text(level: object) -> str:
    """A level as cells spell it."""
    return spelled(level) if isinstance(level, float) else str(level).strip(BLANKS)


def finished(values: Floats, variable: Numeric) -> Floats:
    """Numbers as records hold them: missing codes and infinities out, whole where they must be."""
    unknown = np.isinf(values)
    if codes := [float(code) for code in variable.missing if not isinstance(code, str)]:
        unknown |= np.isin(values, codes)
    values = np.where(unknown, np.nan, values) if unknown.any() else values
    return np.rint(values) if variable.integer else values


Values = NDArray[Any]


def convert(part: Any, domain: Variables, variables: Sequence[str]) -> Records:
    """All records of one piece of a table: the one conversion rule.

    Parameters
    ----------
    part : pandas.DataFrame, Arrow table or record batch, Polars frame, or a part of a `Source`
    domain : Variables
        Declares every variable.
    variables : sequence of str
        The columns to read.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpbinagg import Domain
    >>> frame = pd.DataFrame({"age": ["31", "n/a"], "sex": [" f", "x"]})
    >>> records = convert(frame, Domain({"age": (0, 99), "sex": ["f", "m"]}), ["age", "sex"])
    >>> records["age"], records["sex"]
    (array([31., nan]), array([ 0, -2]))
    """
    if hasattr(part, "records"):
        records: Records = part.records(domain, variables)
        return records
    module = type(part).__module__.split(".")[0]
    if module not in _COLUMNS:
        raise PublicRefusalError(
            f"a part of a table must be a pandas, Polars or Arrow table, got {type(part).__name__}"
        )
    read = _COLUMNS[module]
    # A warning would tell of a record. (`warnings` itself must not be silenced on threads.)
    with np.errstate(all="ignore"):
        return {name: read(part[name], domain[name]) for name in variables}


def from_numbers(values: Floats, variable: Variable) -> Values:
    """Numbers, NaN where missing, as a variable holds them."""
    if isinstance(variable, Categorical):
        return Codes(variable).of_numbers(values)
    return finished(values, variable)


def from_cells(cells: Iterable[object], variable: Variable) -> Values:
    """Cells of any kind as a variable holds them: texts and numbers as such, the rest missing."""
    plain = [_plain(cell) for cell in cells]
    if isinstance(variable, Categorical):
        codes = Codes(variable)
        found = [codes.of_text(c) if isinstance(c, str) else codes.of_number(c) for c in plain]
        return np.array(found, dtype=np.int64)
    values = [number(c) if isinstance(c, str) else c for c in plain]
    return finished(np.array(values, dtype=np.float64), variable)


def from_places(places: Integers, distinct: Iterable[object], variable: Variable) -> Values:
    """Places among distinct cells, -1 where missing, as a variable holds the cells."""
    return np.append(from_cells(distinct, variable), missing(1, variable))[places]


def from_truths(values: Floats, variable: Variable) -> Values:
    """Truth values as 0, 1 and NaN, as a variable holds them: they are spelled False and True."""
    places = np.where(np.isnan(values), -1, values).astype(np.int64)
    return from_places(places, ("False", "True"), variable)


def missing(n: int, variable: Variable) -> Values:
    """So many missing values."""
    if isinstance(variable, Categorical):
        return np.full(n, -1, dtype=np.int64)
    return np.full(n, np.nan)


def _pandas(column: Any, variable: Variable) -> Values:
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        table = np.append(_pandas(pd.Series(dtype.categories), variable), missing(1, variable))
        return np.asarray(table[column.cat.codes.to_numpy()])
    stored = pandas_type(dtype).stored
    if stored == "object":
        return from_cells(column, variable)
    if stored == "text":
        places, distinct = pd.factorize(column)
        return from_places(places, distinct, variable)
    if stored == "other":
        return missing(len(column), variable)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return (from_truths if stored == "truth" else from_numbers)(values, variable)


def pandas_type(dtype: Any) -> ColumnType:
    """How pandas stores a column."""
    import pandas as pd

    types, said = pd.api.types, str(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        known = dtype.categories is not None
        inner = pandas_type(dtype.categories.dtype) if known else ColumnType("text")
        return ColumnType("other" if inner.stored == "other" else "levels", said)
    if types.is_bool_dtype(dtype):
        return ColumnType("truth", said)
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return ColumnType("number", said)
    if types.is_object_dtype(dtype):
        return ColumnType("object", said)
    if isinstance(dtype, pd.StringDtype) or said.startswith(("string", "large_string")):
        return ColumnType("text", said)
    return ColumnType("levels" if said.startswith("dictionary") else "other", said)


def _plain(cell: object) -> str | float:
    """A cell as text or number; NaN if it is none. No value may cause an error."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell))
    if not isinstance(cell, numbers.Real | Decimal):
        return math.nan
    # A number may be too large, or a class that only looks like one.
    try:
        return float(cell)
    except (ArithmeticError, ValueError, TypeError):
        return math.nan


def _arrow(column: Any, variable: Variable) -> Values:
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        found = [_arrow_chunk(chunk, variable) for chunk in column.chunks]
        return np.concatenate([missing(0, variable), *found])
    return _arrow_chunk(column, variable)


def _arrow_chunk(chunk: Any, variable: Variable) -> Values:
    import pyarrow as pa

    kind, types = chunk.type, pa.types
    if types.is_dictionary(kind):
        table = np.append(_arrow(chunk.dictionary, variable), missing(1, variable))
        places = chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        found: Values = table[places]
        return found
    stored = arrow_type(kind).stored
    if stored == "text":
        texts = chunk.cast(pa.large_string()) if types.is_string_view(kind) else chunk
        encoded = texts.dictionary_encode()
        places = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        distinct = encoded.dictionary.cast(pa.large_binary()).to_pylist()
        return from_places(places, map(_decoded, distinct), variable)
    if stored == "other":
        return missing(len(chunk), variable)
    if stored == "truth":
        chunk = chunk.cast(pa.int8())
    values = chunk.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return (from_truths if stored == "truth" else from_numbers)(values, variable)


def _decoded(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def arrow_type(dtype: Any) -> ColumnType:
    """How Arrow stores a column."""
    import pyarrow as pa

    types, said = pa.types, str(dtype)
    if types.is_dictionary(dtype):
        inner = arrow_type(dtype.value_type)
        return ColumnType("other" if inner.stored == "other" else "levels", said)
    if types.is_boolean(dtype):
        return ColumnType("truth", said)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return ColumnType("number", said)
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype):
        return ColumnType("text", said)
    return ColumnType("number" if types.is_null(dtype) else "other", said)


def _polars(column: Any, variable: Variable) -> Values:
    import polars as pl

    stored = polars_type(column.dtype).stored
    if stored in ("text", "levels"):
        texts = column.cast(pl.String)
        distinct = texts.drop_nulls().unique()
        found = pl.Series(from_cells(distinct, variable))
        nothing = missing(1, variable)[0].item()
        if not len(distinct):
            return missing(len(column), variable)
        placed = texts.replace_strict(distinct, found, default=nothing, return_dtype=found.dtype)
        return np.asarray(placed.to_numpy())
    if stored == "other":
        return missing(len(column), variable)
    if stored == "truth":
        column = column.cast(pl.Int8)
    values = np.asarray(column.cast(pl.Float64, strict=False).to_numpy())
    return (from_truths if stored == "truth" else from_numbers)(values, variable)


def polars_type(dtype: Any) -> ColumnType:
    """How Polars stores a column."""
    import polars as pl

    said = str(dtype)
    if isinstance(dtype, pl.Categorical | pl.Enum):
        return ColumnType("levels", "Enum" if isinstance(dtype, pl.Enum) else said)
    if dtype == pl.Boolean:
        return ColumnType("truth", said)
    if dtype.is_numeric() or dtype == pl.Null:
        return ColumnType("number", said)
    return ColumnType("text" if dtype == pl.String else "other", said)


_COLUMNS = {"pandas": _pandas, "pyarrow": _arrow, "polars": _polars}
