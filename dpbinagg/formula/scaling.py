"""Public scalings that bring columns to [-1, 1], what becomes of factors, and norms on boxes.

Scalings follow from the design's bounds alone. The curator divides by them before it sums, the
analyst multiplies the noisy sums by them afterwards. The largest norm of a scaled deviation on a
box is

    r_k^2 = sup over the box of sum_j ((z_j - m_kj) / h_kj)^2,  h_kj > 0

The middle of a block of q dummies, (1/2, ..., 1/2), is at squared distance q/4 from every corner
that a record can be in. The point (1/q, ..., 1/q) is at most at 1 - 1/q, which does not grow
with q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.bounds import Bounds, Interval, Members, product_bounds
from dpbinagg.formula.rows import CategoricalFactor, NumericFactor, RowMap, Subterm
from dpbinagg.public.partition import Partition

if TYPE_CHECKING:
    from dpbinagg.formula.design import Design

Array = NDArray[np.float64]

MAX_WORK = 2 * 10**8
MOST_AT_ONCE = 10**6
"""Numbers in an array of distances: eight megabytes."""
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
    for component in _components(subterms):
        if len(component) == 1 and len(component[0].choices) == 1:
            # One column, of a factor with two levels: its bounds are attained.
            continue
        total += _component(component, bounds, centre, inverse)
        for subterm in component:
            joint[subterm.start : subterm.stop] = True
    total += own[:, ~joint].sum(axis=1)
    return np.asarray(np.minimum(total * (1 + ROUNDING), own.sum(axis=1)))


def _components(subterms: Sequence[Subterm]) -> list[list[Subterm]]:
    """Group subterms that share categorical factors; those that have none are left out."""
    groups: list[tuple[set[str], list[Subterm]]] = []
    for subterm in subterms:
        names = {f.name for f in subterm.factors if isinstance(f, CategoricalFactor)}
        if not names:
            continue
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
    both = (factor for subterm in subterms for factor in subterm.factors)
    factors = list({f.name: f for f in both if isinstance(f, CategoricalFactor)}.values())
    columns = sum(len(subterm.choices) for subterm in subterms)
    combinations = int(np.prod([len(factor.levels) for factor in factors], dtype=float))
    if len(centre) * combinations * columns > MAX_WORK:
        return np.full(len(centre), np.inf)
    levels = np.array(list(product(*(range(len(factor.levels)) for factor in factors))), dtype=int)
    levels = levels.reshape(combinations, len(factors))
    admitted = np.ones((len(centre), combinations), dtype=bool)
    for i, categorical in enumerate(factors):
        admitted &= bounds.members(categorical)[:, levels[:, i]]
    sums = np.zeros((len(centre), combinations))
    place = {factor.name: i for i, factor in enumerate(factors)}
    for subterm in subterms:
        for j, choice in enumerate(subterm.choices, start=subterm.start):
            # Given the levels, a column is a number for each combination times an interval.
            entry, pieces = np.ones(combinations), [Interval(np.ones(1), np.ones(1))]
            for factor, matrix, chosen in zip(
                subterm.factors, subterm.matrices, choice, strict=True
            ):
                if isinstance(factor, NumericFactor):
                    pieces.append(bounds.numeric(factor)[chosen])
                elif matrix is not None:
                    entry = entry * matrix[levels[:, place[factor.name]], chosen]
            interval = product_bounds(pieces)
            low = np.abs(np.atleast_1d(interval.lower)[:, None] * entry - centre[:, j, None])
            high = np.abs(np.atleast_1d(interval.upper)[:, None] * entry - centre[:, j, None])
            sums += np.square(np.maximum(low, high) * inverse[:, j, None])
    return np.asarray(np.where(admitted, sums, 0.0).max(axis=1))


def n_levels_of(subterm: Subterm) -> int:
    """Combinations of levels of a subterm of categorical factors alone; 0 of any other."""
    if not subterm.factors or any(isinstance(f, NumericFactor) for f in subterm.factors):
        return 0
    return math.prod(len(matrix) for matrix in subterm.matrices if matrix is not None)


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
        if not n_levels_of(subterm) or len(subterm.choices) == 1:
            # Nothing is nearer to both ends of one column than their middle.
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
    candidates = [middle]
    for meant in (members, members & (corners != 0).any(axis=1)):
        weights = meant / np.maximum(meant.sum(axis=1, keepdims=True), 1)
        candidates.append(weights @ corners)
    reaches = [_reach(corners, members, candidate, half) for candidate in candidates]
    best = np.argmin(reaches, axis=0)
    return np.asarray(np.choose(best[:, None], candidates))


def _reach(corners: Array, members: Members, centre: Array, half: Array) -> Array:
    """Largest squared scaled distance from `centre` to a corner in the box, (K,)."""
    worst, varies = np.zeros(len(centre)), half > 0
    # Boxes that hold the same corners and vary in the same columns are looked at together.
    kinds, kind = np.unique(np.hstack([members, varies]), axis=0, return_inverse=True)
    for k in range(len(kinds)):
        inside, moving = np.split(kinds[k], [members.shape[1]])
        held = corners[np.ix_(inside, moving)]
        alike = np.flatnonzero(kind.ravel() == k)
        for boxes in np.array_split(alike, 1 + alike.size * held.size // MOST_AT_ONCE):
            places = np.ix_(boxes, moving)
            scaled = (held - centre[places][:, None]) / half[places][:, None]
            worst[boxes] = np.square(scaled).sum(axis=2).max(axis=1, initial=0.0)
    return worst


Floats = NDArray[np.float64]
NARROW = 2.0**-40
"""A column whose half-width is below this share of its magnitude is constant."""
FEWEST = 3
"""Levels from which on a factor is a code: one of two levels is a number like any other."""


def centre_and_half_width(lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Centres and outward-rounded half-widths; 0 where a column is constant."""
    centre = lower + (upper - lower) / 2.0
    half = np.nextafter(np.maximum(upper - centre, centre - lower), np.inf)
    constant = half <= NARROW * np.maximum(np.abs(lower), np.abs(upper))
    return centre, np.where(constant | (lower == upper), 0.0, half)


@dataclass(frozen=True)
class BinScaling:
    """How deviations in bins are scaled.

    Attributes
    ----------
    centre, half_width : (K, p) arrays
        Centre m and half-width h of every column on every box.
    unit : (K, p) array
        What a deviation is divided by: ``h_kj r_k`` (joint), ``Delta_kj``
        (paper). 0 where the column is constant on the box.
    centre_y, unit_y : float
        The same for the response.
    sensitivity_x : float
        Bound on the L2 norm of ``(z - centre) / unit``: 1 (joint), the root of
        the number of columns (paper).
    """

    centre: Floats
    half_width: Floats
    unit: Floats
    centre_y: float
    unit_y: float
    sensitivity_x: float


@lru_cache(maxsize=4)
def bin_scaling(design: Design, partition: Partition, calibration: str) -> BinScaling:
    """Scaling of the sums in the bins of a partition.

    Joint calibration divides by ``h_kj r_k`` with ``r_k^2`` the supremum over
    the box of ``sum_j ((z_j - m_kj)/h_kj)^2``, so that all columns together
    have norm at most 1. The published calibration divides the uncentred
    column by ``Delta_kj = max(|L_kj|, |U_kj|)``, each column by itself.
    """
    boxes = partition.boxes
    if calibration == "paper":
        lower, upper = design.column_bounds(boxes)
        largest = max(map(abs, design.response_bounds()))
        intercept = np.arange(lower.shape[1]) == design.intercept
        delta = np.where(intercept, 0.0, np.maximum(np.abs(lower), np.abs(upper)))
        centre = np.where(intercept, 1.0, 0.0) * np.ones_like(lower)
        columns = int((delta > 0.0).sum(axis=1).max(initial=0))
        return BinScaling(centre, delta, delta, 0.0, largest, math.sqrt(max(columns, 1)))
    bounds = Bounds(design.domain, boxes)
    lower, upper = design.column_bounds(boxes, bounds)
    centre, half = centre_and_half_width(lower, upper)
    # Midpoints, but for blocks of dummies, whose deviations are shorter from elsewhere.
    short = short_centres(design.subterms, bounds, lower, upper)
    short = np.where(upper > lower, short, lower)
    radius = np.sqrt(radius2(design.subterms, bounds, lower, upper, short))
    centre = np.where(half > 0.0, short, centre)
    unit = np.nextafter(half * radius[:, None], np.inf)
    unit = np.where(half > 0.0, unit, 0.0)
    whole = column_scaling(design)
    return BinScaling(centre, half, unit, whole.centre_y, whole.scale_y, 1.0)


@dataclass(frozen=True)
class ColumnScaling:
    """How columns and response are scaled to [-1, 1] over the whole working domain.

    Attributes
    ----------
    centre, scale : (p,) arrays
        ``z*_j = (z_j - centre_j) / scale_j``; scale 0 marks a public constant.
    centre_y, scale_y : float
        The same for the response.
    """

    centre: Floats
    scale: Floats
    centre_y: float
    scale_y: float

    @cached_property
    def varying(self) -> NDArray[np.intp]:
        """Columns that are not constant."""
        return np.flatnonzero(self.scale)

    @property
    def size(self) -> int:
        """Length of f = (1, z*, y*)."""
        return len(self.varying) + 2


@lru_cache(maxsize=16)
def column_scaling(design: Design) -> ColumnScaling:
    """Scaling of the columns over the design's whole domain."""
    lower, upper = design.column_bounds()
    centre, half = centre_and_half_width(lower, upper)
    low_y, high_y = design.response_bounds()
    centre_y = low_y + (high_y - low_y) / 2.0
    # The response is never taken for a constant.
    half_y = math.nextafter(max(high_y - centre_y, centre_y - low_y), math.inf)
    return ColumnScaling(centre[0], half[0], centre_y, half_y)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How design columns follow from what the kernel sees, which has factors as codes.

    What wide factors cost is then a look-up.

    A factor of one term, or the crossing of several, makes its design columns by a public matrix:
    column j of a record at level l is ``matrix[l, j]``. All other columns are numbers.

    The kernel sees a record as ``f = (1, z*, codes, y*)``: the numbers scaled to [-1, 1], one-hot
    codes, and the response. Design columns and response follow: ``x = design_map' f``, ``y =
    centre_y + scale_y y*``.

    Attributes
    ----------
    row_map : RowMap
        Gives a constant and the numbers, (n, 1 + q); the response; the codes, (F, n).
    scaling : ColumnScaling
        Of the constant, the numbers and the response.
    design_map : (m, p) array
    numeric : (q,) array of int
        Design columns that are numbers.
    factors : tuple of ((L, c) array, (c,) array of int)
        Contrast matrix of each factor and the design columns it makes.
    levels : tuple of int
        Of the factors.
    intercept : int or None
    centre_y, scale_y : float
        Of the response of the rows.
    offset : (m,) array
        What is added to coefficients on f for a model with another response than that of the rows:
        ``centre_y + scale_y y* - offset' f`` is its response.
    """

    row_map: RowMap
    scaling: ColumnScaling
    design_map: Floats
    numeric: NDArray[np.intp]
    factors: tuple[tuple[Floats, NDArray[np.intp]], ...]
    levels: tuple[int, ...]
    intercept: int | None
    centre_y: float
    scale_y: float
    offset: Floats

    @property
    def response(self) -> Floats:
        """The response of the rows as a combination of f, (m,)."""
        found = np.zeros(len(self.design_map))
        found[0], found[-1] = self.centre_y, self.scale_y
        return found


@lru_cache(maxsize=16)
def row_layout(design: Design) -> RowLayout:
    """A design with factors as codes, and its map from ``f = (1, z*, codes, y*)``."""
    coded = tuple(s for s in design.subterms if n_levels_of(s) >= FEWEST)
    numbers = [s for s in design.subterms if s.factors and n_levels_of(s) < FEWEST]
    numeric = np.array([j for s in numbers for j in range(s.start, s.stop)], dtype=np.intp)
    factors = tuple((_matrix(s), np.arange(s.start, s.stop)) for s in coded)
    placed = [Subterm((), (), 0)]
    for subterm in numbers:
        placed.append(replace(subterm, start=placed[-1].stop))
    row_map = RowMap(
        design.domain, design.response_factor, tuple(placed), coded, bool(design.unbounded)
    )
    whole = column_scaling(design)
    centre, scale = np.append(1.0, whole.centre[numeric]), np.append(0.0, whole.scale[numeric])
    scaling = ColumnScaling(centre, scale, whole.centre_y, whole.scale_y)
    varying, n_levels = scaling.varying, sum(len(matrix) for matrix, _ in factors)
    design_map = np.zeros((len(varying) + n_levels + 2, len(design.column_names)))
    if design.intercept is not None:
        design_map[0, design.intercept] = 1.0
    design_map[0, numeric] = scaling.centre[1:]
    design_map[1 + np.arange(len(varying)), numeric[varying - 1]] = scaling.scale[varying]
    start = 1 + len(varying)
    for matrix, columns in factors:
        design_map[start : start + len(matrix), columns] = matrix
        start += len(matrix)
    return RowLayout(
        row_map=row_map,
        scaling=scaling,
        design_map=design_map,
        numeric=numeric,
        factors=factors,
        levels=tuple(len(matrix) for matrix, _ in factors),
        intercept=design.intercept,
        centre_y=scaling.centre_y,
        scale_y=scaling.scale_y,
        offset=np.zeros(len(design_map)),
    )


def _matrix(subterm: Subterm) -> Floats:
    """Columns of every combination of levels, that of the first factor moving fastest."""
    found = np.ones((1, 1))
    for matrix in subterm.matrices:
        assert matrix is not None
        found = np.einsum("ab,cd->cadb", found, matrix).reshape(
            len(matrix) * len(found), found.shape[1] * matrix.shape[1]
        )
    return np.asarray(found)
