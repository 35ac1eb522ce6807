"""The refined estimate: what the last round leaves, with its covariance in words and numbers."""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst import kalman
from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.refine import State
from dpbinagg.analyst.tails import Tails
from dpbinagg.analyst.types import Array, Estimate

LEAST_MEAT = 0.3
"""Floor of a direction's error variance relative to the average one."""

BIAS_SHARE = 1.3
"""Standard deviation of a slope's bias, in whitened units, for a hidden mean of 1."""


def finish(state: State) -> Estimate:
    """Return the estimate after the last round.

    ``cov = A^-1 B A^-1 / kept^2 + N + BIAS_SHARE^2 E[hidden mean^2] I`` in whitened
    coordinates: heteroscedasticity-robust sampling, privacy noise, and what the clip may
    have hidden.
    """
    size = state.theta.size
    bread = np.linalg.inv(state.gram)
    kept = 1.0 - state.share_clipped
    sampling = symmetric(bread @ meat(state) @ bread) / kept**2
    noise = state.noise + BIAS_SHARE**2 * state.hidden2 * np.eye(size)
    back = state.basis.back @ state.whitening.T
    weak = weak_directions(state)
    notes = _notes(state, weak)
    return Estimate(
        name="refined",
        params=state.basis.back @ state.theta,
        cov=symmetric(back @ (sampling + noise) @ back.T),
        noise_cov=symmetric(back @ noise @ back.T),
        scale=state.scale,
        df_resid=max(state.nobs - size, 1.0),
        nobs=state.nobs,
        cov_type="robust",
        notes=notes,
        identified=not weak and not state.basis.lost,
    )


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


def weak_directions(state: State) -> int:
    """Number of directions in which the data said little more than the prior."""
    root = kalman.inverse_root(state.prior)
    return int(np.sum(np.linalg.eigvalsh(symmetric(root @ state.noise @ root)) > 0.25))


def _notes(state: State, weak: int) -> tuple[str, ...]:
    notes = [
        f"Residuals were clipped at {state.clip:.4g}, "
        f"{state.clip / np.sqrt(state.scale):.1f} standard errors of the regression, about "
        f"{100 * state.share_clipped:.2g}% of them."
    ]
    if state.basis.lost:
        notes.append(
            f"{state.basis.lost} column(s) are exact combinations of others: the coefficients "
            "are determined only up to them."
        )
    if weak:
        notes.append(
            f"{weak} of {state.theta.size} directions of the design hardly vary beyond the "
            "noise: their coefficients lean on a prior around zero, and the standard errors "
            "say so. More mu, tighter bounds or fewer terms would help."
        )
    return tuple(notes)
