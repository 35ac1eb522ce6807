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
from scipy import stats

from dpbinagg.analyst import kalman
from dpbinagg.analyst.clipping import sd_from_spread
from dpbinagg.analyst.covariance import noise_of_product
from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.moments import Basis, basis
from dpbinagg.analyst.tails import Excess, TailCount, Tails, excess, lattice
from dpbinagg.analyst.types import Array, Moments
from dpbinagg.rounds import GroupWeights, NoisyScores, ScoreRequest


@dataclass(frozen=True, slots=True)
class Round:
    """Constants of one round: share of the budget, clip in sds, weights of the groups."""

    share: float
    clip: float
    weights: GroupWeights


SCHEDULE = (
    Round(0.08, 2.5, GroupWeights(hessian=1.0, tails=0.8, norms=0.4)),
    Round(0.11, 2.5, GroupWeights(hessian=1.0, tails=0.8, norms=0.4)),
    Round(0.20, 4.0, GroupWeights(hessian=0.7, tails=0.8)),
    Round(0.61, 2.0, GroupWeights()),
)
"""Two rounds to approach, one to probe the tails, one to finish (its clip is the least one)."""

SPREAD_CLIP = 2.5
FIRST_THRESHOLD, N_CELLS = 2.0, 6
NORM_MULTIPLES = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0])
LEAST_LEVERAGE, FIRST_LEVERAGE = 1.5, 2.0
"""Leverage bound R^2 in units of the mean leverage: at least, and before anything is known."""
LEVERAGE_SHARE = 0.02
"""Share of records whose leverage may be cut when the noise allows."""
FREE_NOISE, FAIR_NOISE, CLIP_NOISE = 0.02, 0.25, 0.08
"""Noise variance relative to sampling variance that a leverage bound may cost without
asking, may cost to cut few records, and that a wide clip may cost."""
BIAS_WEIGHT = 1.5
"""Bias of a slope that a hidden mean of 1 may cause, in whitened units."""
LEAST_SCALE = 0.02
"""Floor of the error variance relative to the variance of the residuals it was part of."""


@dataclass(frozen=True, slots=True)
class State:
    """What is known after some rounds; matrices in the current whitened coordinates.

    ``whitening`` maps coordinates of the basis to whitened columns, ``theta`` is the
    estimate in the basis, ``noise`` the covariance of its privacy error in whitened
    coordinates (those of ``whitening'^-1 theta``), ``gram`` the estimate of
    ``sum omega w w'`` and ``gram_variance`` the variances of its entries.
    """

    basis: Basis
    half_width_y: float
    nobs: float
    theta: Array
    whitening: Array
    gram: Array
    gram_variance: Array
    noise: Array
    prior: Array
    scale: float
    done: int = 0
    leverage: float = FIRST_LEVERAGE
    norms: tuple[Array, ...] = ()
    tails: tuple[TailCount, ...] = ()
    clip: float = 0.0
    hidden2: float = 0.0
    share_clipped: float = 0.0
    spread: Array | None = None
    spread_variance: Array | None = None
    spread_mean: float = 0.0
    spread_clip: float = 0.0

    @property
    def rounds_left(self) -> int:
        return len(SCHEDULE) - self.done

    @property
    def prediction2(self) -> float:
        """Mean squared error of the fitted values that privacy noise causes."""
        return float(np.sum(self.gram * self.noise)) / self.nobs

    @property
    def residual_sd(self) -> float:
        return math.sqrt(self.scale + self.prediction2)


def round_mus(mu: float) -> tuple[float, ...]:
    """Split the mu of the scores over the rounds."""
    total = sum(r.share for r in SCHEDULE)
    return tuple(mu * math.sqrt(r.share / total) * (1.0 - 2.0**-50) for r in SCHEDULE)


def start(moments: Moments, nobs: float | None = None) -> State:
    """First estimate from the moments, as an update of a wide prior.

    The prior has mean "predict the middle of the response's range" and standard deviation
    one half-range of the response per half-range of a column.
    """
    base = basis(moments.design_map)
    q, t = base.q, moments.response_map
    n = max(moments.nobs if nobs is None else nobs, 10.0)
    half = abs(float(t[-1]))
    theta = q[0] * t[0]
    v = t - q @ theta
    gram = symmetric(q.T @ moments.matrix @ q)
    variance = moments.sd**2 + np.diag(moments.centring**2 * moments.sd[0, 0] ** 2)
    variance = kalman.transformed_variance(variance, q.T)
    level = kalman.spectral_level(variance)
    score_cov = q.T @ noise_of_product(moments.sd, moments.centring, np.outer(v, v)) @ q
    prior = half**2 * np.eye(q.shape[1])
    lifted = kalman.raise_eigenvalues(gram, max(level / 2, 1e-9 * n))
    score = q.T @ moments.matrix @ v
    eta, noise = kalman.update(prior, lifted, variance, score, score_cov + _jitter(score_cov))
    total = max(float(v @ moments.matrix @ v) / n, 1e-4 * half**2)
    rest = total - (2 * eta @ score - eta @ lifted @ eta) / n
    scale = max(rest + float(np.sum(lifted * noise)) / n, LEAST_SCALE * total)
    state = State(
        base, half, n, theta + eta, np.eye(q.shape[1]), lifted, variance, noise, prior, scale
    )
    return _whitened(state, kalman.raise_eigenvalues(gram, max(2 * level, 1e-9 * n)))


def _jitter(cov: Array) -> Array:
    """Keep a noiseless release invertible."""
    return np.asarray(1e-18 * max(float(np.trace(cov)), 1.0) * np.eye(cov.shape[0]))


def _whitened(state: State, gram: Array) -> State:
    """Change to coordinates in which `gram` is n times the identity."""
    m = math.sqrt(state.nobs) * kalman.inverse_root(gram)
    back = np.linalg.inv(m)
    return replace(
        state,
        whitening=m @ state.whitening,
        gram=symmetric(m @ state.gram @ m.T),
        gram_variance=kalman.transformed_variance(state.gram_variance, m),
        noise=symmetric(back.T @ state.noise @ back),
        prior=symmetric(back.T @ state.prior @ back),
    )


def plan_round(state: State, mu: float) -> ScoreRequest:
    """Request of the next round, to be answered with parameter `mu`.

    Statistics wanted, over all records: see `dpbinagg.rounds`.
    """
    plan = SCHEDULE[state.done]
    final = state.done == len(SCHEDULE) - 1
    leverage = state.leverage if final else _leverage(state, mu)
    mean_leverage = float(np.trace(state.gram)) / state.nobs
    radius = math.sqrt(leverage * mean_leverage)
    sd = state.residual_sd
    clip = plan.clip * sd
    if final:
        clip = _final_clip(state, mu, radius, clip)
    clip = min(clip, max(4.0 * state.half_width_y, sd))
    _, thresholds = lattice(FIRST_THRESHOLD * sd, N_CELLS)
    return ScoreRequest(
        coefficients=state.basis.q @ state.theta,
        whitening=state.whitening @ state.basis.q.T,
        radius=radius,
        clip=clip,
        spread_clip=min(clip, SPREAD_CLIP * sd),
        thresholds=thresholds,
        norm_edges=NORM_MULTIPLES * mean_leverage,
        weights=plan.weights,
    )


def _leverage(state: State, mu: float) -> float:
    """Leverage bound R^2 in units of the mean leverage.

    As large as costs FREE_NOISE; beyond that as large as leaves LEVERAGE_SHARE of the
    records cut, if it costs at most FAIR_NOISE; never under LEAST_LEVERAGE.
    """
    if not state.norms:
        return FIRST_LEVERAGE
    mean_leverage = float(np.trace(state.gram)) / state.nobs
    final_mu2 = mu**2 * SCHEDULE[-1].share / SCHEDULE[state.done].share
    per_unit = mean_leverage * SCHEDULE[-1].clip ** 2 / (final_mu2 * state.nobs)
    counts = np.mean(state.norms, axis=0)
    beyond = np.cumsum(counts[::-1])[::-1][1:] / max(float(np.sum(counts)), 1.0)
    few = np.flatnonzero(beyond <= LEVERAGE_SHARE)
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
    sd = sd_from_spread(1.0 - inside, request.spread_clip)
    state, share = _learn_tails(state, request, noisy, scales, sd)
    if final:
        state = _forget_clip(state, request.clip)
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
        spread_clip=request.spread_clip,
        done=state.done + 1,
    )
    rest = sd**2 - moved - state.prediction2
    state = replace(state, scale=max(rest, LEAST_SCALE * sd**2))
    if state.rounds_left > 1:
        level = kalman.spectral_level(state.gram_variance)
        state = _whitened(
            state, kalman.raise_eigenvalues(state.gram, max(level, 0.02 * state.nobs))
        )
    return state


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
    norms = state.norms + ((noisy.norms,) if request.weights.norms else ())
    mean_leverage = float(np.trace(state.gram)) / state.nobs
    return replace(
        state,
        gram=gram,
        gram_variance=variance,
        norms=norms,
        leverage=request.radius**2 / mean_leverage,
    )


def _learn_tails(
    state: State, request: ScoreRequest, noisy: NoisyScores, scales: NoisyScores, sd: float
) -> tuple[State, float]:
    """Keep the counts of the tails; return the share of residuals beyond the clip."""
    normal = 2.0 * float(stats.norm.sf(request.clip / sd))
    if request.weights.tails:
        first, _ = lattice(float(request.thresholds[0]), 1)
        count = TailCount(first, noisy.tails[0], noisy.tails[1], float(scales.tails[0, 0]), sd)
        state = replace(state, tails=(*state.tails, count))
    if not state.tails or state.done < len(SCHEDULE) - 1:
        return state, min(normal, 0.4)
    tails = Tails.merge(state.tails, state.nobs)
    first_normal = 2.0 * float(stats.norm.sf(tails.thresholds[0] / sd))
    return state, tails.share_beyond(request.clip, normal, first_normal)


def _forget_clip(state: State, clip: float) -> State:
    """Before the last round: what earlier, narrower clips may have hidden is noise now."""
    if not state.tails:
        return state
    fitted = tail_excess(state)
    shift = fitted.hidden2(state.clip, clip) if clip > state.clip else 0.0
    return replace(
        state,
        noise=state.noise + BIAS_WEIGHT**2 * shift * np.eye(state.theta.size),
        hidden2=fitted.hidden2(clip),
    )
