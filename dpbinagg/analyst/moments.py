"""Regression from a noisy matrix of second moments.

With G = sum f f' + E, design Z = f T, response y = f't (see `Moments`), the
normal equations are solved in an orthonormal basis Q of the span of T, around the
fit that predicts the middle of the response's range::

    M delta = Q'G (t - Q q0),   M = Q'GQ + ridge I,   q0 = centre_y Q'e_0

The ridge is zero unless noise makes Q'GQ nearly singular or indefinite; then it
lifts the smallest eigenvalue to the level of the noise, and what it does to the
coefficients is part of the covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.covariance import noise_of_product
from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.types import Array, Estimate, Moments

EDGE = 2.0
"""Edge of the spectrum of a symmetric noise matrix E, in units of E[E^2]^(1/2)."""

LEAST_SCALE = 1e-4
"""Floor of the error variance, in squared half-ranges of the response."""


@dataclass(frozen=True, slots=True)
class Basis:
    """Orthonormal basis Q of the span of the design map, ``T = Q forth``.

    ``params = back @ coordinates``, ``coordinates = forth @ params``; `lost` directions of
    the parameters appear in no column (exact public collinearity) and are set to zero.
    """

    q: Array
    back: Array
    forth: Array
    lost: int


def basis(design_map: Array) -> Basis:
    """Return the basis of the span of `design_map`.

    Coordinates of f themselves where the columns span all those they use (any model with
    an intercept), else the left singular vectors.
    """
    size = np.linalg.norm(design_map, axis=0)
    size = np.where(size > 0, size, 1.0)
    u, s, _ = np.linalg.svd(design_map / size, full_matrices=False)
    keep = s > 1e-10 * s[0]
    used = np.flatnonzero(np.any(design_map != 0, axis=1))
    q = u[:, keep]
    if used.size == q.shape[1]:
        q = np.eye(design_map.shape[0])[:, used]
    forth = q.T @ design_map
    back = np.linalg.pinv(forth / size, rcond=1e-11) / size[:, None]
    return Basis(q, back, forth, int(np.sum(~keep)))


def noise_edge(moments: Moments, q: Array) -> float:
    """Level of the eigenvalues that noise alone gives: ``EDGE |E[(Q'EQ)^2]|^(1/2)``."""
    second = noise_of_product(moments.sd, moments.centring, q @ q.T)
    return EDGE * float(np.sqrt(max(np.linalg.eigvalsh(q.T @ second @ q)[-1], 0.0)))


def from_moments(moments: Moments) -> Estimate:
    """Least squares from the noisy moments, with the covariance of its noise.

    ``cov = M^-1 (sigma^2 A + Cov(Q'E v) + ridge^2 P) M^-1`` with ``v = t - T b`` the
    residual as a combination of f, and P the spread of coefficients (in half-ranges of
    the response per half-range of a column) that a ridge may have hidden.
    """
    base = basis(moments.design_map)
    q, t = base.q, moments.response_map
    gram = symmetric(q.T @ moments.matrix @ q)
    start = q.T[:, 0] * t[0]
    values, vectors = np.linalg.eigh(gram)
    edge = noise_edge(moments, q)
    tiny = 1e-12 * max(float(values[-1]), 1.0)
    ridge = max(edge - float(values[0]), 0.0)
    lifted = np.maximum(values + ridge, tiny)
    bread = (vectors / lifted) @ vectors.T
    delta = bread @ (q.T @ moments.matrix @ (t - q @ start))
    coordinates = start + delta
    v = t - q @ coordinates
    noise_score = q.T @ noise_of_product(moments.sd, moments.centring, np.outer(v, v)) @ q
    spread = max(float(t[-1]) ** 2, float(delta @ delta) / q.shape[1])
    scale = _scale(moments, v, float(np.trace(bread @ noise_score)), q.shape[1])
    noise = symmetric(bread @ (noise_score + ridge**2 * spread * np.eye(q.shape[1])) @ bread)
    sampling = scale * symmetric(bread @ ((vectors * np.maximum(values, tiny)) @ vectors.T) @ bread)
    notes = _notes(base.lost, int(np.sum(values < edge)), values.size)
    return Estimate(
        "moments",
        base.back @ coordinates,
        symmetric(base.back @ (noise + sampling) @ base.back.T),
        symmetric(base.back @ noise @ base.back.T),
        scale,
        max(moments.nobs - q.shape[1], 1.0),
        moments.nobs,
        "model",
        notes,
        not notes,
    )


def _scale(moments: Moments, v: Array, absorbed: float, n_params: int) -> float:
    """Error variance ``(v'Gv + tr(M^-1 Cov(Q'Ev))) / (n - p)``, floored.

    The trace is what the fit to the noise took off the sum of squares.
    """
    raw = float(v @ moments.matrix @ v) + absorbed
    floor = LEAST_SCALE * float(moments.response_map[-1]) ** 2
    exact = not np.any(moments.sd)
    return max(raw / max(moments.nobs - n_params, 1.0), 0.0 if exact else floor)


def _notes(lost: int, weak: int, size: int) -> tuple[str, ...]:
    notes = []
    if lost:
        notes.append(
            f"{lost} column(s) are exact combinations of others: the coefficients are "
            "determined only up to them."
        )
    if weak:
        notes.append(
            f"{weak} of {size} directions of the design stand out too little from the noise "
            "of the released moments; their coefficients are shrunk and their standard errors "
            "widened accordingly. More mu, tighter bounds or fewer terms would help."
        )
    return tuple(notes)
