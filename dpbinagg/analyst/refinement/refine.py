"""Refinement: rounds of residual scores, each planned from what the last one said.

The moments give a first estimate and a first matrix A.  Every round then asks for the
scores of the residuals at the current estimate, clipped in proportion to their size, on
columns whitened by the current A and with bounded leverage (see `dpbinagg.public.rounds`):
noise is in proportion to residuals and shaped like the sampling error.  With n records,
k columns, leverage bound R^2 = c k and clip C, a round with parameter mu leaves noise of
variance ``R^2 C^2 / (mu n)^2`` on each whitened coefficient, where sampling leaves
``sigma^2 / n``.

    state = with_schedule(start(moments, nobs), mu_scores)
    for mu in round_mus(mu_scores, state.schedule):
        request = plan_round(state, mu)
        state = update(state, request, <the curator's answer>, mu)
    estimate = finish(state)            # dpbinagg.analyst.refinement.refined

The answer to a request is a `NoisyScores`: seen from here it is just numbers.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.refinement import kalman
from dpbinagg.analyst.refinement.clipping import (
    mean_clipped_square,
    sd_from_noisy_spread,
    share_beyond,
)
from dpbinagg.analyst.refinement.hidden import reveal
from dpbinagg.analyst.refinement.planning import (
    BIAS_WEIGHT,
    plan_round,
    tail_excess,
    with_schedule,
)
from dpbinagg.analyst.refinement.schedule import round_mus
from dpbinagg.analyst.refinement.state import (
    LEAST_SCALE,
    State,
    start,
    unresolved,
    whitened,
    without,
)
from dpbinagg.analyst.refinement.tails import TailCount, Tails, lattice
from dpbinagg.analyst.types import Array
from dpbinagg.public.rounds import NoisyScores, ScoreRequest

__all__ = ["State", "plan_round", "round_mus", "start", "update", "with_schedule"]

LEAST_GAIN = 1.0
"""Sum of squares, in error variances, that a direction must be able to explain to be kept."""
LEVERAGE_SHIFT = 0.1
CEILING = 3.0
"""The residuals after a step are at most so much larger, in mean square, than before it."""
LEAST_DOUBT = 1e-9
"""Floor of the noise of a mean clipped square: a release with hardly any noise is exact."""
ROOT_SHIFT = 3.0
"""Variance, relative to sampling, by which rounds that clip and weigh records differently may
differ: so large that the last round hardly leans on earlier ones."""


def update(state: State, request: ScoreRequest, noisy: NoisyScores, mu: float) -> State:
    """Learn from the answer to `request`, whose noise is ``request.noise_scales(mu)``."""
    scales = request.noise_scales(mu)
    final = state.rounds_left == 1
    state = _learn_gram(state, request, noisy, scales)
    state, sd = _learn_spread(state, request, noisy, scales)
    state = _learn_tails(state, request, noisy, scales, sd)
    if final:
        state = _forget(state, request.clip)
    slope, average = _slope(state, request.clip)
    eta, noise = kalman.update(
        state.noise,
        slope,
        average**2 * state.gram_variance,
        noisy.score,
        np.diag(scales.score**2),
    )
    moved = float(eta @ state.gram @ eta) / state.nobs
    state = replace(
        state,
        theta=state.theta + state.whitening.T @ eta,
        noise=noise,
        clip=request.clip,
        done=state.done + 1,
    )
    rest = sd**2 - moved - state.prediction2
    state = replace(state, scale=max(rest, LEAST_SCALE * sd**2), ceiling=CEILING * sd**2)
    if final and state.tails:
        state = reveal(state, tail_excess(state))
    if not final:
        state = _drop_weak(state)
    if state.rounds_left > 1:
        level = kalman.spectral_level(state.gram_variance)
        state = whitened(state, state.gram, max(level, 0.02 * state.nobs))
    return state


def _slope(state: State, clip: float) -> tuple[Array, float]:
    """Derivative of the clipped score, ``A^1/2 K A^1/2`` with K the shares inside the clip.

    Also the average share.
    """
    found = state.directions
    if found is None:
        kept = 1.0 - state.share_clipped
        return kept * state.gram, kept
    shares = found.kept(clip, state.share_clipped)
    inner = (found.vectors * shares) @ found.vectors.T
    return symmetric(found.root @ inner @ found.root), float(np.mean(shares))


def _learn_spread(
    state: State, request: ScoreRequest, noisy: NoisyScores, scales: NoisyScores
) -> tuple[State, float]:
    """Keep the mean clipped squares; return the standard deviation of the residuals."""
    inside = noisy.inside / state.nobs
    doubt = max(math.hypot(scales.inside, inside * state.nobs_sd) / state.nobs, LEAST_DOUBT)
    sd = sd_from_noisy_spread(1.0 - inside, doubt, request.spread_clip, state.residual_sd)
    state = replace(
        state,
        spread=noisy.spread,
        spread_variance=scales.spread**2,
        spread_mean=float(mean_clipped_square(request.spread_clip / sd)),
        spread_mean_sd=doubt,
        spread_clip=request.spread_clip,
    )
    return state, sd


def _drop_weak(state: State) -> State:
    """Leave out directions that are unresolved and could not add to the fit if they were.

    In direction e the fit can gain at most about ``e'Prior e`` times the matrix's upper bound.
    """
    weak, vectors = unresolved(state)
    bound = kalman.EDGE * kalman.spectral_level(state.gram_variance)
    gain = np.einsum("ij,ik,kj->j", vectors, state.prior, vectors) * bound
    idle = weak & (gain < LEAST_GAIN * state.scale)
    return without(state, vectors[:, idle]) if idle.any() and not idle.all() else state


def _learn_gram(
    state: State, request: ScoreRequest, noisy: NoisyScores, scales: NoisyScores
) -> State:
    """Weigh the new matrix against the old one, entry by entry, and keep it positive."""
    leverage = request.radius**2 / state.mean_leverage
    gram = state.gram
    variance = state.gram_variance + _other_weights(state, leverage)
    if request.weights.hessian:
        new = scales.hessian**2
        gain = variance / np.maximum(variance + new, np.finfo(float).tiny)
        gram = symmetric(gram + gain * (noisy.hessian - gram))
        variance = gain * new
    level = kalman.spectral_level(variance)
    gram = kalman.raise_eigenvalues(gram, max(level / 4, 1e-9 * state.nobs))
    norms, norms_variance = state.norms, state.norms_variance
    if request.weights.norms:
        fresh = float(scales.norms[0]) ** 2
        old = np.zeros_like(noisy.norms) if norms is None else norms
        weight = 1.0 if norms is None else norms_variance / (norms_variance + fresh)
        norms, norms_variance = old + weight * (noisy.norms - old), weight * fresh
    return replace(
        state,
        gram=gram,
        gram_variance=variance,
        norms=norms,
        norms_variance=norms_variance,
        leverage=leverage,
    )


def _other_weights(state: State, leverage: float) -> Array:
    """Variance of the old matrix as an estimate of the new one, with another leverage bound.

    Relative standard deviation LEVERAGE_SHIFT for each factor of e on the diagonal, half of it
    elsewhere.
    """
    ratio = abs(math.log(max(leverage, 1e-9) / max(state.leverage, 1e-9)))
    sd = min(LEVERAGE_SHIFT * max(ratio - 0.1, 0.0), 0.15) * state.nobs
    size = state.theta.size
    return np.asarray((sd / 2.0) ** 2 * (np.ones((size, size)) + 3.0 * np.eye(size)))


def _learn_tails(
    state: State, request: ScoreRequest, noisy: NoisyScores, scales: NoisyScores, sd: float
) -> State:
    """Keep the counts of the tails and the share of residuals beyond the clip."""
    share = float(share_beyond(request.clip / sd))
    if request.weights.tails:
        first, _ = lattice(float(request.thresholds[0]), 1)
        count = TailCount(first, noisy.tails[0], noisy.tails[1], float(scales.tails[0, 0]), sd)
        state = replace(state, tails=(*state.tails, count))
    if state.tails and state.rounds_left == 1:
        tails = Tails.merge(state.tails, state.nobs)
        share = tails.share_beyond(
            request.clip, share, float(share_beyond(tails.thresholds[0] / sd))
        )
    return replace(state, share_clipped=min(share, 0.4))


def _forget(state: State, clip: float) -> State:
    """Before the last round: earlier bounds and narrower clips had roots of their own."""
    shift = ROOT_SHIFT * state.scale / state.nobs
    if state.tails and clip > state.clip:
        shift += BIAS_WEIGHT**2 * float(tail_excess(state).hidden2(state.clip, clip))
    return replace(state, noise=state.noise + shift * np.eye(state.theta.size))
