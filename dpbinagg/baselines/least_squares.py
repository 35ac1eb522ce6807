"""Ordinary least squares, without privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpbinagg.baselines.problem import Array, BaselineResult, Bounds, Model, Seed
from dpbinagg.errors import DataError

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
        Accepted so that all baselines are called alike, and not used: records
        are not clipped.
    intercept : bool
        Whether to add an intercept to X (a formula says so itself).
    """
    columns, response, names = _plain(model, data, intercept)
    params, _, rank, _ = np.linalg.lstsq(columns, response, rcond=None)
    residual = response - columns @ params
    scale = float(residual @ residual) / max(len(response) - int(rank), 1)
    cov = scale * np.linalg.pinv(columns.T @ columns)
    return BaselineResult(np.asarray(params, np.float64), np.asarray(cov, np.float64), names)


def _plain(
    model: Model, data: pd.DataFrame | None, intercept: bool
) -> tuple[Array, Array, tuple[str, ...]]:
    if isinstance(model, str):
        import patsy

        if data is None:
            raise DataError("data must be a table when the first argument is a formula, got None")
        response, columns = patsy.dmatrices(model, data)
        names = tuple(columns.design_info.column_names)
        return np.asarray(columns), np.asarray(response)[:, 0], names
    columns, response = (np.asarray(part, dtype=np.float64) for part in model)
    names = tuple(f"x{j + 1}" for j in range(columns.shape[1]))
    if intercept:
        columns = np.column_stack([np.ones(len(columns)), columns])
        names = ("Intercept", *names)
    return columns, response, names
