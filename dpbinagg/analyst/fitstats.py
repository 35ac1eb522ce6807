"""R-squared, error variance and information criteria, with the noise that privacy adds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.linalg import members_of, symmetric_noise
from dpbinagg.analyst.ols.coordinates import SEED
from dpbinagg.analyst.ols.finish import NAME, Fitted, Steps
from dpbinagg.analyst.ols.start import State, constant_of, moment_scale
from dpbinagg.analyst.ols.tails import sd_from_spread
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.formula import Design, linear_map
from dpbinagg.release.questions import MOMENTS, complete
from dpbinagg.release.transcript import Released

DROWNED = 0.5
"""Noise of the explained share, as a standard deviation, from which on it is not shown."""

TINY = 1e-300
STEP = 1e-3
"""Relative step of a numerical derivative."""


@dataclass(frozen=True, slots=True)
class FitStatistics:
    """What a regression table says of the fit; ``*_se`` is the privacy noise in it.

    With n records (noise sd s_n), p coefficients, explained sum of squares SSR and
    ``SSE = (n - p) scale``, all of them noisy::

        R^2 = SSR/(SSR + SSE),          sd = |((1 - R^2) sd(SSR), R^2 sd(SSE))|/(SSR + SSE)
        adjusted R^2 = 1 - (1 - R^2)(n - constant)/(n - p)
        AIC = n (log(2 pi SSE/n) + 1) + 2 p,    BIC likewise with log(n) p

    Standard errors follow to first order. They are those of the noise alone: what would vary
    if the same records were released again.

    Attributes
    ----------
    rsquared, rsquared_se, rsquared_adj : float
    scale, scale_se : float
        Error variance.
    aic, bic, information_se : float
        The noise of both criteria is that of the error variance and of n.
    """

    rsquared: float
    rsquared_se: float
    rsquared_adj: float
    scale: float
    scale_se: float
    aic: float
    bic: float
    information_se: float


def fit_statistics(
    release: Released, steps: Steps | None, design: Design, estimate: Estimate, constant: int
) -> FitStatistics | None:
    """Fit statistics of an estimate that rests on moments or scores.

    Parameters
    ----------
    release : Released
    steps : Steps or None
        Where its transcript leads.
    design : Design
        The model of `estimate`: the release's own or a smaller one.
    estimate : Estimate
        Refined, combined or from moments.
    constant : int
        1 where the columns span a constant.

    Returns
    -------
    FitStatistics or None
        None where moments were not released or noise drowns them.
    """
    n, p, scale = estimate.nobs, len(estimate.params), estimate.scale
    if steps is None or estimate.noise_cov is None or scale <= 0.0 or n <= p:
        return None
    fitted = steps.fitted if estimate.name == NAME else None
    state = steps.first if fitted is None else fitted.state
    columns = None if design is release.design else linear_map(release.design, design)
    explained, explained_sd = explained_sum(state, estimate, columns, constant)
    if fitted is not None:
        scale_sd, slope = scale_noise(fitted)
        scale_sd = math.hypot(scale_sd, scale_doubt(release, steps, estimate, columns))
    else:
        _, scale_sd = moment_scale(steps.first)
        slope = -scale / state.nobs
    residual = (n - p) * scale
    if explained_sd > DROWNED * (explained + residual):
        return None

    def relative(more: float) -> float:
        """Relative noise of the error variance; `more` for n adds to its slope by n."""
        return math.hypot(scale_sd / scale, (slope / scale + more) * state.nobs_sd)

    r2 = explained / (explained + residual)
    noise = math.hypot((1.0 - r2) * explained_sd, r2 * (residual * relative(1.0 / n)))
    deviance = math.log(2.0 * math.pi * residual / n) + 1.0
    return FitStatistics(
        rsquared=r2,
        rsquared_se=noise / (explained + residual),
        rsquared_adj=1.0 - (1.0 - r2) * ((n - constant) / (n - p)),
        scale=scale,
        scale_se=scale * relative(0.0),
        aic=n * deviance + 2.0 * p,
        bic=n * deviance + math.log(n) * p,
        information_se=n * relative(deviance / n),
    )


def scale_doubt(
    release: Released, steps: Steps, estimate: Estimate, columns: Array | None
) -> float:
    """How far the released moments contradict the error variance.

    That of the last round weighs records by their leverage and stops at the clip; the moments'
    ``v'G v/(n - p)``, v the residual, does neither, but has noise of variance s^2. With D their
    difference, the bias of the first has the second moment ::

        g s^2 + g^2 D^2,    g = t^2/(t^2 + s^2),    t^2 = max(D^2, s^2),

    under a prior as wide as is seen, or as noise would hide.
    """
    moments, entry = steps.plan.moments, release.transcript.first(MOMENTS)
    assert entry is not None
    params = estimate.params if columns is None else columns @ estimate.params
    v, levels = moments.y_map - moments.g_map @ params, moments.request.levels
    freedom = max(estimate.nobs - len(estimate.params), 1.0)
    square = float(v @ complete(levels, entry.answer.values[0]) @ v)
    rng, members = np.random.default_rng(SEED), members_of(len(v))
    copies = complete(levels, symmetric_noise(rng, entry.answer.scales[0], members))
    noise2 = float(np.mean((copies @ v @ v / freedom) ** 2))
    gap2 = (max(square, 0.0) / freedom - estimate.scale) ** 2
    prior2 = max(gap2, noise2)
    gain = prior2 / max(prior2 + noise2, TINY)
    return math.sqrt(gain * noise2 + gain**2 * gap2)


def explained_sum(
    state: State, estimate: Estimate, columns: Array | None = None, constant: int = 1
) -> tuple[float, float]:
    """Explained sum of squares and the standard deviation of its noise.

    ``c'A c`` with c the whitened coefficients, less ``(o'A c)^2/o'A o`` for the constant o. With N
    the noise covariance of c it is too large by ``tr(A N)`` on average and has the variance
    ``4 c'A N A c + 2 tr(A N A N)``, besides that of A over the ensemble. The sampling error of c
    stays in: least squares on the records has it too, and the adjusted R-squared removes it.

    Parameters
    ----------
    state : State
    estimate : Estimate
    columns : (p, p_s) array, optional
        The smaller model's columns as combinations of the design's.
    constant : int
        1 where the columns span a constant.
    """
    one = constant_of(state) if constant else None
    loading = state.whitened(np.eye(len(state.params)) if columns is None else columns)
    assert estimate.noise_cov is not None
    c, noise = loading @ estimate.params, loading @ estimate.noise_cov @ loading.T
    gram = state.gram
    if one is not None:
        records = float(one @ gram @ one)
        if records < 1.0:
            # Noise drowns even their number, which this is but for noise.
            return 0.0, math.inf
        centre = np.eye(c.size) - np.outer(one, one @ gram) / records
        c, noise = centre @ c, centre @ noise @ centre.T
    value = float(c @ gram @ c)
    doubt = float(np.var(c @ state.noise @ c)) + float(np.mean(c @ state.noise @ c)) ** 2
    spread = gram @ noise
    square = 2.0 * float(np.sum(spread * spread.T))
    first = max(4.0 * float(c @ gram @ noise @ gram @ c) - square, square)
    left = max(value - float(np.trace(spread)), 0.0)
    return left, math.sqrt(max(first + doubt, 0.0))


def scale_noise(fitted: Fitted) -> tuple[float, float]:
    """Noise of the error variance: its own, and its derivative by the number of records.

    The error variance is a function of ``1 - inside/n``, whose noise is that of the sum inside the
    clip and, in proportion to the share inside, that of n; times its lean, which has its own.
    """
    state, inside = fitted.state, fitted.answer.inside
    mean = min(max(1.0 - inside / state.nobs, TINY), 1.0)
    clip = fitted.request.clip / math.sqrt(state.size)
    up, down = (float(sd_from_spread(mean * (1 + step), clip)) ** 2 for step in (STEP, -STEP))
    derivative = (up - down) / (2.0 * STEP * mean)
    lean, noise = fitted.lean
    own = lean * derivative * fitted.scales.inside / state.nobs
    other = noise * fitted.scale / lean
    return math.hypot(own, other), lean * derivative * (1.0 - mean) / state.nobs
