"""Centres that make deviations short.

The middle of a block of q dummies, (1/2, ..., 1/2), is at squared distance q/4
from every corner that a record can be in. The point (1/q, ..., 1/q) is at
most at 1 - 1/q, which does not grow with q.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.factors import CategoricalFactor
from dpbinagg.formula.terms import Bounds, Subterm

Array = NDArray[np.float64]
Members = NDArray[np.bool_]

MAX_WORK = 2 * 10**8


def short_centres(subterms: Sequence[Subterm], bounds: Bounds, lower: Array, upper: Array) -> Array:
    """A centre for every column on every box, (K, p).

    The midpoint of its bounds, except in blocks made of categorical factors
    alone. There it is whichever of these is nearest to its farthest corner, in
    units of the half-widths: the midpoint, the mean of the corners in the box,
    and the mean of those away from the origin.
    """
    middle = lower + (upper - lower) / 2
    half = (upper - lower) / 2
    centre = middle.copy()
    for subterm in subterms:
        if not subterm.factors or not all(
            isinstance(factor, CategoricalFactor) for factor in subterm.factors
        ):
            continue
        block = slice(subterm.start, subterm.stop)
        corners, members = _corners(subterm, bounds, len(lower))
        if corners.size * len(lower) <= MAX_WORK:
            centre[:, block] = _block_centre(corners, members, middle[:, block], half[:, block])
    return np.clip(centre, lower, upper)


def _corners(subterm: Subterm, bounds: Bounds, n_boxes: int) -> tuple[Array, Members]:
    """Columns of `subterm` for all combinations of levels, and which the boxes hold."""
    sizes = [_rows(matrix) for matrix in subterm.matrices]
    levels = np.array(list(product(*(range(size) for size in sizes))), dtype=int)
    corners = np.ones((len(levels), len(subterm.choices)))
    members = np.ones((n_boxes, len(levels)), dtype=bool)
    for i, (factor, matrix) in enumerate(zip(subterm.factors, subterm.matrices, strict=True)):
        assert isinstance(factor, CategoricalFactor)
        assert matrix is not None
        chosen = [choice[i] for choice in subterm.choices]
        corners *= matrix[levels[:, i]][:, chosen]
        members &= bounds.members(factor)[:, levels[:, i]]
    return corners, members


def _rows(matrix: Array | None) -> int:
    assert matrix is not None
    return len(matrix)


def _block_centre(corners: Array, members: Members, middle: Array, half: Array) -> Array:
    """The best candidate for each box, (K, q)."""
    away = members & (corners != 0).any(axis=1)
    candidates = [middle, _mean(corners, members), _mean(corners, away)]
    reaches = [_reach(corners, members, candidate, half) for candidate in candidates]
    best = np.argmin(reaches, axis=0)
    return np.asarray(np.choose(best[:, None], candidates))


def _mean(corners: Array, members: Members) -> Array:
    weights = members / np.maximum(members.sum(axis=1, keepdims=True), 1)
    return np.asarray(weights @ corners)


def _reach(corners: Array, members: Members, centre: Array, half: Array) -> Array:
    """Largest squared scaled distance from `centre` to a corner in the box, (K,)."""
    worst = np.zeros(len(centre))
    for k in range(len(centre)):
        varies = half[k] > 0
        inside = corners[np.ix_(members[k], varies)]
        scaled = (inside - centre[k, varies]) / half[k, varies]
        worst[k] = np.square(scaled).sum(axis=1).max(initial=0.0)
    return worst
