"""The bounded maps: how a record becomes a vector of whole numbers whose norm is enforced.

Every map is public data, written once, and says in a line why one record contributes a vector of
squared norm at most `norm2`, in units of ``2^-bits``. The norm is enforced record by record on
whole numbers; it does not depend on bounds, formula, whitening, or on any input being a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from dpbinagg.kernel.cells import Cells
from dpbinagg.kernel.grid import (
    LINEAR_BITS,
    Floats,
    Integers,
    Sums,
    cut,
    norms,
    row_sums,
    sums_by_cell,
    whole_square,
)
from dpbinagg.kernel.view import Projection, View
from dpbinagg.public.grid import FACTOR_BITS
from dpbinagg.public.partition import Partition

UNIT_BITS = 72
"""Entries of all maps are brought to whole multiples of ``2^-UNIT_BITS`` before they are added."""
ROOT_TWO = math.isqrt(2 << 40)
"""Just below ``sqrt(2)``, in units of 2^-20: entries off the diagonal of a symmetric matrix."""
VECTORS = ("w", "wr")


class Map(Protocol):
    """A bounded map of a record."""

    kind: ClassVar[str]

    @property
    def raw(self) -> bool:
        """Whether it looks at more of a record than f."""
        ...

    @property
    def cut_by(self) -> Partition | None:
        """The partition whose bins it needs."""
        ...

    @property
    def norm2(self) -> Fraction:
        """Bound on the squared norm of one record's contribution."""
        ...

    def check(self, projection: Projection | None) -> None:
        """Refuse public data for which the proof of `norm2` does not hold."""
        ...

    def zeros(self, k: int) -> Integers:
        """Room for sums; k is the number of rows of W."""
        ...

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        """Add the contributions of some records."""
        ...

    def whole(self, sums: Sums) -> Sums:
        """Sums as one vector, in units of ``2^-UNIT_BITS`` of a contribution."""
        ...

    def answer(self, noisy: Floats, k: int) -> Floats:
        """A noisy vector, in units of a contribution, in the units and the shape of the answer."""
        ...

    def scales(self, sd: float, k: int) -> Floats:
        """Standard deviations of the answer, where those of contributions are `sd`."""
        ...


class OfFactors:
    """Maps that look at f alone."""

    @property
    def raw(self) -> bool:
        return False

    @property
    def cut_by(self) -> Partition | None:
        return None


class Counted(OfFactors):
    """Maps whose sums are whole multiples of ``2^-bits`` and answered one by one."""

    bits: int = 0
    unit: float | Floats = 1.0

    def zeros(self, k: int) -> Integers:
        return np.zeros(self.shape(k), dtype=np.int64)

    def shape(self, k: int) -> tuple[int, ...]:
        """Of the sums and of the answer."""
        raise NotImplementedError

    def whole(self, sums: Sums) -> Sums:
        return np.asarray(sums.ravel() << (UNIT_BITS - self.bits))

    def answer(self, noisy: Floats, k: int) -> Floats:
        return np.asarray(noisy.reshape(self.shape(k)) * self.unit)

    def scales(self, sd: float, k: int) -> Floats:
        return np.asarray(np.full(self.shape(k), sd) * self.unit)

    def check(self, projection: Projection | None) -> None:
        """Nothing to refuse."""


@dataclass(frozen=True, eq=False)
class OneHot(Counted):
    """Records by cell. Norm: a record is in one cell at most and adds 1 there."""

    kind: ClassVar[str] = "one_hot"
    cells: Cells

    @property
    def raw(self) -> bool:
        return self.cells.raw

    @property
    def cut_by(self) -> Partition | None:
        return self.cells.cut_by

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    def check(self, projection: Projection | None) -> None:
        self.cells.check(projection)

    def shape(self, k: int) -> tuple[int, ...]:
        return (self.cells.n_cells,)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        sums += self.cells.counts(view, projection)


@dataclass(frozen=True, eq=False)
class Unit(Counted):
    """A vector cut to norm 1 at `limit`; the answer is in units of the vector. Norm: `grid.cut`.

    Attributes
    ----------
    vector : {"w", "wr"}
    limit : float
        T, which has norm 1.
    """

    kind: ClassVar[str] = "unit"
    vector: str
    limit: float

    bits: ClassVar[int] = LINEAR_BITS  # type: ignore[misc]

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    @property
    def unit(self) -> float:  # type: ignore[override]
        return self.limit

    def check(self, projection: Projection | None) -> None:
        require_vector(self.vector, projection)
        require_limit(self.limit)

    def shape(self, k: int) -> tuple[int, ...]:
        return (k,)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        assert projection is not None
        sums += row_sums(view.cut(projection, self.vector, self.limit, self.bits))


@dataclass(frozen=True, eq=False)
class UnitInside(Counted):
    """A vector cut to norm 1 at `limit`, and how far inside it lies: ``1 - min(1, |v|/limit)^2``.

    Norm: with d the whole vector and ``t = |d|^2 <= 1``, ``t + (1 - t)^2 <= 1``: the second number
    is free. It follows from d, whose squared length is exact, and is cut toward zero.
    """

    kind: ClassVar[str] = "unit_inside"
    vector: str
    limit: float

    bits: ClassVar[int] = LINEAR_BITS  # type: ignore[misc]

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    def check(self, projection: Projection | None) -> None:
        require_vector(self.vector, projection)
        require_limit(self.limit)

    def shape(self, k: int) -> tuple[int, ...]:
        return (k + 1,)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        assert projection is not None
        whole = view.cut(projection, self.vector, self.limit, self.bits)
        inside = 1.0 - np.einsum("ij,ij->j", whole, whole) * 4.0**-self.bits
        inside *= 2.0**self.bits
        sums[:-1] += row_sums(whole)
        sums[-1] += int(np.trunc(inside, out=inside).sum())

    def answer(self, noisy: Floats, k: int) -> Floats:
        """The vector in its units; then the sum of what lies inside."""
        return np.append(noisy[:k] * self.limit, noisy[k])

    def scales(self, sd: float, k: int) -> Floats:
        return np.append(np.full(k, sd * self.limit), sd)


@dataclass(frozen=True, eq=False)
class Direction(Counted):
    """``1{|v| > limit} v/|v|``. Norm: a direction has norm 1; `grid.cut` enforces it."""

    kind: ClassVar[str] = "direction"
    vector: str
    limit: float

    bits: ClassVar[int] = LINEAR_BITS  # type: ignore[misc]

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    def check(self, projection: Projection | None) -> None:
        require_vector(self.vector, projection)
        require_limit(self.limit)

    def shape(self, k: int) -> tuple[int, ...]:
        return (k,)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        assert projection is not None
        beyond, norm = far(view, projection, self.vector, self.limit)
        sums += row_sums(cut(beyond, norm, self.limit, self.bits, beyond))


class Symmetric(OfFactors):
    """Maps that answer with a symmetric matrix: entries off the diagonal count twice in a norm."""

    unit: float = 1.0

    def zeros(self, k: int) -> Integers:
        return np.zeros((k, k), dtype=np.int64)

    def whole(self, sums: Sums) -> Sums:
        upper = np.triu_indices(len(sums), 1)
        diagonal = sums.diagonal() << (UNIT_BITS - 2 * FACTOR_BITS)
        pairs = sums[upper] * (ROOT_TWO << (UNIT_BITS - 2 * FACTOR_BITS - 20))
        return np.concatenate([diagonal, pairs])

    def answer(self, noisy: Floats, k: int) -> Floats:
        matrix = np.zeros((k, k))
        matrix[np.triu_indices(k, 1)] = noisy[k:] / (ROOT_TWO * 2.0**-20)
        matrix = matrix + matrix.T
        matrix[np.arange(k), np.arange(k)] = noisy[:k]
        return matrix * self.unit

    def scales(self, sd: float, k: int) -> Floats:
        matrix = np.full((k, k), sd / (ROOT_TWO * 2.0**-20))
        np.fill_diagonal(matrix, sd)
        return matrix * self.unit


@dataclass(frozen=True, eq=False)
class Outer(Symmetric):
    """``v v'`` of a vector cut at `limit`, in units of ``v v'``.

    Norm: with whole factors d, ``sum d_i^4 + 2 sum_{i<j} d_i^2 d_j^2 = |d|^4 <= 1``.
    """

    kind: ClassVar[str] = "outer"
    vector: str
    limit: float

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    @property
    def unit(self) -> float:  # type: ignore[override]
        return self.limit**2

    def check(self, projection: Projection | None) -> None:
        require_vector(self.vector, projection)
        require_limit(self.limit)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        assert projection is not None
        sums += whole_square(view.cut(projection, self.vector, self.limit, FACTOR_BITS))


@dataclass(frozen=True, eq=False)
class OuterBeyond(Symmetric):
    """``1{|v| > limit} v v'/|v|^2``. Norm: as `Outer`, of a direction."""

    kind: ClassVar[str] = "outer_beyond"
    vector: str
    limit: float

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    def check(self, projection: Projection | None) -> None:
        require_vector(self.vector, projection)
        require_limit(self.limit)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        assert projection is not None
        beyond, norm = far(view, projection, self.vector, self.limit)
        sums += whole_square(cut(beyond, norm, self.limit, FACTOR_BITS, beyond))


def far(view: View, projection: Projection, vector: str, limit: float) -> tuple[Floats, Floats]:
    """The vectors longer than `limit`, (k, few), and their lengths."""
    norm = view.norm(projection, vector)
    index = np.flatnonzero(norm > limit)
    beyond: Floats = view.w(projection)[:, index]
    if vector == "wr":
        beyond *= view.residual(projection)[index]
    return beyond, norm[index]


def require_vector(vector: str, projection: Projection | None) -> None:
    """Refuse a vector that is not of the closed set, or lacks its projection."""
    if vector not in VECTORS or projection is None:
        raise ValueError(f"a map needs a projection and a vector of {', '.join(VECTORS)}")


def require_limit(*limits: float) -> None:
    """Refuse limits that are no positive numbers with finite squares and inverses."""
    with np.errstate(all="ignore"):
        squares = np.square(np.asarray(limits, dtype=np.float64))
        fit = np.isfinite(squares) & np.isfinite(1.0 / squares) & (np.asarray(limits) > 0.0)
    if not fit.all():
        raise ValueError("a request needs positive, finite limits with finite inverses")


@dataclass(frozen=True, eq=False)
class Interval(Counted):
    """A raw number, moved from [lower, upper] to [0, 1] and cut. Norm: at most 1, not below 0.

    The answer is in units of ``upper - lower``: a sum of ``x - lower``. What is missing adds 0.
    """

    kind: ClassVar[str] = "interval"
    name: str
    lower: float
    upper: float

    @property
    def raw(self) -> bool:
        return True

    bits: ClassVar[int] = LINEAR_BITS  # type: ignore[misc]

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    @property
    def unit(self) -> float:  # type: ignore[override]
        return self.upper - self.lower

    def check(self, projection: Projection | None) -> None:
        require_limit(self.upper - self.lower)

    def shape(self, k: int) -> tuple[int, ...]:
        return (1,)

    def vectors(self, view: View, projection: Projection | None) -> Floats:
        """Contributions, (1, n)."""
        with np.errstate(all="ignore"):
            value = np.asarray(view.records[self.name], dtype=np.float64) - self.lower
            value /= self.upper - self.lower
            np.fmax(np.fmin(value, 1.0, out=value), 0.0, out=value)
            value[np.isnan(view.records[self.name])] = 0.0
            value *= 2.0**LINEAR_BITS
        return np.trunc(value, out=value)[None, :]

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        sums += row_sums(self.vectors(view, projection))


@dataclass(frozen=True, eq=False)
class Deviations(Counted):
    """Deviations of columns, or of the response, from their bin's centre; cut to norm 1 together.

    ``(z_j - centre_kj) / unit_kj`` for the bin k of a record, each cut to [-1, 1], what is not a
    number to 1; then all together at `limit`. Norm: `grid.cut`. In answers the unit of column j is
    `limit`: multiply by ``unit_kj``. Only within a `Tensor` with the same partition.

    Attributes
    ----------
    partition : Partition
    columns : tuple of int
        Design columns; -1 is the response.
    centre, unit_of : (K, q) arrays
        Units of 0 leave a deviation out.
    limit : float
    """

    kind: ClassVar[str] = "deviations"
    partition: Partition
    columns: tuple[int, ...]
    centre: Floats
    unit_of: Floats
    limit: float

    @property
    def raw(self) -> bool:
        return True

    @property
    def cut_by(self) -> Partition | None:
        return self.partition

    bits: ClassVar[int] = LINEAR_BITS  # type: ignore[misc]

    @property
    def norm2(self) -> Fraction:
        return Fraction(1)

    @property
    def unit(self) -> float:  # type: ignore[override]
        return self.limit

    def check(self, projection: Projection | None) -> None:
        require_limit(self.limit)
        shape = (self.partition.n_bins, len(self.columns))
        if self.centre.shape != shape or self.unit_of.shape != shape:
            raise ValueError("deviations need a centre and a unit for every bin and column")

    def shape(self, k: int) -> tuple[int, ...]:
        return (self.centre.shape[1],)

    def vectors(self, view: View, projection: Projection | None) -> Floats:
        """Contributions, (q, n)."""
        bins = view.bins(self.partition)
        columns, response = view.columns
        scaled = view.room(("deviations", self.columns), len(self.columns))
        for row, j, centre, unit in zip(
            scaled, self.columns, self.centre.T, self.unit_of.T, strict=True
        ):
            with np.errstate(all="ignore"):
                inverse = np.where(unit > 0.0, 1.0 / unit, 0.0)
                values = response if j < 0 else columns[:, j]
                np.subtract(values, per_record(centre, bins), out=row)
                row *= per_record(inverse, bins)
            np.fmax(np.fmin(row, 1.0, out=row), -1.0, out=row)
        return cut(scaled, norms(scaled), self.limit, LINEAR_BITS, scaled)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        sums += row_sums(self.vectors(view, projection))


def per_record(by_bin: Floats, bins: Integers) -> Floats | float:
    """What the bin of every record has, (n,); one number where all bins have the same."""
    first = float(by_bin[0])
    return first if (by_bin == first).all() else np.take(by_bin, bins)


@dataclass(frozen=True, eq=False)
class Tensor(Counted):
    """Sums by cell of another map's vectors. Norm: that of the vector, in one cell at most."""

    kind: ClassVar[str] = "tensor"
    cells: Cells
    inner: Unit | Interval | Deviations | OneHot

    @property
    def raw(self) -> bool:
        return self.cells.raw or self.inner.raw

    @property
    def cut_by(self) -> Partition | None:
        return self.cells.cut_by or self.inner.cut_by

    @property
    def bits(self) -> int:  # type: ignore[override]
        return self.inner.bits

    @property
    def unit(self) -> float | Floats:  # type: ignore[override]
        return self.inner.unit

    @property
    def norm2(self) -> Fraction:
        return self.inner.norm2

    def check(self, projection: Projection | None) -> None:
        self.cells.check(projection)
        self.inner.check(projection)

    def shape(self, k: int) -> tuple[int, ...]:
        return (self.cells.n_cells, *self.inner.shape(k))

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        index = self.cells.index(view, projection)
        if isinstance(self.inner, OneHot):
            other = self.inner.cells.index(view, projection)
            both = np.where((index < 0) | (other < 0), -1, index * sums.shape[1] + other)
            sums += np.bincount(both[both >= 0], minlength=sums.size).reshape(sums.shape)
            return
        if isinstance(self.inner, Unit):
            assert projection is not None
            vectors = view.cut(projection, self.inner.vector, self.inner.limit, self.bits)
        else:
            vectors = self.inner.vectors(view, projection)
        sums += sums_by_cell(vectors, index, self.cells.n_cells)
