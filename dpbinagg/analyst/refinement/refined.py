"""The refined estimate: what the last round leaves, with its covariance in words and numbers."""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.refinement import kalman
from dpbinagg.analyst.refinement.clipping import mean_clipped_square
from dpbinagg.analyst.refinement.state import State, unresolved, without
from dpbinagg.analyst.refinement.tails import Tails
from dpbinagg.analyst.types import Array, Estimate

LEAST_LEARNT = 0.25
"""Share of the prior variance that may be left in a direction that counts as identified."""

CLIPPED = "Residuals were clipped at"
"""How the note on clipping begins."""

LEAST_SHARE = 1e-4
"""Share of clipped residuals below which a note says "hardly any"."""


def finish(state: State) -> Estimate:
    """Return the estimate after the last round.

    ``cov = S + N + H`` in whitened coordinates: sampling (see `sampling_cov`), privacy noise, and
    what the clip may have hidden (see `hidden.reveal`); in directions that stayed unresolved,
    the prior variance.
    """
    params = state.origin_params + state.back @ state.theta
    weak, vectors = unresolved(state)
    if weak.any() and not weak.all():
        state = without(state, vectors[:, weak])
    size = state.theta.size
    freedom = max(state.nobs - size, 1.0)
    sampling = sampling_cov(state) * state.nobs / freedom
    back = state.back @ state.whitening.T
    noise_cov = symmetric(back @ privacy_cov(state) @ back.T + state.unknown)
    unknown = weak_directions(state)
    notes = _notes(state, unknown)
    return Estimate(
        name="refined",
        params=params,
        cov=symmetric(back @ sampling @ back.T + noise_cov),
        noise_cov=noise_cov,
        scale=error_variance(state),
        df_resid=freedom,
        nobs=state.nobs,
        cov_type="robust",
        notes=notes,
        identified=not unknown and not state.lost,
    )


def privacy_cov(state: State) -> Array:
    """Covariance of the privacy error and of what the clip may have hidden, whitened."""
    return state.noise if state.hidden is None else np.asarray(state.noise + state.hidden)


def weak_directions(state: State) -> int:
    """Number of directions dropped, or hardly known beyond the prior."""
    _, inverse = kalman.roots(state.prior)
    left = np.linalg.eigvalsh(symmetric(inverse @ state.noise @ inverse))
    return state.dropped + int(np.sum(left > LEAST_LEARNT))


def error_variance(state: State) -> float:
    """Variance of the errors: that of a normal law, or more if the tails are heavier."""
    inner = state.spread_mean * state.spread_clip**2 - state.prediction2
    tails = Tails.merge(state.tails, state.nobs)
    return max(inner + tails.tail_square(state.spread_clip, 2.0 * state.half_width_y), state.scale)


def clipped_variance(state: State) -> float:
    """Variance of the clipped residuals at the final estimate, at least that of a normal law."""
    inner = state.spread_mean * state.spread_clip**2 - state.prediction2
    tails = Tails.merge(state.tails, state.nobs)
    normal = state.clip**2 * float(mean_clipped_square(state.clip / np.sqrt(state.scale)))
    return max(inner + tails.clipped_square(state.spread_clip, state.clip), normal)


def sampling_cov(state: State) -> Array:
    """Covariance of the sampling error, robust to variances that differ.

    In whitened coordinates with A = n I, direction e sees residuals of variance v_e and a share
    k_e of them inside the clip, and has sampling variance ``v_e / (n k_e^2)`` (see
    `Directions`); the tails say what v is on the whole.
    """
    variance, beyond = clipped_variance(state), state.share_clipped
    found = state.directions
    if found is None:
        return np.asarray(variance / (1.0 - beyond) ** 2 * np.linalg.inv(state.gram))
    ratio = found.relative_square(state.clip) / found.kept(state.clip, beyond) ** 2
    spread = (found.vectors * (variance * ratio)) @ found.vectors.T
    return symmetric(found.inverse_root @ spread @ found.inverse_root)


def clip_note(clip: float, scale: float, share: float) -> str:
    """Where residuals were clipped, and how many of them; digits that a reader can use."""
    ratio = clip / np.sqrt(scale)
    errors = f"{ratio:.1f}" if ratio < 10.0 else f"about {float(f'{ratio:.2g}'):,.0f}"
    count = f"about {100 * share:.2g}%" if share >= LEAST_SHARE else "hardly any"
    return f"{CLIPPED} {clip:.4g}, {errors} standard errors of the regression: {count} of them."


def lost_note(lost: int) -> str:
    """That columns are collinear."""
    return (
        f"{lost} column(s) are exact combinations of others: the coefficients "
        "are determined only up to them."
    )


def weak_note(weak: int, size: int) -> str:
    """That directions are known from the prior alone."""
    return (
        f"{weak} of {size} directions of the design hardly vary "
        "beyond the noise: their coefficients lean on a prior around zero, and the standard "
        "errors say so. More mu, tighter bounds or fewer terms would help."
    )


def _notes(state: State, weak: int) -> tuple[str, ...]:
    notes = [clip_note(state.clip, state.scale, state.share_clipped)]
    if state.lost:
        notes.append(lost_note(state.lost))
    if weak:
        notes.append(weak_note(weak, state.theta.size + state.dropped))
    return tuple(notes)
