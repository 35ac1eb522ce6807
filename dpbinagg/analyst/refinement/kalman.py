"""Linear updates with a noisy matrix, and how noise moves under a change of basis."""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.types import Array

EDGE = 2.0
"""Edge of the spectrum of the noise of a matrix, in units of its `spectral_level`."""

SWEEPS = 1
"""Passes of `update`. One counts the error of the matrix at the size of the prior; more would let
an estimate that is small by chance make it look small, round after round."""


def matrix_noise(variance: Array, second: Array) -> Array:
    """``E[E P E]`` for a symmetric noise matrix E with independent entries.

    Entries (i, j), i <= j, have variance ``variance_ij``; P = `second`::

        (i != j)  variance_ij P_ij        (i = j)  sum_k variance_ik P_kk
    """
    cov = variance * second
    np.fill_diagonal(cov, variance @ np.diag(second))
    return np.asarray(cov)


def transformed_variance(variance: Array, m: Array) -> Array:
    """Variances of the entries of ``M E M'`` (cross terms off the diagonal left out)."""
    square = m * m
    moved = square @ variance @ square.T
    diagonal = 2.0 * np.diag(moved) - (square * square) @ np.diag(variance)
    np.fill_diagonal(moved, diagonal)
    return np.asarray(moved)


def invariant_variance(size: int, sd: float) -> Array:
    """Variances of rotation-invariant noise: sd^2 on the diagonal, half of it elsewhere."""
    variance = np.full((size, size), sd**2 / 2.0)
    np.fill_diagonal(variance, sd**2)
    return variance


def spectral_level(variance: Array) -> float:
    """``|E[E^2]|^(1/2)``, half the edge of the spectrum of the noise matrix E.

    ``E[E^2]`` is diagonal, with the row sums of the variances (`matrix_noise` at P = I).
    """
    return float(np.sqrt(max(variance.sum(axis=1).max(initial=0.0), 0.0)))


def raise_eigenvalues(matrix: Array, floor: float) -> Array:
    """Raise the eigenvalues of a symmetric matrix to `floor`."""
    values, vectors = np.linalg.eigh(symmetric(matrix))
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def roots(matrix: Array, floor: float = 0.0) -> tuple[Array, Array]:
    """Symmetric ``M^(1/2)`` and ``M^(-1/2)`` of a matrix, its eigenvalues raised to `floor`."""
    values, vectors = np.linalg.eigh(symmetric(matrix))
    sizes = np.sqrt(np.maximum(values, max(floor, np.finfo(float).tiny)))
    return (vectors * sizes) @ vectors.T, (vectors / sizes) @ vectors.T


def doubt(gram: Array, variance: Array) -> Array:
    """Root of the extra variance of a matrix in directions that noise hides.

    An eigenvalue h under the edge of the noise was raised or is noise itself: it is taken to
    be uncertain by its own size, and by ``h (edge/h)^4`` above the edge.
    """
    values, vectors = np.linalg.eigh(gram)
    edge = EDGE * spectral_level(variance)
    ratio = np.minimum(1.0, edge / np.maximum(values, np.finfo(float).tiny)) ** 4
    return np.asarray((vectors * (values * ratio)) @ vectors.T)


def _solve(matrix: Array, right: Array) -> Array:
    """``matrix^-1 right``; the least-squares solution where rounding makes it singular.

    A release is under way when this is called: it must not fail.
    """
    try:
        return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(matrix, hermitian=True) @ right, dtype=np.float64)


def update(
    prior: Array, gram: Array, gram_variance: Array, score: Array, score_cov: Array
) -> tuple[Array, Array]:
    """Estimate eta from ``score = A eta + noise``, A known as ``gram`` up to noise.

    With prior covariance N, D the `doubt` and R = Cov(score noise) + E[E eta eta' E] +
    D E[eta eta'] D::

        K = N A'(A N A' + R)^-1,  eta = K score,
        N <- (I - K A) N (I - K A)' + K R K'

    R depends on the second moment of eta, which is iterated from N.
    """
    size = score.size
    second, hidden = prior, doubt(gram, gram_variance)
    eta, posterior = np.zeros(size), prior
    for _ in range(SWEEPS):
        noise = score_cov + matrix_noise(gram_variance, second) + hidden @ second @ hidden
        middle = symmetric(gram @ prior @ gram.T + noise)
        gain = _solve(middle, gram @ prior).T
        eta = gain @ score
        left = np.eye(size) - gain @ gram
        posterior = symmetric(left @ prior @ left.T + gain @ noise @ gain.T)
        second = np.outer(eta, eta) + posterior
    return eta, posterior
