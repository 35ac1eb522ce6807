"""Exact sums in whole numbers.

Contributions are clipped, scaled and cut to whole multiples of a public grid
before they are summed, so a sum does not depend on the order of records or on
the engine, and one record changes it by no more than the proof says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpbinagg.curator.blocks import BLOCK, CHUNK, chunks
from dpbinagg.curator.privatise import FACTOR_BITS, GRID_BITS
from dpbinagg.public.scaling import BinScaling, ColumnScaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Sums of contributions stay within 64 bits over a block.
assert BLOCK * 2**GRID_BITS < 2**62
assert 2 * FACTOR_BITS <= GRID_BITS
LONGEST_RUN = 2**12
"""Rows of one product of matrices: so many products of factors add up without error in double
precision."""
assert LONGEST_RUN <= 2 ** (53 - 2 * FACTOR_BITS)
VECTOR_PRODUCT, MATRIX_PRODUCT = 2**13, 2**18
"""Multiplications of one product. Larger ones BLAS hands to threads of its own, which afterwards
spin for a while on cores that we need."""
TILE = 42
"""Rows of a tile: with 82 rows, products of tiles take a third of the time of one of all."""


@dataclass(frozen=True, slots=True)
class PackedFactors:
    """Whole factors in three bytes each: ``256 high + low``.

    At most 2^20 in size, they fit into 22 bits; a table that is read in batches
    may have room for three quarters of what 32 bits would take.
    """

    high: NDArray[np.int16]
    low: NDArray[np.uint8]

    BYTES: ClassVar[int] = 3

    @classmethod
    def of(cls, factors: NDArray[np.int32]) -> PackedFactors:
        """Pack factors, (m - 1, n)."""
        return cls((factors >> 8).astype(np.int16), factors.astype(np.uint8))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the factors."""
        return self.high.shape

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, place: Any) -> PackedFactors:
        return PackedFactors(self.high[place], self.low[place])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return ((self.high.astype(np.int32) << 8) | self.low).astype(dtype or np.int32, copy=False)


assert 2 ** (FACTOR_BITS - 8) < 2**15
Factors = NDArray[np.int32] | Floats | PackedFactors


def put_scaled(
    values: Floats, centre: Floats | float, factor: Floats | float, limit: float, out: Floats
) -> None:
    """Write ``(values - centre) * factor``, cut to ``[-limit, limit]``.

    What is not a number becomes `limit`: `np.clip` would keep it, and as a whole number it is
    the lowest one there is. No warning tells of a value.
    """
    with np.errstate(all="ignore"):
        np.subtract(values, centre, out=out)
        out *= factor
    np.fmin(out, limit, out=out)
    np.fmax(out, -limit, out=out)


def per_record(by_bin: Floats, bins: Integers) -> Floats | float:
    """What the bin of every record has, (n,); one number where all bins have the same."""
    first = float(by_bin[0])
    return first if (by_bin == first).all() else np.take(by_bin, bins)


def unit_contributions(
    columns: Floats, response: Floats, bins: Integers, scaling: BinScaling
) -> Floats:
    """Scaled deviations ``(z - centre) / unit`` and ``(y - centre_y) / unit_y``.

    Every deviation is cut to its half-width, what is not a number to the upper
    end, and the columns of a record together to norm `sensitivity_x`. The
    sensitivity is a property of this function, whatever the bounds of the
    design say.

    Returns
    -------
    (p + 1, n) array
        One row for each column, the response last.
    """
    p = columns.shape[1]
    scaled = np.empty((p + 1, len(bins)))
    norm2 = np.zeros(len(bins))
    for j, row in enumerate(scaled):
        if not scaling.inverse_units[j].any():
            # A constant, as the intercept is.
            row[:] = 0.0
            continue
        values = columns[:, j] if j < p else response
        centre, factor = (
            per_record(of[j], bins) for of in (scaling.centres, scaling.inverse_units)
        )
        put_scaled(values, centre, factor, 1.0, row)
        if j < p:
            norm2 += row * row
    limit = scaling.sensitivity_x
    long = np.flatnonzero(norm2 > limit * limit)
    if len(long):
        scaled[:p, long] *= limit / np.sqrt(norm2[long])
    return scaled


def put_contributions(
    columns: Floats, response: Floats, bins: Integers, scaling: BinScaling, out: Integers
) -> None:
    """Write contributions in units of ``2^-GRID_BITS``, a row for each record."""
    scaled = unit_contributions(columns, response, bins, scaling)
    scaled *= 2.0**GRID_BITS
    for column, row in zip(out.T, scaled, strict=True):
        # The cast cuts toward zero: it never lengthens a contribution.
        column[:] = row


def sums_by_bin(contributions: Integers, bins: Integers, n_bins: int) -> Integers:
    """Sum the rows of `contributions` that belong to each bin, (K, columns)."""
    n = len(bins)
    indicator = sparse.csc_array(
        (np.ones(n, dtype=np.int64), bins, np.arange(n + 1)), shape=(n_bins, n)
    )
    return np.asarray(indicator @ contributions)


class Accumulator:
    """Adds arrays of whole numbers without overflow."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._part = np.zeros(shape, dtype=np.int64)
        self._reach = 0
        self._total: NDArray[np.object_] | int = 0

    def add(self, part: Integers, n: int) -> None:
        """Add `part`, to which at most n records contributed at most ``2^GRID_BITS`` each."""
        reach = n * 2**GRID_BITS
        if self._reach + reach >= 2**63:
            self._total = self.total()
            self._part[...] = 0
            self._reach = 0
        self._part += part
        self._reach += reach

    def total(self) -> NDArray[np.object_]:
        """The sum so far, of Python integers."""
        part = self._part.astype(object)
        return part if isinstance(self._total, int) else self._total + part


def put_factors(columns: Floats, response: Floats, scaling: ColumnScaling, out: Floats) -> None:
    """Write (z*, y*) of some records, as whole multiples of ``2^-FACTOR_BITS``, (m - 1, n)."""
    one = 2.0**FACTOR_BITS
    for row, j in zip(out, (*scaling.varying, -1), strict=True):
        values, centre, scale = (
            (response, scaling.centre_y, scaling.scale_y)
            if j < 0
            else (columns[:, j], scaling.centre[j], scaling.scale[j])
        )
        put_scaled(values, centre, one / scale, one, row)
        row += 0.5
        np.floor(row, out=row)


def with_constant(factors: Factors, chunk: int = CHUNK) -> Iterator[Floats]:
    """f = (1, z*, y*) of one chunk of records after another, (m, rows)."""
    size, n = factors.shape
    buffer = np.empty((size + 1, min(n, chunk)))
    buffer[0] = 2.0**FACTOR_BITS
    for rows in chunks(n, chunk):
        f = buffer[:, : rows.stop - rows.start]
        f[1:] = factors[:, rows]
        yield f


def run_length(rows: int, others: int) -> int:
    """Records of one product of matrices with so many rows: a power of two."""
    limit = VECTOR_PRODUCT if min(rows, others) == 1 else MATRIX_PRODUCT
    return min(LONGEST_RUN, 1 << max((limit // (rows * others)).bit_length() - 1, 0))


def in_runs(f: Floats, length: int) -> tuple[Floats, Floats]:
    """The columns of f as a stack of runs, (runs, m, length), and those that are left."""
    cut = f.shape[1] - f.shape[1] % length
    return f[:, :cut].reshape(len(f), -1, length).transpose(1, 0, 2), f[:, cut:]


def put_combinations(matrix: Floats, f: Floats, result: Floats) -> None:
    """Write ``matrix @ f``, run by run."""
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
    left, right = np.atleast_2d(one), np.atleast_2d(other)
    length = run_length(len(left), len(right))
    (runs, rest), (other_runs, other_rest) = in_runs(left, length), in_runs(right, length)
    products = np.matmul(runs, other_runs.transpose(0, 2, 1))
    total = (rest @ other_rest.T).astype(np.int64)
    for runs_of in chunks(len(products), LONGEST_RUN // length):
        total += products[runs_of].sum(axis=0).astype(np.int64)
    return np.asarray(total.reshape(one.shape[:-1] + other.shape[:-1]))


def whole_square(f: Floats) -> Integers:
    """``f @ f.T`` of whole factors, summed over records without error.

    With many rows the runs of one product would be short, and what they are summed from large:
    rows are taken in tiles, and the product of two tiles serves on both sides of the diagonal.
    """
    tiles = [slice(start, start + TILE) for start in range(0, len(f), TILE)]
    if len(tiles) == 1:
        return whole_product(f, f)
    square = np.empty((len(f), len(f)), dtype=np.int64)
    for i, one in enumerate(tiles):
        for other in tiles[i:]:
            square[one, other] = whole_product(f[one], f[other])
            square[other, one] = square[one, other].T
    return square
