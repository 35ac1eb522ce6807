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


def noise_of_product(sd: Array, centring: Array, second: Array) -> Array:
    """Covariance of ``E v`` for the noise E of a second-moment matrix and E[vv'] = P.

    E is symmetric with independent entries of standard deviation ``sd_ij``, plus
    ``centring_j E_00`` on the diagonal (see `Moments`)::

        Cov(Ev)_ij = sd_ij^2 P_ij                  (i != j)
        Cov(Ev)_ii = sum_k sd_ik^2 P_kk

    and with D = diag(1, centring) the count's noise adds
    ``sd_00^2 (D P D - P_00 e_0 e_0')``.  For a fixed v pass ``np.outer(v, v)``.
    """
    variance = sd**2
    cov = variance * second
    np.fill_diagonal(cov, variance @ np.diag(second))
    d = np.array(centring, dtype=np.float64)
    d[0] = 1.0
    shared = d[:, None] * second * d
    shared[0, 0] = 0.0
    return np.asarray(cov + variance[0, 0] * shared)
