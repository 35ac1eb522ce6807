"""Public rows: made-up ones, and tables that hold no record, as a design reads them.

Private tables are read elsewhere, by rules that no value of theirs decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.domain import Categorical, Domain

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.public.domain import Variable

Rows = dict[str, NDArray[np.generic]]
"""Columns by name: numbers, and codes into the declared levels, -1 where a level is missing."""


def codes_of(values: Any, variable: Categorical) -> NDArray[np.int64]:
    """Codes into the declared levels, (n,); -1 for what is missing or was not declared."""
    import pandas as pd

    levels = pd.Index(list(variable.levels), dtype=object)
    found = pd.Index(np.atleast_1d(np.asarray(values, dtype=object)), dtype=object)
    return np.asarray(levels.get_indexer(found), dtype=np.int64)


def rows_of(frame: pd.DataFrame, domain: Domain, names: Iterable[str] | None = None) -> Rows:
    """Columns of a public table; one that the domain lacks holds numbers."""
    rows: Rows = {}
    for name in frame.columns if names is None else names:
        variable = domain.get(name)
        if isinstance(variable, Categorical):
            rows[name] = codes_of(frame[name], variable)
        else:
            rows[name] = frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
    return rows


def column_of(values: NDArray[np.generic], variable: Variable) -> Any:
    """A column of rows as a public table holds it: the inverse of `rows_of`."""
    import pandas as pd

    if not isinstance(variable, Categorical):
        return values.astype(np.int64) if variable.integer else values
    if variable.levels == (False, True):
        # 0 and 1 are equal to them, and stay numbers.
        return values.astype(bool if isinstance(variable.levels[0], bool) else np.int64)
    return pd.Categorical.from_codes(
        values.astype(np.int64).tolist(), categories=pd.Index(list(variable.levels))
    )


def spread_rows(domain: Domain, n: int, rng: np.random.Generator) -> Rows:
    """Made-up rows, spread evenly over a domain: every level as often as any other."""
    rows: Rows = {}
    for name, variable in domain.items():
        if isinstance(variable, Categorical):
            size = len(variable.levels)
            rows[name] = rng.permutation(np.arange(n) + int(rng.integers(size))) % size
        elif variable.integer:
            span = variable.upper - variable.lower + 1
            rows[name] = variable.lower + np.floor(rng.random(n) * span)
        else:
            rows[name] = rng.uniform(variable.lower, variable.upper, n)
    return rows
