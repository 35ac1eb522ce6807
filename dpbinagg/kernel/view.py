"""Some records as a question sees them: numbers that depend on one record and public facts each.

Only elementwise functions and exact products are used here, so that what a record contributes does
not depend, to the last bit, on which records are beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.kernel.grid import Floats, Integers, cut, norms, put_combinations
from dpbinagg.public.boxes import Records
from dpbinagg.public.grid import FACTOR_BITS, on_grid
from dpbinagg.public.partition import Partition, TreeLocator
from dpbinagg.public.paths import Paths

ONE = 2.0**FACTOR_BITS
MISSING = -(2**31)
"""In place of a factor: the record is missing for the rows."""

RowMap = Callable[[Records], tuple[Floats, Floats, Integers]]
"""Columns (n, p), response (n,) and level codes (F, n) of clean records. One that is missing has
NaN as its response or in its first column, or a negative code. The map must be row-local, and is
handed in: the kernel knows no formula."""


def misses_nothing(records: Records) -> NDArray[np.bool_] | None:
    """Which records have no NaN, no infinity and no negative code; None where all are so."""
    kept = None
    for column in records.values():
        known = np.isfinite(column) if column.dtype.kind == "f" else np.greater_equal(column, 0)
        if not known.all():
            kept = known if kept is None else kept & known
    return kept


def parted(records: Records) -> tuple[Records, Records | None]:
    """The records that miss nothing, and the others, None where there are none."""
    kept = misses_nothing(records)
    if kept is None:
        return records, None
    first, rest = ({k: v[some] for k, v in records.items()} for some in (kept, ~kept))
    return first, rest


def complete(records: Records) -> Records:
    """The records that miss nothing."""
    return parted(records)[0]


@dataclass(frozen=True, eq=False)
class Rows:
    """A row map, and the public scale of what it gives.

    A record becomes ``f = (1, z*, one-hot codes of every factor, y*)`` with ``z* = (z -
    centre)/scale`` and y* likewise, cut to [-1, 1] here, whatever the map gives. Columns of scale 0
    are public constants and left out.

    Attributes
    ----------
    row_map : RowMap
    centre, scale : (p,) arrays
    centre_y, scale_y : float
    levels : tuple of int
        Number of levels of every factor.
    """

    row_map: RowMap
    centre: Floats
    scale: Floats
    centre_y: float
    scale_y: float
    levels: tuple[int, ...] = ()

    @cached_property
    def varying(self) -> NDArray[np.intp]:
        """Columns that are not constant."""
        return np.flatnonzero(self.scale)

    @property
    def n_numbers(self) -> int:
        """Number of rows of the dense part (1, z*, y*)."""
        return len(self.varying) + 2

    @property
    def size(self) -> int:
        """Length of f."""
        return self.n_numbers + sum(self.levels)

    def put_factors(self, columns: Floats, response: Floats, out: Floats) -> None:
        """Write (z*, y*) in whole multiples of ``1/ONE``, rounded, none larger than 1."""
        for row, j in zip(out, (*self.varying, -1), strict=True):
            values, centre, scale = (
                (response, self.centre_y, self.scale_y)
                if j < 0
                else (columns[:, j], self.centre[j], self.scale[j])
            )
            with np.errstate(all="ignore"):
                np.subtract(values, centre, out=row)
                row *= ONE / scale
            # What is not a number becomes 1: `np.clip` would keep it.
            np.fmin(row, ONE, out=row)
            np.fmax(row, -ONE, out=row)
            row += 0.5
            np.floor(row, out=row)


@dataclass(frozen=True, eq=False)
class Projection:
    """Public numbers of a question: ``w = W f``, and ``r = centre_y + scale_y y* - b'f``.

    Attributes
    ----------
    whitening : (k, m) array
        W; rounded so that products with f are exact.
    coefficients : (m,) array
        b, in units of the response; rounded likewise.
    centre_y, scale_y : float
        Of the response.
    """

    whitening: Floats
    coefficients: Floats
    centre_y: float
    scale_y: float

    def __post_init__(self) -> None:
        for name in ("coefficients", "whitening"):
            rounded = on_grid(np.asarray(getattr(self, name), dtype=np.float64))
            object.__setattr__(self, name, rounded)
        if not (np.isfinite(self.centre_y) and np.isfinite(self.scale_y)):
            raise ValueError("a projection needs finite numbers")
        if self.whitening.shape[1:] != self.coefficients.shape:
            raise ValueError("a projection needs as many coefficients as columns of its whitening")

    @cached_property
    def matrix(self) -> Floats:
        """W and b, one below the other, in units of a factor."""
        return np.vstack([self.whitening, self.coefficients]) * (1.0 / ONE)

    def __len__(self) -> int:
        return len(self.whitening)


class Workspace:
    """Room for the numbers of one chunk of records after another."""

    def __init__(self) -> None:
        self._buffers: dict[object, Floats] = {}

    def take(self, key: object, rows: int, n: int) -> Floats:
        """An array of shape (rows, n) whose content is not defined."""
        held = self._buffers.get(key)
        if held is None or held.shape[0] != rows or held.shape[1] < n:
            held = self._buffers[key] = np.empty((rows, n))
        return held[:, :n]


@dataclass
class Part:
    """A chunk of clean records, as an engine hands it to the kernel.

    Attributes
    ----------
    records : Records or None
        None where `known` says all.
    known : dict
        Earlier results by their key: factors and codes by `Rows`, path codes by `Paths`.
    found : dict
        Results that an engine may keep; the same keys.
    """

    records: Records | None
    known: Mapping[object, NDArray[Any]] = field(default_factory=dict)
    found: dict[object, NDArray[Any]] = field(default_factory=dict)


class View:
    """What maps may look at, for some records.

    Parameters
    ----------
    part : Part
    rows : Rows, optional
    room : Workspace
    """

    def __init__(self, part: Part, rows: Rows | None, room: Workspace) -> None:
        self._part, self._rows, self._room = part, rows, room
        self._held: dict[object, Any] = {}

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """What `make` gave for this key before, or gives now."""
        if key not in self._held:
            self._held[key] = make()
        return self._held[key]

    @property
    def rows(self) -> Rows:
        """The row map."""
        assert self._rows is not None
        return self._rows

    @cached_property
    def _mapped(self) -> tuple[Floats, Floats, Integers, NDArray[np.bool_] | None]:
        """Columns, response and codes of the records that are complete, and which these are."""
        assert self._part.records is not None
        columns, response, codes = self.rows.row_map(self._part.records)
        missing = np.isnan(columns[:, 0]) | np.isnan(response)
        for code, levels in zip(codes, self.rows.levels, strict=True):
            missing |= (code < 0) | (code >= levels)
        if not missing.any():
            return columns, response, codes, None
        kept = ~missing
        return columns[kept], response[kept], codes[:, kept], kept

    @cached_property
    def records(self) -> Records:
        """Raw variables: of the records for which the row map is defined, where there is one."""
        assert self._part.records is not None
        kept = None if self._rows is None else self._mapped[3]
        if kept is None:
            return self._part.records
        return {name: column[kept] for name, column in self._part.records.items()}

    @property
    def columns(self) -> tuple[Floats, Floats]:
        """Design columns, (n, p), and response, (n,)."""
        return self._mapped[0], self._mapped[1]

    @cached_property
    def n(self) -> int:
        """Number of records."""
        if self._rows is not None:
            return int(self.f.shape[1])
        return len(next(iter(self.records.values())))

    @cached_property
    def _factors(self) -> tuple[Floats, Integers]:
        """Dense part of f in units of ``1/ONE``, and codes."""
        known, dense = self._part.known.get(self._rows), self.rows.n_numbers
        if known is None:
            columns, response, codes, _ = self._mapped
            f = self._room.take("f", dense, len(response))
            self.rows.put_factors(columns, response, f[1:])
            self._part.found[self._rows] = f[1:] if not len(codes) else np.vstack([f[1:], codes])
        else:
            f = self._room.take("f", dense, known.shape[1])
            f[1:] = known[: dense - 1]
            codes = np.asarray(known[dense - 1 :], dtype=np.int64)
        f[0] = ONE
        return f, codes

    @property
    def f(self) -> Floats:
        """Dense part (1, z*, y*) of f, whole numbers in units of ``1/ONE``, (q + 2, n)."""
        return self._factors[0]

    def codes(self, factor: int) -> Integers:
        """Levels of a factor of the row map, (n,)."""
        codes: Integers = self._factors[1][factor]
        return codes

    def _projected(self, projection: Projection) -> tuple[Floats, Floats]:
        """w and r of every record."""
        k, rows = len(projection), self.rows
        if projection.whitening.shape[1] != rows.size:
            raise ValueError("a projection must have a column for every entry of f")
        both = self._room.take(("projected", id(projection)), k + 1, self.n)
        place = rows.n_numbers - 1
        matrix = projection.matrix
        dense = matrix
        if rows.levels:
            dense = np.ascontiguousarray(np.c_[matrix[:, :place], matrix[:, -1]])
        put_combinations(dense, self.f, both)
        for factor, levels in enumerate(rows.levels):
            # Sums of exact numbers of one grid are exact.
            both += (matrix[:, place : place + levels] * ONE)[:, self.codes(factor)]
            place += levels
        residual = self.f[-1] * (projection.scale_y / ONE) + projection.centre_y
        residual -= both[-1]
        return both[:-1], residual

    def w(self, projection: Projection) -> Floats:
        """``W f``, (k, n)."""
        return np.asarray(self.once(projection, lambda: self._projected(projection))[0])

    def residual(self, projection: Projection) -> Floats:
        """r, (n,)."""
        return np.asarray(self.once(projection, lambda: self._projected(projection))[1])

    def norm(self, projection: Projection, vector: str) -> Floats:
        """Lengths of "w", "r" or "wr", (n,)."""

        def make() -> Floats:
            if vector == "r":
                return np.abs(self.residual(projection))
            if vector == "w":
                return norms(self.w(projection))
            return self.norm(projection, "w") * self.norm(projection, "r")

        return np.asarray(self.once((projection, vector), make))

    def cut(self, projection: Projection, vector: str, limit: float, bits: int) -> Floats:
        """w or w r, cut to norm 1 at `limit`, in whole multiples of ``2^-bits``, (k, n)."""

        def make() -> Floats:
            w, norm = self.w(projection), self.norm(projection, "w")
            out = self._room.take((id(projection), vector, limit, bits), *w.shape)
            if vector == "w":
                return cut(w, norm, limit, bits, out)
            np.multiply(w, self.residual(projection), out=out)
            return cut(out, self.norm(projection, "wr"), limit, bits, out)

        return np.asarray(self.once((projection, vector, limit, bits), make))

    def room(self, key: object, rows: int) -> Floats:
        """Room for some numbers of every record, (rows, n)."""
        return self._room.take(key, rows, self.n)

    def path_codes(self, paths: Paths) -> Integers:
        """Path codes of the records."""

        def make() -> Integers:
            known: Integers | None = self._part.known.get(paths)
            if known is None:
                assert self._part.records is not None
                known = paths.codes(self._part.records)
                self._part.found[paths] = known
            kept = None if self._rows is None else self._mapped[3]
            return known if kept is None else np.compress(kept, known)

        return np.asarray(self.once(paths, make))

    def bins(self, partition: Partition) -> Integers:
        """Bin of every record."""

        def make() -> Integers:
            locator = partition.locator
            if isinstance(locator, TreeLocator):
                codes = self.path_codes(locator.paths)
                return locator.locate_codes(codes.astype(np.int64, copy=False))
            return partition.locate(self.records)

        return np.asarray(self.once(("bins", id(partition)), make))
