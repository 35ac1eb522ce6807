"""Exact sums in whole numbers.

Contributions are clipped, scaled and cut to whole multiples of a public grid
before they are summed, so a sum does not depend on the order of records or on
the engine, and one record changes it by no more than the proof says.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dpbinagg.curator.privatise import FACTOR_BITS, GRID_BITS
from dpbinagg.scaling import BinScaling, ColumnScaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHUNK = 2**13
INT64_ROWS = 2 ** (62 - GRID_BITS)
"""So many contributions add up without overflow in 64 bits."""
EXACT_ROWS = 2 ** (53 - 2 * FACTOR_BITS)
"""So many products of two factors add up exactly in double precision."""


def chunks(stop: int, size: int = CHUNK, start: int = 0) -> Iterator[slice]:
    """Slices of at most `size` rows."""
    return (slice(low, min(low + size, stop)) for low in range(start, stop, size))


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
    count = np.bincount(bins, minlength=n_bins).astype(np.int64)
    total = np.zeros((p + 1, n_bins), dtype=object)
    for block in chunks(len(bins), INT64_ROWS):
        part = np.zeros((p + 1, n_bins), dtype=np.int64)
        for rows in chunks(block.stop, start=block.start):
            here = bins[rows]
            scaled = unit_contributions(columns[rows], response[rows], here, scaling)
            # The cast cuts toward zero: it never lengthens a contribution.
            whole = (scaled * 2.0**GRID_BITS).astype(np.int64)
            indicator = sparse.csc_array(
                (np.ones(len(here), dtype=np.int64), here, np.arange(len(here) + 1)),
                shape=(n_bins, len(here)),
            )
            for j in range(p + 1):
                part[j] += indicator @ whole[j]
        total += part
    return count, total[:p].T, total[p]


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
    total = np.zeros((scaling.size, scaling.size), dtype=object)
    for rows in chunks(len(response), EXACT_ROWS):
        f = factors(columns[rows], response[rows], scaling)
        total += (f.T @ f).astype(np.int64)
    return total
