"""Mean and covariance of the design columns, and Gaussian rows inside boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.types import Array, Bins, Moments

SWEEPS = 2
"""Sweeps after coordinates were drawn in order. The means and covariances of rows are then
nearer to those after 40 sweeps than 8 sweeps from a uniform start bring them."""

BLOCK = 4096
"""Rows that are drawn together: as many as fit into a processor's cache."""

SAMPLE = 500
"""Rows that tell which coordinates have narrow edges."""

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


def between(low: Array, high: Array, rng: np.random.Generator) -> Array:
    """Standard normal values restricted to [low, high].

    A value that falls inside is kept. One that falls outside is drawn again, as a quantile of
    the restricted law that is computed in the nearer tail.
    """
    z = rng.standard_normal(len(low))
    outside = np.flatnonzero((z < low) | (z > high))
    if outside.size:
        z[outside] = _quantiles(low[outside], high[outside], rng.random(outside.size))
    return z


def _quantiles(low: Array, high: Array, u: Array) -> Array:
    """Quantiles `u` of the standard normal law restricted to [low, high]."""
    flip = low + high > 0
    left, right = np.where(flip, -high, low), np.where(flip, -low, high)
    bottom, top = ndtr(left), ndtr(right)
    z = ndtri(bottom + u * (top - bottom))
    # Beyond 38 standard deviations the tail underflows; the law piles up at the nearer edge.
    z = np.where(np.isfinite(z), z, right)
    return np.clip(np.where(flip, -z, z), low, high)


def gaussian_rows(
    shape: Shape,
    rows: Array,
    low: Array,
    high: Array,
    free: Sequence[int],
    rng: np.random.Generator,
    sweeps: int = SWEEPS,
) -> Array:
    """Draw rows from a Gaussian law restricted to a box for each row.

    Coordinates are first drawn one after the other, each given those before it and inside its
    edges, those with the narrowest edges first: with ``LL'`` the correlation matrix in that
    order, ``x_k = sum_{i<k} L_ki z_i + L_kk z_k``, z_k restricted. That is the law itself where
    edges are wide. Elsewhere sweeps of Gibbs sampling correct it: coordinate j given all others
    is normal with variance ``1/P_jj`` and mean ``x_j - (P x)_j / P_jj``, P the inverse of the
    correlation matrix, inside its edges.

    Parameters
    ----------
    shape : Shape
        Of q coordinates.
    rows : (n, q) array
        Only coordinates not in `free` are used, and kept: the law is conditional on them.
    low, high : (n, len(free)) arrays
    free : sequence of f ints
        Coordinates to draw.
    rng : Generator
    """
    unit = np.sqrt(np.diag(shape.cov))
    correlation = shape.cov / np.outer(unit, unit)
    precision = np.linalg.inv(correlation)
    index = np.asarray(free, dtype=np.intp)
    some = np.unique(np.linspace(0, len(rows) - 1, SAMPLE).astype(np.intp)) if len(rows) else []
    chance = ndtr((high[some] - shape.mean[index]) / unit[index])
    chance -= ndtr((low[some] - shape.mean[index]) / unit[index])
    order = np.argsort(chance.mean(axis=0), kind="stable")
    kept = np.setdiff1d(np.arange(len(unit)), index)
    sequence = np.concatenate([kept, index[order]])
    root = np.linalg.cholesky(correlation[np.ix_(sequence, sequence)])
    drawn = np.array(rows, dtype=np.float64)
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        x = np.ascontiguousarray(((rows[block] - shape.mean) / unit).T)
        edges = [
            np.ascontiguousarray(((side[block] - shape.mean[index]) / unit[index]).T)
            for side in (low, high)
        ]
        _draw_in_order(x, root, *edges, index, order, rng)
        for _ in range(sweeps):
            _sweep(x, precision, *edges, index, rng)
        drawn[block, index] = x[index].T * unit[index] + shape.mean[index]
    drawn[:, index] = np.clip(drawn[:, index], low, high)
    return drawn


def _draw_in_order(
    x: Array,
    root: Array,
    low: Array,
    high: Array,
    free: NDArray[np.intp],
    order: NDArray[np.intp],
    rng: np.random.Generator,
) -> None:
    """Draw the coordinates ``free[order]`` of x, (q, n), each given those before it.

    `root` is L for all other coordinates, in their order, followed by these.
    """
    kept = np.setdiff1d(np.arange(len(x)), free)
    first = len(kept)
    z = np.empty_like(x)
    z[:first] = np.linalg.solve(root[:first, :first], x[kept])
    for k, place in enumerate(order, start=first):
        mean, sd = root[k, :k] @ z[:k], root[k, k]
        z[k] = between((low[place] - mean) / sd, (high[place] - mean) / sd, rng)
        x[free[place]] = mean + sd * z[k]


def _sweep(
    x: Array,
    precision: Array,
    low: Array,
    high: Array,
    free: NDArray[np.intp],
    rng: np.random.Generator,
) -> None:
    """Draw every coordinate in `free` of x, (q, n), given all others."""
    for place, j in enumerate(free):
        sd = 1.0 / np.sqrt(precision[j, j])
        mean = x[j] - (precision[j] / precision[j, j]) @ x
        x[j] = mean + sd * between((low[place] - mean) / sd, (high[place] - mean) / sd, rng)
