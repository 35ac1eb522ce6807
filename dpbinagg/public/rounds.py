"""Rounds of residual scores: what the analyst asks for and what the curator answers.

Records enter as f = (1, z*, y*), columns and response scaled to [-1, 1] (see
`ColumnScaling`). A round fixes public coefficients b, so that a record has the
residual ``r = y - f'b``, in units of the response, and a public whitening W, so
that ``w = W f`` is no longer than R for most records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.grid import on_grid

Floats = NDArray[np.float64]

ROOT_TWO = math.sqrt(2.0)
"""Weight of the entries off the diagonal of a symmetric matrix, which count twice in its norm."""


@dataclass(frozen=True, slots=True)
class GroupWeights:
    """Weights of the groups of a round relative to the score; zero leaves a group out.

    ``spread^2 + inside^2`` is at most 1.
    """

    hessian: float = 0.0
    spread: float = 0.8
    inside: float = 0.6
    tails: float = 0.0
    norms: float = 0.0

    def __post_init__(self) -> None:
        if self.spread**2 + self.inside**2 > 1.0 + 1e-12:
            raise ValueError("spread^2 + inside^2 must be at most 1")
        if not min(astuple(self)) >= 0.0:
            raise ValueError("weights must not be negative")


@dataclass(frozen=True, slots=True)
class NoisyScores:
    """Answer to a `ScoreRequest`, or the standard deviations of its noise.

    With ``omega = 1/max(|w|^2/R^2, 1)`` and ``g = min(r^2/spread_clip^2, 1)``:

    Attributes
    ----------
    score : (k,) array
        ``sum omega clip(r, C) w``.
    hessian, spread : (k, k) arrays
        ``sum omega w w'`` and ``sum omega (1 - g) w w'``.
    inside : float
        ``sum (1 - g)``.
    tails : (2, t) array
        Records by tail cell of |r|, for ``r <= 0`` and for ``r > 0``.
    norms : (e + 1,) array
        Records by cell of ``|w|^2``.
    """

    score: Floats
    hessian: Floats
    spread: Floats
    inside: float
    tails: Floats
    norms: Floats


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A public request for one round.

    In units of C R for the score, R^2 for the matrices and 1 for counts, a
    record's contribution has the squared norm ``omega^2 (|w|/R)^2 (r/C)^2 <= g``
    for the score, at most ``(1 - g)^2 <= 1 - g`` for spread and inside
    together with their weights, ``hessian^2``, ``tails^2`` and ``norms^2`` for
    the others: at most `sensitivity`^2 in all. (Off-diagonal entries of a
    symmetric matrix count twice: they are released with `ROOT_TWO` times the weight.)

    Parameters
    ----------
    coefficients : (m,) array
        b, coefficients of f.
    whitening : (k, m) array
        W.
    radius : float
        R.
    clip, spread_clip : float
        ``0 < spread_clip <= clip``, in units of the response.
    thresholds : (t,) array, ascending
        Tail cells of |r|: ``[t_0, t_1), [t_1, t_2), ..., [t_last, inf)``.
    norm_edges : (e,) array, ascending
        Cells of |w|^2, the first and the last one open.
    weights : GroupWeights
    """

    coefficients: Floats
    whitening: Floats
    radius: float
    clip: float
    spread_clip: float
    thresholds: Floats
    norm_edges: Floats
    weights: GroupWeights

    def __post_init__(self) -> None:
        for name in ("coefficients", "whitening"):
            rounded = on_grid(np.asarray(getattr(self, name), dtype=np.float64))
            object.__setattr__(self, name, rounded)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ScoreRequest:
        """The request that `dataclasses.asdict` gave."""
        return cls(**{**values, "weights": GroupWeights(**values["weights"])})

    @property
    def sensitivity(self) -> float:
        """Bound on the norm of one record's weighted contribution."""
        w = self.weights
        return math.sqrt(1.0 + w.hessian**2 + w.tails**2 + w.norms**2)

    def noise_scales(self, mu: float) -> NoisyScores:
        """Standard deviations of the noise of an answer with parameter `mu`.

        Groups that are left out have an infinite one.
        """
        sd = self.sensitivity / mu
        k = len(self.whitening)
        weights = self.weights

        def matrix(weight: float) -> Floats:
            scale = np.full((k, k), _ratio(sd, ROOT_TWO * weight) * self.radius**2)
            np.fill_diagonal(scale, _ratio(sd, weight) * self.radius**2)
            return scale

        return NoisyScores(
            np.full(k, sd * self.radius * self.clip),
            matrix(weights.hessian),
            matrix(weights.spread),
            _ratio(sd, weights.inside),
            np.full((2, len(self.thresholds)), _ratio(sd, weights.tails)),
            np.full(len(self.norm_edges) + 1, _ratio(sd, weights.norms)),
        )


def _ratio(sd: float, weight: float) -> float:
    return sd / weight if weight else math.inf
