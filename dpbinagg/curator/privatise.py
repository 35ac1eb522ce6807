"""From exact sums to noisy ones: the Gaussian mechanism on a grid of whole numbers.

Every statistic but the partition is released by the one mechanism here. A
record contributes a vector of whole numbers, in units of a public grid, whose
L2 norm is at most `sensitivity`; the sums are exact; each coordinate gets
discrete Gaussian noise of standard deviation ``sensitivity / mu``.

Neighbours: one record added or removed. Privacy: mu-GDP. The discrete law on a
grid g exceeds ``mu`` by a factor of about ``1 + (g/sd)^2/24``; `MARGIN` covers
it, and the rounding of the scales, many times over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.noise import Noise

GRID_BITS = 40
"""Contributions of linear statistics are whole multiples of 2^-GRID_BITS."""
FACTOR_BITS = 20
"""Factors of products are whole multiples of 2^-FACTOR_BITS."""
MARGIN = 1.0 + 2.0**-36


def noise_sd(sensitivity: float, mu: float) -> float:
    """Standard deviation of the noise of `gaussian_mechanism`."""
    return MARGIN * sensitivity / mu


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
        Noisy sums in the same units, rounded to double precision.
    """
    drawn = noise.gaussian(sums.size, noise_sd(sensitivity, mu)).reshape(sums.shape)
    return np.asarray(sums.astype(object) + drawn, dtype=np.float64)
