"""Weigh the estimate from bins against the one from moments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbinagg.analyst.linalg import inverse_psd, project_psd, symmetric
from dpbinagg.analyst.ols.start import TOLERATED
from dpbinagg.analyst.types import Array, Estimate


def combined(from_bins: Estimate, from_moments: Estimate) -> Estimate:
    """Combine b1 (bins, covariance V1) with b2 (moments, V2 = S + N).

    Both contain the sampling error of least squares, and b2 estimates the efficient
    estimate, so Cov(b1, b2) = S and ::

        b = b2 + C (b1 - b2),  C = N (V1 + V2 - 2S)^-1,  V = V2 - C N

    What a start left in b2, D, is ``(I - C) D (I - C)'`` in b. ``V1 - S`` is projected on the
    positive semidefinite matrices first, and a bin estimate that is not identified is left out.
    """
    noise = from_moments.noise_cov
    if noise is None:
        raise ValueError("from_moments must carry noise_cov, got None: pass the moments' estimate")
    if not from_bins.identified:
        return replace(from_moments, name="combined")
    sampling = from_moments.cov - noise
    excess = _excess(from_bins.cov, sampling)
    inverse, _ = inverse_psd(symmetric(excess + noise), 1e-14)
    gain = noise @ inverse
    params = from_moments.params + gain @ (from_bins.params - from_moments.params)
    left = np.eye(params.size) - gain
    remaining = symmetric(left @ noise @ left.T + gain @ excess @ gain.T)
    cov = symmetric(sampling + remaining)
    found, dependence = from_moments.identified_terms, from_moments.dependence
    if dependence is not None:
        dependence = symmetric(left @ dependence @ left.T)
        found = np.sqrt(np.diag(dependence)) <= TOLERATED * np.sqrt(np.diag(cov))
    return replace(
        from_moments,
        name="combined",
        params=params,
        cov=cov,
        noise_cov=remaining,
        identified=from_moments.identified if found is None else bool(found.all()),
        identified_terms=found,
        dependence=dependence,
    )


def _excess(cov: Array, sampling: Array) -> Array:
    """Return ``V1 - S`` with negative eigenvalues, in units of V1, set to zero."""
    d = np.sqrt(np.maximum(np.diag(cov), np.finfo(float).tiny))
    units = np.outer(d, d)
    return np.asarray(project_psd((cov - sampling) / units, 1e-12) * units)
