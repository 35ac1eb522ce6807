"""R-squared, F and information criteria, with the uncertainty that privacy adds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpbinagg.analyst import kalman
from dpbinagg.analyst.clipping import sd_from_spread
from dpbinagg.analyst.linalg import inverse_psd, symmetric
from dpbinagg.analyst.state import State
from dpbinagg.analyst.types import Estimate, Moments

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class SumsOfSquares:
    """Explained sum of squares and error variance, with their standard deviations.

    Standard deviations are those of the privacy noise.  Explained is about the mean where the
    model has a constant.
    """

    explained: float
    explained_sd: float
    scale: float
    scale_sd: float


@dataclass(frozen=True, slots=True)
class FitStatistics:
    """What a regression table prints under the coefficients; ``*_sd``: the privacy noise."""

    nobs: float
    df_model: float
    df_resid: float
    scale: float
    scale_sd: float
    rsquared: float
    rsquared_sd: float
    rsquared_adj: float
    fvalue: float
    f_pvalue: float
    llf: float
    aic: float
    bic: float
    information_sd: float


def fit_statistics(
    estimate: Estimate, sums: SumsOfSquares, constant: int | None = None
) -> FitStatistics:
    """Goodness of a fit.

    With SSE = (n - p) sigma^2 and SSR the explained sum of squares::

        R^2 = SSR/(SSR + SSE),  sd = (1 - R^2) R^2 |(sd SSR/SSR, sd sigma^2/sigma^2)|
        F   = b'V^-1 b / q over the q coefficients but the constant (a Wald test: V holds
              sampling and privacy)
        llf = -n/2 (log(2 pi SSE/n) + 1),  sd of AIC and BIC = n sd sigma^2/sigma^2

    Parameters
    ----------
    constant : int, optional
        Index of the constant among the coefficients.
    """
    p, n = estimate.params.size, estimate.nobs
    freedom = max(n - p, 1.0)
    residual = max(sums.scale, np.finfo(float).tiny) * freedom
    explained = max(sums.explained, 0.0)
    rsquared = explained / (explained + residual)
    relative = sums.scale_sd / max(sums.scale, np.finfo(float).tiny)
    gain = sums.explained_sd / explained if explained > 0 else 0.0
    tested = np.array([j for j in range(p) if j != constant], dtype=np.intp)
    fvalue, pvalue = _wald(estimate, tested)
    offset = 0 if constant is None else 1
    llf = -n / 2.0 * (math.log(2.0 * math.pi * residual / n) + 1.0)
    return FitStatistics(
        nobs=n,
        df_model=float(tested.size),
        df_resid=estimate.df_resid,
        scale=sums.scale,
        scale_sd=sums.scale_sd,
        rsquared=rsquared,
        rsquared_sd=(1.0 - rsquared) * rsquared * math.hypot(relative, gain),
        rsquared_adj=1.0 - (1.0 - rsquared) * (n - offset) / freedom,
        fvalue=fvalue,
        f_pvalue=pvalue,
        llf=llf,
        aic=-2.0 * llf + 2.0 * p,
        bic=-2.0 * llf + math.log(max(n, 1.0)) * p,
        information_sd=n * relative,
    )


def _wald(estimate: Estimate, tested: Indices) -> tuple[float, float]:
    """F statistic and p-value of "all `tested` coefficients are zero"."""
    if not tested.size:
        return float("nan"), float("nan")
    b = estimate.params[tested]
    inverse, lost = inverse_psd(estimate.cov[np.ix_(tested, tested)], 1e-13)
    rank = max(tested.size - lost, 1)
    value = float(b @ inverse @ b) / rank
    law = stats.f(rank, estimate.df_resid) if np.isfinite(estimate.df_resid) else None
    pvalue = law.sf(value) if law is not None else stats.chi2.sf(rank * value, rank)
    return value, float(pvalue)


def sums_from_state(state: State, constant: bool = True) -> SumsOfSquares:
    """Sums of squares at the end of the refinement.

    Explained: ``c'A c`` with c the coordinates of the fit, less ``(e'A c)^2/e'A e`` for the
    constant e.  Noise moves it by ``2 c'A delta + c'E c``.  The error variance follows from the
    count inside the spread clip, whose noise moves it by its derivative.
    """
    root = np.linalg.solve(state.whitening, np.eye(state.theta.size))
    gram = symmetric(root @ state.gram @ root.T)
    c = state.coordinates
    if constant:
        e = state.q[0]
        c = c - e * float(e @ gram @ c) / max(float(e @ gram @ e), np.finfo(float).tiny)
    acted = root.T @ c
    second = float(acted @ kalman.matrix_noise(state.gram_variance, np.outer(acted, acted)) @ acted)
    slope = state.whitening @ gram @ c
    first = 4.0 * float(slope @ state.noise @ slope)
    step = 1e-3
    up, down = (
        float(sd_from_spread(state.spread_mean * (1 + s), state.spread_clip)) ** 2
        for s in (step, -step)
    )
    derivative = (up - down) / (2 * step * state.spread_mean)
    scale_sd = abs(derivative) * state.spread_mean_sd
    return SumsOfSquares(
        float(c @ gram @ c), math.sqrt(max(first + second, 0.0)), state.scale, scale_sd
    )


def sums_from_moments(moments: Moments, estimate: Estimate, constant: bool = True) -> SumsOfSquares:
    """Sums of squares of a fit from released moments.

    Explained: total less residual; with v the residual as a combination of f and u the
    response (less its mean), their noise is that of ``u'Eu - v'Ev``.
    """
    t = moments.response_map
    v = t - moments.design_map @ estimate.params
    u = t.copy()
    if constant:
        u[0] -= float(moments.matrix[0] @ t) / moments.nobs
    total = float(u @ moments.matrix @ u)
    explained = total - estimate.scale * estimate.df_resid
    variance = np.triu(moments.sd**2)
    weight = np.where(np.eye(u.size) > 0, 1.0, 2.0)
    moved = np.outer(u, u) - np.outer(v, v)
    explained_sd = math.sqrt(float(np.sum(variance * (weight * moved) ** 2)))
    residual_sd = math.sqrt(float(np.sum(variance * (weight * np.outer(v, v)) ** 2)))
    return SumsOfSquares(
        explained, explained_sd, estimate.scale, residual_sd / max(estimate.df_resid, 1.0)
    )
