"""Places of records in a public subdivision, as expressions and small tables.

Engines hold a cell of every variable; a path code would cost them a gather for
each bit. Cells of some first bits, numbered in mixed radix, name the same node
of the tree, and a small table takes the numbers to nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.partition import GridLocator, TreeLocator
from dpbinagg.public.paths import IntervalAxis, ListAxis, Paths

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class CellAxis:
    """How the cell of one variable is found: by arithmetic, or in a table of positions."""

    interval: IntervalAxis | None
    first: float | None
    cell_of: Integers

    @property
    def length(self) -> int:
        """Number of positions."""
        return len(self.cell_of)


def grid_axes(locator: GridLocator) -> list[CellAxis]:
    """The axes of a grid."""
    axes = []
    for axis in locator.axes:
        if isinstance(axis, IntervalAxis):
            axes.append(CellAxis(axis, None, np.empty(0, dtype=np.int64)))
        else:
            assert isinstance(axis, ListAxis)
            first = 0.0 if axis.first is None else axis.first
            cells = axis.cells(first + np.arange(axis.length))
            axes.append(CellAxis(None, axis.first, cells))
    return axes


@dataclass(frozen=True)
class Stage:
    """One look-up on the way to a record's bin.

    Attributes
    ----------
    name : str
        Name of the key column.
    key : expression
    table : mapping of arrays
        From keys to ``_found{level}``.
    found : expression
        The bin where it is decided, else -1 less the row of the next table.
    """

    name: str
    key: Any
    table: dict[str, Integers]
    found: Any


class TreePlaces:
    """Nodes of a tree of halvings, by the cells of the variables."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths

    @cached_property
    def axes(self) -> list[CellAxis]:
        """How cells of the finest subdivision are found."""
        axes = []
        for halving in self.paths.halvings:
            if halving.axis is not None:
                axes.append(CellAxis(halving.axis, None, np.empty(0, dtype=np.int64)))
            else:
                first = 0.0 if halving.first is None else halving.first
                cells = halving.cells(first + np.arange(halving.length))
                axes.append(CellAxis(None, halving.first, cells))
        return axes

    def _own_bits(self, bits: int) -> list[int]:
        """How many of the first `bits` bits belong to each variable."""
        order = self.paths.order[:bits]
        return [order.count(index) for index in range(len(self.paths.variables))]

    def key(self, bits: int) -> Any:
        """Number of the node that the first `bits` bits name."""
        key = nw.lit(0).cast(nw.Int64)
        for index, own in enumerate(self._own_bits(bits)):
            if own:
                finer = self.paths.halvings[index].depth - own
                key = key * 2**own + nw.col(f"_cell{index}") // 2**finer
        return key.cast(nw.Int64)

    def keys(self, prefixes: Integers, bits: int) -> Integers:
        """The numbers of nodes given by their prefixes."""
        keys = np.zeros_like(prefixes)
        for index, own in enumerate(self._own_bits(bits)):
            _, cell = self.paths.own_cell(index, bits, prefixes)
            keys = (keys << own) | cell
        return keys

    def prefixes(self, keys: Integers, bits: int) -> Integers:
        """The prefixes of nodes given by their numbers."""
        own_bits = self._own_bits(bits)
        cells: list[Integers] = []
        for index in reversed(range(len(own_bits))):
            own = own_bits[index]
            finer = self.paths.halvings[index].depth - own
            cells.insert(0, (keys & ((1 << own) - 1)) << finer)
            keys = keys >> own
        codes = self.paths.interleave(cells, len(keys))
        return codes >> (self.paths.depth - bits)

    def _digit(self, start: int, stop: int) -> Any:
        """The bits of a code from `start` to `stop`."""
        digit = nw.lit(0).cast(nw.Int64)
        for h in range(start, stop):
            index = self.paths.order[h]
            finer = self.paths.halvings[index].depth - self.paths.order[: h + 1].count(index)
            digit = digit * 2 + (nw.col(f"_cell{index}") // 2**finer) % 2
        return digit

    def stages(self, locator: TreeLocator) -> Iterator[Stage]:
        """Look-ups that lead to ``_bin``, the first by node, the others by node and digit."""
        tables = locator.tables
        before = 0
        for level, (shift, table) in enumerate(zip(tables.shifts, tables.tables, strict=True)):
            bits = self.paths.depth - shift
            name, found = f"_place{level}", f"_found{level}"
            if level == 0:
                keys = self.keys(np.arange(table.size, dtype=np.int64), bits)
                yield Stage(name, self.key(bits), {name: keys, found: table[0]}, nw.col(found))
            else:
                width = table.shape[1]
                digit = self._digit(before, bits)
                here = (-1 - nw.col("_bin")) * width + digit
                key = nw.when(nw.col("_bin") < 0).then(here).otherwise(nw.lit(-1))
                columns = {name: np.arange(table.size, dtype=np.int64), found: table.ravel()}
                chosen = nw.when(nw.col("_bin") < 0).then(nw.col(found)).otherwise(nw.col("_bin"))
                yield Stage(name, key.cast(nw.Int64), columns, chosen)
            before = bits
