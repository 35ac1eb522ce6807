"""What is known after some rounds, and the first of it: an estimate from structured moments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpbinagg.analyst.linalg import (
    applied,
    inverse_root,
    members_of,
    moved,
    product,
    spectrum,
    symmetric,
    symmetric_noise,
    truths,
)
from dpbinagg.analyst.ols.coordinates import SEED, Coordinates, MomentPlan
from dpbinagg.analyst.ols.tails import Tail
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.formula.scaling import RowLayout
from dpbinagg.release.questions import complete


@dataclass(frozen=True, slots=True)
class Long:
    """What a matrix of a round says of the vectors ``w = W x`` that it cut.

    Attributes
    ----------
    whitening : (k, p) array
        W.
    edges, counts : (l,) arrays
        Noisy number of records by cell of ``|w|^2``, of which the first one begins at the radius
        and the last one is open.
    sd : float
        Of the noise of a count.
    seen : float
        Where cells end that stand out of it: what was cut of these was put back.
    """

    whitening: Array
    edges: Array
    counts: Array
    sd: float
    seen: float


@dataclass(frozen=True, slots=True)
class State:
    """The estimate and what is not known of it, in whitened coordinates ``w = W x``.

    Attributes
    ----------
    layout : RowLayout
    public : Coordinates
    nobs, nobs_sd : float
        Noisy number of records.
    whitening : (k, p) array
        W.
    params : (p,) array
        b.
    gram : (k, k) array
        A, an estimate of ``sum w w'``.
    noise : (M, k, k) array
        E_m, of the law of ``A - truth``.
    errors : (M, k) array
        e_m, of the law of the error of b: ``b - truth = W'e``. All members take the steps that the
        estimate takes.
    start : (M, k) array
        What is left of a generous error of the start, along directions that the first matrix did
        not resolve: coefficients that it reaches lean on the start, and are not identified.
    prior : (k, k) array
        Covariance of e by which steps are chosen.
    total : float
        Variance of the response.
    sd, sd_clipped : float
        Residual standard deviation, and that of residuals without their tails.
    tail : Tail or None
        Of the lengths of contributions.
    tail_end : float
        Where the tail that was seen ends.
    clip : float
        T of the round before.
    long : Long or None
        What the last matrix of a round cut.
    done : int
        Rounds that are over.
    seen, seen_sd : float
        Error variance of the first estimate by the moments themselves, and the standard deviation
        of its noise.
    """

    layout: RowLayout
    public: Coordinates
    nobs: float
    nobs_sd: float
    whitening: Array
    params: Array
    gram: Array
    noise: Array
    errors: Array
    start: Array
    prior: Array
    total: float
    sd: float
    sd_clipped: float
    tail: Tail | None = None
    tail_end: float = 0.0
    clip: float = 0.0
    long: Long | None = None
    done: int = 0
    seen: float = 0.0
    seen_sd: float = 0.0

    @property
    def size(self) -> int:
        """Number of directions, k."""
        return len(self.gram)

    @property
    def usual(self) -> float:
        """Usual length of a contribution: ``sqrt(k) sd`` with the tails left out."""
        return float(np.sqrt(self.size)) * self.sd_clipped

    def whitened(self, coefficients: Array) -> Array:
        """c with ``w'c = x'b`` for every record that was seen, from coefficients b, (p, ...).

        Those have ``x'v = 0`` for every combination v that no record had: w and these zeros are x.
        """
        known = np.vstack([self.whitening, self.public.null])
        return np.asarray(np.linalg.solve(known.T, coefficients)[: self.size])


def rewhitened(state: State) -> State:
    """Coordinates in which ``A/n + ridge`` is the identity, weak eigenvalues raised to noise."""
    raised = spectrum(state.gram, state.noise).lifted
    ridge = state.whitening @ state.public.ridge @ state.whitening.T
    by, back = inverse_root(raised / state.nobs + ridge)
    return replace(
        state,
        whitening=by @ state.whitening,
        gram=symmetric(by @ state.gram @ by.T),
        noise=moved(state.noise, by),
        errors=state.errors @ back,
        start=state.start @ back,
        prior=symmetric(back @ state.prior @ back),
    )


EXACT = 1e-6
"""Length of what a combination lacks of a constant, up to which it is one."""


def constant_of(state: State) -> Array | None:
    """Whitened coefficients o with ``w'o = 1`` for every record; None where there are none."""
    layout = state.layout
    targets = [np.eye(len(layout.design_map))[0]]
    start = len(layout.design_map) - 1 - sum(layout.levels)
    for levels in layout.levels:
        code = np.zeros(len(layout.design_map))
        code[start : start + levels] = 1.0
        targets.append(code)
        start += levels
    for target in targets:
        found = np.linalg.lstsq(layout.design_map, target, rcond=None)[0]
        if np.linalg.norm(layout.design_map @ found - target) < EXACT:
            return state.whitened(found)
    return None


FEWEST = 20.0
"""Records that are assumed at least: fewer would leave nothing to divide by."""
EXPLAINED = 2.0
"""Prior variance of the fit, in variances of the response: twice what can be explained."""
SIZE = 1.5
"""Variance of the true coefficients in the ensemble, in that of the estimated ones."""
LEAST_SIZE = 0.05
"""At least this share of the response's variance: the estimate may be small by chance."""
GENEROUS = 1.0
"""Error of the start in an unresolved direction, in standard deviations of the response: as if all
of the response were explained along it."""
UNRESOLVED = 1.5
"""A direction counts as resolved in proportion to the square of its eigenvalue over so many
noises."""
TOLERATED = 0.5
"""Standard errors of a generous error of the start that may be left in an identified
combination."""
AWAY = 1e3
"""Standard errors by which the start may be off in a combination that no record had: enough to tell
it from all others, and not so much that rounding would touch these."""
TOLD = 2.5
"""Noise standard deviations above which the number of records is told from none."""
LEAST_RESIDUAL = 0.15
"""Share of the response's variance that is taken for residual at least: too wide a first clip costs
a round's precision, too narrow a one would hide most of the score."""


def start(
    layout: RowLayout,
    public: Coordinates,
    plan: MomentPlan,
    matrix: Array,
    scales: Array,
    count: tuple[float, float],
    alone: bool = False,
) -> State:
    """Least squares from the noisy matrix, as an update of a wide prior.

    Parameters
    ----------
    matrix, scales : (m, m) arrays
        Released entries of ``sum g g'`` and the standard deviations of their noise.
    count : (float, float)
        Noisy number of records from elsewhere and its standard deviation.
    alone : bool
        Whether no rounds follow: errors are then those of what fits this matrix and this score.
    """
    rng = np.random.default_rng(SEED)
    k = public.size
    full = complete(plan.request.levels, matrix)
    copies = complete(plan.request.levels, symmetric_noise(rng, scales, members_of(k)))
    nobs, nobs_sd = _number(full[0, 0], scales[0, 0], *count)
    side = plan.g_map @ public.whitening.T
    response = plan.y_map - plan.g_map @ plan.guess
    gram = symmetric(side.T @ full @ side)
    state = State(
        layout=layout,
        public=public,
        nobs=nobs,
        nobs_sd=nobs_sd,
        whitening=public.whitening,
        params=plan.guess,
        gram=gram,
        noise=np.asarray(side.T @ copies @ side),
        errors=np.zeros((len(copies), k)),
        start=np.zeros((len(copies), k)),
        prior=np.eye(k) * EXPLAINED * plan.variance_y / k,
        total=plan.variance_y,
        sd=0.0,
        sd_clipped=0.0,
    )
    score, cross = side.T @ full @ response, copies @ response @ side
    before = state.whitening
    state = rewhitened(state)
    by = state.whitening @ np.linalg.pinv(before)
    score, cross = by @ score, cross @ by.T
    state = _first_step(state, score, cross, rng)
    if alone:
        found = state.whitened(state.params - plan.guess)
        state = replace(state, errors=found - _hypothetical(state, score, cross, rng))
    seen, seen_sd = _error_variance(state, plan, full, copies)
    return replace(state, seen=seen, seen_sd=seen_sd)


def _error_variance(
    state: State, plan: MomentPlan, full: Array, copies: Array
) -> tuple[float, float]:
    """``(v'G v + E[s'A^-1 s])/(n - k)`` of ``v = y - x'b``, s the noise of the score at b.

    The second term is what the fit to the noise took off the sum of squares.
    """
    v = plan.y_map - plan.g_map @ state.params
    freedom = max(state.nobs - state.size, 1.0)
    score = copies @ v @ plan.g_map @ state.whitening.T
    bread = np.linalg.inv(spectrum(state.gram, state.noise).lifted)
    absorbed = float(np.mean(np.sum((score @ bread) * score, axis=1)))
    noise = float(np.sqrt(np.mean((copies @ v @ v) ** 2)))
    return (float(v @ full @ v) + absorbed) / freedom, noise / freedom


def _number(own: float, own_sd: float, other: float, other_sd: float) -> tuple[float, float]:
    """Number of records, two noisy counts weighed."""
    if np.isinf(other_sd):
        return max(own, FEWEST), own_sd
    weight = other_sd**2 / max(own_sd**2 + other_sd**2, np.finfo(float).tiny)
    sd = own_sd * other_sd / max(np.hypot(own_sd, other_sd), np.finfo(float).tiny)
    return max(weight * own + (1.0 - weight) * other, FEWEST), float(sd)


def _first_step(state: State, score: Array, cross: Array, rng: np.random.Generator) -> State:
    """``beta = K score`` with ``K = P A (A P A + R)^-1``; R, the noise of the score and of A.

    The ensemble takes the same step from truths of the size that was found.
    """
    k, n, total = state.size, state.nobs, state.total
    prior = np.eye(k) * EXPLAINED * total / k
    of_gram = spectrum(state.gram, state.noise)
    used = of_gram.lifted
    noise = np.cov(cross.T).reshape(k, k) + product(state.noise, prior) + 1e-12 * n * np.eye(k)
    gain = np.linalg.solve(symmetric(used @ prior @ used + noise), used @ prior).T
    beta = gain @ score
    found = max(float(beta @ beta - np.trace(gain @ noise @ gain.T)), LEAST_SIZE * total)
    believed = truths(state.gram, state.noise, of_gram)
    true = rng.normal(size=cross.shape) * np.sqrt(SIZE * found / k)
    errors = (applied(believed, true) + cross) @ gain.T - true
    level = of_gram.level
    loose = np.minimum(1.0, (UNRESOLVED * level / np.maximum(of_gram.values, level / 2.0)) ** 2)
    along = (of_gram.vectors * loose) @ of_gram.vectors.T
    left = rng.normal(size=cross.shape) @ along * (GENEROUS * np.sqrt(total))
    left = left - applied(believed, left) @ gain.T
    rest = np.eye(k) - gain @ used
    after = symmetric(rest @ prior @ rest.T + gain @ noise @ gain.T)
    explained = float(2.0 * beta @ score - beta @ used @ beta - np.trace(gain @ noise)) / n
    residual = max(total - max(explained, 0.0), LEAST_RESIDUAL * total)
    residual = min(residual + float(np.trace(used @ after)) / n, 1.5 * total)
    return State(
        layout=state.layout,
        public=state.public,
        nobs=n,
        nobs_sd=state.nobs_sd,
        whitening=state.whitening,
        params=state.params + state.whitening.T @ beta,
        gram=state.gram,
        noise=state.noise,
        errors=errors,
        start=left,
        prior=after,
        total=total,
        sd=float(np.sqrt(residual)),
        sd_clipped=float(np.sqrt(residual)),
    )


LEAST_SPREAD = 0.1
"""Least eigenvalue of a hypothetical matrix, in its noise: no direction is without any spread.
Three times as much misses errors of what is not resolved (.79 for .95), a third doubles them."""


def _hypothetical(state: State, score: Array, cross: Array, rng: np.random.Generator) -> Array:
    """Coefficients that fit what was released: a draw of each member, (M, k).

    ``beta_m = t + K_m (s - c_m - A_m t)``, ``K_m = P_m A_m (A_m P_m A_m + R)^-1``: with its own
    matrix ``A_m`` and noise ``c_m`` of the score, of covariance R, a draw from the posterior of a
    prior ``P_m = c A_m^-1``, by which all directions explain alike; t is one of the prior. What is
    divided by may be smaller than it seems, so that errors are larger than in proportion.
    """
    k, of_gram = state.size, spectrum(state.gram, state.noise)
    explained = EXPLAINED * state.total / k * state.nobs
    least = LEAST_SPREAD * np.sqrt(np.mean(of_gram.level**2))
    roots, vectors = np.linalg.eigh(state.gram - state.noise)
    roots = np.maximum(roots, least)[:, None, :]
    across = np.swapaxes(vectors, 1, 2)
    believed = (vectors * roots) @ across
    noise = np.cov(cross.T).reshape(k, k)
    drawn = applied((vectors / np.sqrt(roots)) @ across, rng.normal(size=cross.shape))
    drawn = drawn * np.sqrt(explained)
    missing = score - cross - applied(believed, drawn)
    spread = explained * believed + noise
    solved = np.linalg.solve(spread, missing[:, :, None])[:, :, 0]
    return np.asarray(drawn + explained * solved)


def moment_scale(state: State) -> tuple[float, float]:
    """Error variance by moments alone, and the standard deviation of its noise.

    Where noise drowns the squares of the response its margin says how large errors may be; it is
    doubted by as much as it says.
    """
    guess = state.sd**2
    trust = guess**2 / (guess**2 + state.seen_sd**2)
    seen = max(state.seen, state.seen_sd)
    return trust * seen + (1.0 - trust) * guess, trust * state.seen_sd


def away(state: State) -> float:
    """Second moment of the start in a whitened combination that no record had."""
    return AWAY**2 * max(state.total, state.sd**2) / state.nobs


def leaning(state: State, left: Array, back: Array) -> Array:
    """Second moment of what is left of the start, of coefficients ``back e``.

    All of it is left where the records are so few that they cannot be told from none.
    """
    second = left.T @ left / len(left)
    if state.nobs <= max(FEWEST, TOLD * state.nobs_sd):
        second = second + away(state) * np.eye(len(second))
    return np.asarray(back @ second @ back.T)


def from_start(state: State) -> Estimate:
    """The estimate from moments alone.

    ``cov = sigma^2 A^-1 + E[e e']``: errors of one variance, and the spread of the ensemble.
    """
    back, (scale, _) = state.whitening.T, moment_scale(state)
    bread = np.linalg.inv(spectrum(state.gram, state.noise).lifted)
    noise = state.errors.T @ state.errors / len(state.errors)
    cov = symmetric(back @ (scale * bread + noise) @ back.T)
    null = state.public.null
    dependence = symmetric(leaning(state, state.start, back) + away(state) * null.T @ null)
    found = np.sqrt(np.diag(dependence)) <= TOLERATED * np.sqrt(np.diag(cov))
    found &= ~state.public.lost
    return Estimate(
        name="moments",
        params=state.params,
        cov=cov,
        noise_cov=symmetric(back @ noise @ back.T),
        scale=scale,
        df_resid=max(state.nobs - state.size, 1.0),
        nobs=state.nobs,
        cov_type="model",
        notes=(),
        identified=bool(found.all()),
        identified_terms=found,
        dependence=dependence,
    )
