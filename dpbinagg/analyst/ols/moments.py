"""Structured second moments: what is asked, and the matrix of design columns that follows.

Asked are sums of products of ``g = (1, nu, codes, y')``: nu, the numeric columns whitened by their
margins and cut to length 1 at a radius; the one-hot code of ALL levels of every factor; and y', the
residual at a first guess over a reach, cut to [-1, 1]. A factor costs one block, however many
levels it has; products within a code are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.ols.coordinates import COLLINEAR, rare_ridge
from dpbinagg.analyst.types import Array
from dpbinagg.public.rounds import MomentRequest

FAR, ROOM = 0.998, 1.05
"""Quantile of the length of nu under the margins that fits in the radius, and room beyond it:
longer records are cut, which the rounds, with a matrix of their own, put right."""
REACH = 1.1
"""The same for the response, beyond its largest value under the margins."""
SWEEPS = 4
"""Alternating projections on what levels must add up to; two factors need a few."""


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How design columns x and the response follow from what the kernel sees of a record.

    ``f = (1, z*, codes, y*)``: the numeric columns scaled to [-1, 1], one-hot codes of factors, and
    the response: ``x = design_map' f``, ``y = centre_y + scale_y y*``.

    Attributes
    ----------
    design_map : (m, p) array
    numeric : (q,) array of int
        Design columns that are numbers.
    factors : tuple of ((L, c) array, (c,) array of int)
        Contrast matrix of each factor and the design columns it makes.
    intercept : int or None
    centre_y, scale_y : float
    """

    design_map: Array
    numeric: NDArray[np.intp]
    factors: tuple[tuple[Array, NDArray[np.intp]], ...]
    intercept: int | None
    centre_y: float
    scale_y: float

    @property
    def levels(self) -> tuple[int, ...]:
        """Levels of the factors."""
        return tuple(len(matrix) for matrix, _ in self.factors)


@dataclass(frozen=True, slots=True)
class MomentPlan:
    """The request, and the way from g to design columns: ``x = g_map' g``, ``y = y_map' g``."""

    request: MomentRequest
    g_map: Array
    y_map: Array
    guess: Array
    variance_y: float

    @property
    def codes(self) -> list[NDArray[np.intp]]:
        """Places of each factor's code in g."""
        ends = np.cumsum([1 + len(self.request.whitening), *self.request.levels])
        return [np.arange(a, b) for a, b in pairwise(ends)]


def plan_moments(layout: RowLayout, columns: Array, response: Array) -> MomentPlan:
    """Ask for moments in coordinates that fit records of the product of the margins.

    Parameters
    ----------
    layout : RowLayout
    columns, response : (n, p) and (n,) arrays
        Of these records.
    """
    numbers = columns[:, layout.numeric]
    mean = numbers.mean(axis=0)
    spread = np.cov(numbers.T, bias=True).reshape(len(mean), len(mean))
    spread = spread + np.diag(rare_ridge(columns, layout.intercept)[layout.numeric])
    size = np.sqrt(np.diag(spread))
    size[size == 0.0] = 1.0
    values, vectors = np.linalg.eigh(symmetric(spread / np.outer(size, size)))
    kept = (
        values > COLLINEAR * max(float(values[-1]), np.finfo(float).tiny)
        if len(mean)
        else values > 0
    )
    forth = (vectors[:, kept] / np.sqrt(values[kept])).T / size
    back = (vectors[:, kept] * np.sqrt(values[kept])).T * size
    lengths = np.linalg.norm((numbers - mean) @ forth.T, axis=1) if kept.any() else np.ones(1)
    radius = float(np.quantile(lengths, FAR)) * ROOM
    centre = float(response.mean())
    reach = max(float(np.abs(response - centre).max()), 1e-9 * abs(layout.scale_y)) * REACH
    guess = np.zeros(columns.shape[1])
    coefficients = np.zeros(len(layout.design_map))
    coefficients[0] = centre
    if layout.intercept is not None:
        guess[layout.intercept] = centre
    shift = np.zeros(len(layout.design_map))
    shift[0] = 1.0
    whitening = forth @ (layout.design_map[:, layout.numeric].T - np.outer(mean, shift))
    request = MomentRequest(whitening, radius, coefficients, reach, layout.levels)
    g_map, y_map = _maps(layout, request, mean, back * radius)
    y_map[0], y_map[-1] = centre, reach
    floor = (1e-3 * reach) ** 2
    return MomentPlan(request, g_map, y_map, guess, max(float(response.var()), floor))


def _maps(
    layout: RowLayout, request: MomentRequest, mean: Array, back: Array
) -> tuple[Array, Array]:
    """``x = g_map' g``, and room for the map of y."""
    size = 2 + len(back) + sum(layout.levels)
    g_map = np.zeros((size, layout.design_map.shape[1]))
    g_map[0] = layout.design_map[0]
    g_map[0, layout.numeric] = mean
    g_map[1 : 1 + len(back), layout.numeric] = back
    start = 1 + len(back)
    for matrix, columns in layout.factors:
        g_map[0, columns] = 0.0
        g_map[start : start + len(matrix), columns] = matrix
        start += len(matrix)
    return g_map, np.zeros(size)


def complete(plan: MomentPlan, released: Array) -> Array:
    """The matrices ``sum g g'`` from released entries, or their noise; (..., m, m).

    The square of y' was released less the count; squares of a code are the code; products within it
    are zero; and the rows of a code add up to the row of the constant, on which the noisy matrix is
    projected, in least squares.
    """
    full = np.array(np.atleast_3d(released) if released.ndim == 3 else released[None])
    full[:, -1, -1] += full[:, 0, 0]
    for code in plan.codes:
        full[:, code[:, None], code] = 0.0
        full[:, code, code] = full[:, 0, code]
    for _ in range(SWEEPS if len(plan.codes) > 1 else min(len(plan.codes), 1)):
        for code in plan.codes:
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
