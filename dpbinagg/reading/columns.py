"""From stored columns to records: the one rule of each type, for every kind of table."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import PublicRefusalError
from dpbinagg.public.variables import Categorical, Records, Variable, Variables
from dpbinagg.reading.rules import Codes, Floats, Integers, finished, numbers_of_texts
from dpbinagg.reading.source import ColumnType, column_at

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
    names, read = list(getattr(part, "column_names", part.columns)), _COLUMNS[module]
    for name in variables:
        column_at(names, name)
    # A warning would tell of a record. (`warnings` itself must not be silenced on threads.)
    with np.errstate(all="ignore"):
        return {name: read(part[name], domain[name]) for name in variables}


def from_numbers(values: Floats, variable: Variable) -> Values:
    """Numbers, NaN where missing, as a variable holds them."""
    if isinstance(variable, Categorical):
        return Codes(variable).of_numbers(values)
    return finished(values, variable)


def from_truths(values: Floats, variable: Variable) -> Values:
    """Truth values as 0, 1 and NaN, as a variable holds them: they are spelled False and True."""
    if not isinstance(variable, Categorical):
        return finished(values, variable)
    table = np.append(Codes(variable).of_texts(("False", "True")), -1)
    return table[np.where(np.isnan(values), -1, values).astype(np.int64)]


def from_texts(places: Integers, distinct: Sequence[Any], variable: Variable) -> Values:
    """Places among distinct texts, -1 where missing, as a variable holds the texts."""
    if isinstance(variable, Categorical):
        return np.append(Codes(variable).of_texts(distinct), -1)[places]
    return np.append(finished(numbers_of_texts(distinct), variable), np.nan)[places]


def _missing(n: int, variable: Variable) -> Values:
    if isinstance(variable, Categorical):
        return np.full(n, -1, dtype=np.int64)
    return np.full(n, np.nan)


def _pandas(column: Any, variable: Variable) -> Values:
    import pandas as pd

    dtype, types = column.dtype, pd.api.types
    if isinstance(dtype, pd.CategoricalDtype):
        table = np.append(_pandas(pd.Series(dtype.categories), variable), _missing(1, variable))
        values: Values = table[column.cat.codes.to_numpy()]
        return values
    stored = pandas_type(dtype).stored
    if stored == "object":
        return _objects(column, variable)
    if stored == "text":
        places, distinct = pd.factorize(column)
        return from_texts(places, list(distinct), variable)
    if stored == "other":
        return _missing(len(column), variable)
    read = from_truths if types.is_bool_dtype(dtype) else from_numbers
    return read(column.to_numpy(dtype=np.float64, na_value=np.nan), variable)


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


def _objects(column: Any, variable: Variable) -> Values:
    """Anything, cell by cell: texts, truth values and numbers as such, the rest is missing."""
    cells = [_plain(cell) for cell in column]
    if isinstance(variable, Categorical):
        codes = Codes(variable)
        found = (
            codes.of_text(cell) if isinstance(cell, str) else codes.of_number(cell)
            for cell in cells
        )
        return np.fromiter(found, dtype=np.int64, count=len(cells))
    texts = numbers_of_texts(cells)
    plain = np.array([math.nan if isinstance(c, str) else c for c in cells], dtype=np.float64)
    return finished(np.where(np.isnan(plain), texts, plain), variable)


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
        return np.concatenate([_missing(0, variable), *found])
    return _arrow_chunk(column, variable)


def _arrow_chunk(chunk: Any, variable: Variable) -> Values:
    import pyarrow as pa

    kind, types = chunk.type, pa.types
    if types.is_dictionary(kind):
        table = np.append(_arrow(chunk.dictionary, variable), _missing(1, variable))
        places = chunk.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        found: Values = table[places]
        return found
    stored = arrow_type(kind).stored
    if stored == "text":
        texts = chunk.cast(pa.large_string()) if types.is_string_view(kind) else chunk
        encoded = texts.dictionary_encode()
        places = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        distinct = encoded.dictionary.cast(pa.large_binary()).to_pylist()
        return from_texts(places, [_decoded(text) for text in distinct], variable)
    if stored == "other":
        return _missing(len(chunk), variable)
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
        places = np.arange(len(distinct), dtype=np.int64)
        found = from_texts(places, distinct.to_list(), variable)
        nothing = _missing(1, variable)[0].item()
        kind = pl.Int64 if isinstance(variable, Categorical) else pl.Float64
        if not len(distinct):
            return _missing(len(column), variable)
        placed = texts.replace_strict(
            distinct, pl.Series(found, dtype=kind), default=nothing, return_dtype=kind
        )
        return np.asarray(placed.to_numpy())
    if stored == "other":
        return _missing(len(column), variable)
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
