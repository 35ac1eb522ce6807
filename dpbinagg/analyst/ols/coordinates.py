"""What follows from one-way counts: coordinates, and the second moments to ask for.

Records of the law that the counts describe, variable by variable, are drawn evenly: under the
product of the margins the mean and the second moments of any design column, polynomials,
transforms, dummies and products alike, are those of these records. They are public: computed from
noisy counts, with fixed draws.

With S the second moments of the design columns under the product of the margins, records have
whitened columns ``w = W x``, ``W = (S + ridge)^(-1/2)``: what looks weak in raw units (age and its
square, schooling and experience) is then as well known as the rest.

Asked are sums of products of ``g = (1, nu, codes, y')``: nu, the numeric columns whitened by their
margins and cut to length 1 at a radius; the one-hot code of ALL levels of every factor; and y', the
residual at a first guess over a reach, cut to [-1, 1]. A factor costs one block, however many
levels it has; products within a code are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpbinagg.analyst.linalg import combined, inverse_root, squares, symmetric
from dpbinagg.analyst.types import Array
from dpbinagg.formula import Design
from dpbinagg.formula.scaling import RowLayout, row_layout
from dpbinagg.formula.union import combinations
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.public.rounds import MomentRequest

SEED = 20_260_101
"""Of public draws: the same release gives the same estimate."""
RECORDS, PER_LEVEL = 2048, 8
"""Records drawn, at least so many for each level of the widest factor."""
UNSEEN = 2.5
"""A level whose noisy count is below so many noise standard deviations is taken for empty: seven
empty ones in a thousand are not, and levels of fewer people cannot be told from them."""
HIDDEN = 2.0
"""Records, in noise standard deviations, that the counts may hide anywhere within the bounds. More
keeps columns on scale that are zero for most records, fewer lets bounds be wider."""
LEAST_SHARE = 0.05
"""Share of the drawn records that goes to all seen levels alike, so that each of them has some."""


@dataclass(frozen=True, slots=True)
class Margin:
    """Noisy counts of one variable.

    Attributes
    ----------
    edges : (B + 1,) array or None
        Of the cells of a number, ``(edges[i], edges[i + 1]]``; None for levels.
    counts : (B,) array
    sd : float
        Of the noise of each count.
    """

    edges: Array | None
    counts: Array
    sd: float

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Cells that do not stand out of the noise."""
        return np.asarray(self.counts < UNSEEN * self.sd)

    def within(self, seen: Numeric) -> tuple[Array, Array, Array]:
        """Ends and counts of the cells of a number where records were seen to lie.

        The whole range is one cell if there are none.
        """
        assert self.edges is not None
        half = 0.5 if seen.integer else 0.0
        low, high = seen.lower - half, seen.upper + half
        lower, upper = np.maximum(self.edges[:-1], low), np.minimum(self.edges[1:], high)
        inside = upper > lower
        if seen.integer:
            # A whole number may have no value between two edges.
            inside &= np.ceil(upper - half) > lower
        if not inside.any():
            return np.array([low]), np.array([high]), np.ones(1)
        return lower[inside], upper[inside], self.counts[inside]


def uniform_margins(bounds: Domain) -> dict[str, Margin]:
    """Where nothing was counted: every value within the bounds is as likely as any other."""
    found: dict[str, Margin] = {}
    for name, variable in bounds.items():
        if isinstance(variable, Categorical):
            found[name] = Margin(None, np.ones(len(variable.levels)), 0.0)
        else:
            half = 0.5 if variable.integer else 0.0
            edges = np.array([variable.lower - half, variable.upper + half])
            found[name] = Margin(edges, np.ones(1), 0.0)
    return found


def product_records(
    bounds: Domain, working: Domain, margins: Mapping[str, Margin]
) -> dict[str, NDArray[Any]]:
    """Records of the product of the margins.

    Parameters
    ----------
    bounds : Domain
        Where values may lie.
    working : Domain
        Where records were seen to lie.
    margins : mapping of Margin
        By variable.

    Returns
    -------
    dict of (n,) arrays
        Values of each variable, evenly spread over its margin, in an order of its own.
    """
    widest = max((len(v.levels) for v in bounds.values() if isinstance(v, Categorical)), default=0)
    n = max(RECORDS, PER_LEVEL * widest)
    rng = np.random.default_rng(SEED)
    records: dict[str, NDArray[Any]] = {}
    for name, margin in margins.items():
        place = (rng.permutation(n) + 0.5) / n
        variable = bounds[name]
        if isinstance(variable, Categorical):
            shares = level_shares(margin)
            records[name] = np.searchsorted(np.cumsum(shares)[:-1], place, side="right")
        else:
            seen = working[name]
            assert isinstance(seen, Numeric)
            records[name] = quantiles(margin, variable, seen, place)
    return records


def level_shares(margin: Margin) -> Array:
    """Shares of the levels that are seen; all alike where none is."""
    counts = np.where(margin.unseen, 0.0, margin.counts)
    if not counts.any():
        counts = np.ones_like(counts)
    seen = counts > 0.0
    return np.asarray((1.0 - LEAST_SHARE) * counts / counts.sum() + LEAST_SHARE * seen / seen.sum())


def quantiles(margin: Margin, bounds: Numeric, seen: Numeric, place: Array) -> Array:
    """Quantiles of a number's margin, evenly spread within its cells."""
    assert margin.edges is not None
    half = 0.5 if bounds.integer else 0.0
    counts, edges = margin.counts, margin.edges
    if counts.size == 2:
        weight = np.where(margin.unseen, 0.0, counts)
        lower, upper = edges[:-1], edges[1:]
    else:
        weight, lower, upper = _weights(margin, bounds, seen, half)
    if weight.sum() <= 0.0:
        weight = np.maximum(upper - lower, 0.0)
    reach = np.cumsum(weight) / weight.sum()
    cell = np.minimum(np.searchsorted(reach, place), weight.size - 1)
    before = np.where(cell > 0, reach[cell - 1], 0.0)
    within = (place - before) / np.maximum(reach[cell] - before, np.finfo(float).tiny)
    values = lower[cell] + np.clip(within, 0.0, 1.0) * (upper[cell] - lower[cell])
    if bounds.integer:
        values = np.rint(values)
    return np.asarray(np.clip(values, bounds.lower, bounds.upper))


def _weights(
    margin: Margin, bounds: Numeric, seen: Numeric, half: float
) -> tuple[Array, Array, Array]:
    """Weight and ends of every cell.

    Inside the range where records were seen: the counts; those that do not stand out share their
    sum by width. And what noise may hide, in any cell.
    """
    assert margin.edges is not None
    lower = np.maximum(margin.edges[:-1], bounds.lower - half)
    upper = np.maximum(np.minimum(margin.edges[1:], bounds.upper + half), lower)
    left = np.maximum(lower, seen.lower - half)
    right = np.minimum(upper, seen.upper + half)
    inside = right > left
    weak = inside & (margin.counts < 2.0 * margin.sd)
    weight = np.where(inside, np.maximum(margin.counts, 0.0), 0.0)
    if weak.any():
        width = np.where(weak, right - left, 0.0)
        total = max(float(margin.counts[weak].sum()), 0.0)
        weight = np.where(weak, total * width / width.sum(), weight)
    hidden = HIDDEN * margin.sd / weight.size
    lower, upper = np.where(inside, left, lower), np.where(inside, right, upper)
    return weight + hidden, lower, upper


COLLINEAR = 1e-9
"""Relative eigenvalue of S below which a combination of columns is constantly zero."""
TOUCHED = 1e-6
"""Share of a unit coefficient in such combinations from which on it is not identified."""
RARE = 0.5
"""A column of two values m apart gets the ridge ``RARE m^2/(k + 1)`` less its variance: a rarer
value has the leverage of one that is held by RARE/(k + 1) of the records. Whitening it fully would
give its few people a leverage that every bound on contributions cuts."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Public facts about the design.

    Attributes
    ----------
    whitening : (k, p) array
        W.
    ridge : (p, p) array
        Diagonal; added to the mean of ``x x'`` before it is inverted.
    null : (l, p) array
        Combinations v of coefficients with ``x'v = 0`` for every record that was seen.
    lost : (p,) bool array
        Coefficients that these touch.
    """

    whitening: Array
    ridge: Array
    null: Array
    lost: NDArray[np.bool_]

    @property
    def size(self) -> int:
        """Number of directions, k."""
        return len(self.whitening)


def coordinates(columns: Array, intercept: int | None) -> Coordinates:
    """Coordinates from design columns of the product of the margins, (n, p)."""
    n = len(columns)
    second = squares(columns) / n
    ridge = rare_ridge(columns, intercept)
    size = np.sqrt(np.maximum(np.diag(second) + ridge, 0.0))
    size[size == 0.0] = 1.0
    scaled = symmetric(second / np.outer(size, size))
    values, vectors = np.linalg.eigh(scaled)
    kept = values > COLLINEAR * values[-1]
    null = vectors[:, ~kept].T / size
    basis = canonical_basis(vectors[:, kept])
    inner = basis.T @ (scaled + np.diag(ridge / size**2)) @ basis
    whitening = inverse_root(inner)[0] @ basis.T / size
    lost = np.sqrt(np.sum(null**2, axis=0)) * size > TOUCHED
    return Coordinates(whitening, np.diag(ridge), null, np.asarray(lost))


def canonical_basis(vectors: Array) -> Array:
    """An orthonormal basis of the same space that does not depend on signs or ties of `vectors`.

    The estimate is replayed on other machines, whose eigenvectors differ.
    """
    size, k = vectors.shape
    if k == size:
        return np.eye(size)
    q, r, _ = linalg.qr(vectors @ vectors.T, pivoting=True)
    signs = np.where(np.diag(r)[:k] < 0.0, -1.0, 1.0)
    return np.asarray(q[:, :k] * signs)


def rare_ridge(columns: Array, intercept: int | None) -> Array:
    """Ridge of columns that take two values; 0 of others, (p,)."""
    low, high = columns.min(axis=0), columns.max(axis=0)
    two = np.all((columns == low) | (columns == high), axis=0) & (high > low)
    if intercept is not None:
        two[intercept] = False
    ridge = RARE * (high - low) ** 2 / (columns.shape[1] + 1) - columns.var(axis=0)
    return np.where(two, np.maximum(ridge, 0.0), 0.0)


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
    spread = squares(numbers - mean) / len(numbers)
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
    lengths = np.ones(1)
    if len(forth):
        lengths = np.linalg.norm(combined(numbers - mean, forth.T), axis=1)
    radius = float(np.quantile(lengths, FAR)) * ROOM
    centre = float(response.mean())
    variance, reach = spread_of(response, abs(layout.scale_y))
    guess = np.zeros(columns.shape[1])
    coefficients = np.zeros(len(layout.design_map))
    coefficients[0] = centre
    if layout.intercept is not None:
        guess[layout.intercept] = centre
    shift = np.zeros(len(layout.design_map))
    shift[0] = 1.0
    whitening = forth @ (layout.design_map[:, layout.numeric].T - np.outer(mean, shift))
    request = MomentRequest(whitening, radius, coefficients, reach, layout.levels)
    g_map = _column_map(layout, mean, back * radius)
    y_map = np.zeros(len(g_map))
    y_map[0], y_map[-1] = centre, reach
    return MomentPlan(request, g_map, y_map, guess, variance)


def spread_of(response: Array, scale: float) -> tuple[float, float]:
    """Variance of a response, and how far it may be from its mean.

    Parameters
    ----------
    response : (n,) array
        Of records of the product of the margins.
    scale : float
        Half the width of its bounds; a response that hardly varies is taken to, as they allow.
    """
    if response.std() <= STILL * scale:
        return (scale / 2.0) ** 2, scale * REACH
    reach = max(float(np.abs(response - response.mean()).max()), 1e-9 * scale) * REACH
    return max(float(response.var()), (1e-3 * reach) ** 2), reach


def _column_map(layout: RowLayout, mean: Array, back: Array) -> Array:
    """``x = g_map' g``."""
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
    return g_map


@dataclass(frozen=True, slots=True)
class Plan:
    """Public facts that follow from one-way counts: coordinates, and what moments are asked for.

    Attributes
    ----------
    layout : RowLayout
    public : Coordinates
    moments : MomentPlan
    records : (n, p + 1) array
        Columns and response of records of the product of the margins.
    """

    layout: RowLayout
    public: Coordinates
    moments: MomentPlan
    records: Array


def begin(design: Design, working: Domain, margins: Mapping[str, Margin]) -> Plan:
    """Coordinates of a design, and the moments to ask for, from one-way counts.

    Parameters
    ----------
    design : Design
        On the bounds that records are held to.
    working : Domain
        Where records were seen to lie.
    margins : mapping of Margin
    """
    records = product_records(design.domain, working, margins)
    columns, response, _ = design.row_map()(records)
    known = np.isfinite(columns).all(axis=1) & np.isfinite(response)
    columns, response = columns[known], response[known]
    layout = row_layout(design)
    public = coordinates(columns, design.intercept)
    moments = plan_moments(layout, columns, response)
    return Plan(layout, public, moments, np.column_stack([columns, response]))


def plan_of(whole: Plan, outer: Design, model: Design) -> Plan:
    """The plan of a model whose columns and response `outer` has, of which `whole` is the plan."""
    return model_plan(whole, *combinations(outer, model), model.intercept)


def model_plan(whole: Plan, columns: Array, response: Array, intercept: int | None) -> Plan:
    """The plan of a model whose columns and response are combinations of those of another plan.

    Its moments are those that the other plan asks for, seen in its own columns: ``x = L'z``,
    ``y = l'z``, with z the columns and the response of the other plan.

    Parameters
    ----------
    whole : Plan
        With p columns.
    columns : (p + 1, q) array
        L.
    response : (p + 1,) array
        l.
    intercept : int or None
    """
    of_f = np.column_stack([whole.layout.design_map, whole.layout.response])
    layout = replace(
        whole.layout,
        design_map=of_f @ columns,
        numeric=np.empty(0, dtype=np.intp),
        intercept=intercept,
        offset=whole.layout.response - of_f @ response,
    )
    of_g = np.column_stack([whole.moments.g_map, whole.moments.y_map])
    records, values = combined(whole.records, columns), whole.records @ response
    guess = np.zeros(columns.shape[1])
    if intercept is not None:
        guess[intercept] = values.mean()
    moments = MomentPlan(
        whole.moments.request,
        of_g @ columns,
        of_g @ response,
        guess,
        spread_of(values, float(np.abs(of_f[1:] @ response).sum()))[0],
    )
    made = np.column_stack([records, values])
    return Plan(layout, coordinates(records, intercept), moments, made)
