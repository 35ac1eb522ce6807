"""Which bin of a partition a record belongs to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.paths import Axis, Cells, Paths
from dpbinagg.public.variables import Records

FEW = 4096
"""Codes for which a binary search is faster than tables."""
FIRST_BITS, NEXT_BITS = 16, 6
"""Bits that the first table looks at, and each later one."""


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
        """Bin of every path code: a few bits at a time, by tables."""
        if len(codes) <= FEW:
            return np.searchsorted(self._starts, codes, side="right") - 1
        (shift, table), *rest = self._tables
        found: Cells = table[0][codes >> shift]
        rows: Cells | None = None
        for shift, table in rest:
            open_ = np.flatnonzero(found < 0) if rows is None else rows[found[rows] < 0]
            rows = open_
            digit = (codes[rows] >> shift) & (table.shape[1] - 1)
            found[rows] = table[-1 - found[rows], digit]
        return found

    @cached_property
    def _starts(self) -> Cells:
        return self.leaf_prefix << (self.paths.depth - self.leaf_depth)

    @cached_property
    def _tables(self) -> list[tuple[int, Cells]]:
        """Bits of a code below those that each table looks at, and the table, (nodes, 2^bits).

        It holds the bin where the bits seen so far decide it; otherwise -1 minus the row of the
        next table.
        """
        starts, depth = self._starts, self.paths.depth
        bits = min(depth, FIRST_BITS, math.ceil(math.log2(len(starts) + 1)) + 3)
        nodes = np.zeros(1, dtype=np.int64)
        shift = depth - bits
        tables = []
        while True:
            first = ((nodes[:, None] << bits) | np.arange(2**bits)) << shift
            low = np.searchsorted(starts, first, side="right") - 1
            high = np.searchsorted(starts, first + (1 << shift), side="left") - 1
            undecided = low < high
            table = low.astype(np.int64, copy=False)
            table[undecided] = -1 - np.arange(undecided.sum())
            tables.append((shift, table))
            if not undecided.any():
                return tables
            nodes = first[undecided] >> shift
            bits = min(NEXT_BITS, shift)
            shift -= bits


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
