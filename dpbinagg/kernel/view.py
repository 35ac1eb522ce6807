"""Some records as a question sees them, in arithmetic that is exact.

What a map looks at depends on one record and on public facts, to the last bit: only elementwise
functions and exact products are used, so that it does not matter which records are beside it. Sums
are of whole numbers, so that neither order nor blocks nor threads show: in double precision where
all partial sums stay below 2^53, in 64 bits where they stay below 2^63, and as Python's integers
beyond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.bins import Bins, Paths, TreeLocator
from dpbinagg.public.variables import Records

Floats = NDArray[np.float64]

FACTOR_BITS = 20
"""Scaled columns are whole multiples of ``2^-FACTOR_BITS``: fine against any noise, and products of
two of them add up without error in double precision, `LONGEST_RUN` records at a time."""
REQUEST_BITS, PROJECTION_BITS = 24, 33
"""Bits of the numbers of a request, and of these and the number of columns together.

With the 20 bits of a factor projections are then exact in double precision, in any order.
"""


def on_grid(array: Floats) -> Floats:
    """Round to so many bits below the largest entry that projections on rows are exact."""
    largest = float(np.abs(array).max(initial=0.0))
    if not math.isfinite(largest * array.shape[-1]):
        raise ValueError("a request needs finite numbers")
    if largest == 0.0:
        return np.zeros_like(array)
    bits = min(REQUEST_BITS, PROJECTION_BITS - math.ceil(math.log2(array.shape[-1])))
    step = 2.0 ** (math.ceil(math.log2(largest)) - bits)
    return np.asarray(np.rint(array / step) * step)


Integers = NDArray[np.int64]
Sums = NDArray[Any]
"""Whole numbers, of 64 bits or Python's own."""
BlockSums = tuple[int, list[Integers]]
"""The number of records of a block, and its sums."""

LINEAR_BITS = 26
"""Cut vectors that are summed are whole multiples of ``2^-LINEAR_BITS``: their squared norms, at
most 2^52, are exact in double precision."""
MOST_RECORDS = 2**22
"""Records of one block: their contributions, at most ``2^(2 FACTOR_BITS)`` each, add up within 64
bits."""
LONGEST_RUN: int = 2 ** (52 - 2 * FACTOR_BITS)
"""Rows of one product of matrices: so many products of factors add up without error in double
precision."""
VECTOR_PRODUCT, MATRIX_PRODUCT = 2**13, 2**18
"""Multiplications of one product. Larger ones BLAS hands to threads of its own, which afterwards
spin for a while on cores that we need."""
SHAVED = 1.0 - 2.0**-40
TILE = 42
"""Rows of a tile: with 82 rows, products of tiles take a third of the time of one of all."""


Vectors = Sequence[tuple[Floats, Floats]]
"""Rows of vectors, (k, n), and what they are multiplied by, (n,); one below the other."""


def cut(vectors: Vectors, norm: Floats, limit: float, bits: int, out: Floats) -> Floats:
    """Write vectors, cut to norm 1 and toward zero, as whole multiples of ``2^-bits``.

    Column i becomes ``trunc(2^bits (1 - 2^-40) v_i / max(limit, |v_i|))``; the factor in brackets
    outweighs rounding. Whatever the input: a column whose squared norm, of whole numbers and
    therefore exact, is not at most ``2^(2 bits)`` is set to zero, so is one that is not a number.

    Parameters
    ----------
    vectors : sequence of ((k, n) array, (n,) array)
    norm : (n,) array
        Their lengths, as computed.
    limit : float
        What has norm 1.
    bits : int
        At most `LINEAR_BITS`.
    out : (k, n) array

    Returns
    -------
    (n,) array
        Squared norms of what was written, whole.
    """
    start = 0
    with np.errstate(all="ignore"):
        scale = (2.0**bits * SHAVED) / np.maximum(norm, limit)
        for rows, factor in vectors:
            stop = start + len(rows)
            np.multiply(rows, factor * scale, out=out[start:stop])
            start = stop
        np.trunc(out, out=out)
        squares = np.einsum("ij,ij->j", out, out)
        fit = squares <= 4.0**bits
    if not fit.all():
        out[:, ~fit] = 0.0
        squares[~fit] = 0.0
    return np.asarray(squares)


def norms(vectors: Floats, room: Floats) -> Floats:
    """Lengths of the columns; squares, for which there is room, are added row by row."""
    with np.errstate(all="ignore"):
        np.multiply(vectors, vectors, out=room)
        total = room[0].copy()
        for row in room[1:]:
            total += row
        return np.asarray(np.sqrt(total, out=total))


def row_sums(whole: Floats) -> Integers:
    """Sums of the rows of whole numbers below 2^27, of at most 2^26 records."""
    return np.asarray(whole.sum(axis=1).astype(np.int64))


def sums_by_cell(whole: Floats, cells: Integers, n_cells: int) -> Integers:
    """Sums of rows of whole numbers below 2^27 by cell, (n_cells, rows); -1 is no cell."""
    inside = cells >= 0
    if not inside.all():
        whole, cells = whole[:, inside], cells[inside]
    by_row = [np.bincount(cells, weights=row, minlength=n_cells) for row in whole]
    return np.asarray(np.array(by_row).T.astype(np.int64))


def in_runs(f: Floats, length: int) -> tuple[Floats, Floats]:
    """The columns of f as a stack of runs, (runs, m, length), and those that are left."""
    left = f.shape[1] - f.shape[1] % length
    return f[:, :left].reshape(len(f), -1, length).transpose(1, 0, 2), f[:, left:]


def run_length(rows: int, others: int) -> int:
    """Records of one product of matrices with so many rows: a power of two."""
    limit = VECTOR_PRODUCT if min(rows, others) == 1 else MATRIX_PRODUCT
    return min(LONGEST_RUN, 1 << max((limit // (rows * others)).bit_length() - 1, 0))


def put_combinations(matrix: Floats, f: Floats, result: Floats) -> None:
    """Write ``matrix @ f``, run by run; exact where the matrix is `on_grid` and f whole."""
    length = run_length(*matrix.shape)
    runs, rest = in_runs(f, length)
    result_runs, result_rest = in_runs(result, length)
    np.matmul(matrix, runs, out=result_runs)
    np.matmul(matrix, rest, out=result_rest)


def whole_product(one: Floats, other: Floats) -> Integers:
    """``one @ other.T`` of whole factors, summed over records without error.

    Products of whole factors are whole; those of `LONGEST_RUN` records, for which all
    partial sums stay below 2^53, are added up in double precision.
    """
    length = run_length(len(one), len(other))
    (runs, rest), (other_runs, other_rest) = in_runs(one, length), in_runs(other, length)
    products = np.matmul(runs, other_runs.transpose(0, 2, 1))
    total = (rest @ other_rest.T).astype(np.int64)
    for start in range(0, len(products), LONGEST_RUN // length):
        some = products[start : start + LONGEST_RUN // length]
        total += some.sum(axis=0).astype(np.int64)
    return np.asarray(total)


def whole_square(f: Floats) -> Integers:
    """``f @ f.T`` of whole factors, summed over records without error.

    With many rows the runs of one product would be short, and what they are summed from large:
    rows are taken in tiles, and the product of two tiles serves on both sides of the diagonal.
    """
    tiles = [slice(start, start + TILE) for start in range(0, len(f), TILE)]
    square = np.empty((len(f), len(f)), dtype=np.int64)
    for i, one in enumerate(tiles):
        for other in tiles[i:]:
            square[one, other] = whole_product(f[one], f[other])
            square[other, one] = square[one, other].T
    return square


def add_up(zeros: Sequence[Integers], blocks: Iterable[BlockSums]) -> list[Sums]:
    """Add up the sums of blocks, in 64 bits up to `MOST_RECORDS` records and then as integers.

    Parameters
    ----------
    zeros : list of arrays
        Sums over no record.
    blocks : iterable of (records, sums)
        Of at most `MOST_RECORDS` records each.
    """
    small: list[Sums] = [zero.copy() for zero in zeros]
    large: list[Sums] = []
    records = 0
    for n, block in blocks:
        if records + n > MOST_RECORDS:
            whole = [part.astype(object) for part in small]
            large = [a + b for a, b in zip(large, whole, strict=True)] if large else whole
            small, records = [zero.copy() for zero in zeros], 0
        records += n
        for total, part in zip(small, block, strict=True):
            total += part
    return [a + b for a, b in zip(large, small, strict=True)] if large else small


ONE = 2.0**FACTOR_BITS

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


FEW_LEVELS = 8
"""Codes of so many levels are cheaper written out, for one product, than looked up."""


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
    varying : array of int
        Columns that are not constant.
    n_numbers : int
        Number of numbers (1, z*, y*).
    size : int
        Length of f.
    dense : array of int
        Places in f of the numbers, and of the codes that are written out.
    written, looked_up : tuple of (int, slice)
        Factors of few levels, whose codes are written out, and the others; and their places in f.
    """

    row_map: RowMap
    centre: Floats
    scale: Floats
    centre_y: float
    scale_y: float
    levels: tuple[int, ...] = ()
    varying: NDArray[np.intp] = field(init=False)
    n_numbers: int = field(init=False)
    size: int = field(init=False)
    dense: NDArray[np.intp] = field(init=False)
    written: tuple[tuple[int, slice], ...] = field(init=False)
    looked_up: tuple[tuple[int, slice], ...] = field(init=False)

    def __post_init__(self) -> None:
        varying = np.flatnonzero(self.scale)
        ends = np.cumsum([len(varying) + 1, *self.levels]).tolist()
        places = [(j, slice(*pair)) for j, pair in enumerate(pairwise(ends))]
        few = [one for one in places if self.levels[one[0]] <= FEW_LEVELS]
        codes = [range(place.start, place.stop) for _, place in few]
        object.__setattr__(self, "varying", varying)
        object.__setattr__(self, "n_numbers", len(varying) + 2)
        object.__setattr__(self, "size", ends[-1] + 1)
        object.__setattr__(self, "dense", np.r_[(range(ends[0]), ends[-1], *codes)])
        object.__setattr__(self, "written", tuple(few))
        object.__setattr__(self, "looked_up", tuple(one for one in places if one not in few))

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
            np.rint(row, out=row)


@dataclass(frozen=True, eq=False)
class Projection:
    """Public numbers of a question: ``w = W f``, and ``r = centre_y + scale_y y* - b'f``.

    Attributes
    ----------
    whitening : (k, m) array
        W; rounded so that products with f are exact.
    coefficients : (m,) array, or (B, m) array
        b, in units of the response; rounded likewise. One for each block of rows of W where there
        are blocks.
    centre_y, scale_y : float
        Of the response.
    blocks : tuple of int
        Numbers of rows of W, one block after another, each with a residual of its own: several
        models at once, whose contributions ``w r / unit`` are one vector. Empty where there is one
        residual.
    units : tuple of float
        Of the blocks.
    parts : tuple of Projection
        The blocks, or this projection itself.
    keys : (bytes, bytes)
        Of W; of b and what else r is made of. What is alike records are asked for once.
    """

    whitening: Floats
    coefficients: Floats
    centre_y: float
    scale_y: float
    blocks: tuple[int, ...] = ()
    units: tuple[float, ...] = ()
    parts: tuple[Projection, ...] = field(init=False)
    keys: tuple[bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        whitening, coefficients = np.asarray(self.whitening), np.asarray(self.coefficients)
        residuals = (len(self.blocks),) if self.blocks else ()
        if (*residuals, *whitening.shape[1:]) != coefficients.shape:
            raise ValueError("a projection needs as many coefficients as columns of its whitening")
        if self.blocks and (min(self.blocks) < 1 or sum(self.blocks) != len(whitening)):
            raise ValueError("the blocks of a projection must be all rows of its whitening")
        units = self.units or (1.0,) * max(len(self.blocks), 1)
        numbers = np.array([*units, self.centre_y, self.scale_y])
        if len(units) != max(len(self.blocks), 1) or not np.isfinite(numbers).all():
            raise ValueError("a projection needs finite numbers, and a unit for every block")
        parts: tuple[Projection, ...] = (self,)
        if self.blocks:
            pieces = np.split(whitening, np.cumsum(self.blocks)[:-1])
            scale = self.centre_y, self.scale_y
            parts = tuple(
                Projection(*pair, *scale) for pair in zip(pieces, coefficients, strict=True)
            )
            whitening = np.concatenate([part.whitening for part in parts])
            coefficients = np.stack([part.coefficients for part in parts])
        else:
            whitening, coefficients = on_grid(whitening), on_grid(coefficients)
        for name, value in (
            ("whitening", whitening),
            ("coefficients", coefficients),
            ("units", units),
            ("parts", parts),
            ("keys", (whitening.tobytes(), coefficients.tobytes() + numbers.tobytes())),
        ):
            object.__setattr__(self, name, value)


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


class Mapped(NamedTuple):
    """What the row map gave for the records that it is defined for, and which these are."""

    columns: Floats
    response: Floats
    codes: Integers
    kept: NDArray[np.bool_] | None


class Projected(NamedTuple):
    """w, (k, n); r, (n,)."""

    w: Floats
    r: Floats


class View:
    """What maps may look at, for some records; each is computed once.

    Parameters
    ----------
    part : Part
    rows : Rows, optional
    rooms : dict
        Room for the numbers of one chunk of records after another.

    Attributes
    ----------
    projection : Projection
        Of the question that looks, if it has one.
    """

    projection: Projection

    def __init__(self, part: Part, rows: Rows | None, rooms: dict[object, Floats]) -> None:
        self._part, self._rows, self._rooms = part, rows, rooms
        self._held: dict[object, Any] = {}

    @property
    def rows(self) -> Rows:
        """The row map."""
        assert self._rows is not None
        return self._rows

    def room(self, key: object, rows: int, n: int) -> Floats:
        """An array of shape (rows, n) whose content is not defined."""
        held = self._rooms.get(key)
        if held is None or held.size < rows * n:
            held = self._rooms[key] = np.empty(rows * n)
        return held[: rows * n].reshape(rows, n)

    @cached_property
    def mapped(self) -> Mapped:
        """Columns, response and codes, without the records that are missing."""
        assert self._part.records is not None
        columns, response, codes = self.rows.row_map(self._part.records)
        missing = np.isnan(columns[:, 0]) | np.isnan(response)
        for code, levels in zip(codes, self.rows.levels, strict=True):
            missing |= (code < 0) | (code >= levels)
        if not missing.any():
            return Mapped(columns, response, codes, None)
        kept = ~missing
        return Mapped(columns[kept], response[kept], codes[:, kept], kept)

    @cached_property
    def records(self) -> Records:
        """Raw variables: of the records for which the row map is defined, where there is one."""
        assert self._part.records is not None
        kept = None if self._rows is None else self.mapped.kept
        if kept is None:
            return self._part.records
        return {name: column[kept] for name, column in self._part.records.items()}

    @cached_property
    def n(self) -> int:
        """Number of records."""
        if self._rows in self._part.known:
            return int(self._part.known[self._rows].shape[1])
        if self._rows is not None:
            return len(self.mapped.response)
        return len(next(iter(self.records.values())))

    @cached_property
    def factors(self) -> tuple[Floats, Integers]:
        """(1, z*, y*) and the codes written out, whole in units of ``1/ONE``; all codes."""
        rows, known = self.rows, self._part.known.get(self.rows)
        f = self.room("f", len(rows.dense), self.n)
        numbers = f[1 : rows.n_numbers]
        f[0] = ONE
        if known is not None:
            numbers[:] = known[: len(numbers)]
            codes = np.asarray(known[len(numbers) :], dtype=np.int64)
        else:
            columns, response, codes, _ = self.mapped
            rows.put_factors(columns, response, numbers)
            self._part.found[rows] = numbers if not len(codes) else np.vstack([numbers, codes])
        start = rows.n_numbers
        for factor, place in rows.written:
            for level in range(place.stop - place.start):
                np.multiply(codes[factor] == level, ONE, out=f[start])
                start += 1
        return f, codes

    def projected(self, projection: Projection) -> Projected:
        """w and r of every record, for one residual."""
        self._project((projection,))
        of_w, of_r = projection.keys
        return Projected(self._held["w", of_w], self._held["r", of_r][0])

    def _project(self, parts: Sequence[Projection]) -> None:
        """Hold w and r of some projections, each W and each residual once, by one product."""
        asked = {("w", part.keys[0]): part.whitening for part in parts}
        asked |= {("r", part.keys[1]): part.coefficients[None] for part in parts}
        asked = {key: numbers for key, numbers in asked.items() if key not in self._held}
        if not asked:
            return
        rows, matrix = self.rows, np.concatenate(list(asked.values())) * (1.0 / ONE)
        if matrix.shape[1] != rows.size:
            raise ValueError("a projection must have a column for every entry of f")
        f, codes = self.factors
        found = self.room(tuple(asked), len(matrix), self.n)
        put_combinations(np.ascontiguousarray(matrix[:, rows.dense]), f, found)
        for factor, place in rows.looked_up:
            # Sums of exact numbers of one grid are exact. No code is beyond its levels here, and
            # "clip" saves a buffer.
            added = self.room("spare", len(matrix), self.n)
            np.take(matrix[:, place] * ONE, codes[factor], axis=1, out=added, mode="clip")
            found += added
        ends = np.cumsum([len(numbers) for numbers in asked.values()])[:-1]
        self._held |= zip(asked, np.split(found, ends), strict=True)
        for part in parts:
            if ("r", part.keys[1]) in asked:
                (r,) = self._held["r", part.keys[1]]
                y = f[rows.n_numbers - 1] * (part.scale_y / ONE) + part.centre_y
                np.subtract(y, r, out=r)
                del asked["r", part.keys[1]]

    def lengths(self, projection: Projection, vector: str) -> Floats:
        """Lengths of "w", "r" or "wr"; with blocks of ``w r / unit``, of all of them together."""
        of_w, of_r = projection.keys
        key = {"w": ("|w|", of_w), "r": ("|r|", of_r), "wr": ("|wr|", of_w, of_r)}[vector]
        if key not in self._held:
            if projection.blocks:
                total = np.zeros(self.n)
                for own in self.block_lengths(projection):
                    total += own * own
                self._held[key] = np.sqrt(total, out=total)
            elif vector == "w":
                w = self.projected(projection).w
                self._held[key] = norms(w, self.room("spare", *w.shape))
            elif vector == "r":
                self._held[key] = np.abs(self.projected(projection).r)
            else:
                self._held[key] = self.lengths(projection, "w") * self.lengths(projection, "r")
        held: Floats = self._held[key]
        return held

    def block_lengths(self, projection: Projection) -> list[Floats]:
        """Lengths of ``w r / unit`` of each block."""
        self._project(projection.parts)
        pairs = zip(projection.parts, projection.units, strict=True)
        return [self.lengths(part, "wr") / unit for part, unit in pairs]

    def cut(
        self, projection: Projection, vector: str, limit: float, bits: int, beyond: bool = False
    ) -> tuple[Floats, Floats]:
        """w or w r, cut to norm 1 at `limit`, (k, n), and squared norms: see `cut`.

        With `beyond`, of those that are longer alone: their directions. Held until the next one.
        """
        norm, far = self.lengths(projection, vector), None
        if beyond:
            far = np.flatnonzero(norm > limit)
            norm = norm[far]
        vectors = []
        for part, unit in zip(projection.parts, projection.units, strict=True):
            w, r = self.projected(part)
            factor = r / unit if vector == "wr" else np.ones(self.n)
            vectors.append((w, factor) if far is None else (w[:, far], factor[far]))
        out = self.room("spare", len(projection.whitening), len(norm))
        return out, cut(vectors, norm, limit, bits, out)

    def path_codes(self, paths: Paths) -> Integers:
        """Path codes of the records."""
        if paths not in self._held:
            known: Integers | None = self._part.known.get(paths)
            if known is None:
                assert self._part.records is not None
                known = self._part.found[paths] = paths.codes(self._part.records)
            kept = None if self._rows is None else self.mapped.kept
            self._held[paths] = known if kept is None else np.compress(kept, known)
        held: Integers = self._held[paths]
        return held.astype(np.int64, copy=False)

    def bins(self, partition: Bins) -> Integers:
        """Bin of every record."""
        key = ("bins", id(partition))
        if key not in self._held:
            locator = partition.locator
            self._held[key] = (
                locator.locate_codes(self.path_codes(locator.paths))
                if isinstance(locator, TreeLocator)
                else locator.locate(self.records)
            )
        held: Integers = self._held[key]
        return held
