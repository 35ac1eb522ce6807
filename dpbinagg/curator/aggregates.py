"""Exact sums in whole numbers.

Contributions are clipped, scaled and cut to whole multiples of a public grid
before they are summed, so a sum does not depend on the order of records or on
the engine, and one record changes it by no more than the proof says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpbinagg.curator.blocks import CHUNK, chunks, map_blocks
from dpbinagg.curator.privatise import FACTOR_BITS, GRID_BITS
from dpbinagg.scaling import BinScaling, ColumnScaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Within a block, sums stay below 2^62; products of factors add up exactly in
# double precision over a chunk.
assert CHUNK <= 2 ** (53 - 2 * FACTOR_BITS)


def unit_contributions(
    columns: Floats, response: Floats, bins: Integers, scaling: BinScaling
) -> Floats:
    """Scaled deviations ``(z - centre) / unit`` and ``(y - centre_y) / unit_y``.

    Every deviation is cut to its half-width, and the columns of a record
    together to norm `sensitivity_x`: the sensitivity is a property of this
    function, whatever the bounds of the design say.

    Returns
    -------
    (p + 1, n) array
        One row for each column, the response last.
    """
    p = scaling.centre.shape[1]
    reach = scaling.reach[bins]
    scaled = np.empty((p + 1, len(bins)))
    norm2 = np.zeros(len(bins))
    for j in range(p):
        row = scaled[j]
        np.subtract(columns[:, j], scaling.centre_by_column[j][bins], out=row)
        row *= scaling.inverse_unit_by_column[j][bins]
        np.clip(row, -reach, reach, out=row)
        norm2 += row * row
    limit = scaling.sensitivity_x
    if norm2.max(initial=0.0) > limit * limit:
        scaled[:p] *= np.minimum(1.0, limit / np.sqrt(np.maximum(norm2, 1e-300)))
    np.clip((response - scaling.centre_y) / scaling.unit_y, -1.0, 1.0, out=scaled[p])
    return scaled


def bin_sums(
    columns: Floats, response: Floats, bins: Integers, scaling: BinScaling
) -> tuple[Integers, NDArray[np.object_], NDArray[np.object_]]:
    """Counts, and sums of scaled deviations in units of ``2^-GRID_BITS``.

    Returns
    -------
    count : (K,) int64
    dev_x : (K, p) of Python integers
    dev_y : (K,) of Python integers
    """
    n_bins, p = scaling.centre.shape

    def block_sums(block: slice) -> tuple[Integers, Integers]:
        part = np.zeros((p + 1, n_bins), dtype=np.int64)
        for rows in chunks(block.stop, start=block.start):
            scaled = unit_contributions(columns[rows], response[rows], bins[rows], scaling)
            scaled *= 2.0**GRID_BITS
            # The cast cuts toward zero: it never lengthens a contribution.
            _add_by_bin(scaled.astype(np.int64), bins[rows], part)
        return np.bincount(bins[block], minlength=n_bins), part

    count = np.zeros(n_bins, dtype=np.int64)
    total = np.zeros((p + 1, n_bins), dtype=object)
    for counts, part in map_blocks(len(bins), block_sums):
        count += counts
        total += part
    return count, total[:p].T, total[p]


def _add_by_bin(contributions: Integers, bins: Integers, part: Integers) -> None:
    """Add each row of `contributions`, summed by bin, to a row of `part`."""
    n = len(bins)
    indicator = sparse.csc_array(
        (np.ones(n, dtype=np.int64), bins, np.arange(n + 1)), shape=(part.shape[1], n)
    )
    for row, into in zip(contributions, part, strict=True):
        into += indicator @ row


def factors(columns: Floats, response: Floats, scaling: ColumnScaling) -> Floats:
    """f = (1, z*, y*) of some records, as whole multiples of ``2^-FACTOR_BITS``."""
    one = 2.0**FACTOR_BITS
    f = np.empty((len(response), scaling.size))
    f[:, 0] = one
    index = scaling.varying
    f[:, 1:-1] = (columns[:, index] - scaling.centre[index]) * (one / scaling.scale[index])
    f[:, -1] = (response - scaling.centre_y) * (one / scaling.scale_y)
    np.clip(f, -one, one, out=f)
    return np.floor(f + 0.5, out=f)


def moment_sums(columns: Floats, response: Floats, scaling: ColumnScaling) -> NDArray[np.object_]:
    """``sum f f'`` in units of ``2^(-2 FACTOR_BITS)``, exact.

    Products of whole factors are whole; blocks short enough for all partial
    sums to stay below 2^53 are multiplied in double precision without error.
    """

    def block_sums(block: slice) -> Integers:
        part = np.zeros((scaling.size, scaling.size), dtype=np.int64)
        for rows in chunks(block.stop, start=block.start):
            f = factors(columns[rows], response[rows], scaling)
            part += (f.T @ f).astype(np.int64)
        return part

    total = np.zeros((scaling.size, scaling.size), dtype=object)
    for part in map_blocks(len(response), block_sums):
        total += part
    return total
