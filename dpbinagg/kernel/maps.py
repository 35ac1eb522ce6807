"""Cells and bounded maps: how a record becomes a vector of whole numbers of norm at most 1.

A cell is a public place: a record is in one of them, or in none. A map is public data, written
once, and says in a line why one record contributes a vector of squared norm at most `norm2`, in
units of ``2^-bits``. The norm is enforced record by record on whole numbers; it does not depend on
bounds, formula, whitening, or on any input being a number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np

from dpbinagg.kernel.view import (
    FACTOR_BITS,
    LINEAR_BITS,
    LONGEST_RUN,
    ONE,
    SHAVED,
    Floats,
    Integers,
    Projection,
    Sums,
    View,
    cut,
    misses_nothing,
    norms,
    row_sums,
    sums_by_cell,
    whole_square,
)
from dpbinagg.public.bins import Bins, Paths

STEP = 2**14
"""Values that are sorted at once: they fit the cache."""


class Piece:
    """What a question is made of: cells, and maps.

    Attributes
    ----------
    raw : bool
        Whether it looks at more of a record than f.
    projected : bool
        Whether it looks at a vector of the question's projection.
    vector : {"w", "r", "wr"}
        Which one.
    """

    raw = False
    projected = False
    vector: str

    def check(self, projection: Projection | None) -> None:
        """Refuse a question without what is needed."""
        if self.projected and projection is None:
            raise ValueError("what looks at w or r needs a projection")
        if self.projected and projection is not None and projection.blocks and self.vector != "wr":
            raise ValueError("with several residuals a map or a cell looks at w r alone")


class Cells(Piece):
    """A public rule that gives every record a cell, from 0 to ``n_cells - 1``, or none: -1."""

    n_cells: int

    def index(self, view: View) -> Integers:
        """Cell of every record, (n,)."""
        raise NotImplementedError

    def counts(self, view: View) -> Integers:
        """Records by cell, (n_cells,)."""
        index = self.index(view)
        return np.bincount(index[index >= 0], minlength=self.n_cells).astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Everyone(Cells):
    """One cell that holds every record."""

    n_cells = 1

    def index(self, view: View) -> Integers:
        return np.zeros(view.n, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Completeness(Cells):
    """A cell for the records that miss nothing, and one for those that miss anything."""

    raw = True
    n_cells = 2

    def index(self, view: View) -> Integers:
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

    def counts(self, view: View) -> Integers:
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

    def index(self, view: View) -> Integers:
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

    def counts(self, view: View) -> Integers:
        """Sorted lengths from the first edge on, where few may be, are counted by few searches."""
        norm = view.lengths(view.projection, self.vector)
        far = np.sort(norm[norm >= self.edges[:1].sum()])
        ends = np.append(np.searchsorted(far, self.edges, side="left"), len(far))
        return np.asarray(ends[1:] - ends[:-1])


@dataclass(frozen=True, eq=False)
class BinCells(Cells):
    """Bins of a partition."""

    raw = True
    partition: Bins

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_cells", self.partition.locator.n_bins)

    def index(self, view: View) -> Integers:
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

    def index(self, view: View) -> Integers:
        codes, below = view.path_codes(self.paths), self.bits - self.depth
        if not self.depth:
            return codes >> (self.paths.depth - self.bits)
        prefixes = codes >> (self.paths.depth - self.depth)
        place = np.searchsorted(self.nodes, prefixes)
        place[place == len(self.nodes)] = 0
        digits = (codes >> (self.paths.depth - self.bits)) & ((1 << below) - 1)
        return np.where(self.nodes[place] == prefixes, (place << below) | digits, -1)


def require_edges(edges: Floats, least: int) -> None:
    """Refuse edges that do not ascend."""
    if len(edges) < least or not (np.diff(edges) >= 0.0).all() or np.isnan(edges).any():
        raise ValueError("cells need ascending edges")


UNIT_BITS = 72
"""Entries of all maps are brought to whole multiples of ``2^-UNIT_BITS`` before they are added."""
ROOT_TWO = math.isqrt(2 << 40)
"""Just below ``sqrt(2)``, in units of 2^-20: entries off the diagonal of a symmetric matrix."""
VECTORS = ("w", "wr")


class Map(Piece):
    """A bounded map of a record.

    Attributes
    ----------
    norm2 : Fraction
        Bound on the squared norm of one record's contribution.
    bits : int
        Sums are whole multiples of ``2^-bits`` of a contribution.
    unit : float
        What a contribution of 1 is in units of the answer.
    """

    norm2: Fraction = Fraction(1)
    bits: int = 0
    unit: float = 1.0

    def pieces(self) -> tuple[Piece, ...]:
        """This map, and the cells and the map in it."""
        return (self,)

    def shape(self, k: int) -> tuple[int, ...]:
        """Of the sums and of the answer; k is the number of rows of W."""
        raise NotImplementedError

    def add(self, view: View, sums: Integers) -> None:
        """Add the contributions of some records."""
        raise NotImplementedError

    def whole(self, sums: Sums) -> Sums:
        """Sums as one vector, in units of ``2^-UNIT_BITS`` of a contribution."""
        return np.asarray(sums.ravel() << (UNIT_BITS - self.bits))

    def answer(self, noisy: Floats, k: int) -> Floats:
        """A noisy vector, in units of a contribution, in the units and the shape of the answer."""
        return np.asarray(noisy.reshape(self.shape(k)) * self.unit)

    def n_entries(self, k: int) -> int:
        """Number of entries that are given noise."""
        return len(self.whole(np.zeros(self.shape(k), dtype=np.int64)))

    def scales(self, sd: float, k: int) -> Floats:
        """Standard deviations of the answer, where those of contributions are `sd`."""
        return self.answer(np.full(self.n_entries(k), sd), k)


@dataclass(frozen=True, eq=False)
class OneHot(Map):
    """Records by cell. Norm: a record is in one cell at most and adds 1 there."""

    cells: Cells

    def pieces(self) -> tuple[Piece, ...]:
        return (self, self.cells)

    def shape(self, k: int) -> tuple[int, ...]:
        return (self.cells.n_cells,)

    def add(self, view: View, sums: Integers) -> None:
        sums += self.cells.counts(view)


@dataclass(frozen=True, eq=False)
class Cut(Map):
    """Maps of a vector, which is cut to norm 1 by `view.cut`.

    Attributes
    ----------
    vector : {"w", "wr"}
    limit : float
        What has norm 1.
    power : int
        Answers are in units of ``limit^power``.
    """

    projected = True
    bits = LINEAR_BITS
    power = 0
    vector: str
    limit: float

    def __post_init__(self) -> None:
        if self.vector not in VECTORS:
            raise ValueError(f"a map needs a vector of {', '.join(VECTORS)}")
        require_limit(self.limit)
        object.__setattr__(self, "unit", self.limit**self.power)

    def shape(self, k: int) -> tuple[int, ...]:
        return (k,)


@dataclass(frozen=True, eq=False)
class UnitInside(Cut):
    """A vector cut to norm 1 at `limit`, and how far inside it lies: ``1 - min(1, |v|/limit)^2``.

    Norm: with d the whole vector and ``t = |d|^2 <= 1``, ``t + (1 - t)^2 <= 1``: the second number
    is free. It follows from d, whose squared length is exact, and is cut toward zero.
    """

    def shape(self, k: int) -> tuple[int, ...]:
        return (k + 1,)

    def add(self, view: View, sums: Integers) -> None:
        whole, squares = view.cut(view.projection, self.vector, self.limit, self.bits)
        inside = (4.0**self.bits - squares) * 2.0**-self.bits
        sums[:-1] += row_sums(whole)
        sums[-1] += int(np.trunc(inside, out=inside).sum())

    def answer(self, noisy: Floats, k: int) -> Floats:
        """The vector in its units; then the sum of what lies inside."""
        return np.append(noisy[:k] * self.limit, noisy[k])


@dataclass(frozen=True, eq=False)
class Shares(Cut):
    """Squared lengths of blocks of a vector, cut as a whole: ``|v_b|^2 / max(limit, |v|)^2``.

    Norm: whole numbers q_b, cut toward zero, are not negative and add up to at most 1, which is
    checked, so ``sum q_b^2 <= 1``.

    Attributes
    ----------
    blocks : tuple of int
        Numbers of rows, one block after another: those of the projection.
    """

    power = 2
    blocks: tuple[int, ...]
    beyond: ClassVar[bool] = False

    def check(self, projection: Projection | None) -> None:
        super().check(projection)
        if projection is None or not self.blocks or self.blocks != projection.blocks:
            raise ValueError("shares need the blocks of the projection, which must be all rows")

    def shape(self, k: int) -> tuple[int, ...]:
        return (len(self.blocks),)

    def shares(self, view: View) -> Floats:
        """Whole numbers of every record, (blocks, n)."""
        norm = view.lengths(view.projection, self.vector)
        q = np.stack(view.block_lengths(view.projection))
        if self.beyond:
            far = np.flatnonzero(norm > self.limit)
            q, norm = q[:, far], norm[far]
        with np.errstate(all="ignore"):
            q /= np.maximum(norm, self.limit)
            q *= q
            q *= 2.0**self.bits * SHAVED
            np.trunc(q, out=q)
            q[:, ~(q.sum(axis=0) <= 2.0**self.bits)] = 0.0
        return q

    def add(self, view: View, sums: Integers) -> None:
        sums += row_sums(self.shares(view))


@dataclass(frozen=True, eq=False)
class SharesBeyond(Shares):
    """``1{|v| > limit}`` times the shares of blocks in ``|v|^2``. Norm: as `Shares`, of v/|v|."""

    power = 0
    beyond = True


@dataclass(frozen=True, eq=False)
class Direction(Cut):
    """``1{|v| > limit} v/|v|``. Norm: a direction has norm 1; `view.cut` enforces it."""

    def add(self, view: View, sums: Integers) -> None:
        sums += row_sums(
            view.cut(view.projection, self.vector, self.limit, self.bits, beyond=True)[0]
        )


@dataclass(frozen=True, eq=False)
class Outer(Cut):
    """``v v'`` of a vector cut at `limit`, in units of ``v v'``.

    Norm: with whole factors d, ``sum d_i^4 + 2 sum_{i<j} d_i^2 d_j^2 = |d|^4 <= 1``: entries off
    the diagonal count twice, and have ``sqrt(2)`` as their weight.
    """

    bits = 2 * FACTOR_BITS
    power = 2
    beyond: ClassVar[bool] = False

    def shape(self, k: int) -> tuple[int, ...]:
        return (k, k)

    def add(self, view: View, sums: Integers) -> None:
        whole, _ = view.cut(view.projection, self.vector, self.limit, FACTOR_BITS, self.beyond)
        # Seldom is anything beyond.
        if whole.size:
            sums += whole_square(whole)

    def whole(self, sums: Sums) -> Sums:
        upper = np.triu_indices(len(sums), 1)
        diagonal = sums.diagonal() << (UNIT_BITS - self.bits)
        pairs = sums[upper] * (ROOT_TWO << (UNIT_BITS - self.bits - 20))
        return np.concatenate([diagonal, pairs])

    def answer(self, noisy: Floats, k: int) -> Floats:
        matrix = np.zeros((k, k))
        matrix[np.triu_indices(k, 1)] = noisy[k:] / (ROOT_TWO * 2.0**-20)
        matrix = matrix + matrix.T
        matrix[np.arange(k), np.arange(k)] = noisy[:k]
        return matrix * self.unit


@dataclass(frozen=True, eq=False)
class OuterBeyond(Outer):
    """``1{|v| > limit} v v'/|v|^2``. Norm: as `Outer`, of a direction."""

    power = 0
    beyond = True


def require_limit(*limits: float) -> None:
    """Refuse limits that are no positive numbers with finite squares and inverses."""
    with np.errstate(all="ignore"):
        squares = np.square(np.asarray(limits, dtype=np.float64))
        fit = np.isfinite(squares) & np.isfinite(1.0 / squares) & (np.asarray(limits) > 0.0)
    if not fit.all():
        raise ValueError("a request needs positive, finite limits with finite inverses")


@dataclass(frozen=True, eq=False)
class Deviations(Piece):
    """Deviations of columns, or of the response, from their bin's centre; cut to norm 1 together.

    ``(z_j - centre_kj) / unit_kj`` for the bin k of a record, each cut to [-1, 1], what is not a
    number to 1; then all together at `limit`. Norm: `view.cut`. In answers the unit of column j is
    `limit`: multiply by ``unit_kj``. What a `Tensor` with the same partition adds up.

    Attributes
    ----------
    partition : Bins
    columns : tuple of int
        Design columns; -1 is the response.
    centre, unit_of : (K, q) arrays
        Units of 0 leave a deviation out.
    limit : float
    """

    raw = True
    partition: Bins
    columns: tuple[int, ...]
    centre: Floats
    unit_of: Floats
    limit: float

    def __post_init__(self) -> None:
        require_limit(self.limit)
        shape = (self.partition.locator.n_bins, len(self.columns))
        if self.centre.shape != shape or self.unit_of.shape != shape:
            raise ValueError("deviations need a centre and a unit for every bin and column")

    def vectors(self, view: View) -> Floats:
        """Contributions, (q, n)."""
        bins = view.bins(self.partition)
        columns, response = view.mapped[:2]
        scaled = view.room(("deviations", self.columns), len(self.columns), view.n)
        for row, j, centre, unit in zip(
            scaled, self.columns, self.centre.T, self.unit_of.T, strict=True
        ):
            with np.errstate(all="ignore"):
                inverse = np.where(unit > 0.0, 1.0 / unit, 0.0)
                values = response if j < 0 else columns[:, j]
                np.subtract(values, per_record(centre, bins), out=row)
                row *= per_record(inverse, bins)
            np.fmax(np.fmin(row, 1.0, out=row), -1.0, out=row)
        norm = norms(scaled, view.room("spare", *scaled.shape))
        cut([(scaled, np.ones(view.n))], norm, self.limit, LINEAR_BITS, scaled)
        return scaled


def per_record(by_bin: Floats, bins: Integers) -> Floats | float:
    """What the bin of every record has, (n,); one number where all bins have the same."""
    first = float(by_bin[0])
    return first if (by_bin == first).all() else np.take(by_bin, bins)


@dataclass(frozen=True, eq=False)
class Tensor(Map):
    """Sums by bin of deviations. Norm: that of the deviations, in one bin at most."""

    bits = LINEAR_BITS
    cells: BinCells
    inner: Deviations

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.inner.limit)

    def pieces(self) -> tuple[Piece, ...]:
        return (self, self.cells, self.inner)

    def shape(self, k: int) -> tuple[int, ...]:
        return (self.cells.n_cells, len(self.inner.columns))

    def add(self, view: View, sums: Integers) -> None:
        sums += sums_by_cell(self.inner.vectors(view), self.cells.index(view), self.cells.n_cells)


@dataclass(frozen=True, eq=False)
class Moments(Map):
    """Structured second moments; the answer is the upper triangle of ``sum g g'``, and below it.

    ``g = (1, nu, codes, rho)``: a vector nu cut to norm 1 at a limit; the one-hot codes of ALL
    levels of factors; and rho, the residual over a reach, cut to [-1, 1]. Released are the count,
    every block, the products of pairs of blocks, ``nu nu'``, and ``rho^2 - 1``. Products within a
    code are zero, squares of a code are the code: neither is released.

    Norm: with B blocks, all of norm at most 1, the count has 1, the blocks have B, pairs have
    ``B (B - 1)/2``. ``|nu nu'| <= 1`` adds 1. With ``t = rho^2``, rho and its centred square have
    ``t + (t - 1)^2 <= 1`` together: the square is free. Hence ``norm2 = 1 + B (B + 1)/2 + 1``,
    less 1 without nu. Entries are products of whole factors: exact, nothing is rounded.

    Attributes
    ----------
    size : int
        Length of nu, the rows of the question's W; 0 leaves it out.
    limit : float
        What of W f has norm 1.
    levels : tuple of int
        Of the factors of the row map.
    reach : float
        Residual that has norm 1.
    """

    projected = True
    bits = 2 * FACTOR_BITS
    size: int
    limit: float
    levels: tuple[int, ...]
    reach: float

    def __post_init__(self) -> None:
        if any(levels < 1 for levels in self.levels):
            raise ValueError("moments need factors with levels")
        require_limit(self.limit, self.reach)
        blocks = (self.size > 0) + len(self.levels) + 1
        norm2 = Fraction(1 + blocks * (blocks + 1) // 2 + (self.size > 0))
        object.__setattr__(self, "norm2", norm2)

    def check(self, projection: Projection | None) -> None:
        if projection is None or projection.blocks:
            raise ValueError("moments need a projection with one residual")
        if self.size not in (0, len(projection.whitening)):
            raise ValueError("moments need a projection with as many rows as their vector, or none")

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each code begins in g, and where they end: the place of rho."""
        return tuple(np.cumsum([1 + self.size, *self.levels]).tolist())

    @cached_property
    def entries(self) -> tuple[Integers, Integers]:
        """Rows and columns of the entries that are released."""
        asked = np.triu(np.ones(self.shape(0), dtype=bool))
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            asked[start:stop, start:stop] = False
        rows, columns = np.nonzero(asked)
        return rows, columns

    def shape(self, k: int) -> tuple[int, ...]:
        return (self.starts[-1] + 1, self.starts[-1] + 1)

    def add(self, view: View, sums: Integers) -> None:
        (f, codes), rows = view.factors, view.rows
        if rows.levels != self.levels:
            raise ValueError("moments need the factors of the row map")
        # The constant, nu, the codes that are written out, and rho, whole.
        starts, inner = self.starts, 1 + self.size
        written = [range(starts[factor], starts[factor + 1]) for factor, _ in rows.written]
        place = np.array([*range(inner), *chain(*written), starts[-1]])
        dense = view.room("dense", len(place), view.n)
        dense[0] = ONE
        if self.size:
            dense[1:inner], _ = view.cut(view.projection, "w", self.limit, FACTOR_BITS)
        dense[inner:-1] = f[rows.n_numbers :]
        rho = view.projected(view.projection).r * (ONE / self.reach)
        np.fmax(np.fmin(rho, ONE, out=rho), -ONE, out=rho)
        np.trunc(rho, out=dense[-1])
        sums[np.ix_(place, place)] += whole_square(dense)
        looked_up = [factor for factor, _ in rows.looked_up]
        for factor in looked_up:
            numbers = np.concatenate([dense[:inner], dense[-1:]])
            others = [j for j in range(len(self.levels)) if j > factor or j not in looked_up]
            self._add_code(factor, others, numbers, codes, sums)

    def _add_code(
        self, factor: int, others: list[int], numbers: Floats, codes: Integers, sums: Integers
    ) -> None:
        """Products of a code with the constant, nu and rho, and with other codes."""
        start, stop = self.starts[factor : factor + 2]
        for run in range(0, numbers.shape[1], LONGEST_RUN):
            some = slice(run, run + LONGEST_RUN)
            # Products with the code, which is ONE at its level.
            with_code = sums_by_cell(numbers[:, some] * ONE, codes[factor, some], stop - start)
            sums[: 1 + self.size, start:stop] += with_code.T[:-1]
            sums[start:stop, -1] += with_code[:, -1]
        for one, two in (sorted((factor, other)) for other in others):
            shape = self.levels[one], self.levels[two]
            pair = codes[one] * shape[1] + codes[two]
            counts = np.bincount(pair, minlength=math.prod(shape)).reshape(shape)
            low, high = self.starts[one], self.starts[two]
            sums[low : low + shape[0], high : high + shape[1]] += counts * 2**self.bits

    def whole(self, sums: Sums) -> Sums:
        """Released entries, the square of rho less the count."""
        matrix = sums.copy()
        matrix[-1, -1] -= sums[0, 0]
        return np.asarray(matrix[self.entries] << (UNIT_BITS - self.bits))

    def answer(self, noisy: Floats, k: int) -> Floats:
        """Released entries in their places above the diagonal; below it the same."""
        upper = np.zeros(self.shape(k))
        upper[self.entries] = noisy
        return np.asarray(upper + np.triu(upper, 1).T)
