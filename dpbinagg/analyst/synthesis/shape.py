"""Mean and covariance of the design columns, and Gaussian rows inside boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.synthesis.groups import Groups
from dpbinagg.analyst.types import Array, Bins, Moments

SWEEPS = 1
"""Sweeps after coordinates were drawn in order. The means and covariances of rows are then
nearer to those after 40 sweeps than 8 sweeps from a uniform start bring them."""

WIDE = 0.9
"""Edges are wide if so large a share of the unrestricted law is inside, on average."""

BLOCK = 2**15
"""Rows that are drawn together."""

PANEL = 16
"""Coordinates that are drawn between two products of matrices."""

LEAST_VARIANCE = 1e-2
"""Floor of the eigenvalues, in units of a column's variance."""


Single = NDArray[np.float32]
Edges = list[tuple[Single, Single]]


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
    return Shape(mean, positive(shrunk))


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
    return Shape(centre, positive(between + within))


def positive(cov: Array) -> Array:
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


def between(mean: Single, sd: float, low: Single, high: Single, rng: np.random.Generator) -> Single:
    """Normal values restricted to [low, high], edges (n,) or (1,).

    A value that falls inside is kept. One that falls outside is drawn again, as a quantile of
    the restricted law that is computed in the nearer tail.
    """
    x = rng.standard_normal(len(mean), dtype=np.float32)
    x *= np.float32(sd)
    x += mean
    outside = np.flatnonzero((x < low) | (x > high))
    if outside.size:
        centre = mean[outside].astype(np.float64)
        low, high = (edge if len(edge) == 1 else edge[outside] for edge in (low, high))
        z = _quantiles((low - centre) / sd, (high - centre) / sd, rng.random(outside.size))
        x[outside] = np.clip(centre + sd * z, low, high)
    return x


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
    kept: Array,
    low: Array,
    high: Array,
    bins: NDArray[np.int64],
    rng: np.random.Generator,
    sweeps: int = SWEEPS,
) -> Array:
    """Draw the first coordinates of rows, inside boxes, given the other ones.

    The law is Gaussian, restricted to the box of each row. Coordinates are first drawn one
    after the other, each given those before it and inside its edges, those with the narrowest
    edges first: with ``LL'`` the correlation matrix in that order,
    ``x_k = sum_{i<k} L_ki z_i + L_kk z_k``, z_k restricted. That is the law itself where edges
    are wide. Sweeps of Gibbs sampling over the coordinates with narrow edges correct the rest:
    coordinate j given all others is normal with variance ``1/P_jj`` and mean
    ``x_j - (P x)_j / P_jj``, P the inverse of the correlation matrix, inside its edges.
    Coordinates are drawn in single precision and cut to the box in double.

    Parameters
    ----------
    shape : Shape
        Of q coordinates, f of them to be drawn.
    kept : (q - f, n) array
        The other coordinates.
    low, high : (f, K) arrays
        Edges of the boxes.
    bins : (n,) array
        Box of every row.
    rng : Generator

    Returns
    -------
    (f, n) array
    """
    f, unit = len(low), np.sqrt(np.diag(shape.cov))
    mean, scale = shape.mean[:f, None], unit[:f, None]
    least, most = (low - mean) / scale, (high - mean) / scale
    correlation = shape.cov / np.outer(unit, unit)
    precision = np.linalg.inv(correlation)
    groups = Groups(bins, low.shape[1])
    inside = (ndtr(most) - ndtr(least)) @ groups.sizes / max(len(bins), 1)
    narrow_first = np.argsort(inside, kind="stable")
    narrow = narrow_first[: np.count_nonzero(inside < WIDE)]
    order = np.concatenate([np.arange(f, len(unit)), narrow_first])
    root = np.linalg.cholesky(correlation[np.ix_(order, order)])
    drawn = np.empty((f, len(bins)))
    sides = list(zip(least.astype(np.float32), most.astype(np.float32), strict=True))
    for start in range(0, len(bins), BLOCK):
        block = slice(start, start + BLOCK)
        box = Groups(bins[block], low.shape[1])
        x = np.empty((len(unit), len(box.bins)), dtype=np.float32)
        x[f:] = (kept[:, block] - shape.mean[f:, None]) / unit[f:, None]
        edges = [(box.each(a), box.each(b)) for a, b in sides]
        _draw_in_order(x, root, edges, narrow_first, rng)
        for _ in range(sweeps):
            _sweep(x, precision, edges, narrow, rng)
        np.multiply(scale, x[:f], out=drawn[:, block])
    drawn += mean
    for row, a, b in zip(drawn, low, high, strict=True):
        np.clip(row, groups.each(a), groups.each(b), out=row)
    return drawn


def _draw_in_order(
    x: Single, root: Array, edges: Edges, order: NDArray[np.intp], rng: np.random.Generator
) -> None:
    """Draw the first coordinates of x, (q, n), in `order`, each given those before it.

    `root` is L for all other coordinates followed by these.
    """
    first, sd = len(x) - len(edges), np.diag(root)
    lower = (root / sd).astype(np.float32)
    known = np.linalg.solve(lower[:first, :first], x[len(edges) :])

    def draw(k: int, mean: Single) -> Single:
        j = int(order[k])
        x[j] = between(mean, float(sd[first + k]), *edges[j], rng)
        return np.asarray(x[j] - mean)

    _in_turn(lower[first:, first:], lower[first:, :first] @ known, draw)


def _sweep(
    x: Single, precision: Array, edges: Edges, chosen: NDArray[np.intp], rng: np.random.Generator
) -> None:
    """Draw each of the `chosen` coordinates of x, (q, n), given all others."""
    rows = (precision[chosen] / precision[chosen, chosen][:, None]).astype(np.float32)
    sd = 1.0 / np.sqrt(precision[chosen, chosen])

    def draw(k: int, mean: Single) -> Single:
        j = int(chosen[k])
        before = x[j].copy()
        x[j] = between(mean, float(sd[k]), *edges[j], rng)
        return np.asarray(x[j] - before)

    _in_turn(-rows[:, chosen], x[chosen] - rows @ x, draw)


def _in_turn(lower: Single, base: Single, draw: Callable[[int, Single], Single]) -> None:
    """``found_k = draw(k, base_k + sum_{i<k} lower_ki found_i)``, one row k after the other.

    What all rows before a panel of rows add to it is one product of matrices.
    """
    found = np.empty_like(base)
    for start in range(0, len(base), PANEL):
        stop = min(start + PANEL, len(base))
        base[start:stop] += lower[start:stop, :start] @ found[:start]
        for k in range(start, stop):
            found[k] = draw(k, base[k] + lower[k, start:k] @ found[start:k])
