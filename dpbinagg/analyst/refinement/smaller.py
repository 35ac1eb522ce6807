"""Smaller models from the end of the refinement, at no cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbinagg.analyst.linalg import inverse_psd, symmetric
from dpbinagg.analyst.refinement import kalman
from dpbinagg.analyst.refinement.refined import (
    LEAST_LEARNT,
    error_variance,
    finish,
    lost_note,
    privacy_cov,
    sampling_cov,
    weak_note,
)
from dpbinagg.analyst.refinement.state import State
from dpbinagg.analyst.types import Array, Estimate


def smaller_model(state: State, columns: Array) -> Estimate:
    """Least squares on the columns ``Z L`` implied by the refined fit.

    With A the refined matrix and B = forth L, the coefficients are
    ``b_s = (B'AB)^-1 B'A (coordinates)``.  To the privacy noise of the full fit comes that of
    A, which acts on what the smaller model leaves out, d: ``(B'AB)^-1 B' E_A d``.  The
    error variance grows by ``d'A d / n``, and sampling with it.  Directions that the full fit
    dropped keep their prior variance.

    Parameters
    ----------
    state : State
        After the last round.
    columns : (p, p_s) array
        L, the smaller model's columns as combinations of the design's.
    """
    full = finish(state)
    root = np.linalg.solve(state.whitening, np.eye(state.theta.size))
    gram = symmetric(root @ state.gram @ root.T)
    loading = state.forth @ columns
    bread, lost = inverse_psd(symmetric(loading.T @ gram @ loading), 1e-12)
    projection = bread @ loading.T @ gram
    params = projection @ state.coordinates
    left_out = state.coordinates - loading @ params
    acted = root.T @ left_out
    noise_gram = kalman.matrix_noise(state.gram_variance, np.outer(acted, acted))
    inner = bread @ loading.T @ root
    spread = projection @ state.whitening.T
    noise = symmetric(spread @ privacy_cov(state) @ spread.T + inner @ noise_gram @ inner.T)
    if lost:
        null = np.eye(params.size) - projection @ loading
        lift = null @ np.linalg.pinv(columns)
        noise = noise + symmetric(lift @ state.unknown @ lift.T)
    base = error_variance(state)
    scale = base + max(float(left_out @ gram @ left_out), 0.0) / state.nobs
    freedom = max(state.nobs - params.size, 1.0)
    ratio = scale / base * state.nobs / freedom
    sampling = symmetric(spread @ sampling_cov(state) @ spread.T) * ratio
    weak = _weak(symmetric(spread @ state.noise @ spread.T), spread @ state.prior @ spread.T)
    notes = full.notes[:1]
    notes += (lost_note(lost),) if lost else ()
    notes += (weak_note(weak, params.size),) if weak else ()
    return replace(
        full,
        params=params,
        cov=symmetric(sampling + noise),
        noise_cov=noise,
        scale=scale,
        df_resid=freedom,
        notes=notes,
        identified=not lost and not weak,
    )


def _weak(noise: Array, prior: Array) -> int:
    """Number of directions hardly known beyond the prior."""
    values, vectors = np.linalg.eigh(inverse_psd(symmetric(prior), 1e-12)[0])
    half = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    left = np.linalg.eigvalsh(symmetric(half @ noise @ half))
    return int(np.sum(left > LEAST_LEARNT))
