"""Cells: a record is in one of them, or in none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from dpbinagg.kernel.grid import Floats, Integers
from dpbinagg.kernel.histogram import histogram
from dpbinagg.kernel.view import Projection, View, misses_nothing
from dpbinagg.public.partition import Partition


class Cells(Protocol):
    """A public rule that gives every record a cell, from 0 to ``n_cells - 1``, or none: -1."""

    kind: ClassVar[str]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        ...

    @property
    def raw(self) -> bool:
        """Whether they look at more of a record than f."""
        ...

    @property
    def cut_by(self) -> Partition | None:
        """The partition whose bins they are."""
        ...

    def check(self, projection: Projection | None) -> None:
        """Refuse public data that do not fit."""
        ...

    def index(self, view: View, projection: Projection | None) -> Integers:
        """Cell of every record, (n,)."""
        ...

    def counts(self, view: View, projection: Projection | None) -> Integers:
        """Records by cell, (n_cells,)."""
        ...


class _Counts:
    """Counts from cells one by one."""

    raw: ClassVar[bool] = False

    @property
    def cut_by(self) -> Partition | None:
        return None

    def check(self, projection: Projection | None) -> None:
        """Nothing to refuse."""

    def counts(self, view: View, projection: Projection | None) -> Integers:
        index = self.index(view, projection)  # type: ignore[attr-defined]
        size = self.n_cells  # type: ignore[attr-defined]
        return np.bincount(index[index >= 0], minlength=size).astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Everyone(_Counts):
    """One cell that holds every record."""

    kind: ClassVar[str] = "everyone"
    n_cells: ClassVar[int] = 1

    def index(self, view: View, projection: Projection | None) -> Integers:
        return np.zeros(view.n, dtype=np.int64)

    def counts(self, view: View, projection: Projection | None) -> Integers:
        return np.array([view.n], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Completeness(_Counts):
    """A cell for the records that miss nothing, and one for those that miss anything."""

    kind: ClassVar[str] = "completeness"
    raw: ClassVar[bool] = True
    n_cells: ClassVar[int] = 2

    def index(self, view: View, projection: Projection | None) -> Integers:
        kept = misses_nothing(view.records)
        return np.zeros(view.n, dtype=np.int64) if kept is None else 1 - kept.astype(np.int64)


@dataclass(frozen=True, eq=False)
class NumberCells(_Counts):
    """Intervals of a raw variable: ``edges[i] < x <= edges[i + 1]``, the outer ones take the rest.

    With `outside`, two more cells take the rest: ``x <= edges[0]``, and what is above the last
    edge. A missing number is in no cell, or in one more, the last, if `missing`.
    """

    kind: ClassVar[str] = "number"
    raw: ClassVar[bool] = True
    name: str
    edges: Floats
    missing: bool = False
    outside: bool = False

    @property
    def n_within(self) -> int:
        """Number of intervals."""
        return len(self.edges) - 1

    @property
    def n_cells(self) -> int:
        return self.n_within + 2 * self.outside + self.missing

    def check(self, projection: Projection | None) -> None:
        require_edges(self.edges, 2)

    def index(self, view: View, projection: Projection | None) -> Integers:
        values = np.asarray(view.records[self.name], dtype=np.float64)
        index = np.searchsorted(self.edges, values, side="left") - 1
        index = np.clip(index, 0, self.n_within - 1)
        if self.outside:
            index[values <= self.edges[0]] = self.n_within
            index[values > self.edges[-1]] = self.n_within + 1
        index[np.isnan(values)] = self.n_cells - 1 if self.missing else -1
        return index

    def counts(self, view: View, projection: Projection | None) -> Integers:
        values = np.asarray(view.records[self.name], dtype=np.float64)
        none = np.isnan(values)
        known = values[~none] if none.any() else values
        counts = np.zeros(self.n_cells, dtype=np.int64)
        counts[: self.n_within] = histogram(known, self.edges)
        if self.outside:
            low, high = int((known <= self.edges[0]).sum()), int((known > self.edges[-1]).sum())
            counts[0] -= low
            counts[self.n_within - 1] -= high
            counts[self.n_within : self.n_within + 2] = low, high
        if self.missing:
            counts[-1] = none.sum()
        return counts


@dataclass(frozen=True, eq=False)
class LevelCells(_Counts):
    """Levels of a raw categorical variable.

    What is no level is in no cell; with `missing` in one more; with `outside` too, codes below -1
    and beyond the levels, which stand for values that nobody declared, are in a cell before it.
    """

    kind: ClassVar[str] = "level"
    raw: ClassVar[bool] = True
    name: str
    n_levels: int
    missing: bool = False
    outside: bool = False

    @property
    def n_cells(self) -> int:
        return self.n_levels + self.outside + self.missing

    def index(self, view: View, projection: Projection | None) -> Integers:
        codes = np.asarray(view.records[self.name], dtype=np.int64)
        none = self.n_cells - 1 if self.missing else -1
        strange = self.n_levels if self.outside else none
        levels = (codes >= 0) & (codes < self.n_levels)
        return np.where(levels, codes, np.where(codes == -1, none, strange))


@dataclass(frozen=True, eq=False)
class FactorCells(_Counts):
    """Levels of a factor of the row map."""

    kind: ClassVar[str] = "factor"
    factor: int
    n_levels: int

    @property
    def n_cells(self) -> int:
        return self.n_levels

    def index(self, view: View, projection: Projection | None) -> Integers:
        codes = view.codes(self.factor)
        return np.where((codes < 0) | (codes >= self.n_levels), -1, codes)


@dataclass(frozen=True, eq=False)
class NormCells(_Counts):
    """Cells of the length of "w", "r" or "wr": ``edges[i] <= norm < edges[i + 1]``, the last open.

    Below the first edge a record is in no cell. With `signed`, for "r" alone, cells for ``r <= 0``
    come first and those for ``r > 0`` after them.
    """

    kind: ClassVar[str] = "norm"
    vector: str
    edges: Floats
    signed: bool = False

    @property
    def n_cells(self) -> int:
        return len(self.edges) * (1 + self.signed)

    def check(self, projection: Projection | None) -> None:
        require_edges(self.edges, 0)
        if projection is None or self.vector not in ("w", "r", "wr"):
            raise ValueError("cells of a norm need a projection and one of w, r, wr")
        if self.signed and self.vector != "r":
            raise ValueError("only cells of r have a sign")

    def index(self, view: View, projection: Projection | None) -> Integers:
        assert projection is not None
        norm = view.norm(projection, self.vector)
        index = np.full(len(norm), -1, dtype=np.int64)
        if not len(self.edges):
            return index
        # Most records are below the first edge.
        far = np.flatnonzero(norm >= self.edges[0])
        index[far] = np.searchsorted(self.edges, norm[far], side="right") - 1
        if self.signed:
            index[far[view.residual(projection)[far] > 0.0]] += len(self.edges)
        return index

    def counts(self, view: View, projection: Projection | None) -> Integers:
        assert projection is not None
        norm = view.norm(projection, self.vector)
        if self.signed or not len(self.edges):
            return super().counts(view, projection)
        # A few comparisons take less time than a search.
        reached = [int(np.count_nonzero(norm >= edge)) for edge in self.edges]
        return -np.diff([*reached, 0])


@dataclass(frozen=True, eq=False)
class BinCells(_Counts):
    """Bins of a partition."""

    kind: ClassVar[str] = "bin"
    raw: ClassVar[bool] = True
    partition: Partition

    @property
    def n_cells(self) -> int:
        return self.partition.n_bins

    @property
    def cut_by(self) -> Partition | None:
        return self.partition

    def index(self, view: View, projection: Projection | None) -> Integers:
        return view.bins(self.partition)


def require_edges(edges: Floats, least: int) -> None:
    """Refuse edges that do not ascend."""
    if len(edges) < least or not (np.diff(edges) >= 0.0).all() or np.isnan(edges).any():
        raise ValueError("cells need ascending edges")
