"""Symmetric noise matrices and what they do to the steps of the estimate.

An ensemble of M noise matrices E, each of the law of the true one, stands for what is not known of
a released matrix ``A = truth + E``: member m believes the truth to be ``A - E_m``.
"""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.types import Array

SAFE = 4.0
"""Eigenvalues of A that exceed so many noise levels leave every member positive."""


def members_of(size: int) -> int:
    """Members of the ensemble: 100 give standard errors within 7%; fewer for large matrices."""
    return int(np.clip(4_000_000 // size**2, 16, 100))


def symmetric_noise(rng: np.random.Generator, scales: Array, members: int) -> Array:
    """Symmetric matrices with independent entries of these standard deviations, (M, k, k)."""
    upper = np.triu(rng.normal(size=(members, *scales.shape)) * scales)
    return np.asarray(upper + np.swapaxes(np.triu(upper, 1), 1, 2))


def moved(noise: Array, by: Array) -> Array:
    """``B E_m B'`` of every member."""
    return np.asarray(by @ noise @ by.T)


def product(noise: Array, second: Array) -> Array:
    """Mean of ``E_m P E_m``."""
    return np.asarray(np.mean(noise @ second @ noise, axis=0))


def applied(matrices: Array, vectors: Array) -> Array:
    """``E_m e_m`` of every member, (M, k)."""
    return np.asarray(np.matmul(matrices, vectors[:, :, None])[:, :, 0])


def levels(gram: Array, noise: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues and eigenvectors of A, and for each of these v the noise ``(E|E v|^2)^(1/2)``."""
    values, vectors = np.linalg.eigh(symmetric(gram))
    acted = noise @ vectors
    return values, vectors, np.sqrt(np.mean(np.sum(acted**2, axis=1), axis=0))


def lifted(gram: Array, noise: Array) -> Array:
    """A with no eigenvalue below its noise: what steps divide by."""
    values, vectors, level = levels(gram, noise)
    return np.asarray((vectors * np.maximum(values, level)) @ vectors.T)


def truths(gram: Array, noise: Array) -> Array:
    """``A - E_m`` of every member, negative eigenvalues raised to 0: no true matrix has one."""
    matrices = gram - noise
    values, _, level = levels(gram, noise)
    if np.all(values > SAFE * level):
        return np.asarray(matrices)
    roots, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * np.maximum(roots, 0.0)[:, None, :]) @ np.swapaxes(vectors, 1, 2))


def inverse_root(matrix: Array, floor: float = 1e-12) -> tuple[Array, Array]:
    """Symmetric ``M^(-1/2)`` and ``M^(1/2)``, eigenvalues raised to `floor` times the largest."""
    values, vectors = np.linalg.eigh(symmetric(matrix))
    sizes = np.sqrt(np.maximum(values, floor * max(float(values[-1]), np.finfo(float).tiny)))
    return (vectors / sizes) @ vectors.T, (vectors * sizes) @ vectors.T
