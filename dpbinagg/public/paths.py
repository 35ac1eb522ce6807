"""Public subdivisions of a domain: axes, split order and path codes.

PrivTree halves one variable at a time. Midpoints and the order of variables
are public, so the path that a record takes down the tree is a public function
of the record: a string of bits, held as one integer. Everything here depends
on the domain alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.boxes import Boxes, Records
from dpbinagg.public.domain import Categorical, Domain, Numeric

MAX_DEPTH = 32
MAX_AXIS_DEPTH = 16
MAX_WHOLE_NUMBERS = 2**MAX_AXIS_DEPTH

Cells = NDArray[np.int64]


class Axis(Protocol):
    """One variable, cut into ``n_cells`` cells that are numbered upward."""

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        ...

    def cells(self, values: NDArray[np.generic]) -> Cells:
        """Cell of every value; the values lie in the domain."""
        ...

    def add_boxes(self, name: str, start: Cells, stop: Cells, boxes: Boxes) -> None:
        """Write the boxes that span cells ``start`` to ``stop - 1``."""
        ...


@dataclass(frozen=True)
class IntervalAxis:
    """A numeric variable in ``n_cells`` intervals of equal width.

    The cell of x is ``floor((x - lower) * n_cells / (upper - lower))``, in
    floating point and cut to the last cell, so that the upper bound of the
    domain belongs to it. An edge is the smallest number whose cell is the one
    above: the half-open boxes and the formula agree to the last bit.
    """

    lower: float
    upper: float
    n_cells: int
    integer: bool = False

    @property
    def scale(self) -> float:
        """Cells per unit."""
        return self.n_cells / (self.upper - self.lower)

    def cells(self, values: NDArray[np.generic]) -> Cells:
        inside = np.clip(values.astype(np.float64, copy=False), self.lower, self.upper)
        position = (inside - self.lower) * self.scale
        return np.minimum(position.astype(np.int64), self.n_cells - 1)

    def edges(self, index: Cells) -> NDArray[np.float64]:
        """Lower edge of each cell in `index`; ``n_cells`` stands for the top."""
        edge = np.where(index <= 0, self.lower, self.upper)
        inner = (index > 0) & (index < self.n_cells)
        if inner.any():
            distinct, place = np.unique(index[inner], return_inverse=True)
            step = (self.upper - self.lower) / self.n_cells
            near = self.lower + distinct.astype(np.float64) * step
            edge[inner] = self._first_number(distinct, near)[place]
        return edge

    def _first_number(self, cell: Cells, near: NDArray[np.float64]) -> NDArray[np.float64]:
        """The smallest number in each cell, sought by bisection around `near`."""
        below, above = self._bracket(cell, np.clip(near, self.lower, self.upper))
        while True:
            middle = below + (above - below) / 2.0
            undecided = (below < middle) & (middle < above)
            if not undecided.any():
                return above
            reached = self.cells(middle) >= cell
            above = np.where(undecided & reached, middle, above)
            below = np.where(undecided & ~reached, middle, below)

    def _bracket(
        self, cell: Cells, near: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Numbers ``below < first <= above`` around the first number of each (inner) cell.

        `cells` never decreases, is 0 at `lower` and ``n_cells - 1`` at `upper`. Doubled steps
        away from `near` therefore end on both sides, however large the rounding errors are.
        """
        below = above = near
        step = np.spacing(self.upper - self.lower)
        while (early := self.cells(below) >= cell).any():
            below = np.where(early, np.maximum(below - step, self.lower), below)
            step *= 2.0
        step = np.spacing(self.upper - self.lower)
        while (late := self.cells(above) < cell).any():
            above = np.where(late, np.minimum(above + step, self.upper), above)
            step *= 2.0
        return below, above

    def add_boxes(self, name: str, start: Cells, stop: Cells, boxes: Boxes) -> None:
        lower, upper = np.split(self.edges(np.append(start, stop)), 2)
        if self.integer:
            # Boxes of whole numbers hold both ends; a cell may hold none.
            lower = np.ceil(lower)
            upper = np.maximum(np.where(stop >= self.n_cells, upper, np.ceil(upper) - 1.0), lower)
        boxes.lower[name], boxes.upper[name] = lower, upper


@dataclass(frozen=True)
class ListAxis:
    """A variable with a list of values (levels, or whole numbers), in groups.

    Attributes
    ----------
    starts : tuple of int
        Position in the list at which each cell starts.
    length : int
        Length of the list.
    first : float or None
        First of the whole numbers; None for levels, whose codes are positions.
    """

    starts: tuple[int, ...]
    length: int
    first: float | None

    @property
    def n_cells(self) -> int:
        return len(self.starts)

    @cached_property
    def _cell_of(self) -> Cells:
        return np.searchsorted(np.array(self.starts), np.arange(self.length), side="right") - 1

    def cells(self, values: NDArray[np.generic]) -> Cells:
        return self._cell_of[_positions(values, self.length, self.first)]

    def add_boxes(self, name: str, start: Cells, stop: Cells, boxes: Boxes) -> None:
        bounds = np.array((*self.starts, self.length))
        _add_list_boxes(name, bounds[start], bounds[stop], self.length, self.first, boxes)


def _positions(values: NDArray[np.generic], length: int, first: float | None) -> Cells:
    """Positions of values in a list."""
    if first is None:
        position = values.astype(np.int64, copy=False)
    else:
        # Cut before the cast: a float beyond 64 bits has no whole number.
        place = np.rint(values.astype(np.float64) - first)
        position = np.clip(place, 0, length - 1).astype(np.int64)
    return np.clip(position, 0, length - 1)


def _add_list_boxes(
    name: str, low: Cells, high: Cells, length: int, first: float | None, boxes: Boxes
) -> None:
    """Boxes of the values at positions ``low <= position < high``."""
    if first is None:
        position = np.arange(length)
        boxes.members[name] = (position >= low[:, None]) & (position < high[:, None])
    else:
        boxes.lower[name] = np.asarray(first + low, dtype=np.float64)
        boxes.upper[name] = np.asarray(first + high - 1.0, dtype=np.float64)


def equal_axis(variable: Numeric | Categorical, n_cells: int) -> Axis:
    """Cut one variable into `n_cells` cells (fewer where it has fewer values)."""
    if isinstance(variable, Numeric) and not _is_list(variable):
        return IntervalAxis(variable.lower, variable.upper, n_cells, variable.integer)
    length = _list_length(variable)
    n_cells = min(n_cells, length)
    starts = tuple(-(-index * length // n_cells) for index in range(n_cells))
    first = variable.lower if isinstance(variable, Numeric) else None
    return ListAxis(starts, length, first)


def _is_list(variable: Numeric) -> bool:
    return variable.integer and variable.upper - variable.lower < MAX_WHOLE_NUMBERS


def _list_length(variable: Numeric | Categorical) -> int:
    if isinstance(variable, Categorical):
        return len(variable.levels)
    return int(variable.upper - variable.lower) + 1


def _halve(length: int, depth: int) -> NDArray[np.int64]:
    """Starts of the cells after halving a list `depth` times, the larger half first.

    A cell of one value is not cut; its right half is empty and starts where
    its left half ends.
    """
    bounds = np.array([0, length], dtype=np.int64)
    for _ in range(depth):
        low, high = bounds[:-1], bounds[1:]
        cut = np.stack([low, low + -(-(high - low) // 2)], axis=1)
        bounds = np.append(cut, length)
    return bounds[:-1]


@dataclass(frozen=True)
class _Halving:
    """Repeated halving of one variable; cells at depth j are numbered 0 to 2^j - 1."""

    axis: IntervalAxis | None
    starts: NDArray[np.int64]
    length: int
    first: float | None
    depth: int

    def cells(self, values: NDArray[np.generic]) -> Cells:
        if self.axis is not None:
            return self.axis.cells(values)
        return self._leaf_of[_positions(values, self.length, self.first)]

    @cached_property
    def _leaf_of(self) -> Cells:
        return np.searchsorted(self.starts, np.arange(self.length), side="right") - 1

    def splittable(self, depth: int, cell: Cells) -> NDArray[np.bool_]:
        """Whether the cells of a list at `depth` hold more than one value."""
        low, high = self._span(depth, cell)
        return high - low > 1

    def _span(self, depth: int | NDArray[np.int64], cell: Cells) -> tuple[Cells, Cells]:
        bounds = np.append(self.starts, self.length)
        width = np.int64(1) << (self.depth - np.asarray(depth))
        return bounds[cell * width], bounds[(cell + 1) * width]

    def add_boxes(self, name: str, depth: Cells, cell: Cells, boxes: Boxes) -> None:
        if self.axis is not None:
            width = np.int64(1) << (self.depth - depth)
            self.axis.add_boxes(name, cell * width, (cell + 1) * width, boxes)
        else:
            low, high = self._span(depth, cell)
            _add_list_boxes(name, low, high, self.length, self.first, boxes)


def _halving(variable: Numeric | Categorical, depth: int) -> _Halving:
    if isinstance(variable, Numeric) and not _is_list(variable):
        axis = IntervalAxis(variable.lower, variable.upper, 2**depth, variable.integer)
        return _Halving(axis, np.empty(0, dtype=np.int64), 0, None, depth)
    length = _list_length(variable)
    first = variable.lower if isinstance(variable, Numeric) else None
    starts = _halve(length, depth)
    return _Halving(None, starts, length, first, depth)


def split_order(domain: Domain, variables: tuple[str, ...], max_depth: int) -> tuple[int, ...]:
    """Index of the variable that is split at each depth.

    The relatively widest variable is split: a numeric one after j halvings
    has width 2^-j, a list of L values the share of its largest cell. Ties go
    to the variable that comes first. The order is the same for all nodes of
    one depth, hence public.
    """
    widths, counts, depths = [], [], []
    for name in variables:
        variable = domain[name]
        is_list = isinstance(variable, Categorical) or _is_list(variable)
        counts.append(_list_length(variable) if is_list else None)
        widths.append(1.0)
        depths.append(0)
    order: list[int] = []
    sizes = list(counts)
    while len(order) < max_depth:
        candidates = [
            index
            for index, size in enumerate(sizes)
            if (size is None or size > 1) and depths[index] < MAX_AXIS_DEPTH
        ]
        if not candidates:
            break
        widest = max(candidates, key=lambda index: (widths[index], -index))
        order.append(widest)
        depths[widest] += 1
        size = sizes[widest]
        if size is None:
            widths[widest] /= 2.0
        else:
            sizes[widest] = -(-size // 2)
            total = counts[widest]
            assert total is not None
            widths[widest] = sizes[widest] / total  # type: ignore[operator]
    return tuple(order)


_ONE_CELL = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Paths:
    """Path codes over a domain: one integer of `depth` bits for every record."""

    domain: Domain
    variables: tuple[str, ...]
    max_depth: int = MAX_DEPTH

    def __reduce__(self) -> tuple[object, ...]:
        # Without the tables below, which are large and made again when needed.
        return Paths, (self.domain, self.variables, self.max_depth)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Index of the variable split at each depth."""
        return split_order(self.domain, self.variables, self.max_depth)

    @property
    def depth(self) -> int:
        """Number of bits of a code."""
        return len(self.order)

    @cached_property
    def halvings(self) -> tuple[_Halving, ...]:
        """How each variable is cut."""
        return tuple(
            _halving(self.domain[name], len(splits))
            for name, splits in zip(self.variables, self.splits, strict=True)
        )

    @cached_property
    def splits(self) -> tuple[tuple[int, ...], ...]:
        """Depths at which each variable is split; none for variables that come too late."""
        splits: list[list[int]] = [[] for _ in self.variables]
        for depth, index in enumerate(self.order):
            splits[index].append(depth)
        return tuple(map(tuple, splits))

    def codes(self, records: Records) -> NDArray[np.int64]:
        """Path code of every record: the bits of its cells in split order."""
        cells = (
            halving.cells(records[name]) if splits else _ONE_CELL
            for name, halving, splits in zip(
                self.variables, self.halvings, self.splits, strict=True
            )
        )
        return self.interleave(cells, len(next(iter(records.values()))))

    def interleave(self, cells: Iterable[Cells], n: int) -> NDArray[np.int64]:
        """Merge the bits of per-variable cells into path codes."""
        codes = np.zeros(n, dtype=np.int64)
        for table, cell in zip(self._spread, cells, strict=True):
            if len(table) > 1:
                codes |= table[cell]
        return codes

    @cached_property
    def _spread(self) -> tuple[NDArray[np.int64], ...]:
        """For each variable, the bits of its cell numbers moved to their places."""
        tables = []
        for index in range(len(self.variables)):
            places = [self.depth - 1 - h for h in self.splits[index]]
            table = np.zeros(1, dtype=np.int64)
            for place in reversed(places):  # one more bit: the second half of the table has it
                table = np.concatenate([table, table | (1 << place)])
            tables.append(table)
        return tuple(tables)

    def own_cell(self, index: int, depth: int, prefix: NDArray[np.int64]) -> tuple[int, Cells]:
        """Depth and cell of variable `index` in the nodes `prefix` at `depth`."""
        cell = np.zeros_like(prefix)
        splits = [h for h in self.splits[index] if h < depth]
        for h in splits:
            cell = (cell << 1) | ((prefix >> (depth - 1 - h)) & 1)
        return len(splits), cell

    def splittable(self, depth: int, prefix: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the nodes at `depth` can be split; the others are passed down whole."""
        index = self.order[depth]
        if self.halvings[index].axis is not None:
            return np.ones(len(prefix), dtype=bool)
        own_depth, cell = self.own_cell(index, depth, prefix)
        return self.halvings[index].splittable(own_depth, cell)

    def boxes(self, depth: NDArray[np.int64], prefix: NDArray[np.int64]) -> Boxes:
        """Boxes of nodes given by depth and prefix."""
        boxes = Boxes({}, {}, {})
        full = prefix << (self.depth - depth)
        for index, (name, halving) in enumerate(zip(self.variables, self.halvings, strict=True)):
            _, cell = self.own_cell(index, self.depth, full)
            own_depth = np.searchsorted(np.array(self.splits[index], dtype=np.int64), depth)
            halving.add_boxes(name, own_depth, cell >> (halving.depth - own_depth), boxes)
        return boxes
