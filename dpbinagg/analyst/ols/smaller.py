"""Smaller models from the end of the rounds, at no cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.linalg import inverse_psd, spectrum, symmetric, truths
from dpbinagg.analyst.ols.finish import Fitted
from dpbinagg.analyst.ols.start import TOLERATED, State, away, from_start, leaning
from dpbinagg.analyst.types import Array, Estimate

EXACT = 1e-6
"""Share of a unit coefficient within combinations that columns determine exactly."""
ABSENT = 1e-13
"""Share of the largest column of the whitening below which a column has no part in it: units may
differ by as much, rounding leaves less."""


def smaller_model(fitted: Fitted, columns: Array) -> Estimate:
    """Least squares on the columns ``X L``: ``b_s = (L'A L)^-1 L'A b`` in design columns.

    Privacy: every member of the ensemble has its own matrix and coefficients, hence its own b_s;
    their spread around ours is the error. Sampling: the meat grows by ``d'A d/n A`` for what the
    smaller model leaves out, d.

    Parameters
    ----------
    fitted : Fitted
    columns : (p, p_s) array
        L, the smaller model's columns as combinations of the design's.
    """
    return _smaller(
        fitted.state, fitted.estimate(), columns, fitted.meat, fitted.hidden, fitted.scale
    )


def smaller_start(state: State, columns: Array) -> Estimate:
    """The same from moments alone, with errors of one variance."""
    full = from_start(state)
    meat, hidden = full.scale * state.gram, np.zeros_like(state.gram)
    return _smaller(state, full, columns, meat, hidden, full.scale)


def _smaller(
    state: State, full: Estimate, columns: Array, meat: Array, hidden: Array, scale: float
) -> Estimate:
    loading, beta = state.whitened(columns), state.whitened(state.params)
    loading[:, never_seen(state, columns)] = 0.0
    params, project, bread, lost = _projected(state.gram, loading, beta)
    matrices = truths(state.gram, state.noise, spectrum(state.gram, state.noise))
    drawn = np.array(
        [
            _projected(matrix, loading, beta - error)[0]
            for matrix, error in zip(matrices, state.errors, strict=True)
        ]
    )
    errors = drawn - params
    left_out = beta - loading @ params
    extra = max(float(left_out @ state.gram @ left_out), 0.0) / state.nobs
    inner = loading.T @ (meat + extra * state.gram) @ loading
    freedom = max(state.nobs - params.size, 1.0)
    sampling = symmetric(bread @ inner @ bread) * state.nobs / freedom
    noise = symmetric(errors.T @ errors / len(errors) + project @ hidden @ project.T)
    cov = symmetric(sampling + noise)
    start = symmetric(leaning(state, state.start, project))
    null = state.public.null
    if len(null):
        # A combination that no record had may lie outside of the smaller model's columns.
        inside = null @ np.linalg.pinv(columns).T
        held = np.abs(inside @ columns.T - null).max(axis=1) < EXACT * np.abs(null).max(axis=1)
        start = start + away(state) * inside[held].T @ inside[held]
    found = (np.sqrt(np.diag(start)) <= TOLERATED * np.sqrt(np.diag(cov))) & ~lost
    return replace(
        full,
        params=params,
        cov=cov,
        noise_cov=noise,
        scale=scale + extra,
        df_resid=freedom,
        identified=bool(found.all()),
        identified_terms=found,
        dependence=start,
    )


def never_seen(state: State, columns: Array) -> NDArray[np.bool_]:
    """Columns that are zero for every record that was seen, up to rounding.

    Those of ``X L`` whose coefficients lie in the span of the combinations that no record had, in
    units in which the design's columns are alike.
    """
    if not len(state.public.null):
        return np.zeros(columns.shape[1], dtype=bool)
    size = np.linalg.norm(state.public.whitening, axis=0)
    unit = np.divide(1.0, size, out=np.ones_like(size), where=size > ABSENT * size.max())
    scaled = columns * unit[:, None]
    span = np.linalg.qr((state.public.null * unit).T)[0]
    rest = scaled - span @ (span.T @ scaled)
    return np.asarray(np.linalg.norm(rest, axis=0) <= EXACT * np.linalg.norm(scaled, axis=0))


def _projected(
    gram: Array, loading: Array, beta: Array
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """Coefficients, ``(L'AL)^-1 L'A``, ``(L'AL)^-1``, and which coefficients are undetermined."""
    inner = symmetric(loading.T @ gram @ loading)
    size = np.sqrt(np.maximum(np.diag(inner), 0.0))
    size[size == 0.0] = 1.0
    bread, _ = inverse_psd(inner / np.outer(size, size), 1e-9)
    bread = bread / np.outer(size, size)
    project = bread @ loading.T @ gram
    lost = np.abs(np.diag(project @ loading) - 1.0) > 1e-3
    return project @ beta, project, bread, np.asarray(lost)
