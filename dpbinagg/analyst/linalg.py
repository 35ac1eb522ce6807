"""Symmetric matrices that noise or collinearity may have spoilt, and ensembles of their noise.

An ensemble of M noise matrices E, each of the law of the true one, stands for what is not known of
a released matrix ``A = truth + E``: member m believes the truth to be ``A - E_m``.
"""

from __future__ import annotations

from dataclasses import dataclass

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


PARTS = 64
"""Of a few thousand records: small enough for one thread where columns are few."""
SAFE = 4.0
"""Eigenvalues of A that exceed so many noise levels leave every member positive."""


def members_of(size: int) -> int:
    """Members of the ensemble: 100 give standard errors within 7%; fewer, to save time, where there
    are more than 60 columns: 60 of 80 columns give them within 9%, 16 of more than 150 within 18%.
    """
    return int(np.clip(400_000 // size**2, 16, 100))


def symmetric_noise(rng: np.random.Generator, scales: Array, members: int) -> Array:
    """Symmetric matrices with independent entries of these standard deviations, (M, k, k)."""
    drawn = rng.normal(size=(members, *scales.shape)) * scales
    below = np.tri(len(scales), k=-1, dtype=bool)
    return np.where(below, np.swapaxes(drawn, 1, 2), drawn)


def squares(columns: Array) -> Array:
    """``X'X``, in parts."""
    parts = np.array_split(columns, PARTS)
    return symmetric(np.sum([part.T @ part for part in parts], axis=0))


def combined(columns: Array, by: Array) -> Array:
    """``X B``, in parts."""
    return np.concatenate([part @ by for part in np.array_split(columns, PARTS)])


def moved(noise: Array, by: Array) -> Array:
    """``B E_m B'`` of every member.

    As everywhere here, by many products of small matrices: one of long ones is given to several
    threads, which on a busy machine wait for each other ten times as long as the product takes.
    """
    return np.asarray(np.matmul(np.matmul(by, noise), by.T))


def product(noise: Array, second: Array) -> Array:
    """Mean of ``E_m P E_m``."""
    return np.asarray(np.mean(np.matmul(np.matmul(noise, second), noise), axis=0))


def applied(matrices: Array, vectors: Array) -> Array:
    """``E_m e_m`` of every member, (M, k)."""
    return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0])


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Eigenvalues and eigenvectors of A, and the noise ``(E|E v|^2)^(1/2)`` of each of these v."""

    values: Array
    vectors: Array
    level: Array

    @property
    def lifted(self) -> Array:
        """A with no eigenvalue below its noise: what steps divide by."""
        raised = np.maximum(self.values, self.level)
        return np.asarray((self.vectors * raised) @ self.vectors.T)


def spectrum(gram: Array, noise: Array) -> Spectrum:
    """The spectrum of A."""
    values, vectors = np.linalg.eigh(symmetric(gram))
    second = np.mean(np.matmul(noise, noise), axis=0)
    return Spectrum(values, vectors, np.sqrt(np.sum(vectors * (second @ vectors), axis=0)))


def truths(gram: Array, noise: Array, of_gram: Spectrum) -> Array:
    """``A - E_m`` of every member, negative eigenvalues raised to 0: no true matrix has one."""
    matrices = np.asarray(gram - noise)
    if np.all(of_gram.values > SAFE * of_gram.level):
        return matrices
    # To see whether a matrix is positive takes a twentieth of the time of its eigenvalues.
    below = [number for number, matrix in enumerate(matrices) if not _positive(matrix)]
    roots, vectors = np.linalg.eigh(matrices[below])
    matrices[below] = (vectors * np.maximum(roots, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return matrices


def _positive(matrix: Array) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def inverse_root(matrix: Array, floor: float = 1e-12) -> tuple[Array, Array]:
    """Symmetric ``M^(-1/2)`` and ``M^(1/2)``, eigenvalues raised to `floor` times the largest."""
    values, vectors = np.linalg.eigh(symmetric(matrix))
    sizes = np.sqrt(np.maximum(values, floor * max(float(values[-1]), np.finfo(float).tiny)))
    return (vectors / sizes) @ vectors.T, (vectors * sizes) @ vectors.T
