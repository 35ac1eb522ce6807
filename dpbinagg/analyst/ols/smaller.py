"""Smaller models from the end of the rounds, at no cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.linalg import inverse_psd, spectrum, symmetric, truths
from dpbinagg.analyst.ols.coordinates import SEED
from dpbinagg.analyst.ols.finish import Steps
from dpbinagg.analyst.ols.start import TOLERATED, State, away, from_start, leaning
from dpbinagg.analyst.types import Array, Estimate

EXACT = 1e-6
"""Share of a unit coefficient within combinations that columns determine exactly."""
ABSENT = 1e-13
"""Share of the largest column of the whitening below which a column has no part in it: units may
differ by as much, rounding leaves less."""


def smaller_model(steps: Steps, columns: Array) -> Estimate:
    """Least squares on the columns ``X L``: ``b_s = (L'A L)^-1 L'A b`` in design columns.

    Privacy: every member of the ensemble has its own matrix and coefficients, hence its own b_s;
    their spread around ours is the error. Sampling: the meat grows by ``d'A d/n A`` for what the
    smaller model leaves out, d.

    Parameters
    ----------
    steps : Steps
        After the last round.
    columns : (p, p_s) array
        L, the smaller model's columns as combinations of the design's.
    """
    fitted = steps.fitted
    assert fitted is not None
    more = unseen(fitted.state, steps.plan.records[:, :-1])
    return _smaller(
        fitted.state, fitted.estimate(), columns, fitted.meat, fitted.hidden, fitted.scale, more
    )


def smaller_start(state: State, columns: Array) -> Estimate:
    """The same from moments alone, with errors of one variance."""
    full = from_start(state)
    meat, hidden = full.scale * state.gram, np.zeros_like(state.gram)
    return _smaller(state, full, columns, meat, hidden, full.scale, hidden)


def _smaller(
    state: State,
    full: Estimate,
    columns: Array,
    meat: Array,
    hidden: Array,
    scale: float,
    more: Array,
) -> Estimate:
    loading, beta = state.whitened(columns), state.whitened(state.params)
    loading[:, never_seen(state, columns)] = 0.0
    params, project, bread, lost = _projected(state.gram, loading, beta)
    matrices = truths(state.gram, state.noise, spectrum(state.gram, state.noise)) + more
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


def unseen(state: State, records: Array) -> Array:
    """What every member adds to its matrix for long vectors that were cut unseen, (M, k, k).

    ``sum_i n_i mean (|w|^2 - R^2) v v'``, ``v = w/|w|``, over the cells i of |w| that do not stand
    out of their noise. The means are those of the product of the margins. Of n_i is known that
    margins allow so many and that the counts, less their noise, do not exclude it. Where variables
    depend on each other the product may be too long throughout: it is thinned to the number of all
    long vectors.

    Parameters
    ----------
    records : (n, p) array
        Design columns of records of the product of the margins.
    """
    long = state.long
    if long is None:
        return np.zeros_like(state.gram)
    length2 = np.sum((records @ long.whitening.T) ** 2, axis=1)
    cells = np.searchsorted(long.edges, length2, side="right") - 1
    allowed = np.bincount(cells[cells >= 0], minlength=len(long.edges)) * state.nobs / len(records)
    rng, members = np.random.default_rng(SEED), len(state.noise)
    counts = long.counts - long.sd * rng.normal(size=(members, len(long.edges)))
    thin = np.clip(counts.sum(axis=1) / max(allowed.sum(), 1.0), 0.0, 1.0)
    number = np.clip(counts, 0.0, np.outer(thin, allowed))
    found = np.zeros_like(state.noise)
    for cell in np.flatnonzero((long.edges >= long.seen) & (allowed > 0.0)):
        mine = cells == cell
        excess = 1.0 - long.edges[0] / length2[mine]
        w = records[mine] @ state.whitening.T * np.sqrt(excess)[:, None]
        found += number[:, cell, None, None] * (w.T @ w / mine.sum())
    return np.asarray(found)


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
