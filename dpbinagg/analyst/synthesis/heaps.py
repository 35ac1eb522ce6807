"""Heaps: values that many records have, of numbers that others have too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.types import Array

STANDS_OUT = 2.5
"""Noise standard deviations of a count at a declared bound that may be a heap there."""

HEAP = 5.0
"""A cell is a heap of records with one value if it is so many times as dense as those beside it."""

ALONE, BESIDE = 4.0, 2
"""Noise standard deviations by which a heap exceeds these, and cells on either side that are looked
at: of a hundred cells without heaps one in 300 releases would show one."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale on which people may have rounded, and what was made of it.

    Attributes
    ----------
    to, back : callables
        From the values of a variable, and to them.
    lowest, highest : float
        Between which values lie.
    doubt : float
        Minus the logarithm of how likely the scale is before anything was seen.
    """

    to: Callable[[Array], Array]
    back: Callable[[Array], Array]
    lowest: float = -math.inf
    highest: float = math.inf
    doubt: float = 0.0


SCALES = (
    Scale(np.array, np.array),
    Scale(np.exp, np.log, -40.0, 40.0, math.log(100.0)),
    Scale(np.expm1, np.log1p, 0.0, 40.0, 2.0 * math.log(100.0)),
)
"""A column is what people said, its logarithm, or that of one more, each a hundred times less
likely than the one before until heaps are seen. Logarithms of counts lie within 40 of 0."""


def heap_at_end(weight: Array, width: Array, sd: float, end: int) -> bool:
    """Whether the first (0) or the last (-1) of some counts of cells is a heap."""
    if len(weight) < 2:
        return False
    beside = 1 if end == 0 else -2
    dense = weight[end] * width[beside] > HEAP * max(weight[beside], sd) * width[end]
    return bool(dense and weight[end] > STANDS_OUT * sd)


def without_heaps(weight: Array, width: Array, sd: float) -> Array:
    """Counts without heaps: these have no more than their width by the density beside them."""
    density = np.divide(weight, width, out=np.zeros_like(weight), where=width > 0.0)
    wide = np.pad(density, BESIDE, mode="edge")
    around = [wide[k : k + len(density)] for k in range(2 * BESIDE + 1) if k != BESIDE]
    usual = np.median(around, axis=0) * width
    heap = (weight > HEAP * usual) & (weight - usual > ALONE * sd) & (width > 0.0)
    return np.where(heap, usual, weight)


def round_points(low: Array, high: Array, whole: bool) -> Array:
    """The roundest number of each cell, on the scale on which all of them are roundest.

    Who earned 50,000 is at 10.8198 in a column of logarithms. A cell holds a number that is so
    round by chance with the probability width over distance of such numbers; the scale is the one
    on which that, with how likely the scale is, is least.
    """
    best, found = 0.0, high
    telling = (low >= 0.0) | (high < 0.0)
    for scale in SCALES[:1] if whole else SCALES:
        if ((low < scale.lowest) | (high > scale.highest)).any():
            continue
        left, right = scale.to(low), scale.to(high)
        rounds = [roundest(*ends) for ends in zip(left, right, strict=True)]
        points, distance = np.array(rounds).reshape(len(low), 2).T
        chance = np.minimum((right - left) / distance, 1.0)
        chances = scale.doubt + float(np.sum(np.log(chance[telling])))
        if chances <= best:
            best, found = chances, scale.back(points)
    return np.clip(found, np.nextafter(low, np.inf), high)


def roundest(low: float, high: float) -> tuple[float, float]:
    """The number above `low` and up to `high` with the fewest digits, fives before others.

    And the distance of such numbers from each other.
    """
    size = 10.0 ** math.floor(math.log10(max(abs(low), abs(high))) + 1.0)
    for _ in range(18):
        for step in (size, size / 2.0, size / 4.0, size / 5.0):
            found = math.floor(high / step) * step
            if found > low:
                return found, step
        size /= 10.0
    return high, high - low
