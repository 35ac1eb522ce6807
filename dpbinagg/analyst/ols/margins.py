"""Records of the law that released one-way counts describe, variable by variable.

Under the product of the margins the mean and the second moments of any design column, polynomials,
transforms, dummies and products alike, are those of these records. They are public: computed from
noisy counts, with fixed draws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.types import Array
from dpbinagg.public.domain import Categorical, Domain, Numeric

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
