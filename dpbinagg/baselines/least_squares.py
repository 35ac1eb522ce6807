"""Ordinary least squares, without privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dpbinagg.baselines.problem import Array, BaselineResult, Bounds, Model, Seed
from dpbinagg.errors import DataError
from dpbinagg.public.domain import Categorical, Domain

if TYPE_CHECKING:
    import pandas as pd


def ols(
    model: Model,
    data: pd.DataFrame | None = None,
    *,
    mu: float | None = None,
    bounds: Bounds | None = None,
    rng: Seed = None,
    intercept: bool = True,
) -> BaselineResult:
    """Ordinary least squares: no privacy, the error that no method can avoid.

    ``params = (Z'Z)^+ Z'y``, ``cov = sigma^2 (Z'Z)^+`` with sigma^2 the
    residual sum of squares over n - rank(Z).

    Parameters
    ----------
    model : str or (X, y)
        A formula, with `data`, or arrays.
    data : DataFrame, optional
    mu, bounds, rng
        Accepted so that all baselines are called alike. Levels of categories
        are taken from `bounds`; otherwise they are not used, and records are not clipped.
    intercept : bool
        Whether to add an intercept to X (a formula says so itself).

    Returns
    -------
    BaselineResult

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.random((2000, 1))
    >>> y = 1.0 + 2.0 * x[:, 0] + 0.1 * rng.normal(size=2000)
    >>> bounds = ([(0, 1)], (0, 4))
    >>> bool(abs(ols((x, y)).params - [1, 2]).max() < 0.1)
    True
    """
    columns, response, names = _plain(model, data, bounds, intercept)
    params, _, rank, _ = np.linalg.lstsq(columns, response, rcond=None)
    residual = response - columns @ params
    scale = float(residual @ residual) / max(len(response) - int(rank), 1)
    cov = scale * np.linalg.pinv(columns.T @ columns)
    return BaselineResult(np.asarray(params, np.float64), np.asarray(cov, np.float64), names)


def _plain(
    model: Model, data: pd.DataFrame | None, bounds: Bounds | None, intercept: bool
) -> tuple[Array, Array, tuple[str, ...]]:
    if isinstance(model, str):
        import patsy

        if data is None:
            raise DataError("data must be a table when the first argument is a formula, got None")
        response, columns = patsy.dmatrices(model, _with_levels(data, bounds))
        names = tuple(columns.design_info.column_names)
        return np.asarray(columns), np.asarray(response)[:, 0], names
    columns, response = (np.asarray(part, dtype=np.float64) for part in model)
    names = tuple(f"x{j + 1}" for j in range(columns.shape[1]))
    if intercept:
        columns = np.column_stack([np.ones(len(columns)), columns])
        names = ("Intercept", *names)
    return columns, response, names


def _with_levels(data: pd.DataFrame, bounds: Bounds | None) -> pd.DataFrame:
    """The frame with declared categories as such, so that dummies follow the declared order."""
    import pandas as pd

    domain = Domain(bounds if isinstance(bounds, Mapping) else None)
    return data.assign(
        **{
            name: pd.Categorical(data[name], categories=list(variable.levels))
            for name, variable in domain.items()
            if isinstance(variable, Categorical) and name in data
        }
    )
