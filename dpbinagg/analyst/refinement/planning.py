"""What to ask in the next round of scores."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpbinagg.analyst.refinement.schedule import AMPLE, NEAR, ONE
from dpbinagg.analyst.refinement.state import FIRST_LEVERAGE, State
from dpbinagg.analyst.refinement.tails import Excess, Tails, excess, lattice
from dpbinagg.analyst.types import Array
from dpbinagg.public.rounds import GroupWeights, ScoreRequest

SPREAD_CLIP, SPREAD_NOISE = 2.5, 0.2
FIRST_THRESHOLD, N_CELLS = 2.0, 6
NORM_MULTIPLES = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0])
LEAST_LEVERAGE = 1.5
"""Leverage bound R^2 in units of the mean leverage, at least."""
LEVERAGE_SHARE = 0.001
"""Share of records whose leverage may be cut when the noise allows: what is cut moves the
estimate away from least squares where the model is wrong."""
FREE_NOISE, FAIR_NOISE, CLIP_NOISE = 0.1, 0.5, 0.5
"""Noise variance relative to sampling variance that a leverage bound may cost without
asking, may cost to cut few records, and that a wide clip may cost: wide bounds and clips
trade a tenth of precision for an estimate that is least squares."""
SINGLE_NOISE = 0.12
"""The same for the clip of a single round, which must hide nothing: only very many records
leave so little noise."""
BIAS_WEIGHT = 1.5
"""Bias of a slope that a hidden mean of 1 may cause, in whitened units."""


def plan_round(state: State, mu: float) -> ScoreRequest:
    """Request of the next round, to be answered with parameter `mu`.

    Statistics wanted, over all records: see `dpbinagg.public.rounds`.
    """
    plan = state.schedule[state.done]
    final = state.rounds_left == 1
    whitening = state.whitening @ state.q.T
    radius = _radius(state, mu, whitening)
    sd = state.residual_sd
    clip = plan.clip * sd
    if final and state.done:
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
        norm_edges=NORM_MULTIPLES * state.mean_leverage,
        weights=plan.weights,
    )


def with_schedule(state: State, mu: float) -> State:
    """The state at its start, with the rounds to take if all of them together have `mu`."""
    if state.prediction2 > NEAR * state.scale:
        return state
    single = replace(state, schedule=ONE)
    radius = _radius(single, mu, single.whitening @ single.q.T)
    widest = _free_clip(single, mu, radius, SINGLE_NOISE)
    return single if widest >= AMPLE * ONE[0].clip else state


def _radius(state: State, mu: float, whitening: Array) -> float:
    """R: as the leverage bound says, and no longer than any record can be."""
    learnt = state.rounds_left == 1 and state.done > 0
    leverage = state.leverage if learnt else _leverage(state, mu)
    longest = float(np.sum(np.linalg.norm(whitening, axis=0)))
    return min(math.sqrt(leverage * state.mean_leverage), longest)


def _free_clip(state: State, mu: float, radius: float, noise: float = CLIP_NOISE) -> float:
    """Clip of the last round, in sds, that costs so much noise."""
    return math.sqrt(noise * mu**2 * state.nobs) / radius


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
    mean_leverage = state.mean_leverage
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
    start_at = max(least, _free_clip(state, mu, radius) * state.residual_sd)
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
