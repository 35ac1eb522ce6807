"""What to ask in the next round of scores."""

from __future__ import annotations

import math

import numpy as np

from dpbinagg.analyst.refinement.state import FIRST_LEVERAGE, State
from dpbinagg.analyst.refinement.tails import Excess, Tails, excess, lattice
from dpbinagg.rounds import GroupWeights, ScoreRequest

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
BIAS_WEIGHT = 1.5
"""Bias of a slope that a hidden mean of 1 may cause, in whitened units."""


def plan_round(state: State, mu: float) -> ScoreRequest:
    """Request of the next round, to be answered with parameter `mu`.

    Statistics wanted, over all records: see `dpbinagg.rounds`.
    """
    plan = state.schedule[state.done]
    final = state.rounds_left == 1
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
    if state.rounds_left > 1:
        return SPREAD_CLIP
    unit = math.sqrt(1.0 + weights.hessian**2) / (weights.spread * mu)
    return max(SPREAD_CLIP, math.sqrt(SPREAD_NOISE * state.nobs / (unit * radius**2)))


def _leverage(state: State, mu: float) -> float:
    """Leverage bound R^2 in units of the mean leverage.

    As large as costs FREE_NOISE; beyond that as large as leaves LEVERAGE_SHARE of the
    records cut, if it costs at most FAIR_NOISE; never under LEAST_LEVERAGE.
    """
    mean_leverage = float(np.trace(state.gram)) / state.nobs
    last = state.schedule[-1]
    final_mu2 = mu**2 * last.share / state.schedule[state.done].share
    per_unit = mean_leverage * last.clip**2 / (final_mu2 * state.nobs)
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
    noise = radius * candidates / (mu * state.nobs)
    cost = BIAS_WEIGHT**2 * fitted.hidden2(candidates) + noise**2
    return float(candidates[int(np.argmin(cost))])


def tail_excess(state: State) -> Excess:
    """Posterior of the difference between the tails of the residuals."""
    return excess(Tails.merge(state.tails, state.nobs))
