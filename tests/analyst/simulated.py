"""A curator in plain floating point, for tests of the analyst's side only."""

import numpy as np
from dpbinagg.analyst.refinement.refine import (
    plan_round,
    round_mus,
    start,
    update,
    with_schedule,
)
from dpbinagg.analyst.refinement.refined import finish

from dpbinagg.analyst.types import Moments
from dpbinagg.public.rounds import NoisyScores


def symmetric_noise(rng, sd):
    """Return symmetric noise with standard deviations `sd`."""
    upper = np.triu(rng.normal(size=sd.shape) * sd)
    return upper + np.triu(upper, 1).T


def exact_scores(request, f, y):
    """Exact sums of a request; f = (1, z*, y*), y in natural units."""
    w = f @ request.whitening.T
    square = np.einsum("ij,ij->i", w, w)
    omega = 1.0 / np.maximum(square / request.radius**2, 1.0)
    r = y - f @ request.coefficients
    g = np.minimum(1.0, (r / request.spread_clip) ** 2)
    cell = np.searchsorted(request.thresholds, np.abs(r), side="right")
    n_cells = request.thresholds.size
    tails = [np.bincount(cell[side], minlength=n_cells + 1)[1:] for side in (r <= 0, r > 0)]
    edges = request.norm_edges
    norms = np.bincount(np.searchsorted(edges, square, side="right"), minlength=edges.size + 1)
    return NoisyScores(
        score=(omega * np.clip(r, -request.clip, request.clip)) @ w,
        hessian=(w * omega[:, None]).T @ w,
        spread=(w * (omega * (1 - g))[:, None]).T @ w,
        inside=float(np.sum(1 - g)),
        tails=np.array(tails, dtype=float),
        norms=norms.astype(float),
    )


def noisy_scores(request, f, y, mu, rng):
    """Exact sums plus Gaussian noise of the stated scales; groups left out are zero."""
    exact, sd = exact_scores(request, f, y), request.noise_scales(mu)
    weights = request.weights

    def vector(value, scale, weight):
        return value + scale * rng.normal(size=scale.shape) if weight else np.zeros_like(value)

    def matrix(value, scale, weight):
        return value + symmetric_noise(rng, scale) if weight else np.zeros_like(value)

    return NoisyScores(
        score=vector(exact.score, sd.score, 1.0),
        hessian=matrix(exact.hessian, sd.hessian, weights.hessian),
        spread=matrix(exact.spread, sd.spread, weights.spread),
        inside=exact.inside + sd.inside * rng.normal(),
        tails=vector(exact.tails, sd.tails, weights.tails),
        norms=vector(exact.norms, sd.norms, weights.norms),
    )


def scaled(z, y, centre, scale, middle, half):
    """Return f = (1, z*, y*), cut to [-1, 1], and y, cut likewise."""
    varying = scale > 0
    columns = [np.ones(len(y)), (z[:, varying] - centre[varying]) / scale[varying]]
    f = np.clip(np.column_stack([*columns, (y - middle) / half]), -1, 1)
    return f, middle + half * f[:, -1]


def noisy_moments(f, centre, scale, middle, half, mu, rng):
    """Second moments with squares centred by half the noisy count."""
    q = f.shape[1] - 1
    sd = np.full((q + 1, q + 1), np.sqrt(1 + q + q * (q - 1) / 2 + q / 4) / mu)
    noise = symmetric_noise(rng, sd)
    noise[np.arange(1, q + 1), np.arange(1, q + 1)] += noise[0, 0] / 2
    return Moments.from_scaling(f.T @ f + noise, sd, centre, scale, middle, half)


def refine(z, y, centre, scale, middle, half, mu, rng, shares=(0.15, 0.65), moments=noisy_moments):
    """Run all rounds; shares of mu^2 for the moments and the scores."""
    f, y = scaled(z, y, centre, scale, middle, half)
    mu_moments, mu_scores = mu * np.sqrt(shares)
    state = start(moments(f, centre, scale, middle, half, mu_moments, rng))
    state = with_schedule(state, mu_scores)
    for part in round_mus(mu_scores, state.schedule):
        request = plan_round(state, part)
        state = update(state, request, noisy_scores(request, f, y, part, rng), part)
    return finish(state), state
