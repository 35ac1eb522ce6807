"""Rounds of clipped scores: what to ask next, and what the answer teaches.

A round asks for ``s = sum u min(1, T/|u|)``, ``u = w (y - x'b)``: contributions are clipped as a
whole, so that a record of high leverage and a small residual, or the reverse, is not touched. The
step ``K s`` divides by the matrix, which the rounds that approach measure anew in their own
coordinates. Those cut more, so that their estimate may be biased: how far the last one leans on
them its own score decides, which is nearly unbiased (`doubted`). What T hides there is estimated
and carried (`finish`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy import linalg

from dpbinagg.analyst.linalg import applied, product, spectrum, symmetric, symmetric_noise, truths
from dpbinagg.analyst.ols import tails
from dpbinagg.analyst.ols.coordinates import SEED
from dpbinagg.analyst.ols.start import Long, State, rewhitened
from dpbinagg.analyst.ols.tails import sd_from_spread
from dpbinagg.analyst.types import Array
from dpbinagg.public.rounds import GRAM, RoundAnswer, RoundRequest, norm

SHARES = (0.09, 0.14, 0.22, 0.55)
"""Shares of mu^2 of the rounds: early ones are cheap, each brings the residuals down and the matrix
into shape; more than half is left for the one that decides."""

CLIP = 2.5
"""T in usual lengths of a contribution: cuts next to nothing of normal residuals."""
MEAT_CLIP = 5.0
"""T_m, likewise: squares tell how spread differs from direction to direction, which their noise, in
proportion to T_m^2, must not drown; how large it is on the whole is known otherwise."""
SAMPLING = 0.35
"""T of the last round leaves privacy noise of so much sampling noise at least. A wider clip costs
little until there, and tails that noise hides bias less."""
LONG, SMALL = 6.0, 0.7
"""T of the last round is so many usual lengths at least, unless that takes more than so much of the
sampling noise: among a few thousand records the ten or twenty that are long for a shared reason
cannot be told from noise, and a nearer clip would shift an estimate by a standard error. It costs
a twentieth of precision there, and nothing from about 10,000 records on."""
REACH = 60.0
"""Longest contributions that are reckoned with when T is chosen, in usual lengths: without much
noise T need not be wider."""
WIDEST = 0.7
"""Privacy noise over sampling noise that T may cost in a round that approaches."""
FAR_STANDS = 2.0
"""Noise standard deviations at which a cell of long vectors counts as seen."""
FIRST_CELL, TAIL_CELL, RATIO, CELLS = 1.0, 1.4, 1.5, 10
"""Cells of |u| in usual lengths, the first, the one where the tail begins, ratio and number."""
FIRST_ROUND = 1.5**-2
"""The first cell of the first round, whose residuals are not known well."""
FAR_CELLS = 14
"""Octaves of |w|^2 beyond the radius: columns on a scale that is 100 times too small are seen."""
LEAST_RADIUS, MOST_RADIUS, ROOM = 2.0, 18.0, 0.25
"""R^2 in units of k: at least twice the mean; at most so large, for few records of the square of a
skewed variable hold most of its variation; its noise at most ROOM n."""
DOUBTS = np.geomspace(1e-3, 1e3, 28)
"""Variances of a bias of earlier rounds that are weighed, in sampling variances."""
CAUTION = 0.8
"""Quantile of their posterior that is believed. If all of a bias is in one coefficient, which is
the worst that it can do, its interval covers .91 at least, however large the bias (a test repeats
it); at .7 .88, with the median .77. A third of what earlier rounds could save is kept."""
LEANING = 10.0
"""Directions in which a generous error of the start may be left are doubted by so many times its
square: these the last score decides."""
LEAST_LEFT = 0.1
"""Share of the residual variance that a step leaves at least: noise may say that it left none."""
LONG_DOUBT = 0.5
"""Doubt in the mean excess of long vectors, relative: they are not all equally long."""
WORTH = 3.0
"""A matrix is measured anew unless its noise would be so many times that of the one at hand."""


def round_mus(mu: float) -> tuple[float, ...]:
    """Split the mu of the scores over the rounds."""
    total = sum(SHARES)
    return tuple(mu * math.sqrt(share / total) * (1.0 - 2.0**-50) for share in SHARES)


def plan_round(state: State, mu: float) -> tuple[State, RoundRequest]:
    """Coordinates and request of the next round, to be answered with parameter `mu`."""
    state = rewhitened(state)
    last = state.done == len(SHARES) - 1
    first = FIRST_CELL * (1.0 if state.done else FIRST_ROUND)
    radius = None if last else _radius(state, mu)
    request = RoundRequest(
        coefficients=state.layout.design_map @ state.params + state.layout.offset,
        whitening=state.whitening @ state.layout.design_map.T,
        clip=CLIP * state.usual,
        edges=np.asarray(state.usual * first * RATIO ** np.arange(CELLS)),
        radius=radius,
        far_edges=np.empty(0) if radius is None else radius * 2.0 ** (np.arange(FAR_CELLS) / 2.0),
        meat_clip=MEAT_CLIP * state.usual,
        last=last,
    )
    clip = _last_clip(state, request, mu) if last else _clip(state, request, mu)
    return state, replace(request, clip=clip, meat_clip=min(request.meat_clip, clip))


def _radius(state: State, mu: float) -> float | None:
    """R: as long as the noise of the matrix allows; None where it would teach nothing."""
    k, n = state.size, state.nobs
    noise = math.sqrt(2.0 * k) * 1.6 / (mu * GRAM)
    radius2 = float(np.clip(ROOM * n / noise, LEAST_RADIUS * k, MOST_RADIUS * k))
    held = math.sqrt(float(np.mean(np.sum(state.noise**2, axis=(1, 2)))) / k)
    return None if radius2 * noise > 2.0 * WORTH * held and k > 20 else math.sqrt(radius2)


def _unit(state: State, request: RoundRequest, mu: float) -> float:
    """T at which the privacy noise of a coefficient equals its sampling noise."""
    return mu * math.sqrt(state.nobs) * state.sd / norm(request)


def _clip(state: State, request: RoundRequest, mu: float) -> float:
    """T of a round that approaches: to where a tail was seen, if noise allows."""
    wide = min(state.tail_end, WIDEST * _unit(state, request, mu))
    return max(request.clip, wide)


def _last_clip(state: State, request: RoundRequest, mu: float) -> float:
    """T of the last round: least sum of the squares of noise and of what is expected to be hidden.

    ``k (T norm/mu)^2 + H(T)^2`` from the least T on, H the sum of what T cuts off and points alike.
    """
    reach = REACH * math.sqrt(state.size) * state.sd
    unit, usual = _unit(state, request, mu), math.sqrt(state.size) * state.sd
    least = max(request.clip, min(SAMPLING * unit, reach), min(SMALL * unit, LONG * usual))
    if state.tail is None:
        return least
    candidates = least * np.exp(np.arange(0.0, 3.0, 0.1))
    cost = [
        state.size * (clip * norm(request) / mu) ** 2 + state.tail.alike(clip, reach) ** 2
        for clip in candidates
    ]
    return float(candidates[int(np.argmin(cost))])


def update(state: State, request: RoundRequest, answer: RoundAnswer, scales: RoundAnswer) -> State:
    """Learn from the answer to `request`; the ensemble takes the same step."""
    hidden = 0.0
    if request.last and state.tail is not None:
        reach = REACH * math.sqrt(state.size) * state.sd
        hidden = state.tail.alike(state.clip, reach) - state.tail.alike(request.clip, reach)
    after, step = stepped(state, request, answer, scales, hidden)
    return _learn_size(after, request, answer, scales, step)


def stepped(
    state: State, request: RoundRequest, answer: RoundAnswer, scales: RoundAnswer, hidden: float
) -> tuple[State, Array]:
    """The state after a step, and the step; the size of residuals is still that of before.

    Parameters
    ----------
    hidden : float
        Length of what the clip of the round before may have hidden of its score, in the last round.
    """
    rng = np.random.default_rng([SEED, state.done])
    if answer.gram is not None:
        state = _learn_gram(state, request, answer, scales, rng)
    of_gram = spectrum(state.gram, state.noise)
    k, used = state.size, of_gram.lifted
    prior, errors = state.prior, state.errors
    if request.last:
        prior, doubt = doubted(state, used, answer.score, scales.score, hidden)
        errors = errors + math.sqrt(doubt) * rng.normal(size=errors.shape)
    noise = np.diag(scales.score**2) + product(state.noise, prior)
    gain = np.linalg.solve(symmetric(used @ prior @ used + noise), used @ prior).T
    step = gain @ answer.score
    believed = truths(state.gram, state.noise, of_gram)
    drawn = rng.normal(size=state.errors.shape) * scales.score
    rest = np.eye(k) - gain @ used
    after = replace(
        state,
        params=state.params + state.whitening.T @ step,
        errors=errors - (applied(believed, errors) - drawn) @ gain.T,
        start=state.start - applied(believed, state.start) @ gain.T,
        prior=symmetric(rest @ prior @ rest.T + gain @ noise @ gain.T),
        clip=request.clip,
        done=state.done + 1,
    )
    return after, np.asarray(step)


def doubted(
    state: State, used: Array, score: Array, sd: Array, hidden: float
) -> tuple[Array, float]:
    """Covariance of the error before the last step, a bias of earlier rounds included, and of that
    the variance in each direction.

    With a bias of variance t in every direction the last score is ``s ~ N(0, A (P + t I) A + R)``,
    R its noise and that of A: how large it is says which t fit. All of the bias may be in one
    direction, which is therefore doubted by k t, t a cautious quantile, and by no less than
    ``(H/n)^2``, H what the clip before may have hidden.

    Parameters
    ----------
    used : (k, k) array
        A.
    score, sd : (k,) arrays
        s, and the standard deviations of its noise.
    hidden : float
        H.
    """
    k, unit = state.size, state.sd**2 / state.nobs
    prior = state.prior + LEANING * state.start.T @ state.start / len(state.start)
    known = used @ prior @ used + np.diag(sd**2) + product(state.noise, prior)
    # In these directions the covariance of s is diagonal, whatever t.
    bias = used @ used + product(state.noise, np.eye(k))
    values, vectors = linalg.eigh(symmetric(known), symmetric(bias))
    variance = values + unit * DOUBTS[:, None]
    fit = -0.5 * (np.log(variance) + (score @ vectors) ** 2 / variance).sum(axis=1)
    weight = np.cumsum(np.exp(fit - fit.max()))
    found = unit * DOUBTS[np.searchsorted(weight, CAUTION * weight[-1])]
    doubt = max(k * float(found), (max(hidden, 0.0) / state.nobs) ** 2)
    return prior + doubt * np.eye(k), doubt


def clipped_sd(state: State, request: RoundRequest, answer: RoundAnswer) -> float:
    """Residual standard deviation before the step, by the mean of ``min(1, |u|/T)^2``."""
    expected = min((state.usual / request.clip) ** 2, 1.0)
    mean = max(1.0 - answer.inside / state.nobs, LEAST_LEFT**2 * expected)
    return float(sd_from_spread(mean, request.clip / math.sqrt(state.size)))


def _learn_size(
    state: State, request: RoundRequest, answer: RoundAnswer, scales: RoundAnswer, step: Array
) -> State:
    """Residual standard deviations after the step, and the tail of the contributions."""
    before = clipped_sd(state, request, answer) ** 2
    moved = max(float(step @ state.gram @ step), 0.0) / state.nobs
    inner = max(before - moved, LEAST_LEFT * before)
    sd = float(scales.counts[0])
    end = tails.run_end(answer.counts, request.edges, sd, tails.STANDS)
    seen = np.where(request.edges < end, answer.counts, 0.0)
    more = float(seen @ np.maximum(request.edges**2 * RATIO - request.clip**2, 0.0))
    outer = max(more, 0.0) / state.size / state.nobs
    place = tail_place(request.edges, TAIL_CELL * math.sqrt(state.size * inner))
    return replace(
        state,
        sd=math.sqrt(inner + outer),
        sd_clipped=math.sqrt(inner),
        tail=tails.fit(answer.counts[place:], request.edges[place:], sd),
        tail_end=end,
    )


def tail_place(edges: Array, begin: float) -> int:
    """Cell where the tail begins; four are left at least."""
    return min(int(np.searchsorted(edges, begin)), len(edges) - 4)


def _learn_gram(
    state: State,
    request: RoundRequest,
    answer: RoundAnswer,
    scales: RoundAnswer,
    rng: np.random.Generator,
) -> State:
    """Weigh the new matrix against the old one, entry by entry.

    Vectors longer than R were cut: their mean ``|w|^2 - R^2``, by the counts of long ones, is put
    back along their directions.
    """
    assert request.radius is not None
    assert answer.gram is not None
    assert answer.beyond is not None
    assert answer.far is not None
    assert scales.gram is not None
    assert scales.beyond is not None
    assert scales.far is not None
    radius2, sd = request.radius**2, float(scales.far[0])
    edges2 = request.far_edges**2
    end = tails.run_end(answer.far, edges2, sd, FAR_STANDS)
    seen = np.where(edges2 < end, answer.far, 0.0)
    excess = max(
        float(seen @ (math.sqrt(2.0) * edges2 - radius2)) / max(float(seen.sum()), 1.0), 0.0
    )
    members = len(state.noise)
    new = symmetric(answer.gram + excess * answer.beyond)
    fresh = symmetric_noise(rng, scales.gram, members)
    fresh = fresh + excess * symmetric_noise(rng, scales.beyond, members)
    doubt = LONG_DOUBT * excess * rng.normal(size=members)
    fresh = fresh + doubt[:, None, None] * symmetric(answer.beyond)
    old_variance, new_variance = np.mean(state.noise**2, axis=0), np.mean(fresh**2, axis=0)
    gain = old_variance / np.maximum(old_variance + new_variance, np.finfo(float).tiny)
    return replace(
        state,
        gram=state.gram + gain * (new - state.gram),
        noise=state.noise + gain * (fresh - state.noise),
        long=Long(state.whitening, edges2, answer.far, sd, end),
    )
