"""Regression on noisy bins (naive, corrected and published), weighed against that on moments.

An estimate that solves ``sum_k q_k(b) = 0`` with derivative ``-M`` has covariance ``M^-1 J M^-1``:
the bread is ``M^-1``, the meat ``J = Cov(sum q_k)``.

With z_k, t_k, c_k the noisy sums and count of bin k, g_k its centre (1 for the
intercept), s_c, s_kj, s_t the noise scales of count, deviations and response, all
public, the noise moments of a bin at coefficients b are ::

    Omega_k = s_c^2 g g' + diag(s_k^2)
    tau_k^2 = sigma^2 c_k + s_t^2 + s_c^2 (m_y - g'b)^2 + sum_j s_kj^2 b_j^2
    kappa_k = s_c^2 g (m_y - g'b) - s_k^2 * b
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpbinagg.analyst.linalg import equilibrate, inverse_psd, project_psd, symmetric
from dpbinagg.analyst.ols.start import TOLERATED
from dpbinagg.analyst.types import Array, Bins, Estimate


def bin_scores(bins: Bins, weights: Array, residuals: Array, kappa: Array) -> Array:
    """Return ``q_k = w_k (z_k e_k - kappa_k)``, (K, p)."""
    return np.asarray(weights[:, None] * (bins.sum_x * residuals[:, None] - kappa))


def sandwich_meat(scores: Array, leverage: Array) -> Array:
    """Return ``(K-1)/K sum_k q_k q_k'/(1 - h_k)^2``, which leaving out bins one by one gives.

    With few bins some of them bend the fit to themselves, and their residuals say little. What a
    bin's own noise adds to h_k may bring it to 1: it stays ``1/(2K)`` below.
    """
    k = len(scores)
    scores = scores / (1.0 - np.clip(leverage, 0.0, 1.0 - 0.5 / k))[:, None]
    return np.asarray((k - 1) / k * scores.T @ scores)


def model_meat(bins: Bins, weights: Array, tau2: Array, kappa: Array) -> Array:
    """Return ``sum_k w_k^2 (z_k z_k' tau_k^2 + kappa_k kappa_k')``."""
    squared = weights**2
    first = (bins.sum_x * (squared * tau2)[:, None]).T @ bins.sum_x
    second = (kappa * squared[:, None]).T @ kappa
    return np.asarray(first + second)


def assemble(bread: Array, meat: Array) -> Array:
    """Return ``bread meat bread``."""
    return symmetric(bread @ meat @ bread)


ITERATIONS = 6
"""Rounds of reweighting; the weights settle to three digits in four."""

ONE_RECORD = 0.5
"""A noisy count under it is taken for that of an empty bin."""

LEAST_COUNT = 2.0
"""The published algorithm discards bins with a smaller noisy count."""


@dataclass(frozen=True, slots=True)
class _Fit:
    params: Array
    bread: Array
    dropped: int
    share: float


def naive(bins: Bins) -> Estimate:
    """Weighted least squares on the noisy bins as if they were exact.

    ``b = (sum w z z')^-1 sum w z t`` with w = 1/c and the classical covariance
    ``sigma^2 (sum w z z')^-1``, sigma^2 = sum w e^2/(K-p): what an analyst gets who
    ignores the noise.
    """
    used = bins.counts >= ONE_RECORD
    weights = inverse_counts(bins)
    gram = (bins.sum_x * weights[:, None]).T @ bins.sum_x
    bread, dropped = inverse_psd(gram)
    params = bread @ ((weights * bins.sum_y) @ bins.sum_x)
    residuals = bins.sum_y - bins.sum_x @ params
    df_resid = _degrees(int(np.sum(used)), bins.n_params)
    scale = float(np.sum(weights * residuals**2) / max(df_resid, 1.0))
    notes = _rank_notes(bins, dropped, df_resid)
    return Estimate(
        "naive",
        params,
        scale * bread,
        None,
        scale,
        max(df_resid, 1.0),
        _total(bins),
        "classical",
        notes,
        not notes,
    )


def corrected(bins: Bins, weights: str = "efficient", cov_type: str = "sandwich") -> Estimate:
    """Solve ``sum_k w_k (z_k e_k - kappa_k) = 0``, consistent under the known noise.

    The equation is linear in b, ::

        (sum w z z' - sum w Omega) b = sum w z t - sum w s_c^2 m_y g

    and the matrix on the left is guarded as Fuller does (see `_solve`).

    Parameters
    ----------
    weights : {"efficient", "count"}
        ``1/tau_k^2``, iterated, or the published ``1/c_k``.
    cov_type : {"sandwich", "model"}
        Meat ``(K-1)/K sum q q'/(1 - h)^2``, h_k = w_k z_k'M^-1 z_k, or
        ``sum w^2 (z z' tau^2 + kappa kappa')``.
    """
    if weights not in ("efficient", "count"):
        raise ValueError(f"weights must be 'efficient' or 'count', got {weights!r}")
    if cov_type not in ("sandwich", "model"):
        raise ValueError(f"cov_type must be 'sandwich' or 'model', got {cov_type!r}")
    counts = np.maximum(bins.counts, ONE_RECORD)
    scale = bins.half_width_y**2 / 4
    tau2 = _floored(scale * counts + bins.sd_y**2)
    fit = _solve(bins, _weights(bins, weights, tau2))
    for _ in range(ITERATIONS):
        noise = noise_variance(bins, fit.params)
        scale = _scale(bins, fit.params, noise)
        tau2 = _floored(scale * counts + noise)
        fit = _solve(bins, _weights(bins, weights, tau2))
    w = _weights(bins, weights, tau2)
    noise = noise_variance(bins, fit.params)
    scale = _scale(bins, fit.params, noise)
    tau2 = _floored(scale * counts + noise)
    return _corrected_estimate(bins, fit, w, tau2, scale, cov_type)


def _corrected_estimate(
    bins: Bins, fit: _Fit, weights: Array, tau2: Array, scale: float, cov_type: str
) -> Estimate:
    kappa = noise_covariance(bins, fit.params) * fit.share
    df_resid = _degrees(bins.n_bins, bins.n_params)
    if cov_type == "sandwich" and df_resid > 0:
        residuals = bins.sum_y - bins.sum_x @ fit.params
        leverage = weights * np.sum((bins.sum_x @ fit.bread) * bins.sum_x, axis=1)
        meat = sandwich_meat(bin_scores(bins, weights, residuals, kappa), leverage)
    else:
        cov_type = "model"
        meat = model_meat(bins, weights, tau2, kappa)
    notes = list(_rank_notes(bins, fit.dropped, df_resid))
    if fit.share < 1.0:
        notes.append(
            "The noise in the bins is as large as their signal in some direction: "
            f"only {100 * fit.share:.0f}% of the bias correction could be applied."
        )
    return Estimate(
        "corrected",
        fit.params,
        assemble(fit.bread, meat),
        None,
        scale,
        max(df_resid, 1.0),
        _total(bins),
        cov_type,
        tuple(notes),
        not notes,
    )


def paper(bins: Bins) -> Estimate:
    """Return the published estimator, literally (it hardly corrects; see the method notes).

    ``(S'WS - D)^-1 S'Wt`` with w = 1/c and ``D = (1/K) sum w_k diag(s_k^2)``;
    ``M = S'WS/K - D``, ``Q_k = w_k (z_k e_k + s_k^2 * b)``,
    covariance ``M^-1 [sum Q Q'/(K-p)] M^-1 / K``, normal quantiles.
    """
    used = bins.counts >= LEAST_COUNT
    z, t = bins.sum_x[used], bins.sum_y[used]
    w, noise = 1.0 / bins.counts[used], bins.sd_x[used] ** 2
    n_bins, p = z.shape
    df_resid = _degrees(n_bins, p)
    gram = (z * w[:, None]).T @ z
    shrink = np.diag(w @ noise) / max(n_bins, 1)
    params = np.linalg.pinv(gram - shrink, hermitian=True) @ ((w * t) @ z)
    residuals = t - z @ params
    scores = w[:, None] * (z * residuals[:, None] + noise * params)
    meat = scores.T @ scores / max(df_resid, 1.0)
    bread = np.linalg.pinv(gram / max(n_bins, 1) - shrink, hermitian=True)
    cov = assemble(bread, meat) / max(n_bins, 1)
    scale = float(np.sum(w * residuals**2) / max(df_resid, 1.0))
    notes = _rank_notes(bins, 0, df_resid)
    return Estimate(
        "paper", params, cov, None, scale, np.inf, _total(bins), "paper", notes, not notes
    )


def noise_gram(bins: Bins, weights: Array) -> Array:
    """Return ``sum_k w_k Omega_k``, (p, p)."""
    g = bins.centre
    outer = (g * (weights * bins.sd_count**2)[:, None]).T @ g
    return np.asarray(outer + np.diag(weights @ bins.sd_x**2))


def noise_variance(bins: Bins, params: Array) -> Array:
    """Return ``tau_k^2 - sigma^2 c_k``, the variance that the noise gives the residual, (K,)."""
    gap = bins.centre_y - bins.centre @ params
    return np.asarray(bins.sd_y**2 + bins.sd_count**2 * gap**2 + bins.sd_x**2 @ params**2)


def noise_covariance(bins: Bins, params: Array) -> Array:
    """Return ``kappa_k``, the covariance of the noise of z_k with the residual, (K, p)."""
    gap = bins.centre_y - bins.centre @ params
    return np.asarray(bins.sd_count**2 * gap[:, None] * bins.centre - bins.sd_x**2 * params)


def _solve(bins: Bins, weights: Array) -> _Fit:
    """Solve the estimating equation, with Fuller's guard.

    Let lambda be the smallest root of ``|G - lambda Omega| = 0`` with
    ``G = sum w z z'`` and ``Omega = sum w Omega_k``.  The full correction is applied
    when ``lambda > 1 + 1/(K-p)``, else the share ``lambda - 1/(K-p)`` of it.
    """
    gram = (bins.sum_x * weights[:, None]).T @ bins.sum_x
    omega = noise_gram(bins, weights)
    right = (weights * bins.sum_y) @ bins.sum_x
    right_noise = bins.sd_count**2 * bins.centre_y * (weights @ bins.centre)
    margin = 1.0 / max(_degrees(bins.n_bins, bins.n_params), 1.0)
    root = _smallest_root(gram, omega)
    share = 1.0 if root > 1.0 + margin else max(root - margin, 0.0)
    bread, dropped = inverse_psd(gram - share * omega)
    return _Fit(bread @ (right - share * right_noise), bread, dropped, share)


def _smallest_root(gram: Array, omega: Array) -> float:
    """Smallest root of ``|G - lambda Omega|``: 1/max eigenvalue of G^-1/2 Omega G^-1/2."""
    d = equilibrate(gram)
    values, vectors = np.linalg.eigh(symmetric(d[:, None] * gram * d))
    keep = values > 1e-11 * max(float(values[-1]), 0.0)
    half = (d[:, None] * vectors[:, keep]) / np.sqrt(values[keep])
    largest = float(np.linalg.eigvalsh(symmetric(half.T @ omega @ half))[-1]) if keep.any() else 0.0
    return 1.0 / largest if largest > 0 else np.inf


def inverse_counts(bins: Bins) -> Array:
    """Weights 1/c, zero where a bin seems empty."""
    full = bins.counts >= ONE_RECORD
    return np.asarray(np.where(full, 1.0 / np.maximum(bins.counts, ONE_RECORD), 0.0))


def _weights(bins: Bins, kind: str, tau2: Array) -> Array:
    if kind == "count":
        return inverse_counts(bins)
    return np.asarray(1.0 / tau2)


def _floored(tau2: Array) -> Array:
    """Keep empty bins of a release without noise from taking an infinite weight."""
    largest = float(np.max(tau2)) if tau2.size else 1.0
    return np.maximum(tau2, 1e-9 * largest if largest > 0 else 1.0)


def _scale(bins: Bins, params: Array, noise: Array) -> float:
    """Error variance ``sum_k (e_k^2 - noise variance) / sum_k c_k``, floored."""
    residuals = bins.sum_y - bins.sum_x @ params
    total = max(float(np.sum(bins.counts)), 1.0)
    freedom = max(_degrees(bins.n_bins, bins.n_params), 1.0) / bins.n_bins
    raw = float(np.sum(residuals**2 / freedom - noise)) / total
    return max(raw, 1e-4 * bins.half_width_y**2 if bins.sd_y > 0 else 0.0)


def _degrees(n_bins: int, n_params: int) -> float:
    return float(max(n_bins - n_params, 0))


def _total(bins: Bins) -> float:
    return float(max(np.sum(bins.counts), 1.0))


def _rank_notes(bins: Bins, dropped: int, df_resid: float) -> tuple[str, ...]:
    if df_resid <= 0:
        return (
            f"{bins.n_bins} {'bin' if bins.n_bins == 1 else 'bins'} cannot identify "
            f"{bins.n_params} coefficients: more budget, "
            "more records, tighter bounds or fewer terms would give more bins.",
        )
    if dropped:
        return (
            f"{dropped} direction(s) of the design do not vary between the bins: the "
            "coefficients are determined only up to them.",
        )
    return ()


def combined(from_bins: Estimate, from_moments: Estimate) -> Estimate:
    """Combine b1 (bins, covariance V1) with b2 (moments, V2 = S + N).

    Both contain the sampling error of least squares, and b2 estimates the efficient
    estimate, so Cov(b1, b2) = S and, with D what a start left in b2, ::

        b = b2 + C (b1 - b2),  C = (N + D) M^-1,  M = V1 - S + N + D
        V = S + q ((I - C) N (I - C)' + C (V1 - S) C'),  q = max(1, (b1 - b2)' M^-1 (b1 - b2)/p)

    Where b2 leans on its start, b1 decides; ``(I - C) D (I - C)'`` is left of that. Estimates that
    are further apart than they say widen V by q, Birge's ratio. ``V1 - S`` is projected on the
    positive semidefinite matrices first. V1 has few degrees of freedom, d: it is taken larger by
    its standard error, ``sqrt(2/d)``, for what looks precise by chance would be trusted most. A bin
    estimate that nothing identifies is left out.
    """
    noise = from_moments.noise_cov
    if noise is None:
        raise ValueError("from_moments must carry noise_cov, got None: pass the moments' estimate")
    if not from_bins.identified and from_bins.identified_terms is None:
        return replace(from_moments, name="combined")
    sampling, start = from_moments.cov - noise, from_moments.dependence
    start = np.zeros_like(noise) if start is None else start
    wide = 1.0 + math.sqrt(2.0 / max(from_bins.df_resid, 1.0))
    excess = _excess(wide * from_bins.cov, sampling)
    inverse, _ = inverse_psd(symmetric(excess + noise + start), 1e-14)
    gain, apart = (noise + start) @ inverse, from_bins.params - from_moments.params
    left = np.eye(apart.size) - gain
    birge = max(float(apart @ inverse @ apart) / apart.size, 1.0)
    remaining = birge * symmetric(left @ noise @ left.T + gain @ excess @ gain.T)
    cov, start = symmetric(sampling + remaining), symmetric(left @ start @ left.T)
    found = np.sqrt(np.diag(start)) <= TOLERATED * np.sqrt(np.diag(cov))
    if from_bins.identified_terms is not None:
        found &= from_bins.identified_terms
    return replace(
        from_moments,
        name="combined",
        params=from_moments.params + gain @ apart,
        cov=cov,
        noise_cov=remaining,
        identified=bool(found.all()),
        identified_terms=found,
        dependence=start,
    )


def at_least_model(found: Estimate, model: Estimate) -> Estimate:
    """The bins' estimate, its covariance raised to that of known noise and errors of one variance.

    Few bins may agree by chance; their noise is public, and they are not more precise than it.
    """
    return replace(found, cov=model.cov + _excess(found.cov, model.cov))


def _excess(cov: Array, sampling: Array) -> Array:
    """Return ``V1 - S`` with negative eigenvalues, in units of V1, set to zero."""
    d = np.sqrt(np.maximum(np.diag(cov), np.finfo(float).tiny))
    units = np.outer(d, d)
    return np.asarray(project_psd((cov - sampling) / units, 1e-12) * units)
