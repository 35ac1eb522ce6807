"""Mean and covariance of the design columns, and Gaussian rows inside boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.types import Array, Bins, Moments

SWEEPS = 8
LEAST_VARIANCE = 1e-2
"""Floor of the eigenvalues, in units of a column's variance."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Mean (p,) and covariance (p, p) of the columns over all records."""

    mean: Array
    cov: Array

    def select(self, columns: Sequence[int]) -> Shape:
        """The shape of some columns."""
        index = np.asarray(columns, dtype=np.intp)
        return Shape(self.mean[index], self.cov[np.ix_(index, index)])


def shape_from_moments(moments: Moments) -> Shape:
    """Mean and covariance from noisy second moments.

    ``mean = T'G e_0 / n``, ``cov = T'GT / n - mean mean'``. Noise enters entry
    (i, j) with a known variance s_ij^2; an entry c_ij off the diagonal is shrunk
    to ``c_ij max(0, 1 - s_ij^2 / c_ij^2)``.
    """
    n, t = moments.nobs, moments.design_map
    mean = (t.T @ moments.matrix[:, 0]) / n
    cov = moments.gram / n - np.outer(mean, mean)
    scale = np.sqrt(np.maximum(np.sum(t[1:] ** 2, axis=0), 0.0))
    noise = np.outer(scale, scale) * float(moments.sd[-1, -1]) / n
    kept = np.maximum(1.0 - noise**2 / np.maximum(cov**2, np.finfo(float).tiny), 0.0)
    np.fill_diagonal(kept, 1.0)
    floor = np.maximum(noise.diagonal(), 0.01 * scale**2)
    shrunk = kept * cov
    np.fill_diagonal(shrunk, np.maximum(np.diag(cov), floor))
    return Shape(mean, _positive(shrunk))


def shape_from_bins(bins: Bins) -> Shape:
    """Mean and covariance from bins: between their centres, and uniform inside.

    ``cov = sum w (m - mean)(m - mean)' + diag(sum w h^2/3)``, w the positive counts.
    """
    w = np.maximum(bins.counts, 0.0)
    w = w / w.sum() if w.sum() > 0 else np.full(w.size, 1.0 / w.size)
    centre = np.asarray(w @ bins.centre)
    deviation = bins.centre - centre
    between = (deviation * w[:, None]).T @ deviation
    within = np.diag(w @ bins.half_width**2) / 3.0
    return Shape(centre, _positive(between + within))


def _positive(cov: Array) -> Array:
    """Raise the eigenvalues of the correlation matrix to `LEAST_VARIANCE`."""
    varying = np.flatnonzero(np.diag(cov) > 0)
    inner = np.ix_(varying, varying)
    sd = np.sqrt(np.diag(cov)[varying])
    values, vectors = np.linalg.eigh(symmetric(cov[inner] / np.outer(sd, sd)))
    raised = (vectors * np.maximum(values, LEAST_VARIANCE)) @ vectors.T
    unit = np.sqrt(np.diag(raised))
    positive = np.zeros_like(cov)
    positive[inner] = raised / np.outer(unit, unit) * np.outer(sd, sd)
    return positive


def truncated_normal(mean: Array, sd: float, low: Array, high: Array, u: Array) -> Array:
    """Quantiles `u` of normal laws restricted to [low, high], computed in the nearer tail."""
    a, b = (low - mean) / sd, (high - mean) / sd
    flip = a + b > 0
    left = np.where(flip, -b, a)
    right = np.where(flip, -a, b)
    bottom, top = ndtr(left), ndtr(right)
    z = ndtri(bottom + u * (top - bottom))
    # Beyond 38 standard deviations the tail underflows; the law piles up at the nearer edge.
    z = np.where(np.isfinite(z), z, right)
    return np.clip(mean + sd * np.where(flip, -z, z), low, high)


def gaussian_rows(
    shape: Shape,
    rows: Array,
    low: Array,
    high: Array,
    free: Sequence[int],
    rng: np.random.Generator,
    sweeps: int = SWEEPS,
) -> Array:
    """Draw rows from a Gaussian law restricted to a box for each row (Gibbs sampling).

    Coordinate j given the others is normal with variance ``1/P_jj`` and mean
    ``x_j - (P (x - mean))_j / P_jj``, P the inverse of the covariance, restricted to
    ``[low_ij, high_ij]``.

    Parameters
    ----------
    shape : Shape
        Of q coordinates.
    rows : (n, q) array
        Where to start. Coordinates not in `free` are kept: the law is conditional
        on them.
    low, high : (n, len(free)) arrays
    free : sequence of f ints
        Coordinates to draw.
    rng : Generator
    """
    unit = np.sqrt(np.diag(shape.cov))
    precision = np.linalg.inv(shape.cov / np.outer(unit, unit))
    x = np.asfortranarray((rows - shape.mean) / unit)
    index = np.asarray(free, dtype=np.intp)
    least = np.asfortranarray((low - shape.mean[index]) / unit[index])
    most = np.asfortranarray((high - shape.mean[index]) / unit[index])
    for _ in range(sweeps):
        for place, j in enumerate(index):
            mean = x[:, j] - x @ (precision[:, j] / precision[j, j])
            sd = float(1.0 / np.sqrt(precision[j, j]))
            u = rng.random(len(x))
            x[:, j] = truncated_normal(mean, sd, least[:, place], most[:, place], u)
    drawn = np.array(rows, dtype=np.float64)
    drawn[:, index] = np.clip(x[:, index] * unit[index] + shape.mean[index], low, high)
    return drawn
