"""The refined estimate: what the last round leaves, with its covariance in words and numbers."""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst import kalman
from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.state import State, unresolved, without
from dpbinagg.analyst.tails import Tails
from dpbinagg.analyst.types import Array, Estimate

LEAST_LEARNT = 0.25
"""Share of the prior variance that may be left in a direction that counts as identified."""

LEAST_MEAT = 0.3
"""Floor of a direction's error variance relative to the average one."""

BIAS_SHARE = 1.0
"""Standard deviation of a slope's bias, in whitened units, for a hidden mean of 1."""


def finish(state: State) -> Estimate:
    """Return the estimate after the last round.

    ``cov = A^-1 B A^-1 / kept^2 + N + BIAS_SHARE^2 E[hidden mean^2] I`` in whitened
    coordinates: heteroscedasticity-robust sampling, privacy noise, and what the clip may
    have hidden; in directions that stayed unresolved, the prior variance.
    """
    params = state.origin_params + state.back @ state.theta
    weak, vectors = unresolved(state)
    if weak.any() and not weak.all():
        state = without(state, vectors[:, weak])
    size = state.theta.size
    bread = np.linalg.inv(state.gram)
    kept = 1.0 - state.share_clipped
    sampling = symmetric(bread @ meat(state) @ bread) / kept**2
    noise = state.noise + BIAS_SHARE**2 * state.hidden2 * np.eye(size)
    back = state.back @ state.whitening.T
    noise_cov = symmetric(back @ noise @ back.T + state.unknown)
    unknown = weak_directions(state)
    notes = _notes(state, unknown)
    return Estimate(
        name="refined",
        params=params,
        cov=symmetric(back @ sampling @ back.T + noise_cov),
        noise_cov=noise_cov,
        scale=state.scale,
        df_resid=max(state.nobs - size, 1.0),
        nobs=state.nobs,
        cov_type="robust",
        notes=notes,
        identified=not unknown and not state.lost,
    )


def weak_directions(state: State) -> int:
    """Number of directions dropped, or hardly known beyond the prior."""
    root = kalman.inverse_root(state.prior)
    left = np.linalg.eigvalsh(symmetric(root @ state.noise @ root))
    return state.dropped + int(np.sum(left > LEAST_LEARNT))


def clipped_variance(state: State) -> float:
    """Variance of the clipped residuals at the final estimate."""
    inner = state.spread_mean * state.spread_clip**2
    tails = Tails.merge(state.tails, state.nobs)
    total = inner + tails.clipped_square(state.spread_clip, state.clip)
    return max(total - state.prediction2, state.scale)


def meat(state: State) -> Array:
    """``sum omega^2 w w' r^2`` (r clipped), shrunk toward constant variance.

    The spread of the last round, ``V = A - sum omega w w' (1 - g)``, gives the pattern; its
    departure D from ``mean(g) A`` is kept in the share ``1 - E|noise|^2/|D|^2``.
    """
    variance = clipped_variance(state)
    if state.spread is None or state.spread_variance is None or state.spread_mean <= 0:
        return variance * state.gram
    departure = state.gram - state.spread - state.spread_mean * state.gram
    expected = float(np.sum(state.gram_variance + state.spread_variance))
    share = max(0.0, 1.0 - expected / max(float(np.sum(departure**2)), np.finfo(float).tiny))
    pattern = state.gram + share * departure / state.spread_mean
    return variance * kalman.raise_eigenvalues(pattern, LEAST_MEAT * state.nobs)


def _notes(state: State, weak: int) -> tuple[str, ...]:
    notes = [
        f"Residuals were clipped at {state.clip:.4g}, "
        f"{state.clip / np.sqrt(state.scale):.1f} standard errors of the regression, about "
        f"{100 * state.share_clipped:.2g}% of them."
    ]
    if state.lost:
        notes.append(
            f"{state.lost} column(s) are exact combinations of others: the coefficients "
            "are determined only up to them."
        )
    if weak:
        notes.append(
            f"{weak} of {state.theta.size + state.dropped} directions of the design hardly vary "
            "beyond the noise: their coefficients lean on a prior around zero, and the standard "
            "errors say so. More mu, tighter bounds or fewer terms would help."
        )
    return tuple(notes)
