"""Responses of synthetic rows: calibrated to a regression, or inside their bounds."""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst.synthesis.adjust import match_means
from dpbinagg.analyst.synthesis.groups import Groups
from dpbinagg.analyst.types import Array

LEAST_OWN_SHARE = 0.25
"""Share of the error variance that is left to rows, whatever the misfit is."""


def errors(misfit: Array, scale: float, rng: np.random.Generator) -> Array:
    """The misfit of the regression and independent normal errors, together of variance `scale`."""
    own = max(scale - float(np.var(misfit)), LEAST_OWN_SHARE * scale)
    return np.asarray(misfit + np.sqrt(own) * rng.standard_normal(len(misfit)))


def calibrated_response(design: Array, params: Array, error: Array, scale: float) -> Array:
    """A response on which least squares returns `params` and the error variance `scale`.

    ``y = Z b + r``, r the part of `error` orthogonal to Z, scaled to
    ``r'r = scale (n - rank Z)``.
    """
    basis, rank = orthonormal_basis(design)
    residual = error - basis @ (basis.T @ error)
    residual -= basis @ (basis.T @ residual)
    square = float(residual @ residual)
    if square > 0.0:
        residual *= np.sqrt(scale * (len(error) - rank) / square)
    return np.asarray(design @ params + residual)


def orthonormal_basis(design: Array, tolerance: float = 1e-10) -> tuple[Array, int]:
    """Orthonormal basis of the columns and their rank, columns scaled to unit length."""
    length = np.linalg.norm(design, axis=0)
    u, s, _ = np.linalg.svd(design / np.where(length > 0, length, 1.0), full_matrices=False)
    rank = int(np.sum(s > tolerance * s[0])) if s.size else 0
    return u[:, :rank], rank


def beyond(design: Array, values: Array) -> Array:
    """`values` less their least-squares fit on the columns, by normal equations, solved twice."""
    gram = design.T @ design
    length = np.sqrt(np.where(np.diag(gram) > 0, np.diag(gram), 1.0))
    scale = np.outer(length, length)
    inverse = np.linalg.pinv(gram / scale, rcond=1e-12, hermitian=True) / scale
    for _ in range(2):
        values = values - design @ (inverse @ (design.T @ values))
    return np.asarray(values)


def bounded_response(
    fitted: Array,
    error: Array,
    groups: Groups,
    target: Array,
    bounds: tuple[float, float],
) -> Array:
    """Responses inside `bounds` with bin means `target` (NaN: as they come)."""
    low, high = (np.full(len(target), side) for side in bounds)
    values = np.clip(fitted + error, *bounds)
    return match_means(values, groups, target, low, high)
