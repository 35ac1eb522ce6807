"""Symmetric matrices that noise or collinearity may have spoilt."""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst.types import Array


def symmetric(matrix: Array) -> Array:
    """Return (M + M')/2."""
    return np.asarray((matrix + matrix.T) / 2)


def equilibrate(matrix: Array) -> Array:
    """Return d with d_j = |M_jj|^(-1/2), 1 where the diagonal is zero."""
    diagonal = np.abs(np.diag(matrix))
    safe = np.where(diagonal > 0, diagonal, 1.0)
    return np.asarray(1.0 / np.sqrt(safe))


def inverse_psd(matrix: Array, tolerance: float = 1e-11) -> tuple[Array, int]:
    """Invert a symmetric matrix on the directions whose eigenvalue is positive.

    Eigenvalues are those of the matrix scaled to a unit diagonal; directions at
    or under `tolerance` times the largest are left out, so that the result is
    a positive semidefinite generalised inverse.

    Returns
    -------
    inverse : (p, p) array
    dropped : int
        Number of directions left out.
    """
    d = equilibrate(matrix)
    values, vectors = np.linalg.eigh(symmetric(d[:, None] * matrix * d))
    keep = values > tolerance * max(float(values[-1]), 0.0)
    kept = vectors[:, keep]
    inverse = (kept / values[keep]) @ kept.T
    return np.asarray(d[:, None] * inverse * d), int(np.sum(~keep))


def project_psd(matrix: Array, floor: float = 0.0) -> Array:
    """Raise every eigenvalue of a symmetric matrix to at least `floor`."""
    values, vectors = np.linalg.eigh(symmetric(matrix))
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)
