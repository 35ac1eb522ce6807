"""Cells: a record is in one of them, or in none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbinagg.kernel.grid import Floats, Integers
from dpbinagg.kernel.view import Projection, View, misses_nothing
from dpbinagg.public.bins import Bins
from dpbinagg.public.paths import Paths

STEP = 2**14
"""Values that are sorted at once: they fit the cache."""


class Piece:
    """What a question is made of: cells, and maps.

    Attributes
    ----------
    raw : bool
        Whether it looks at more of a record than f.
    projected : bool
        Whether it needs a projection.
    """

    raw = False
    projected = False

    def check(self, projection: Projection | None) -> None:
        """Refuse a question without what is needed."""
        if self.projected and projection is None:
            raise ValueError("what looks at w or r needs a projection")


class Cells(Piece):
    """A public rule that gives every record a cell, from 0 to ``n_cells - 1``, or none: -1."""

    n_cells: int

    def index(self, view: View, projection: Projection | None) -> Integers:
        """Cell of every record, (n,)."""
        raise NotImplementedError

    def counts(self, view: View, projection: Projection | None) -> Integers:
        """Records by cell, (n_cells,)."""
        index = self.index(view, projection)
        return np.bincount(index[index >= 0], minlength=self.n_cells).astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Everyone(Cells):
    """One cell that holds every record."""

    n_cells = 1

    def index(self, view: View, projection: Projection | None) -> Integers:
        return np.zeros(view.n, dtype=np.int64)

    def counts(self, view: View, projection: Projection | None) -> Integers:
        return np.array([view.n], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Completeness(Cells):
    """A cell for the records that miss nothing, and one for those that miss anything."""

    raw = True
    n_cells = 2

    def index(self, view: View, projection: Projection | None) -> Integers:
        kept = misses_nothing(view.records)
        return np.zeros(view.n, dtype=np.int64) if kept is None else 1 - kept.astype(np.int64)


@dataclass(frozen=True, eq=False)
class NumberCells(Cells):
    """Intervals of a raw variable: ``edges[i] < x <= edges[i + 1]``, the outer ones take the rest.

    With `outside`, two more cells take the rest: ``x <= edges[0]``, and what is above the last
    edge. A missing number is in no cell, or in one more, the last, if `missing`.
    """

    raw = True
    name: str
    edges: Floats
    missing: bool = False
    outside: bool = False

    def __post_init__(self) -> None:
        require_edges(self.edges, 2)
        n_cells = len(self.edges) - 1 + 2 * self.outside + self.missing
        object.__setattr__(self, "n_cells", n_cells)

    def index(self, view: View, projection: Projection | None) -> Integers:
        values = np.asarray(view.records[self.name], dtype=np.float64)
        within = len(self.edges) - 1
        index = np.clip(np.searchsorted(self.edges, values, side="left") - 1, 0, within - 1)
        if self.outside:
            index[values <= self.edges[0]] = within
            index[values > self.edges[-1]] = within + 1
        index[np.isnan(values)] = self.n_cells - 1 if self.missing else -1
        return index

    def counts(self, view: View, projection: Projection | None) -> Integers:
        """Sorted values are counted by few searches; each value by one takes five times as long."""
        values = np.asarray(view.records[self.name], dtype=np.float64)
        below = np.zeros(len(self.edges), dtype=np.int64)
        known = 0
        for start in range(0, len(values), STEP):
            # What is missing comes last.
            some = np.sort(values[start : start + STEP])
            below += np.searchsorted(some, self.edges, side="right")
            known += int(np.searchsorted(some, np.inf, side="right"))
        low, high = int(below[0]), known - int(below[-1])
        if not self.outside:
            below[[0, -1]] = 0, known
        rest = [*([low, high] if self.outside else []), len(values) - known]
        counts = np.concatenate([np.diff(below), rest])
        return counts[: self.n_cells]


@dataclass(frozen=True, eq=False)
class LevelCells(Cells):
    """Levels of a raw categorical variable.

    What is no level is in no cell; with `missing` in one more; with `outside` too, codes below -1
    and beyond the levels, which stand for values that nobody declared, are in a cell before it.
    """

    raw = True
    name: str
    n_levels: int
    missing: bool = False
    outside: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_cells", self.n_levels + self.outside + self.missing)

    def index(self, view: View, projection: Projection | None) -> Integers:
        codes = np.asarray(view.records[self.name], dtype=np.int64)
        none = self.n_cells - 1 if self.missing else -1
        strange = self.n_levels if self.outside else none
        levels = (codes >= 0) & (codes < self.n_levels)
        return np.where(levels, codes, np.where(codes == -1, none, strange))


@dataclass(frozen=True, eq=False)
class NormCells(Cells):
    """Cells of the length of "w", "r" or "wr": ``edges[i] <= norm < edges[i + 1]``, the last open.

    Below the first edge a record is in no cell.
    """

    projected = True
    vector: str
    edges: Floats

    def __post_init__(self) -> None:
        require_edges(self.edges, 0)
        if self.vector not in ("w", "r", "wr"):
            raise ValueError("cells of a norm need one of w, r, wr")
        object.__setattr__(self, "n_cells", len(self.edges))

    def check(self, projection: Projection | None) -> None:
        super().check(projection)
        if projection is not None and projection.blocks and self.vector != "wr":
            raise ValueError("with several residuals cells are of the length of w r alone")

    def index(self, view: View, projection: Projection | None) -> Integers:
        assert projection is not None
        norm = view.projected(projection).lengths[self.vector]
        index = np.full(len(norm), -1, dtype=np.int64)
        if not len(self.edges):
            return index
        # Most records are below the first edge.
        far = np.flatnonzero(norm >= self.edges[0])
        index[far] = np.searchsorted(self.edges, norm[far], side="right") - 1
        return index


@dataclass(frozen=True, eq=False)
class BinCells(Cells):
    """Bins of a partition."""

    raw = True
    partition: Bins

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_cells", self.partition.locator.n_bins)

    def index(self, view: View, projection: Projection | None) -> Integers:
        return view.bins(self.partition)


@dataclass(frozen=True, eq=False)
class PrefixCells(Cells):
    """Path codes by their first `bits` bits, below some nodes of one depth: node after node.

    Not a question that anybody may ask: PrivTree alone looks at these counts.
    """

    paths: Paths
    bits: int
    depth: int
    nodes: Integers

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_cells", len(self.nodes) << (self.bits - self.depth))

    def index(self, view: View, projection: Projection | None) -> Integers:
        codes, below = view.path_codes(self.paths), self.bits - self.depth
        prefixes = codes >> (self.paths.depth - self.depth)
        place = np.searchsorted(self.nodes, prefixes)
        place[place == len(self.nodes)] = 0
        digits = (codes >> (self.paths.depth - self.bits)) & ((1 << below) - 1)
        return np.where(self.nodes[place] == prefixes, (place << below) | digits, -1)


def require_edges(edges: Floats, least: int) -> None:
    """Refuse edges that do not ascend."""
    if len(edges) < least or not (np.diff(edges) >= 0.0).all() or np.isnan(edges).any():
        raise ValueError("cells need ascending edges")
