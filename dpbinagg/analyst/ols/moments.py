"""Structured second moments: what is asked, and the matrix of design columns that follows.

Asked are sums of products of ``g = (1, nu, codes, y')``: nu, the numeric columns whitened by their
margins and cut to length 1 at a radius; the one-hot code of ALL levels of every factor; and y', the
residual at a first guess over a reach, cut to [-1, 1]. A factor costs one block, however many
levels it has; products within a code are known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.ols.coordinates import COLLINEAR, canonical_basis, rare_ridge
from dpbinagg.analyst.ols.ensemble import inverse_root
from dpbinagg.analyst.types import Array
from dpbinagg.formula.scaling import RowLayout
from dpbinagg.public.rounds import MomentRequest

FAR, ROOM = 0.998, 1.05
"""Quantile of the length of nu under the margins that fits in the radius, and room beyond it:
longer records are cut, which the rounds, with a matrix of their own, put right."""
REACH = 1.1
"""The same for the response, beyond its largest value under the margins."""

STILL = 1e-9
"""Standard deviation, in half widths of bounds, up to which what does not vary under the margins
is taken to vary anyway, half as much as its bounds allow: cells do not tell a threshold at their
edge, as in ``I(visits > 0)``."""


@dataclass(frozen=True, slots=True)
class MomentPlan:
    """The request, and the way from g to design columns: ``x = g_map' g``, ``y = y_map' g``."""

    request: MomentRequest
    g_map: Array
    y_map: Array
    guess: Array
    variance_y: float


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
    half = np.abs(layout.design_map[1:, layout.numeric]).sum(axis=0)
    spread = spread + np.diag(np.where(numbers.std(axis=0) <= STILL * half, (half / 2.0) ** 2, 0.0))
    size = np.sqrt(np.diag(spread))
    size[size == 0.0] = 1.0
    basis, inner = np.zeros((0, 0)), np.zeros((0, 0))
    if len(mean):
        scaled = symmetric(spread / np.outer(size, size))
        values, vectors = np.linalg.eigh(scaled)
        least = COLLINEAR * max(float(values[-1]), np.finfo(float).tiny)
        basis = canonical_basis(vectors[:, values > least])
        inner = basis.T @ scaled @ basis
    root, inverse = (inner, inner) if not inner.size else inverse_root(inner)[::-1]
    forth, back = inverse @ basis.T / size, root @ basis.T * size
    lengths = np.linalg.norm((numbers - mean) @ forth.T, axis=1) if len(forth) else np.ones(1)
    radius = float(np.quantile(lengths, FAR)) * ROOM
    centre = float(response.mean())
    reach = _reach(response, abs(layout.scale_y))
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
    variance = variance_of(response, abs(layout.scale_y))
    return MomentPlan(request, g_map, y_map, guess, variance)


def variance_of(response: Array, scale: float) -> float:
    """Variance of a response, and what it is taken for at least where its margin hardly varies.

    Parameters
    ----------
    response : (n,) array
        Of records of the product of the margins.
    scale : float
        Half the width of its bounds.
    """
    if response.std() <= STILL * scale:
        return (scale / 2.0) ** 2
    return max(float(response.var()), (1e-3 * _reach(response, scale)) ** 2)


def _reach(response: Array, scale: float) -> float:
    """How far the response may be from its mean."""
    if response.std() <= STILL * scale:
        return scale * REACH
    return max(float(np.abs(response - response.mean()).max()), 1e-9 * scale) * REACH


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
