"""From a table to arrays: the columns a design needs, cleaned by public rules.

Values of an integer variable are rounded to whole numbers; NaN, None, NA and
infinities are missing; so is a category value that was not declared. A record
with a missing value in any needed variable is left out. These rules look at
one record at a time, and no message tells how many records they concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.boxes import Records
from dpbinagg.domain import Categorical, Domain, Numeric
from dpbinagg.errors import DataError


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
    columns: dict[str, NDArray[Any]] = {}
    complete = np.ones(len(frame), dtype=bool)
    for name in variables:
        column = _column(frame, name)
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
        raise DataError(
            "missing='raise': the table has an incomplete or undeclared value in a variable of "
            "the formula; complete it, or use missing='drop'"
        )
    return {name: column[complete] for name, column in columns.items()}


def _column(frame: Any, name: str) -> Any:
    matches = [column for column in frame.columns if column == name]
    if not matches:
        raise DataError(
            f"data has no column {name!r}, which the formula uses; check the spelling or rename it"
        )
    if len(matches) > 1:
        raise DataError(f"data has several columns named {name!r}; keep one of them")
    return frame[name]


def numeric_values(column: Any, variable: Numeric, name: str) -> NDArray[np.float64]:
    """A column as floats; what is missing or infinite becomes NaN."""
    import pandas as pd

    dtype = column.dtype
    numeric = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)
    if not numeric and not pd.api.types.is_object_dtype(dtype):
        raise DataError(
            f"column {name!r} must be numeric, but its dtype is {dtype}; convert it, or declare "
            "its levels in bounds if it is a category"
        )
    failed = False
    values = np.empty(0)
    if numeric:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        try:
            values = pd.to_numeric(column, errors="raise").to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError, OverflowError):
            failed = True
    if failed:
        # Raised outside the except block: the original message quotes a value.
        raise DataError(
            f"column {name!r} must be numeric, but holds objects that are not numbers; convert "
            "it, or declare its levels in bounds if it is a category"
        )
    if variable.integer:
        values = np.rint(values)
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values


def category_codes(column: Any, variable: Categorical, name: str) -> NDArray[np.int64]:
    """Codes into the declared levels; -1 for what is missing or was not declared."""
    import pandas as pd

    levels = pd.Index(list(variable.levels), dtype=object)
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        table = levels.get_indexer(pd.Index(dtype.categories, dtype=object))
        codes = column.cat.codes.to_numpy()
        return np.where(codes >= 0, table[codes], -1).astype(np.int64)
    hashable = True
    codes = np.empty(0, dtype=np.int64)
    try:
        codes = levels.get_indexer(pd.Index(column.astype(object), dtype=object))
    except TypeError:
        hashable = False
    if not hashable:
        raise DataError(f"column {name!r} holds objects that cannot be levels of a category")
    return codes.astype(np.int64)
