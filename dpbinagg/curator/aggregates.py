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

CHUNK = 2**16
EXACT_ROWS = 2 ** (53 - 2 * FACTOR_BITS)
"""So many products of two factors add up exactly in double precision."""


def chunks(n: int, size: int = CHUNK) -> Iterator[slice]:
    """Slices of at most `size` rows."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def _grouped(bins: Integers, contributions: Integers, n_bins: int) -> Integers:
    """Sums of the rows of `contributions` by bin, exact while they fit int64."""
    n = len(bins)
    indicator = sparse.csc_array(
        (np.ones(n, dtype=np.int64), bins, np.arange(n + 1)), shape=(n_bins, n)
    )
    return np.asarray(indicator @ contributions)


def unit_contributions(columns: Floats, bins: Integers, scaling: BinScaling) -> Floats:
    """``(z - centre) / unit``, cut to the box and to norm at most `sensitivity_x`.

    The cut makes the sensitivity a property of this function, whatever the
    bounds of the design say.
    """
    reach = scaling.half_width[bins]
    deviation = np.clip(columns - scaling.centre[bins], -reach, reach)
    unit = scaling.unit[bins]
    scaled = np.divide(deviation, unit, out=np.zeros_like(deviation), where=unit > 0.0)
    norm = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    return scaled * np.minimum(1.0, scaling.sensitivity_x / np.maximum(norm, 1e-300))[:, None]


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
    total = np.zeros((n_bins, p + 1), dtype=object)
    for rows in chunks(len(bins)):
        scaled = np.empty((rows.stop - rows.start, p + 1))
        scaled[:, :p] = unit_contributions(columns[rows], bins[rows], scaling)
        deviation = (response[rows] - scaling.centre_y) / scaling.unit_y
        scaled[:, p] = np.clip(deviation, -1.0, 1.0)
        # The cast cuts toward zero: it never lengthens a contribution.
        total += _grouped(bins[rows], (scaled * 2.0**GRID_BITS).astype(np.int64), n_bins)
    return count, total[:, :p], total[:, p]


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
