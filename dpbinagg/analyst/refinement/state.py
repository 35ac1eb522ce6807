"""What refinement knows after some rounds, and in which coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.covariance import noise_of_product
from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.moments import basis
from dpbinagg.analyst.refinement import kalman
from dpbinagg.analyst.refinement.directions import Directions, directions
from dpbinagg.analyst.refinement.schedule import LONG, Schedule
from dpbinagg.analyst.refinement.tails import TailCount
from dpbinagg.analyst.types import Array, Moments

FIRST_LEVERAGE = 2.0
"""Leverage bound R^2, in units of the mean leverage, before anything is known."""
PRIOR_SPREAD = 2.0
"""Prior standard deviation of slopes, in units of what would explain all of the response."""
LEAST_SCALE = 0.02
"""Floor of the error variance relative to the variance of the residuals it was part of."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known after some rounds; matrices in the current whitened coordinates.

    The fit is ``f'(origin + q theta)`` in units of the response, the coefficients of the
    design ``b = origin_params + back theta``, and ``q'origin + theta = forth b``; the prior
    mean of theta is zero.  ``whitening``
    maps coordinates ``q'f`` to whitened columns; ``noise`` is the covariance of the privacy
    error in whitened coordinates (those of ``whitening'^-1 theta``) and ``prior`` what it was
    at first; ``gram`` estimates ``sum omega w w'``, its entries with ``gram_variance``.
    Directions that do not stand out are dropped on the way: ``unknown`` is what the prior
    says of them, in the design's coefficients.  ``hidden`` is the covariance of what the
    last clip hid, whitened.  ``ceiling`` is the mean square of the residuals
    before the last step.  ``schedule`` is fixed at the start, ``done`` of its rounds are over.
    """

    origin: Array
    origin_params: Array
    q: Array
    back: Array
    forth: Array
    lost: int
    unknown: Array
    dropped: int
    half_width_y: float
    nobs: float
    nobs_sd: float
    theta: Array
    whitening: Array
    gram: Array
    gram_variance: Array
    noise: Array
    prior: Array
    scale: float
    ceiling: float
    schedule: Schedule = LONG
    done: int = 0
    leverage: float = FIRST_LEVERAGE
    norms: Array | None = None
    norms_variance: float = np.inf
    tails: tuple[TailCount, ...] = ()
    clip: float = 0.0
    hidden: Array | None = None
    share_clipped: float = 0.0
    spread: Array | None = None
    spread_variance: Array | None = None
    spread_mean: float = 0.0
    spread_mean_sd: float = 0.0
    spread_clip: float = 0.0

    @property
    def rounds_left(self) -> int:
        """Number of rounds to come."""
        return len(self.schedule) - self.done

    @property
    def directions(self) -> Directions | None:
        """How residuals differ by direction, as of the last round; None before it."""
        if self.spread is None or self.spread_variance is None:
            return None
        return directions(
            self.gram,
            self.gram_variance,
            self.spread,
            self.spread_variance,
            self.spread_mean,
            self.nobs,
            self.spread_clip,
        )

    @property
    def coordinates(self) -> Array:
        """Coefficients of ``q'f`` in the fit."""
        return np.asarray(self.q.T @ self.origin + self.theta)

    @property
    def prediction2(self) -> float:
        """Mean squared error of the fitted values that privacy noise causes."""
        return float(np.sum(self.gram * self.noise)) / self.nobs

    @property
    def mean_leverage(self) -> float:
        """Mean of ``omega |w|^2``."""
        return float(np.trace(self.gram)) / self.nobs

    @property
    def residual_sd(self) -> float:
        """Expected standard deviation of the residuals, at most that before the last step."""
        return math.sqrt(min(self.scale + self.prediction2, self.ceiling))


def start(moments: Moments, nobs: float | None = None, nobs_sd: float = 0.0) -> State:
    """First estimate from the moments, as an update of a wide prior.

    A noisy number of records from elsewhere, `nobs`, is weighed by its noise `nobs_sd` against
    that of the moments.

    The prior has mean "predict the middle of the response's range".  The constant's standard
    deviation is the half-range of the response, that of slopes what explains it (`_prior`).
    """
    base = basis(moments.design_map)
    q, t = base.q, moments.response_map
    n, n_sd = _number(moments, nobs, nobs_sd)
    half = abs(float(t[-1]))
    theta = q[0] * t[0]
    v = t - q @ theta
    gram = symmetric(q.T @ moments.matrix @ q)
    variance = moments.sd**2 + np.diag(moments.centring**2 * moments.sd[0, 0] ** 2)
    variance = kalman.transformed_variance(variance, q.T)
    level = kalman.spectral_level(variance)
    score_cov = q.T @ noise_of_product(moments.sd, moments.centring, np.outer(v, v)) @ q
    total = float(np.clip(v @ moments.matrix @ v / n, 0.01 * half**2, half**2))
    prior = _prior(moments, q, v, n)
    lifted = kalman.raise_eigenvalues(gram, max(level / 2, 1e-9 * n))
    score = q.T @ moments.matrix @ v
    eta, noise = kalman.update(prior, lifted, variance, score, score_cov + _jitter(score_cov))
    rest = total - (2 * eta @ score - eta @ lifted @ eta) / n
    scale = max(rest + float(np.sum(lifted * noise)) / n, LEAST_SCALE * total)
    p = base.back.shape[0]
    state = State(
        origin=q @ theta,
        origin_params=base.back @ theta,
        q=q,
        back=base.back,
        forth=base.forth,
        lost=base.lost,
        unknown=np.zeros((p, p)),
        dropped=0,
        half_width_y=half,
        nobs=n,
        nobs_sd=n_sd,
        theta=eta,
        whitening=np.eye(q.shape[1]),
        gram=lifted,
        gram_variance=variance,
        noise=noise,
        prior=prior,
        scale=scale,
        ceiling=total,
    )
    return whitened(state, gram, max(2 * level, 1e-9 * n))


def _number(moments: Moments, nobs: float | None, nobs_sd: float) -> tuple[float, float]:
    """Number of records and its standard deviation."""
    own, own_sd = float(moments.matrix[0, 0]), float(moments.sd[0, 0])
    if nobs is None:
        return max(own, 10.0), own_sd
    weight = own_sd**2 / max(own_sd**2 + nobs_sd**2, np.finfo(float).tiny)
    return max(own + weight * (nobs - own), 10.0), math.sqrt(weight) * nobs_sd


def _prior(moments: Moments, q: Array, v: Array, nobs: float) -> Array:
    """Prior covariance of the coordinates around the middle of the response's range.

    Slopes: PRIOR_SPREAD^2 times the variance of the response over the total variance of the
    columns (less one standard deviation of its noise), at most one half-range of the response
    per half-range of a column.
    """
    half = abs(float(v[-1]))
    constant = np.linalg.norm(q[0]) > 1.0 - 1e-9
    means = moments.matrix[0] / nobs * (1.0 if constant else 0.0)
    spread = moments.matrix / nobs - np.outer(means, means)
    total = max(float(v @ spread @ v), 0.01 * half**2)
    used = np.linalg.norm(q, axis=1) > 1e-9
    used[0] = False
    noise = float(np.linalg.norm(np.diag(moments.sd)[used])) / nobs
    columns = float(np.sum(np.diag(spread)[used])) - noise
    ratio = PRIOR_SPREAD**2 * total / columns if columns > 0.0 else np.inf
    slope = min(ratio, half**2)
    level = np.outer(q[0], q[0])
    return np.asarray(slope * np.eye(q.shape[1]) + max(half**2 - slope, 0.0) * level)


def _jitter(cov: Array) -> Array:
    """Keep a noiseless release invertible."""
    return np.asarray(1e-18 * max(float(np.trace(cov)), 1.0) * np.eye(cov.shape[0]))


def whitened(state: State, gram: Array, floor: float) -> State:
    """Coordinates in which `gram`, eigenvalues raised to `floor`, is n times the identity."""
    root, inverse = kalman.roots(gram, floor)
    m, back = inverse * math.sqrt(state.nobs), root / math.sqrt(state.nobs)
    return replace(
        state,
        whitening=m @ state.whitening,
        gram=symmetric(m @ state.gram @ m.T),
        gram_variance=kalman.transformed_variance(state.gram_variance, m),
        noise=symmetric(back.T @ state.noise @ back),
        prior=symmetric(back.T @ state.prior @ back),
    )


def unresolved(state: State) -> tuple[NDArray[np.bool_], Array]:
    """Which eigenvectors of the matrix do not stand out from its noise, and all of them."""
    values, vectors = np.linalg.eigh(state.gram)
    return values < kalman.EDGE * kalman.spectral_level(state.gram_variance), vectors


def without(state: State, weak: Array) -> State:
    """Reduce to the directions beyond `weak`, orthonormal vectors in whitened coordinates.

    A vector e belongs to the combination ``v = W'e`` of coefficients, which hardly changes
    any fitted value.  The coefficients are kept orthogonal to all such v, there at their
    prior mean.
    """
    size = weak.shape[1]
    left, _, _ = np.linalg.svd(state.whitening.T @ weak, full_matrices=True)
    gone, stay = left[:, :size], left[:, size:]
    forth = np.linalg.solve(state.whitening.T, stay).T
    back = state.whitening @ stay
    prior = symmetric(state.whitening.T @ state.prior @ state.whitening)
    lift = state.back @ gone
    return replace(
        state,
        q=state.q @ stay,
        back=state.back @ stay,
        forth=stay.T @ state.forth,
        unknown=state.unknown + lift @ (gone.T @ prior @ gone) @ lift.T,
        dropped=state.dropped + size,
        theta=stay.T @ state.theta,
        whitening=np.eye(stay.shape[1]),
        gram=symmetric(forth @ state.gram @ forth.T),
        gram_variance=kalman.transformed_variance(state.gram_variance, forth),
        noise=symmetric(back.T @ state.noise @ back),
        hidden=None if state.hidden is None else symmetric(back.T @ state.hidden @ back),
        prior=symmetric(stay.T @ prior @ stay),
        spread=None if state.spread is None else symmetric(forth @ state.spread @ forth.T),
        spread_variance=None
        if state.spread_variance is None
        else kalman.transformed_variance(state.spread_variance, forth),
    )
