"""Refinement: rounds of residual scores, each planned from what the last one said.

The moments give a first estimate and a first matrix A.  Every round then asks for the
scores of the residuals at the current estimate, clipped in proportion to their size, on
columns whitened by the current A and with bounded leverage (see `dpbinagg.rounds`):
noise is in proportion to residuals and shaped like the sampling error.  With n records,
k columns, leverage bound R^2 = c k and clip C, a round with parameter mu leaves noise of
variance ``R^2 C^2 / (mu n)^2`` on each whitened coefficient, where sampling leaves
``sigma^2 / n``.

    state = start(moments, nobs)
    for mu in round_mus(mu_scores):
        request = plan_round(state, mu)
        state = update(state, request, <the curator's answer>, mu)
    estimate = finish(state)            # dpbinagg.analyst.refined

The answer to a request is a `NoisyScores`: seen from here it is just numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpbinagg.analyst import kalman
from dpbinagg.analyst.clipping import sd_from_spread, share_beyond
from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.state import (
    EDGE,
    FIRST_LEVERAGE,
    LEAST_SCALE,
    State,
    start,
    unresolved,
    whitened,
    without,
)
from dpbinagg.analyst.tails import Excess, TailCount, Tails, excess, lattice
from dpbinagg.rounds import GroupWeights, NoisyScores, ScoreRequest


@dataclass(frozen=True, slots=True)
class Round:
    """Constants of one round: share of the budget, clip in sds, weights of the groups."""

    share: float
    clip: float
    weights: GroupWeights


SCHEDULE = (
    Round(0.05, 2.5, GroupWeights(hessian=1.0, norms=0.3)),
    Round(0.07, 2.5, GroupWeights(hessian=1.0, norms=0.3)),
    Round(0.10, 2.5, GroupWeights(hessian=1.0, tails=0.8)),
    Round(0.18, 2.5, GroupWeights(hessian=0.7, tails=0.8)),
    Round(0.60, 2.0, GroupWeights(hessian=0.4)),
)
"""Two rounds to approach, two that also probe the tails, one to finish (its clip is the least
one).  Early rounds are cheap: each divides the error of prediction by 5 to 25."""

LEAST_GAIN = 1.0
"""Sum of squares, in error variances, that a direction must be able to explain to be kept."""
SPREAD_CLIP, SPREAD_NOISE = 2.5, 0.2
FIRST_THRESHOLD, N_CELLS = 2.0, 6
NORM_MULTIPLES = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0])
LEAST_LEVERAGE = 1.5
"""Leverage bound R^2 in units of the mean leverage, at least."""
LEVERAGE_SHARE = 0.01
"""Share of records whose leverage may be cut when the noise allows."""
FREE_NOISE, FAIR_NOISE, CLIP_NOISE = 0.02, 0.2, 0.12
"""Noise variance relative to sampling variance that a leverage bound may cost without
asking, may cost to cut few records, and that a wide clip may cost."""
ROOT_SHIFT = 0.02
"""Variance, relative to sampling, by which rounds that weigh records differently may differ."""
BIAS_WEIGHT = 1.5
"""Bias of a slope that a hidden mean of 1 may cause, in whitened units."""


def rounds_left(state: State) -> int:
    """Number of rounds to come."""
    return len(SCHEDULE) - state.done


def round_mus(mu: float) -> tuple[float, ...]:
    """Split the mu of the scores over the rounds."""
    total = sum(r.share for r in SCHEDULE)
    return tuple(mu * math.sqrt(r.share / total) * (1.0 - 2.0**-50) for r in SCHEDULE)


def plan_round(state: State, mu: float) -> ScoreRequest:
    """Request of the next round, to be answered with parameter `mu`.

    Statistics wanted, over all records: see `dpbinagg.rounds`.
    """
    plan = SCHEDULE[state.done]
    final = state.done == len(SCHEDULE) - 1
    leverage = state.leverage if final else _leverage(state, mu)
    mean_leverage = float(np.trace(state.gram)) / state.nobs
    whitening = state.whitening @ state.q.T
    longest = float(np.sum(np.linalg.norm(whitening, axis=0)))
    radius = min(math.sqrt(leverage * mean_leverage), longest)
    sd = state.residual_sd
    clip = plan.clip * sd
    if final:
        clip = _final_clip(state, mu, radius, clip)
    clip = min(clip, max(4.0 * state.half_width_y, sd))
    _, thresholds = lattice(FIRST_THRESHOLD * sd, N_CELLS)
    return ScoreRequest(
        coefficients=state.origin + state.q @ state.theta,
        whitening=whitening,
        radius=radius,
        clip=clip,
        spread_clip=min(clip, _spread_clip(state, mu, radius, plan.weights) * sd),
        thresholds=thresholds,
        norm_edges=NORM_MULTIPLES * mean_leverage,
        weights=plan.weights,
    )


def _spread_clip(state: State, mu: float, radius: float, weights: GroupWeights) -> float:
    """Clip of the squares, in sds: in the last round as wide as leaves SPREAD_NOISE per entry.

    The wider, the better the squares show variances that differ.  Noise is
    ``R^2 sensitivity/(spread mu)`` where the squares add up to about ``n (sd/clip)^2``.
    """
    if rounds_left(state) > 1:
        return SPREAD_CLIP
    unit = math.sqrt(1.0 + weights.hessian**2) / (weights.spread * mu)
    return max(SPREAD_CLIP, math.sqrt(SPREAD_NOISE * state.nobs / (unit * radius**2)))


def _leverage(state: State, mu: float) -> float:
    """Leverage bound R^2 in units of the mean leverage.

    As large as costs FREE_NOISE; beyond that as large as leaves LEVERAGE_SHARE of the
    records cut, if it costs at most FAIR_NOISE; never under LEAST_LEVERAGE.
    """
    mean_leverage = float(np.trace(state.gram)) / state.nobs
    final_mu2 = mu**2 * SCHEDULE[-1].share / SCHEDULE[state.done].share
    per_unit = mean_leverage * SCHEDULE[-1].clip ** 2 / (final_mu2 * state.nobs)
    if state.norms is None:
        return max(FIRST_LEVERAGE, FREE_NOISE / per_unit)
    beyond = np.cumsum(state.norms[::-1])[::-1][1:] / state.nobs
    doubt = np.sqrt(state.norms_variance * np.arange(beyond.size, 0, -1)) / state.nobs
    few = np.flatnonzero(beyond <= LEVERAGE_SHARE + doubt)
    wanted = float(NORM_MULTIPLES[few[0]] if few.size else NORM_MULTIPLES[-1])
    return max(min(wanted, FAIR_NOISE / per_unit), FREE_NOISE / per_unit, LEAST_LEVERAGE)


def _final_clip(state: State, mu: float, radius: float, least: float) -> float:
    """Clip of the last round: as wide as noise of CLIP_NOISE allows, wider if tails differ.

    Minimises ``BIAS_WEIGHT^2 E[hidden mean^2] + (R C/(mu n))^2`` beyond that.
    """
    free = math.sqrt(CLIP_NOISE * mu**2 * state.nobs) / radius * state.residual_sd
    start_at = max(least, free)
    if not state.tails:
        return start_at
    fitted = tail_excess(state)
    candidates = start_at * np.exp(np.arange(0.0, 3.5, 0.05))
    candidates = candidates[candidates <= max(4.0 * state.half_width_y, start_at)]
    cost = [
        BIAS_WEIGHT**2 * fitted.hidden2(float(c)) + (radius * c / (mu * state.nobs)) ** 2
        for c in candidates
    ]
    return float(candidates[int(np.argmin(cost))])


def tail_excess(state: State) -> Excess:
    """Posterior of the difference between the tails of the residuals."""
    return excess(Tails.merge(state.tails, state.nobs))


def update(state: State, request: ScoreRequest, noisy: NoisyScores, mu: float) -> State:
    """Learn from the answer to `request`, whose noise is ``request.noise_scales(mu)``."""
    scales = request.noise_scales(mu)
    final = state.done == len(SCHEDULE) - 1
    state = _learn_gram(state, request, noisy, scales)
    inside = float(np.clip(noisy.inside / state.nobs, 0.0, 1.0 - 1e-4))
    sd = float(sd_from_spread(1.0 - inside, request.spread_clip))
    state, share = _learn_tails(state, request, noisy, scales, sd)
    if final:
        state = _forget(state, request.clip)
    kept = 1.0 - share
    eta, noise = kalman.update(
        state.noise,
        kept * state.gram,
        kept**2 * state.gram_variance,
        noisy.score,
        np.diag(scales.score**2),
    )
    moved = float(eta @ state.gram @ eta) / state.nobs
    state = replace(
        state,
        theta=state.theta + state.whitening.T @ eta,
        noise=noise,
        clip=request.clip,
        share_clipped=share,
        spread=noisy.spread,
        spread_variance=scales.spread**2,
        spread_mean=1.0 - inside,
        spread_mean_sd=math.hypot(scales.inside, inside * state.nobs_sd) / state.nobs,
        spread_clip=request.spread_clip,
        done=state.done + 1,
    )
    rest = sd**2 - moved - state.prediction2
    state = replace(state, scale=max(rest, LEAST_SCALE * sd**2))
    if rounds_left(state):
        state = _drop_weak(state)
    if rounds_left(state) > 1:
        level = kalman.spectral_level(state.gram_variance)
        state = whitened(state, kalman.raise_eigenvalues(state.gram, max(level, 0.02 * state.nobs)))
    return state


def _drop_weak(state: State) -> State:
    """Leave out directions that are unresolved and could not add to the fit if they were.

    In direction e the fit can gain at most about ``e'Prior e`` times the matrix's upper bound.
    """
    weak, vectors = unresolved(state)
    bound = EDGE * kalman.spectral_level(state.gram_variance)
    gain = np.einsum("ij,ik,kj->j", vectors, state.prior, vectors) * bound
    idle = weak & (gain < LEAST_GAIN * state.scale)
    return without(state, vectors[:, idle]) if idle.any() and not idle.all() else state


def _learn_gram(
    state: State, request: ScoreRequest, noisy: NoisyScores, scales: NoisyScores
) -> State:
    """Weigh the new matrix against the old one, entry by entry, and keep it positive."""
    gram, variance = state.gram, state.gram_variance
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
    mean_leverage = float(np.trace(state.gram)) / state.nobs
    return replace(
        state,
        gram=gram,
        gram_variance=variance,
        norms=norms,
        norms_variance=norms_variance,
        leverage=request.radius**2 / mean_leverage,
    )


def _learn_tails(
    state: State, request: ScoreRequest, noisy: NoisyScores, scales: NoisyScores, sd: float
) -> tuple[State, float]:
    """Keep the counts of the tails; return the share of residuals beyond the clip."""
    normal = float(share_beyond(request.clip / sd))
    if request.weights.tails:
        first, _ = lattice(float(request.thresholds[0]), 1)
        count = TailCount(first, noisy.tails[0], noisy.tails[1], float(scales.tails[0, 0]), sd)
        state = replace(state, tails=(*state.tails, count))
    if not state.tails or state.done < len(SCHEDULE) - 1:
        return state, min(normal, 0.4)
    tails = Tails.merge(state.tails, state.nobs)
    first_normal = float(share_beyond(tails.thresholds[0] / sd))
    return state, tails.share_beyond(request.clip, normal, first_normal)


def _forget(state: State, clip: float) -> State:
    """Before the last round: earlier bounds and narrower clips had roots of their own."""
    shift = ROOT_SHIFT * state.scale / state.nobs
    hidden2 = 0.0
    if state.tails:
        fitted = tail_excess(state)
        hidden2 = fitted.hidden2(clip)
        if clip > state.clip:
            shift += BIAS_WEIGHT**2 * fitted.hidden2(state.clip, clip)
    return replace(state, noise=state.noise + shift * np.eye(state.theta.size), hidden2=hidden2)


__all__ = [
    "SCHEDULE",
    "Round",
    "State",
    "plan_round",
    "round_mus",
    "start",
    "tail_excess",
    "update",
]
