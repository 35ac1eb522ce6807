"""Rounds of residual scores: what the analyst asks for and what the curator answers.

Everything is in scaled coordinates: f = (1, z*) has the constant and the
varying columns scaled to [-1, 1], y* is the response scaled likewise. A round
fixes a public guess b, so that the residual of a record is ``r = y* - f'b``,
and a public whitening W, so that ``w = W f / R`` is short for most records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

REQUEST_BITS = 24
"""Numbers of a request have so many bits: projections are exact in double precision."""


def on_grid(array: Floats) -> Floats:
    """Round to `REQUEST_BITS` bits below the largest entry."""
    largest = float(np.abs(array).max(initial=0.0))
    if largest == 0.0:
        return np.zeros_like(array)
    step = 2.0 ** (math.ceil(math.log2(largest)) - REQUEST_BITS)
    return np.asarray(np.rint(array / step) * step)


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A public request for one round.

    With ``v = |w|^2``, ``omega = 1/max(v, 1)``, ``s = r/C`` cut to [-1, 1] and
    ``g = min(r^2/Cv^2, 1)``, a record contributes

    - ``omega s w`` (score),
    - ``omega w w'`` (gram), weighted by `gram_weight`,
    - ``omega (1 - g) w w'`` (spread) and ``1 - g`` (level), weighted by
      `spread_weight` and `level_weight`,
    - one count in the signed tail cell of r, weighted by `tail_weight`.

    The squared norm of score, spread and level together is at most
    ``g + (1 - g) = 1``, that of the gram at most `gram_weight`^2, of the tails
    `tail_weight`^2: see `sensitivity`.

    Parameters
    ----------
    guess : (m,) array
        b, coefficients of f.
    whitening : (q, m) array
        W.
    radius : float
        R.
    clip, level_clip : float
        C and Cv, ``0 < Cv <= C``.
    gram_weight, spread_weight, level_weight, tail_weight : float
        ``spread_weight^2 + level_weight^2 <= 1``; zero leaves a part out.
    thresholds : (t,) array, ascending
        Tail cells of |r|: ``[t_0, t_1), [t_1, t_2), ..., [t_last, inf)``, apart
        for ``r <= 0`` and ``r > 0``.
    """

    guess: Floats
    whitening: Floats
    radius: float
    clip: float
    level_clip: float
    gram_weight: float
    spread_weight: float
    level_weight: float
    tail_weight: float
    thresholds: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "guess", on_grid(np.asarray(self.guess, dtype=float)))
        object.__setattr__(self, "whitening", on_grid(np.asarray(self.whitening, dtype=float)))
        if not 0.0 < self.level_clip <= self.clip or not self.radius > 0.0:
            raise ValueError("a request needs radius > 0 and 0 < level_clip <= clip")
        if self.spread_weight**2 + self.level_weight**2 > 1.0 + 1e-12:
            raise ValueError("spread_weight^2 + level_weight^2 must be at most 1")

    @property
    def sensitivity(self) -> float:
        """Bound on the norm of one record's weighted contribution."""
        return math.sqrt(1.0 + self.gram_weight**2 + self.tail_weight**2)


@dataclass(frozen=True, slots=True)
class Scores:
    """The noisy answer to a `ScoreRequest`, and the standard deviations of its noise.

    ``score`` and ``gram`` are sums of ``omega s w`` and ``omega w w'`` with
    ``w = W f`` in units of the radius. Off-diagonal entries of the symmetric
    matrices have the standard deviation ``sd / sqrt(2)``. Parts that were not
    asked for are None.
    """

    score: Floats
    sd_score: float
    gram: Floats | None
    sd_gram: float
    spread: Floats | None
    sd_spread: float
    level: float | None
    sd_level: float
    tails: Floats | None
    sd_tails: float
