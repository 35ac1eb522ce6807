"""Moments of clipped normal residuals, and back from them to a standard deviation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpbinagg.analyst.types import Array


def share_beyond(ratio: ArrayLike) -> Array:
    """``P(|r| > c sd)`` of a normal r, c = `ratio`."""
    return np.asarray(2.0 * special.ndtr(-np.asarray(ratio, dtype=np.float64)))


def mean_clipped_square(ratio: ArrayLike) -> Array:
    """``E[min(1, (r/(c sd))^2)]`` of a normal r, c = `ratio`."""
    c = np.asarray(ratio, dtype=np.float64)
    density = np.exp(-(c**2) / 2.0) / np.sqrt(2.0 * np.pi)
    beyond = share_beyond(c)
    return np.asarray((1.0 - beyond - 2.0 * c * density) / c**2 + beyond)


_RATIO = np.exp(np.linspace(np.log(0.1), np.log(200.0), 1500))
_MEAN = mean_clipped_square(_RATIO)


GUESS_SPREAD = 0.7
"""Standard deviation of the logarithm of a guess at the residuals' standard deviation."""


def sd_from_noisy_spread(mean: float, noise: float, clip: float, guess: float) -> float:
    """Weigh a noisy ``mean = E[min(1, (r/clip)^2)]`` against a guess at the sd of r ~ N(0, sd^2).

    Minimises ``(ln(sd/guess)/GUESS_SPREAD)^2 + ((mean - E)/noise)^2``. Without noise it inverts
    E; with much of it, a mean of zero or less would say that there are no residuals at all.
    """
    log_sd = np.log(clip) - np.log(_RATIO)
    cost = ((log_sd - np.log(guess)) / GUESS_SPREAD) ** 2 + ((mean - _MEAN) / noise) ** 2
    i = int(np.clip(np.argmin(cost), 1, cost.size - 2))
    left, middle, right = cost[i - 1 : i + 2]
    curvature = left - 2.0 * middle + right
    step = 0.5 * (left - right) / curvature if curvature > 0.0 else 0.0
    return float(np.exp(log_sd[i] + np.clip(step, -1.0, 1.0) * (log_sd[i + 1] - log_sd[i])))


def sd_from_spread(mean: ArrayLike, clip: float) -> Array:
    """Invert ``mean = E[min(1, (r/clip)^2)]`` for the standard deviation of r ~ N(0, sd^2)."""
    bounded = np.clip(np.asarray(mean, dtype=np.float64), _MEAN[-1], _MEAN[0])
    return np.asarray(clip / np.exp(np.interp(-bounded, -_MEAN, np.log(_RATIO))))
