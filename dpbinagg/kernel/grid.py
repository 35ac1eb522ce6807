"""Arithmetic on whole numbers that is exact, so that neither order nor blocks nor threads show.

Whole numbers are held in double precision where all partial sums stay below 2^53, in 64 bits where
they stay below 2^63, and as Python's integers beyond.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.grid import FACTOR_BITS

Floats = NDArray[np.float64]
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
TILE = 42
"""Rows of a tile: with 82 rows, products of tiles take a third of the time of one of all."""


def cut(vectors: Floats, norm: Floats, limit: float, bits: int, out: Floats) -> Floats:
    """Write vectors, cut to norm 1 and toward zero, as whole multiples of ``2^-bits``.

    Column i becomes ``trunc(2^bits (1 - 2^-40) v_i / max(limit, |v_i|))``; the factor in brackets
    outweighs rounding. Whatever the input: a column whose squared norm, of whole numbers and
    therefore exact, is not at most ``2^(2 bits)`` is set to zero, so is one that is not a number.

    Parameters
    ----------
    vectors : (k, n) array
    norm : (n,) array
        Their lengths, as computed.
    limit : float
        What has norm 1.
    bits : int
        At most `LINEAR_BITS`.
    """
    with np.errstate(all="ignore"):
        scale = (2.0**bits * (1.0 - 2.0**-40)) / np.maximum(norm, limit)
        np.multiply(vectors, scale, out=out)
        np.trunc(out, out=out)
        long = ~(np.einsum("ij,ij->j", out, out) <= 4.0**bits)
    if long.any():
        out[:, long] = 0.0
    return out


def norms(vectors: Floats) -> Floats:
    """Euclidean lengths of the columns; squares are added row by row, for any number of columns."""
    total = np.zeros(vectors.shape[1])
    square = np.empty_like(total)
    with np.errstate(all="ignore"):
        for row in vectors:
            np.multiply(row, row, out=square)
            total += square
        return np.sqrt(total, out=total)


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
