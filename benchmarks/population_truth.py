"""Least squares of a whole population, and of a draw with HC1: what a private fit is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import patsy
from scipy import stats

RANK_TOLERANCE = 1e-10
"""Share of the largest eigenvalue of the Gram matrix (columns of norm 1) that counts as zero:
double precision leaves 1e-15, the hardest design that has an answer here 1e-6."""

IN_NULL_SPACE = 1e-6
"""Weight in the null space beyond which a coefficient is not determined."""

LEVEL = 0.05
"""Of tests and, as its complement, of intervals."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """Names of the columns, design matrix, response."""

    names: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray

    def take(self, rows: np.ndarray) -> Matrices:
        return Matrices(self.names, self.x[rows], self.y[rows])


@dataclass(frozen=True, slots=True)
class Fit:
    """Least squares with the covariance HC1; `determined` says which coefficients it has."""

    params: np.ndarray
    cov: np.ndarray
    determined: np.ndarray
    df: int

    @property
    def bse(self) -> np.ndarray:
        return np.asarray(np.sqrt(np.clip(np.diag(self.cov), 0.0, None)))

    def covers(self, truth: np.ndarray, contrasts: np.ndarray | None = None) -> np.ndarray:
        """Whether the interval of each contrast (each coefficient) holds the truth's."""
        rows = np.eye(len(self.params)) if contrasts is None else contrasts
        se = np.sqrt(np.clip(np.einsum("ij,jk,ik->i", rows, self.cov, rows), 0.0, None))
        reach = stats.t.ppf(1.0 - LEVEL / 2.0, self.df) * se
        return np.asarray(np.abs(rows @ (self.params - truth)) <= reach)

    def joint_p(self, truth: np.ndarray, tested: np.ndarray) -> float:
        """p-value of the F test that the tested coefficients are the truth's."""
        size = int(tested.sum())
        if size == 0 or not self.determined[tested].all():
            return float("nan")
        gap = (self.params - truth)[tested]
        value = gap @ np.linalg.pinv(self.cov[np.ix_(tested, tested)]) @ gap / size
        return float(stats.f.sf(value, size, self.df))


def matrices(formula: str, frame: pd.DataFrame, bounds: Mapping[str, Any]) -> Matrices:
    """Design and response by patsy; a factor has a column for every declared level."""
    declared = {
        name: pd.Categorical(frame[name], categories=levels)
        for name, levels in bounds.items()
        if isinstance(levels, list) and name in frame
    }
    response, design = patsy.dmatrices(formula, frame.assign(**declared), eval_env=_ENVIRONMENT)
    names = tuple(design.design_info.column_names)
    return Matrices(names, np.asarray(design), np.asarray(response)[:, -1])


_ENVIRONMENT = patsy.EvalEnvironment([{"np": np}])


def least_squares(data: Matrices) -> Fit:
    """``b = (X'X)^+ X'y``, of smallest norm, and ``n/(n - r) (X'X)^+ X'diag(e^2)X (X'X)^+``."""
    norms = np.linalg.norm(data.x, axis=0)
    norms[norms == 0.0] = 1.0
    x = data.x / norms
    values, vectors = np.linalg.eigh(x.T @ x)
    kept = values > RANK_TOLERANCE * values[-1]
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
    params = inverse @ (x.T @ data.y)
    rank = int(kept.sum())
    residual = data.y - x @ params
    scores = x * residual[:, None]
    df = max(len(data.y) - rank, 1)
    cov = len(data.y) / df * inverse @ (scores.T @ scores) @ inverse
    lost = np.linalg.norm(vectors[:, ~kept], axis=1)
    cov = cov / np.outer(norms, norms)
    if rank == len(norms):
        return Fit(params / norms, cov, np.ones(rank, dtype=bool), df)
    smallest = np.linalg.lstsq(data.x, data.y, rcond=None)[0]
    return Fit(smallest, cov, lost < IN_NULL_SPACE, df)
