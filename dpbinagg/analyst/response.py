"""Responses of synthetic rows: calibrated to a regression, or inside their bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.adjust import match_means
from dpbinagg.analyst.bins import noise_variance
from dpbinagg.analyst.types import Array, Bins, Estimate

LEAST_OWN_SHARE = 0.25
"""Share of the error variance that is left to rows, whatever the bin effects are."""


def bin_effects(bins: Bins, estimate: Estimate, columns: Array) -> Array:
    """Shrunken mean residual of every bin, (K,).

    The residual ``e_k = t_k - z_k'b`` of a bin with count c has the noise variance
    v_k (see `noise_variance`) and the sampling variance ``sigma^2 c``; the effects
    have the variance ``v = sum(e^2 - v_k - sigma^2 c)/sum c^2`` if that is positive.
    The effect is ``(e/c) v / (v + v_k/c^2 + sigma^2/c)``.

    Parameters
    ----------
    bins : Bins
        Of the released design.
    estimate : Estimate
    columns : (p, q) array
        The model's columns as combinations of the released ones.
    """
    counts = np.maximum(bins.counts, 1.0)
    params = columns @ estimate.params
    residual = bins.sum_y - bins.sum_x @ params
    noise = noise_variance(bins, params) + estimate.scale * counts
    between = float(np.sum(residual**2 - noise) / np.sum(counts**2))
    between = min(max(between, 0.0), (1.0 - LEAST_OWN_SHARE) * estimate.scale)
    if between == 0.0:
        return np.zeros(len(counts))
    return np.asarray(residual / counts * between / (between + noise / counts**2))


def errors(
    effects: Array, bin_of: NDArray[np.int64], scale: float, rng: np.random.Generator
) -> Array:
    """Bin effects and independent normal errors, together of variance `scale`."""
    shared = effects[bin_of]
    own = max(scale - float(np.var(shared)), LEAST_OWN_SHARE * scale)
    return np.asarray(shared + np.sqrt(own) * rng.standard_normal(len(bin_of)))


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


def bounded_response(
    fitted: Array,
    error: Array,
    bin_of: NDArray[np.int64],
    target: Array,
    bounds: tuple[float, float],
) -> Array:
    """Responses inside `bounds` with bin means `target` (NaN: as they come)."""
    low, high = (np.full(len(target), side) for side in bounds)
    values = np.clip(fitted + error, *bounds)
    return match_means(values, bin_of, target, low, high)
