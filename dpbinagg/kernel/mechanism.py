"""From exact sums to noisy ones: the Gaussian mechanism on a grid of whole numbers.

Every statistic but the partition is released by the one mechanism here. A
record contributes a vector of whole numbers, in units of a public grid, whose
L2 norm is at most `sensitivity`; the sums are exact.

All noise is drawn with one standard deviation, 2^`NOISE_BITS`, so that it may
be drawn before it is known what for. Each of the m sums is multiplied by
``2^NOISE_BITS / sd`` with ``sd = MARGIN * sensitivity / mu``, cut to a whole
number, given its noise, and brought back to whole units of its own, which is
post-processing.

Neighbours: one record added or removed. Cutting may part the sums of two
neighbours by one more unit each, so that they differ by at most
``2^NOISE_BITS mu / MARGIN + sqrt(m)``. Privacy: mu-GDP. `MARGIN` covers
``sqrt(m)`` (`in_noise_units` checks it), the rounding of the scales, and the factor of
about ``1 + 2^-2 NOISE_BITS / 24`` by which the discrete law exceeds mu.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import BudgetError
from dpbinagg.kernel.noise import MAX_SCALE, Noise

NOISE_BITS = 58
"""All noise has the standard deviation 2^NOISE_BITS, in its own units: 64 bits hold 32 of them."""
assert 2.0**NOISE_BITS == MAX_SCALE
MARGIN = 1.0 + 2.0**-30


def gaussian_mechanism(
    sums: NDArray[np.generic], sensitivity: float, mu: float, noise: Noise
) -> NDArray[np.float64]:
    """Add noise of standard deviation ``sensitivity / mu`` to exact integer sums.

    Parameters
    ----------
    sums : array of whole numbers (int64 or Python integers)
    sensitivity : float
        Bound on the L2 norm of one record's contribution, in the same units.
    mu : float
        Privacy of the release of all sums together.

    Returns
    -------
    array of float64, same shape
        Noisy sums, whole in the same units, rounded to double precision.
    """
    bits, under = _noise_units(sensitivity, mu)
    noisy = in_noise_units(sums, sensitivity, mu)
    noisy += noise.gaussian(sums.size, 2.0**NOISE_BITS).reshape(sums.shape)
    return np.asarray((noisy * under) >> bits, dtype=np.float64)


def in_noise_units(sums: NDArray[np.generic], sensitivity: float, mu: float) -> NDArray[np.object_]:
    """Sums in whole units of noise of standard deviation 2^NOISE_BITS.

    Those of neighbours differ by at most ``2^NOISE_BITS mu``, in the L2 norm.
    """
    # sqrt(m) <= 2^NOISE_BITS mu (1 - 1/MARGIN), with as much again for rounding.
    if math.sqrt(sums.size) > 2.0 ** (NOISE_BITS - 31) * mu:
        raise BudgetError(
            "mu is too small for so many sums; give the component a larger share, or use a larger "
            "mu, fewer bins or fewer columns"
        )
    bits, under = _noise_units(sensitivity, mu)
    cut: NDArray[np.object_] = (sums.astype(object) * 2**bits) // under
    return cut


def _noise_units(sensitivity: float, mu: float) -> tuple[int, int]:
    """Units of the noise in one unit of the sums, ``2^bits / under``, as whole (bits, under)."""
    # The denominator of a double is a power of two.
    under, denominator = (MARGIN * sensitivity / mu).as_integer_ratio()
    return NOISE_BITS + denominator.bit_length() - 1, under
