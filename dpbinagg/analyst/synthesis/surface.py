"""What the bins say beyond the regression: a smooth surface through their mean residuals.

The mean response of a bin less the regression at its mean covariates is a noisy value of the
regression's misfit there. A Gaussian process with a radial
kernel smooths these values; its scale and width are chosen by marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from dpbinagg.analyst.types import Array, Bins

Matrix = NDArray[np.floating[Any]]
WIDTHS = (0.25, 0.6, 1.4)
"""Widths of the kernel that are tried, in root mean square distances between bins."""

SHARES = (0.1, 0.3, 1.0)
"""Variances of either part that are tried, in variances of the mean residuals."""

MAX_BINS = 300
"""With more bins, those with the least noise are used."""

STEP = 2**11
"""Rows for which the surface is found together: the kernel between them and the bins fits the
cache."""


@dataclass(frozen=True, slots=True)
class Surface:
    """Mean of a Gaussian process given the bins.

    In bin k at u it is ``v k(u, U) weights + v' weights_k``: a smooth part of
    variance v and an effect of each bin of variance v'.
    """

    points: Array
    weights: Array
    width: float
    smooth: float
    own: float

    def at(self, points: Matrix, bin_of: NDArray[np.int64]) -> Array:
        """The surface for rows at `points` in the bins `bin_of`, (n,)."""
        values = self.own * self.weights[bin_of]
        if self.smooth:
            used = np.flatnonzero(self.weights)
            # Single precision: rows are many, and noise is larger by far.
            far = self.points[used].astype(np.float32)
            weights = (self.smooth * self.weights[used]).astype(np.float32)
            for start in range(0, len(points), STEP):
                near = points[start : start + STEP].astype(np.float32, copy=False)
                values[start : start + STEP] += _kernel(near, far, self.width) @ weights
        return np.asarray(values)


def mean_residuals(
    bins: Bins, params: Array, scale: float, means: Array, variances: Array
) -> tuple[Array, Array]:
    """Mean response of every bin less the regression at its mean covariates, and the noise.

    ``r_k = m_y + dev_k/c_k - x_k'b`` with noise variance
    ``(s_t^2 + (dev_k/c_k)^2 s_c^2)/c_k^2 + sigma^2/c_k + sum_j b_j^2 v_kj``.

    Parameters
    ----------
    bins : Bins
    params : (p,) array
        Coefficients of the released columns.
    scale : float
        Error variance.
    means, variances : (K, p) arrays
        What is known of the mean columns of the bins.
    """
    counts = np.maximum(bins.counts, 1.0)
    deviation = (bins.sum_y - bins.centre_y * bins.counts) / counts
    deviation = np.clip(deviation, -bins.half_width_y, bins.half_width_y)
    noise = (bins.sd_y**2 + deviation**2 * bins.sd_count**2) / counts**2
    noise = noise + scale / counts + variances @ params**2
    return bins.centre_y + deviation - means @ params, np.asarray(noise)


def residual_surface(values: Array, noise: Array, points: Array) -> Surface:
    """Fit the surface to mean residuals of bins.

    With residuals r and ``N = diag(noise)`` the weights are ``(v k(U, U) + v' I + N)^-1 r``; v, v'
    and the width have the largest likelihood of those tried under
    ``r ~ N(0, v k + v' I + N)``, and v = v' = 0 is among them.

    Parameters
    ----------
    values, noise : (K,) arrays
        NaN values are left out.
    points : (K, d) array
        Where the bins lie, in relative coordinates.
    """
    known = np.flatnonzero(np.isfinite(values))
    used = known[np.argsort(noise[known], kind="stable")[:MAX_BINS]]
    best, found = -np.inf, Surface(points, np.zeros(len(values)), 1.0, 0.0, 0.0)
    if not used.size:
        return found
    r = values[used]
    variance = np.maximum(noise[used], 1e-9 * max(float(np.max(noise[used])), 1e-300))
    size = float(np.sum(r**2 / variance) / np.sum(1.0 / variance))
    spread = float(np.sqrt(2.0 * points[used].var(axis=0).sum())) or 1.0
    for width in WIDTHS:
        kernel = np.asarray(_kernel(points[used], points[used], width * spread), dtype=np.float64)
        for smooth, own in product((0.0, *SHARES), repeat=2):
            if smooth == 0.0 and width != WIDTHS[0]:
                continue
            cov = size * smooth * kernel + np.diag(size * own + variance)
            value, root, half = _likelihood(cov, r)
            if value > best:
                weights = np.zeros(len(values))
                weights[used] = solve_triangular(root, half, lower=True, trans="T")
                best = value
                found = Surface(points, weights, width * spread, size * smooth, size * own)
    return found


def _kernel(left: Matrix, right: Matrix, width: float) -> Matrix:
    """``exp(-|u - v|^2 / (2 width^2))``."""
    exponent = left @ right.T
    exponent -= np.sum(left**2, axis=1)[:, None] / 2
    exponent -= np.sum(right**2, axis=1) / 2
    exponent *= 1.0 / width**2
    return np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent)


def _likelihood(cov: Array, values: Array) -> tuple[float, Array, Array]:
    """Gaussian log likelihood up to a constant, L with ``LL' = cov``, and ``L^-1 values``."""
    try:
        root: Array = np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    except np.linalg.LinAlgError:
        return -np.inf, cov, values
    half: Array = solve_triangular(root, values, lower=True, check_finite=False)
    value = -0.5 * float(half @ half) - float(np.sum(np.log(np.diag(root))))
    return value, root, half
