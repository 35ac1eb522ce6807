"""Weigh the estimate from bins against the one from moments."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dpbinagg.analyst.linalg import inverse_psd, project_psd, symmetric
from dpbinagg.analyst.ols.start import TOLERATED
from dpbinagg.analyst.types import Array, Estimate


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


def _excess(cov: Array, sampling: Array) -> Array:
    """Return ``V1 - S`` with negative eigenvalues, in units of V1, set to zero."""
    d = np.sqrt(np.maximum(np.diag(cov), np.finfo(float).tiny))
    units = np.outer(d, d)
    return np.asarray(project_psd((cov - sampling) / units, 1e-12) * units)
