"""Where a record lies: cells of one variable, path codes of several, and bins.

PrivTree halves one variable at a time. Midpoints and the order of variables are public, so the path
that a record takes down the tree is a public function of the record: a string of bits, held as one
integer. Everything here depends on the domain alone. `Boxes` describe cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.variables import Categorical, Numeric, Records, Variable

MAX_DEPTH = 32
MAX_AXIS_DEPTH = 16
MAX_WHOLE_NUMBERS = 2**MAX_AXIS_DEPTH

Cells = NDArray[np.int64]


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

    def cells(self, values: NDArray[np.generic]) -> Cells:
        """Cell of every value, numbered upward."""
        inside = np.clip(values.astype(np.float64, copy=False), self.lower, self.upper)
        position = (inside - self.lower) * (self.n_cells / (self.upper - self.lower))
        return np.minimum(position.astype(np.int64), self.n_cells - 1)


@dataclass(frozen=True, eq=False)
class ListAxis:
    """A variable with a list of values (levels, or whole numbers), in groups.

    Attributes
    ----------
    starts : (n_cells,) array
        Position in the list at which each cell starts; one without values starts with the next.
    length : int
        Length of the list.
    first : float or None
        First of the whole numbers; None for levels, whose codes are positions.
    """

    starts: Cells
    length: int
    first: float | None

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.starts)

    @cached_property
    def _cell_of(self) -> Cells:
        return np.searchsorted(self.starts, np.arange(self.length), side="right") - 1

    def cells(self, values: NDArray[np.generic]) -> Cells:
        """Cell of every value, numbered upward."""
        if self.first is None:
            position = values.astype(np.int64, copy=False)
        else:
            # Cut before the cast: a float beyond 64 bits has no whole number.
            place = np.rint(values.astype(np.float64) - self.first)
            position = np.clip(place, 0, self.length - 1).astype(np.int64)
        return self._cell_of[np.clip(position, 0, self.length - 1)]


Axis = IntervalAxis | ListAxis


def list_length(variable: Variable) -> int | None:
    """Number of values of a variable that is a list of values; None of other numbers."""
    if isinstance(variable, Categorical):
        return len(variable.levels)
    is_list = variable.integer and variable.upper - variable.lower < MAX_WHOLE_NUMBERS
    return int(variable.upper - variable.lower) + 1 if is_list else None


def halved_axis(variable: Variable, depth: int) -> Axis:
    """A variable after `depth` halvings; the larger half of a list comes first.

    A cell of one value is not cut; its right half is empty and starts where its left half ends.
    """
    length = list_length(variable)
    if isinstance(variable, Numeric) and length is None:
        return IntervalAxis(variable.lower, variable.upper, 2**depth, variable.integer)
    bounds = np.array([0, length], dtype=np.int64)
    for _ in range(depth):
        low, high = bounds[:-1], bounds[1:]
        cut = np.stack([low, low + -(-(high - low) // 2)], axis=1)
        bounds = np.append(cut, length)  # type: ignore[arg-type]
    first = variable.lower if isinstance(variable, Numeric) else None
    return ListAxis(bounds[:-1], int(bounds[-1]), first)


def split_order(variables: list[Variable], max_depth: int) -> tuple[int, ...]:
    """Index of the variable that is split at each depth.

    The relatively widest variable is split: a numeric one after j halvings
    has width 2^-j, a list of L values the share of its largest cell. Ties go
    to the variable that comes first. The order is the same for all nodes of
    one depth, hence public.
    """
    counts = [list_length(variable) for variable in variables]
    sizes, widths, depths = list(counts), [1.0] * len(counts), [0] * len(counts)
    order: list[int] = []
    while len(order) < max_depth:
        candidates = [
            index
            for index, size in enumerate(sizes)
            if (size is None or size > 1) and depths[index] < MAX_AXIS_DEPTH
        ]
        if not candidates:
            break
        # The first of the widest.
        widest = max(candidates, key=widths.__getitem__)
        order.append(widest)
        depths[widest] += 1
        size, total = sizes[widest], counts[widest]
        if size is None or total is None:
            widths[widest] /= 2.0
        else:
            sizes[widest] = -(-size // 2)
            widths[widest] = -(-size // 2) / total
    return tuple(order)


@dataclass(frozen=True)
class Paths:
    """Path codes over a domain: one integer of `depth` bits for every record."""

    domain: Mapping[str, Variable]
    variables: tuple[str, ...]
    max_depth: int = MAX_DEPTH

    def __reduce__(self) -> tuple[object, ...]:
        # Without the tables below, which are large and made again when needed.
        return Paths, (self.domain, self.variables, self.max_depth)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Index of the variable split at each depth."""
        return split_order([self.domain[name] for name in self.variables], self.max_depth)

    @cached_property
    def depth(self) -> int:
        """Number of bits of a code."""
        return len(self.order)

    @cached_property
    def splits(self) -> tuple[tuple[int, ...], ...]:
        """Depths at which each variable is split; none for variables that come too late."""
        every = range(len(self.variables))
        return tuple(tuple(d for d, own in enumerate(self.order) if own == i) for i in every)

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """How each variable is cut."""
        return tuple(
            halved_axis(self.domain[name], len(splits))
            for name, splits in zip(self.variables, self.splits, strict=True)
        )

    @cached_property
    def _spread(self) -> tuple[Cells, ...]:
        """For each variable, the bits of its cell numbers moved to their places."""
        tables = []
        for splits in self.splits:
            table = np.zeros(1, dtype=np.int64)
            for split in reversed(splits):  # one more bit: the second half of the table has it
                table = np.concatenate([table, table | (1 << (self.depth - 1 - split))])
            tables.append(table)
        return tuple(tables)

    def codes(self, records: Records) -> Cells:
        """Path code of every record: the bits of its cells in split order."""
        codes = np.zeros(len(next(iter(records.values()))), dtype=np.int64)
        for name, axis, table in zip(self.variables, self.axes, self._spread, strict=True):
            if len(table) > 1:
                codes |= table[axis.cells(records[name])]
        return codes

    def own_cell(self, index: int, depth: int, prefix: Cells) -> tuple[int, Cells]:
        """Depth and cell of variable `index` in the nodes `prefix` at `depth`."""
        cell = np.zeros_like(prefix)
        splits = [h for h in self.splits[index] if h < depth]
        for h in splits:
            cell = (cell << 1) | ((prefix >> (depth - 1 - h)) & 1)
        return len(splits), cell

    def splittable(self, depth: int, prefix: Cells) -> NDArray[np.bool_]:
        """Whether the nodes at `depth` can be split; the others are passed down whole.

        Lists can where they have more than one value.
        """
        index = self.order[depth]
        axis = self.axes[index]
        if isinstance(axis, IntervalAxis):
            return np.ones(len(prefix), dtype=bool)
        own_depth, cell = self.own_cell(index, depth, prefix)
        width = 1 << (len(self.splits[index]) - own_depth)
        bounds = np.append(axis.starts, axis.length)
        return np.asarray(bounds[(cell + 1) * width] - bounds[cell * width] > 1)


FIRST_BITS = 16
"""Bits of a code that a table is made for, at most: it finds the bin of most codes at once."""


class Locator(Protocol):
    """The rule of a partition: which bin a record belongs to."""

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        ...

    def locate(self, records: Records) -> Cells:
        """Bin of every record."""
        ...


class Bins:
    """A partition as the kernel knows it: by its rule."""

    def __init__(self, locator: Locator) -> None:
        self.locator = locator


@dataclass(frozen=True, eq=False)
class TreeLocator:
    """Leaves of a binary tree over path codes, in the order of the codes."""

    paths: Paths
    leaf_depth: Cells
    leaf_prefix: Cells

    @property
    def n_bins(self) -> int:
        return len(self.leaf_prefix)

    def locate(self, records: Records) -> Cells:
        return self.locate_codes(self.paths.codes(records))

    def locate_codes(self, codes: Cells) -> Cells:
        """Bin of every path code."""
        shift, table = self._first
        found: Cells = table[codes >> shift]
        rest = np.flatnonzero(found < 0)
        found[rest] = np.searchsorted(self._starts, codes[rest], side="right") - 1
        return found

    @cached_property
    def _starts(self) -> Cells:
        return self.leaf_prefix << (self.paths.depth - self.leaf_depth)

    @cached_property
    def _first(self) -> tuple[int, Cells]:
        """How many bits of a code to drop, and the bin by the others; -1 where they leave it open.

        With a few more bits than bins need, most codes are in one bin.
        """
        depth = self.paths.depth
        bits = min(depth, FIRST_BITS, self.n_bins.bit_length() + 3)
        first = np.arange(2**bits) << (depth - bits)
        low = np.searchsorted(self._starts, first, side="right")
        high = np.searchsorted(self._starts, first + (1 << (depth - bits)), side="left")
        return depth - bits, np.where(low == high, low - 1, -1)


@dataclass(frozen=True, eq=False)
class GridLocator:
    """The product of one-dimensional cuts."""

    variables: tuple[str, ...]
    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells of each variable."""
        return tuple(axis.n_cells for axis in self.axes)

    @property
    def n_bins(self) -> int:
        return math.prod(self.shape)

    def locate(self, records: Records) -> Cells:
        cells = [
            axis.cells(records[name]) for name, axis in zip(self.variables, self.axes, strict=True)
        ]
        return np.ravel_multi_index(tuple(cells), self.shape).astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class TableLocator:
    """Any boxes: a table from the elementary cells between all cuts to bins."""

    n_bins: int
    variables: tuple[str, ...]
    cuts: tuple[NDArray[np.float64], ...]
    table: Cells

    def locate(self, records: Records) -> Cells:
        cells = []
        for name, cut, size in zip(self.variables, self.cuts, self.table.shape, strict=True):
            cell = np.searchsorted(cut, records[name], side="right") - 1
            cells.append(np.clip(cell, 0, size - 1))
        return self.table[tuple(cells)]
