"""Coordinates in which the design is nearly the identity, from margins alone.

With S the second moments of the design columns under the product of the margins, records have
whitened columns ``w = W x``, ``W = (S + ridge)^(-1/2)``: what looks weak in raw units (age and its
square, schooling and experience) is then as well known as the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.ols.ensemble import inverse_root
from dpbinagg.analyst.types import Array

COLLINEAR = 1e-9
"""Relative eigenvalue of S below which a combination of columns is constantly zero."""
TOUCHED = 1e-6
"""Share of a unit coefficient in such combinations from which on it is not identified."""
RARE = 0.5
"""A column of two values m apart gets the ridge ``RARE m^2/(k + 1)`` less its variance: a rarer
value has the leverage of one that is held by RARE/(k + 1) of the records. Whitening it fully would
give its few people a leverage that every bound on contributions cuts."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Public facts about the design.

    Attributes
    ----------
    whitening : (k, p) array
        W.
    ridge : (p, p) array
        Diagonal; added to the mean of ``x x'`` before it is inverted.
    null : (l, p) array
        Combinations v of coefficients with ``x'v = 0`` for every record that was seen.
    lost : (p,) bool array
        Coefficients that these touch.
    """

    whitening: Array
    ridge: Array
    null: Array
    lost: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Number of directions, k."""
        return len(self.whitening)


def coordinates(columns: Array, intercept: int | None) -> Coordinates:
    """Coordinates from design columns of the product of the margins, (n, p)."""
    n = len(columns)
    second = columns.T @ columns / n
    ridge = rare_ridge(columns, intercept)
    size = np.sqrt(np.maximum(np.diag(second) + ridge, 0.0))
    size[size == 0.0] = 1.0
    scaled = symmetric(second / np.outer(size, size))
    values, vectors = np.linalg.eigh(scaled)
    kept = values > COLLINEAR * values[-1]
    null = vectors[:, ~kept].T / size
    basis = canonical_basis(vectors[:, kept])
    inner = basis.T @ (scaled + np.diag(ridge / size**2)) @ basis
    whitening = inverse_root(inner)[0] @ basis.T / size
    lost = np.sqrt(np.sum(null**2, axis=0)) * size > TOUCHED
    return Coordinates(whitening, np.diag(ridge), null, np.asarray(lost))


def canonical_basis(vectors: Array) -> Array:
    """An orthonormal basis of the same space that does not depend on signs or ties of `vectors`.

    The estimate is replayed on other machines, whose eigenvectors differ.
    """
    size, k = vectors.shape
    if k == size:
        return np.eye(size)
    q, r, _ = linalg.qr(vectors @ vectors.T, pivoting=True)
    signs = np.where(np.diag(r)[:k] < 0.0, -1.0, 1.0)
    return np.asarray(q[:, :k] * signs)


def rare_ridge(columns: Array, intercept: int | None) -> Array:
    """Ridge of columns that take two values; 0 of others, (p,)."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    two = np.all((columns == low) | (columns == high), axis=0) & (high > low)
    if intercept is not None:
        two[intercept] = False
    ridge = RARE * (high - low) ** 2 / (columns.shape[1] + 1) - columns.var(axis=0)
    return np.where(two, np.maximum(ridge, 0.0), 0.0)
