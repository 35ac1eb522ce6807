"""Boxes: the public regions that partitions are made of, and those that cells stand for.

A box is a half-open interval for every numeric variable and a subset of the
levels for every categorical one. `Boxes` holds K of them as arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.bins import GridLocator, TreeLocator
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.public.paths import Axis, Cells, IntervalAxis, Paths


@dataclass(frozen=True, slots=True)
class Boxes:
    """K boxes over named variables.

    Attributes
    ----------
    lower, upper : dict of str to (K,) float arrays
        Closed hulls of the numeric intervals. A record belongs to the
        half-open interval ``lower <= x < upper``; where `upper` is the upper
        bound of the domain, it is included. An integer variable's box holds
        the whole numbers from `lower` to `upper`, both included.
    members : dict of str to (K, L) bool arrays
        Which of the L declared levels of a categorical variable a box holds.
    """

    lower: dict[str, NDArray[np.float64]]
    upper: dict[str, NDArray[np.float64]]
    members: dict[str, NDArray[np.bool_]]

    def __len__(self) -> int:
        arrays = [*self.lower.values(), *self.members.values()]
        return len(arrays[0]) if arrays else 1

    @classmethod
    def whole(cls, domain: Domain, variables: tuple[str, ...]) -> Boxes:
        """One box that covers the domain of `variables`."""
        boxes = cls({}, {}, {})
        for name in variables:
            variable = domain[name]
            if isinstance(variable, Categorical):
                boxes.members[name] = np.ones((1, len(variable.levels)), dtype=bool)
            else:
                assert isinstance(variable, Numeric)
                boxes.lower[name] = np.array([variable.lower])
                boxes.upper[name] = np.array([variable.upper])
        return boxes


def edges(axis: IntervalAxis, index: Cells) -> NDArray[np.float64]:
    """Lower edge of each cell in `index`; ``n_cells`` stands for the top."""
    edge = np.where(index <= 0, axis.lower, axis.upper)
    inner = (index > 0) & (index < axis.n_cells)
    if inner.any():
        distinct, place = np.unique(index[inner], return_inverse=True)
        step = (axis.upper - axis.lower) / axis.n_cells
        near = axis.lower + distinct.astype(np.float64) * step
        edge[inner] = _first_number(axis, distinct, near)[place]
    return edge


def _first_number(
    axis: IntervalAxis, cell: Cells, near: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The smallest number in each cell, sought by bisection around `near`."""
    below, above = _bracket(axis, cell, np.clip(near, axis.lower, axis.upper))
    while True:
        middle = below + (above - below) / 2.0
        undecided = (below < middle) & (middle < above)
        if not undecided.any():
            return above
        reached = axis.cells(middle) >= cell
        above = np.where(undecided & reached, middle, above)
        below = np.where(undecided & ~reached, middle, below)


def _bracket(
    axis: IntervalAxis, cell: Cells, near: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers ``below < first <= above`` around the first number of each (inner) cell.

    `cells` never decreases, is 0 at `lower` and ``n_cells - 1`` at `upper`. Doubled steps
    away from `near` therefore end on both sides, however large the rounding errors are.
    """
    below = above = near
    step = np.spacing(axis.upper - axis.lower)
    while (early := axis.cells(below) >= cell).any():
        below = np.where(early, np.maximum(below - step, axis.lower), below)
        step *= 2.0
    step = np.spacing(axis.upper - axis.lower)
    while (late := axis.cells(above) < cell).any():
        above = np.where(late, np.minimum(above + step, axis.upper), above)
        step *= 2.0
    return below, above


def add_boxes(name: str, axis: Axis, start: Cells, stop: Cells, boxes: Boxes) -> None:
    """Write the boxes that span cells ``start`` to ``stop - 1`` of one variable."""
    if isinstance(axis, IntervalAxis):
        lower, upper = np.split(edges(axis, np.append(start, stop)), 2)
        if axis.integer:
            # Boxes of whole numbers hold both ends; a cell may hold none.
            lower = np.ceil(lower)
            upper = np.maximum(np.where(stop >= axis.n_cells, upper, np.ceil(upper) - 1.0), lower)
        boxes.lower[name], boxes.upper[name] = lower, upper
        return
    bounds = np.append(axis.starts, axis.length)
    low, high = bounds[start], bounds[stop]
    if axis.first is None:
        position = np.arange(axis.length)
        boxes.members[name] = (position >= low[:, None]) & (position < high[:, None])
    else:
        boxes.lower[name] = np.asarray(axis.first + low, dtype=np.float64)
        boxes.upper[name] = np.asarray(axis.first + high - 1.0, dtype=np.float64)


def boxes_of_nodes(paths: Paths, depth: Cells, prefix: Cells) -> Boxes:
    """Boxes of nodes given by depth and prefix."""
    boxes = Boxes({}, {}, {})
    full = prefix << (paths.depth - depth)
    for index, (name, axis) in enumerate(zip(paths.variables, paths.axes, strict=True)):
        total, cell = paths.own_cell(index, paths.depth, full)
        own_depth = np.searchsorted(np.array(paths.splits[index], dtype=np.int64), depth)
        width = np.int64(1) << (total - own_depth)
        cell = cell >> (total - own_depth)
        add_boxes(name, axis, cell * width, (cell + 1) * width, boxes)
    return boxes


def boxes_of(locator: TreeLocator | GridLocator) -> Boxes:
    """The boxes of bins, in the order of their numbers."""
    if isinstance(locator, TreeLocator):
        return boxes_of_nodes(locator.paths, locator.leaf_depth, locator.leaf_prefix)
    boxes = Boxes({}, {}, {})
    index = np.indices(locator.shape).reshape(len(locator.shape), -1)
    for name, axis, cell in zip(locator.variables, locator.axes, index, strict=True):
        add_boxes(name, axis, cell, cell + 1, boxes)
    return boxes
