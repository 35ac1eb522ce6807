"""From the mean of a clipped square back to a standard deviation, under a normal law."""

from __future__ import annotations

import numpy as np
from scipy import stats

_RATIO = np.exp(np.linspace(np.log(0.1), np.log(200.0), 1500))
_MEAN = (
    (2.0 * stats.norm.cdf(_RATIO) - 1.0) - 2.0 * _RATIO * stats.norm.pdf(_RATIO)
) / _RATIO**2 + 2.0 * stats.norm.sf(_RATIO)


def sd_from_spread(mean: float, clip: float) -> float:
    """Invert ``mean = E[min(1, (r/clip)^2)]`` for the standard deviation of r ~ N(0, sd^2)."""
    bounded = float(np.clip(mean, _MEAN[-1], _MEAN[0]))
    return float(clip / np.exp(np.interp(-bounded, -_MEAN, np.log(_RATIO))))
