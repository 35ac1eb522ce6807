"""From a table to arrays: the columns a design needs, cleaned by public rules.

Values of an integer variable are rounded to whole numbers; NaN, None, NA and
infinities are missing; so is a category value that was not declared. A record
with a missing value in any needed variable is left out. These rules look at
one record at a time, and no message tells how many records they concern.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import IncompleteError, PublicRefusalError
from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Categorical, Domain, Numeric


def read_records(frame: Any, domain: Domain, variables: Sequence[str], missing: str) -> Records:
    """Read `variables` from a pandas frame and drop incomplete records.

    Parameters
    ----------
    frame : pandas.DataFrame
        The private table.
    domain : Domain
        Declares every variable; bounds may be unknown.
    variables : sequence of str
        The columns to read.
    missing : {"drop", "raise"}
        What to do with incomplete records. "raise" reveals whether there is
        one, and only that.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise PublicRefusalError(
            f"data must be a table such as a pandas DataFrame, got {type(frame).__name__}"
        )
    columns: dict[str, NDArray[Any]] = {}
    complete = np.ones(len(frame), dtype=bool)
    names = list(frame.columns)
    for name in variables:
        column = _column(frame, names, name)
        variable = domain[name]
        if isinstance(variable, Categorical):
            codes = category_codes(column, variable, name)
            complete &= codes >= 0
            columns[name] = codes
        else:
            values = numeric_values(column, variable, name)
            complete &= np.isfinite(values)
            columns[name] = values
    if complete.all():
        return columns
    if missing == "raise":
        raise IncompleteError
    return {name: column[complete] for name, column in columns.items()}


def _column(frame: Any, names: list[Any], name: str) -> Any:
    matches = [column for column in names if column == name]
    if not matches:
        raise PublicRefusalError(
            f"data has no column {name!r}, which the formula uses; check the spelling or rename it"
        )
    if len(matches) > 1:
        raise PublicRefusalError(f"data has several columns named {name!r}; keep one of them")
    return frame[name]


def numeric_values(column: Any, variable: Numeric, name: str) -> NDArray[np.float64]:
    """A column as floats; what is missing, infinite or no number becomes NaN.

    Only the dtype decides whether the column is refused. A value never does:
    an error that one record can cause would tell of that record.
    """
    import pandas as pd

    dtype = column.dtype
    types = pd.api.types
    numeric = (
        types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)
    ) and not types.is_complex_dtype(dtype)
    if not numeric and not types.is_object_dtype(dtype):
        raise PublicRefusalError(
            f"column {name!r} must be numeric, but its dtype is {dtype}; convert it, or declare "
            "its levels in bounds if it is a category"
        )
    # Some objects warn when they are converted, and a warning tells of them.
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        if numeric:
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values = np.fromiter(map(_number, column), dtype=np.float64, count=len(column))
        if variable.integer:
            values = np.rint(values)
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values


def _number(value: object) -> float:
    """An object as a float; NaN if it is none."""
    try:
        return float(value)  # type: ignore[arg-type]
    # Any object may be in the table, and its conversion may raise anything.
    except Exception:
        return np.nan


def category_codes(column: Any, variable: Categorical, name: str) -> NDArray[np.int64]:
    """Codes into the declared levels; -1 for what is missing or was not declared.

    As in `numeric_values`, only the dtype decides whether the column is refused.
    """
    import pandas as pd

    dtype = column.dtype
    positions = {level: code for code, level in enumerate(variable.levels)}
    if isinstance(dtype, pd.CategoricalDtype):
        table = np.array([*(_position(level, positions) for level in dtype.categories), -1])
        _check_levels(bool((table >= 0).any()) or len(table) == 1, name, "its categories")
        codes: NDArray[np.int64] = table[column.cat.codes.to_numpy()].astype(np.int64)
        return codes
    text = [isinstance(level, str) for level in variable.levels]
    if pd.api.types.is_object_dtype(dtype):
        possible = True
    elif isinstance(dtype, pd.StringDtype) or str(dtype).startswith(("string", "large_string")):
        possible = any(text)
    else:
        numeric = pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype)
        possible = numeric and not all(text)
    _check_levels(possible, name, f"its dtype {dtype}")
    if not pd.api.types.is_object_dtype(dtype):
        levels = pd.Index(variable.levels, dtype=object)
        return levels.get_indexer(pd.Index(column, dtype=object)).astype(np.int64)
    return np.fromiter(
        (_position(value, positions) for value in column), dtype=np.int64, count=len(column)
    )


def _position(value: object, positions: Mapping[object, int]) -> int:
    """Place of a value among the levels; -1 if it is none of them."""
    try:
        return positions.get(value, -1)
    # Objects that cannot be hashed or compared are no levels.
    except Exception:
        return -1


def _check_levels(possible: bool, name: str, what: str) -> None:
    if not possible:
        raise PublicRefusalError(
            f"column {name!r}: none of its declared levels can occur, given {what}; declare the "
            "levels as they are in the table, or convert the column"
        )
