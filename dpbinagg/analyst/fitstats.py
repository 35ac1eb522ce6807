"""R-squared, error variance and information criteria, with the noise that privacy adds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.covariance import noise_of_product
from dpbinagg.analyst.fit import released_moments, replay, sub_model
from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.refinement import kalman
from dpbinagg.analyst.refinement.clipping import sd_from_spread
from dpbinagg.analyst.refinement.state import State
from dpbinagg.analyst.types import Array, Estimate, Moments
from dpbinagg.formula import Design
from dpbinagg.release.release import Release

DROWNED = 0.5
"""Noise of the explained share, as a standard deviation, from which on it is not shown."""

CLEAR = 3.0
"""Noise standard deviations by which the moments must exceed the refined matrix to replace it."""

STEP = 1e-3
"""Relative step of a numerical derivative."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Explained sum of squares and error variance, with their privacy noise.

    Attributes
    ----------
    explained, explained_sd : float
        ``sum (yhat - mean yhat)^2``, or ``sum yhat^2`` without a constant; not negative.
    scale : float
        Error variance.
    scale_sd : float
        Of its noise apart from that of the number of records.
    scale_slope : float
        Its derivative by the number of records, which is noisy too.
    """

    explained: float
    explained_sd: float
    scale: float
    scale_sd: float
    scale_slope: float


@dataclass(frozen=True, slots=True)
class FitStatistics:
    """What a regression table says of the fit; ``*_se`` is the privacy noise in it.

    With n records (noise sd s_n), p coefficients, explained sum of squares SSR and
    ``SSE = (n - p) scale``, all of them noisy::

        R^2 = SSR/(SSR + SSE)
        AIC = n (log(2 pi SSE/n) + 1) + 2 p,    BIC likewise with log(n) p

    Standard errors follow to first order. They are those of the noise alone: what would vary
    if the same records were released again.

    Attributes
    ----------
    nobs, nobs_sd : float
    n_params, constant : int
        p, and 1 where the model has a constant.
    sums : Sums
    """

    nobs: float
    nobs_sd: float
    n_params: int
    constant: int
    sums: Sums

    @property
    def residual(self) -> float:
        """``SSE = (n - p) scale``."""
        return (self.nobs - self.n_params) * self.sums.scale

    @property
    def rsquared(self) -> float:
        """Share of the sum of squares that the model explains."""
        return self.sums.explained / (self.sums.explained + self.residual)

    @property
    def rsquared_se(self) -> float:
        """``|((1 - R^2) sd(SSR), R^2 sd(SSE))| / (SSR + SSE)``."""
        total, r2 = self.sums.explained + self.residual, self.rsquared
        residual_sd = self.residual * self._relative(1.0 / self.nobs)
        return math.hypot((1.0 - r2) * self.sums.explained_sd, r2 * residual_sd) / total

    @property
    def rsquared_adj(self) -> float:
        """``1 - (1 - R^2) (n - constant)/(n - p)``."""
        freedom = (self.nobs - self.constant) / (self.nobs - self.n_params)
        return 1.0 - (1.0 - self.rsquared) * freedom

    @property
    def scale(self) -> float:
        """Error variance."""
        return self.sums.scale

    @property
    def scale_se(self) -> float:
        """Of the error variance."""
        return self.sums.scale * self._relative(0.0)

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return self.nobs * self._deviance + 2.0 * self.n_params

    @property
    def bic(self) -> float:
        """Bayes' criterion."""
        return self.nobs * self._deviance + math.log(self.nobs) * self.n_params

    @property
    def information_se(self) -> float:
        """Of AIC and BIC: ``n sd(scale)/scale`` and the noise of n."""
        return self.nobs * self._relative(self._deviance / self.nobs)

    @property
    def _deviance(self) -> float:
        return math.log(2.0 * math.pi * self.residual / self.nobs) + 1.0

    def _relative(self, more: float) -> float:
        """Relative noise of the error variance; `more` for n adds to its slope by n."""
        slope = self.sums.scale_slope / self.sums.scale + more
        return math.hypot(self.sums.scale_sd / self.sums.scale, slope * self.nobs_sd)


def fit_statistics(
    release: Release, design: Design, estimate: Estimate, constant: int
) -> FitStatistics | None:
    """Fit statistics of an estimate that rests on moments or scores.

    Parameters
    ----------
    release : Release
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
    moments = released_moments(release)
    p = len(estimate.params)
    if moments is None or estimate.noise_cov is None:
        return None
    if estimate.scale <= 0.0 or estimate.nobs <= p:
        return None
    columns = None if design is release.design else sub_model(release, design)
    if estimate.name == "refined":
        sums = sums_from_state(replay(release), moments, estimate, columns, constant)
    else:
        sums = sums_from_moments(moments, estimate, columns, constant)
    found = FitStatistics(estimate.nobs, float(moments.sd[0, 0]), p, constant, sums)
    if sums.explained_sd > DROWNED * (sums.explained + found.residual):
        return None
    return found


def sums_from_state(
    state: State,
    moments: Moments,
    estimate: Estimate,
    columns: Array | None = None,
    constant: int = 1,
) -> Sums:
    """Sums of squares at the end of the refinement.

    Explained: ``c'A c`` with c the coordinates of the fit, less ``(e'A c)^2/e'A e`` for the
    constant e, corrected for noise (see `_explained`).  The refined matrix A counts records of
    large leverage as if they lay on its bound, so where covariates have long tails it says too
    little; the moments, which are noisier, replace it where they clearly say more.  The error
    variance follows from the count inside the spread clip.

    Parameters
    ----------
    state : State
        After the last round.
    moments : Moments
        Of the released design.
    estimate : Estimate
        The refined one, or that of a smaller model.
    columns : (p, p_s) array, optional
        The smaller model's columns as combinations of the design's.
    constant : int
        1 where the columns span a constant.
    """
    root = np.linalg.solve(state.whitening, np.eye(state.theta.size))
    gram = symmetric(root @ state.gram @ root.T)
    if columns is None:
        c, noise = state.coordinates, state.whitening.T @ state.noise @ state.whitening
    else:
        loading = state.forth @ columns
        c, noise = loading @ estimate.params, loading @ _noise(estimate) @ loading.T
    if constant:
        e = state.q[0]
        weight = max(float(e @ gram @ e), np.finfo(float).tiny)
        centre = np.eye(c.size) - np.outer(e, e @ gram) / weight
        c, noise = centre @ c, centre @ noise @ centre.T
    acted = root.T @ c
    variance = float(
        acted @ kalman.matrix_noise(state.gram_variance, np.outer(acted, acted)) @ acted
    )
    value, coarse = float(c @ gram @ c), _fitted(moments, estimate, columns, constant)
    noisier = _quadratic_variance(moments, coarse)
    whole = float(coarse @ moments.matrix @ coarse)
    if whole - value > CLEAR * math.sqrt(noisier + variance):
        value, variance = whole, noisier
    explained, sd = _explained(value, variance, c, gram, noise)
    return Sums(explained, sd, estimate.scale, *_scale_noise(state))


def _explained(
    value: float, variance: float, c: Array, gram: Array, noise: Array
) -> tuple[float, float]:
    """Explained sum of squares and the standard deviation of its noise.

    With N the noise covariance of c, `value` = ``c'A c`` is too large by ``tr(A N)`` on average,
    and has the variance ``4 c'A N A c + 2 tr(A N A N)`` at the true c, besides `variance` for the
    noise of A; at the noisy c the first term is too large by ``4 tr(A N A N)``.  The sampling
    error of c stays in: least squares on the records has it too, and the adjusted R-squared
    removes it.
    """
    spread = gram @ noise
    square = 2.0 * float(np.sum(spread * spread.T))
    first = max(4.0 * float(c @ gram @ noise @ gram @ c) - square, square)
    left = max(value - float(np.trace(spread)), 0.0)
    return left, math.sqrt(max(first + variance, 0.0))


def _scale_noise(state: State) -> tuple[float, float]:
    """Noise of the error variance: its own, and its derivative by the number of records.

    The error variance is a function of ``1 - inside/n``, whose noise is that of the count
    inside the spread clip and, in proportion to the share inside, that of n.
    """
    mean = state.spread_mean
    up, down = (
        float(sd_from_spread(mean * (1 + step), state.spread_clip)) ** 2 for step in (STEP, -STEP)
    )
    derivative = (up - down) / (2.0 * STEP * mean)
    share = (1.0 - mean) / state.nobs
    own = max(state.spread_mean_sd**2 - (share * state.nobs_sd) ** 2, 0.0)
    return derivative * math.sqrt(own), derivative * share


def sums_from_moments(
    moments: Moments, estimate: Estimate, columns: Array | None = None, constant: int = 1
) -> Sums:
    """Sums of squares of a fit from released moments G.

    Explained: ``u'G u`` with u the fitted values, less their mean, as a combination of what G
    was taken of (see `_explained`).  Error variance: that of ``v'G v``, v the residual.

    Parameters
    ----------
    moments : Moments
        Of the released design.
    estimate : Estimate
    columns : (p, p_s) array, optional
        The smaller model's columns as combinations of the design's.
    constant : int
        1 where the columns span a constant.
    """
    loading = _loading(moments, columns)
    v = moments.response_map - loading @ estimate.params
    u = _fitted(moments, estimate, columns, constant)
    if constant:
        loading[0] -= moments.matrix[0] @ loading / moments.nobs
    value, sd = _explained(
        float(u @ moments.matrix @ u),
        _quadratic_variance(moments, u),
        estimate.params,
        loading.T @ moments.matrix @ loading,
        _noise(estimate),
    )
    freedom = max(estimate.nobs - len(estimate.params), 1.0)
    scale_sd = math.sqrt(_quadratic_variance(moments, v)) / freedom
    return Sums(value, sd, estimate.scale, scale_sd, -estimate.scale / freedom)


def _noise(estimate: Estimate) -> Array:
    """Covariance of the privacy noise of the coefficients."""
    if estimate.noise_cov is None:
        raise ValueError("estimate must carry noise_cov, got None: pass one from moments or scores")
    return estimate.noise_cov


def _loading(moments: Moments, columns: Array | None) -> Array:
    """The model's columns as combinations of what the moments were taken of."""
    full = moments.design_map
    return np.array(full if columns is None else full @ columns)


def _fitted(moments: Moments, estimate: Estimate, columns: Array | None, constant: int) -> Array:
    """Fitted values, less their mean, as a combination of what the moments were taken of."""
    u = _loading(moments, columns) @ estimate.params
    u[0] -= constant * float(moments.matrix[0] @ u) / moments.nobs
    return np.asarray(u)


def _quadratic_variance(moments: Moments, v: Array) -> float:
    """Variance of ``v'E v``, E the noise of the moments."""
    noise = noise_of_product(moments.sd, moments.centring, np.outer(v, v))
    return max(float(v @ noise @ v), 0.0)
