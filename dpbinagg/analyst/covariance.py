"""Covariance of a linear estimating equation: bread, scores, meat.

An estimate that solves ``sum_k q_k(b) = 0`` with derivative ``-M`` has
covariance ``M^-1 J M^-1``: the bread is ``M^-1``, the meat ``J = Cov(sum q_k)``.
"""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.types import Array, Bins


def bin_scores(bins: Bins, weights: Array, residuals: Array, kappa: Array) -> Array:
    """Return ``q_k = w_k (z_k e_k - kappa_k)``, (K, p)."""
    return np.asarray(weights[:, None] * (bins.sum_x * residuals[:, None] - kappa))


def sandwich_meat(scores: Array, df_resid: float) -> Array:
    """Return ``K/(K-p) sum_k q_k q_k'``."""
    correction = scores.shape[0] / max(df_resid, 1.0)
    return np.asarray(correction * scores.T @ scores)


def model_meat(bins: Bins, weights: Array, tau2: Array, kappa: Array) -> Array:
    """Return ``sum_k w_k^2 (z_k z_k' tau_k^2 + kappa_k kappa_k')``."""
    squared = weights**2
    first = (bins.sum_x * (squared * tau2)[:, None]).T @ bins.sum_x
    second = (kappa * squared[:, None]).T @ kappa
    return np.asarray(first + second)


def assemble(bread: Array, meat: Array) -> Array:
    """Return ``bread meat bread``."""
    return symmetric(bread @ meat @ bread)
