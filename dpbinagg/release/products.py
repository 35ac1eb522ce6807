"""Structured second moments as they were released, and those of design columns that follow.

Released are sums of products of ``g = (1, nu, codes, y')`` (see `dpbinagg.kernel.maps.Moments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula import Design
from dpbinagg.formula.scaling import RowLayout, column_scaling
from dpbinagg.public.rounds import MomentRequest

Array = NDArray[np.float64]
Released = tuple[Array, Array]

SWEEPS = 4
"""Alternating projections on what levels must add up to; two factors need a few."""
COPIES, SEED = 64, 20_260_102
"""Public draws from which standard deviations of entries follow, within 9%."""


def places_of(levels: Sequence[int], size: int) -> list[NDArray[np.intp]]:
    """Places of each factor's code in g, of that length."""
    ends = np.cumsum([size - 1 - sum(levels), *levels])
    return [np.arange(a, b) for a, b in pairwise(ends)]


def complete(levels: Sequence[int], released: Array) -> Array:
    """The matrices ``sum g g'`` from released entries, or their noise; (..., m, m).

    The square of y' was released less the count; squares of a code are the code; products within it
    are zero; and the rows of a code add up to the row of the constant, on which the noisy matrix is
    projected, in least squares.
    """
    full = np.array(released if released.ndim == 3 else released[None])
    codes = places_of(levels, full.shape[1])
    full[:, -1, -1] += full[:, 0, 0]
    for code in codes:
        full[:, code[:, None], code] = 0.0
        full[:, code, code] = full[:, 0, code]
    for _ in range(SWEEPS if len(codes) > 1 else min(len(codes), 1)):
        for code in codes:
            _add_up(full, code)
    return full if released.ndim == 3 else np.asarray(full[0])


def _add_up(full: Array, code: NDArray[np.intp]) -> None:
    """Spread what a factor's rows lack over them and the constant's row."""
    others = np.setdiff1d(np.arange(full.shape[1]), code)
    missing = full[:, 0, others] - full[:, code][:, :, others].sum(axis=1)
    share = missing / (len(code) + 1.0)
    for one in code:
        full[:, one, others] += share
        full[:, others, one] = full[:, one, others]
    full[:, 0, others] -= share
    full[:, others, 0] = full[:, 0, others]
    full[:, code, code] = full[:, 0, code]


def column_map(layout: RowLayout, request: MomentRequest) -> tuple[Array, Array]:
    """Design columns and response as combinations of g: ``x = X' g``, ``y = Y' g``.

    ``nu = W f / radius`` is solved for the numeric columns: what W leaves out is constant.
    """
    whitening, numeric = request.whitening, layout.design_map[:, layout.numeric]
    size = len(whitening)
    into = np.zeros((2 + size + sum(layout.levels), layout.design_map.shape[1]))
    into[0] = layout.design_map[0]
    slopes = np.linalg.pinv(whitening[:, 1:]) if size else np.zeros((numeric.shape[0] - 1, 0))
    back = numeric[1:].T @ slopes
    into[0, layout.numeric] -= back @ whitening[:, 0]
    into[1 : 1 + size, layout.numeric] = back.T * request.radius
    start = 1 + size
    for matrix, columns in layout.factors:
        into[0, columns] = 0.0
        into[start : start + len(matrix), columns] = matrix
        start += len(matrix)
    response = np.zeros(len(into))
    response[0], response[-1] = request.coefficients[0], request.reach
    return into, response


def column_moments(
    columns: Array, response: Array, design: Design, levels: Sequence[int], released: Released
) -> Released:
    """Second moments of ``f = (1, z*, y*)``, and the standard deviations of their noise.

    Parameters
    ----------
    columns, response : (m, p) and (m,) arrays
        As combinations of g.
    design : Design
        Over whose domain they are scaled to [-1, 1].
    levels : sequence of int
        Of the factors.
    released : pair of (m, m) arrays
        Entries of ``sum g g'``, and the standard deviations of their noise.
    """
    scaling = column_scaling(design)
    one, varying = np.eye(len(columns))[0], scaling.varying
    centred = columns[:, varying] - np.outer(one, scaling.centre[varying])
    last = (response - one * scaling.centre_y) / scaling.scale_y
    into = np.column_stack([one, centred / scaling.scale[varying], last])
    products, sd = released
    noise = into.T @ noise_copies(levels, sd) @ into
    matrix = into.T @ complete(levels, products) @ into
    return np.asarray(matrix), np.asarray(np.sqrt(np.mean(noise**2, axis=0)))


def noise_copies(levels: Sequence[int], sd: Array) -> Array:
    """Public draws of the noise in the matrices that `complete` gives, (COPIES, m, m)."""
    rng = np.random.default_rng(SEED)
    upper = np.triu(rng.normal(size=(COPIES, *sd.shape)) * sd)
    return complete(levels, upper + np.swapaxes(np.triu(upper, 1), 1, 2))
