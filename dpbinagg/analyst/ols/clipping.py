"""From the mean of clipped squares back to a standard deviation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpbinagg.analyst.types import Array


def mean_clipped_square(ratio: ArrayLike) -> Array:
    """``E[min(1, (r/(c sd))^2)]`` of a normal r, c = `ratio`."""
    c = np.asarray(ratio, dtype=np.float64)
    density = np.exp(-(c**2) / 2.0) / np.sqrt(2.0 * np.pi)
    beyond = 2.0 * special.ndtr(-c)
    return np.asarray((1.0 - beyond - 2.0 * c * density) / c**2 + beyond)


_RATIO = np.exp(np.linspace(np.log(0.1), np.log(30.0), 1000))
_MEAN = mean_clipped_square(_RATIO)


def sd_from_spread(mean: ArrayLike, clip: float) -> Array:
    """Invert ``mean = E[min(1, (r/clip)^2)]`` for the standard deviation of r ~ N(0, sd^2).

    Where the clip is far out the mean is ``(sd/clip)^2``.
    """
    least = np.asarray(mean, dtype=np.float64)
    inside = np.clip(least, _MEAN[-1], _MEAN[0])
    found = 1.0 / np.exp(np.interp(-inside, -_MEAN, np.log(_RATIO)))
    return np.asarray(clip * np.where(least < _MEAN[-1], np.sqrt(np.maximum(least, 0.0)), found))
