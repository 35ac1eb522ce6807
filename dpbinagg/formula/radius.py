"""The largest norm of a scaled deviation on a box, and centres that make it small.

r_k^2 = sup over the box of sum_j ((z_j - m_kj) / h_kj)^2,  h_kj > 0

The middle of a block of q dummies, (1/2, ..., 1/2), is at squared distance q/4
from every corner that a record can be in. The point (1/q, ..., 1/q) is at
most at 1 - 1/q, which does not grow with q.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.bounds import Bounds, Members, product_bounds
from dpbinagg.formula.interval_operations import Interval
from dpbinagg.formula.rows import CategoricalFactor, Subterm

Array = NDArray[np.float64]

MAX_WORK = 2 * 10**8
ROUNDING = 1e-12


def radius2(
    subterms: Sequence[Subterm], bounds: Bounds, lower: Array, upper: Array, centre: Array
) -> Array:
    """Squared radius of each box, exact in the levels of categorical factors.

    Terms that share a categorical factor, directly or through others, are one
    component: the supremum is taken over the combinations of levels in the box
    for all its columns jointly, and components are added. Given the levels, a
    column is at most at one end of its interval. So is a column without
    categorical factors.

    Parameters
    ----------
    subterms, bounds
        The design and its factors' bounds on K boxes.
    lower, upper : (K, p)
        Bounds of the columns.
    centre : (K, p)
        Centres of the columns.

    Returns
    -------
    (K,) array, at most the sum of the columns' own suprema.
    """
    half = (upper - lower) / 2
    inverse = np.divide(1.0, half, out=np.zeros_like(half), where=half > 0)
    own = np.square(np.maximum(upper - centre, centre - lower) * inverse)
    joint = np.zeros(half.shape[1], dtype=bool)
    total = np.zeros(len(half))
    for component in _components([subterm for subterm in subterms if _categorical(subterm)]):
        total += _component(component, bounds, centre, inverse)
        for subterm in component:
            joint[subterm.start : subterm.stop] = True
    total += own[:, ~joint].sum(axis=1)
    return np.asarray(np.minimum(total * (1 + ROUNDING), own.sum(axis=1)))


def _categorical(subterm: Subterm) -> list[CategoricalFactor]:
    return [factor for factor in subterm.factors if isinstance(factor, CategoricalFactor)]


def _components(subterms: Sequence[Subterm]) -> list[list[Subterm]]:
    """Group subterms that share categorical factors."""
    groups: list[tuple[set[str], list[Subterm]]] = []
    for subterm in subterms:
        names = {factor.name for factor in _categorical(subterm)}
        members = [subterm]
        apart = []
        for other in groups:
            if names & other[0]:
                names |= other[0]
                members = other[1] + members
            else:
                apart.append(other)
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _component(subterms: list[Subterm], bounds: Bounds, centre: Array, inverse: Array) -> Array:
    """Supremum of the columns of one component, (K,)."""
    factors = list({f.name: f for subterm in subterms for f in _categorical(subterm)}.values())
    columns = sum(len(subterm.choices) for subterm in subterms)
    combinations = int(np.prod([len(factor.levels) for factor in factors], dtype=float))
    if len(centre) * combinations * columns > MAX_WORK:
        return np.full(len(centre), np.inf)
    levels = np.array(list(product(*(range(len(factor.levels)) for factor in factors))), dtype=int)
    levels = levels.reshape(combinations, len(factors))
    admitted = np.ones((len(centre), combinations), dtype=bool)
    for i, factor in enumerate(factors):
        admitted &= bounds.members(factor)[:, levels[:, i]]
    sums = np.zeros((len(centre), combinations))
    place = {factor.name: i for i, factor in enumerate(factors)}
    for subterm in subterms:
        for j, choice in enumerate(subterm.choices, start=subterm.start):
            entry, interval = _given_levels(subterm, choice, bounds, place, levels)
            low = np.abs(interval.lower[:, None] * entry - centre[:, j, None])
            high = np.abs(interval.upper[:, None] * entry - centre[:, j, None])
            sums += np.square(np.maximum(low, high) * inverse[:, j, None])
    return np.asarray(np.where(admitted, sums, 0.0).max(axis=1))


def _given_levels(
    subterm: Subterm,
    choice: tuple[int, ...],
    bounds: Bounds,
    place: dict[str, int],
    levels: NDArray[np.int_],
) -> tuple[Array, Interval]:
    """A column as a number for each combination of levels times an interval."""
    entry = np.ones(len(levels))
    pieces = [Interval(np.ones(1), np.ones(1))]
    for factor, matrix, chosen in zip(subterm.factors, subterm.matrices, choice, strict=True):
        if isinstance(factor, CategoricalFactor):
            assert matrix is not None
            entry = entry * matrix[levels[:, place[factor.name]], chosen]
        else:
            pieces.append(bounds.numeric(factor)[chosen])
    interval = product_bounds(pieces)
    return entry, Interval(np.atleast_1d(interval.lower), np.atleast_1d(interval.upper))


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
        if not subterm.n_levels:
            continue
        block = slice(subterm.start, subterm.stop)
        corners, members = _corners(subterm, bounds, len(lower))
        if corners.size * len(lower) <= MAX_WORK:
            centre[:, block] = _block_centre(corners, members, middle[:, block], half[:, block])
    return np.clip(centre, lower, upper)


def _corners(subterm: Subterm, bounds: Bounds, n_boxes: int) -> tuple[Array, Members]:
    """Columns of `subterm` for all combinations of levels, and which the boxes hold."""
    sizes = [len(matrix) for matrix in subterm.matrices if matrix is not None]
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
