"""What the estimator asks of the records, and what it is answered: public numbers only.

The kernel sees a record as ``f = (1, z*, codes, y*)``: numeric design columns and response scaled
to [-1, 1], and the one-hot codes of factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MomentRequest:
    """Ask for ``sum g g'`` of ``g = (1, nu, codes, y')``.

    Attributes
    ----------
    whitening : (q, m) array
        ``nu = whitening f / radius``, cut to length 1.
    radius : float
    coefficients : (m,) array
        b: ``y' = (y - f'b) / reach``, cut to [-1, 1].
    reach : float
    levels : tuple of int
        Of the factors.
    """

    whitening: Floats
    radius: float
    coefficients: Floats
    reach: float
    levels: tuple[int, ...]

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MomentRequest:
        """The request that `dataclasses.asdict` gave."""
        return cls(**{**values, "levels": tuple(int(n) for n in values["levels"])})


@dataclass(frozen=True, slots=True)
class RoundRequest:
    """Ask for one round of scores at coefficients b: ``w = whitening f``, ``u = w (y - f'b)``.

    Attributes
    ----------
    coefficients : (m,) array
    whitening : (k, m) array
    clip : float
        T: contributions u are cut to this length.
    edges : (c,) array, ascending
        Cells of |u|, the last one open; shorter ones are in no cell.
    radius : float or None
        R: vectors w are cut to this length in the matrix; None where no matrix is asked for.
    far_edges : (l,) array, ascending
        Cells of |w| from R on, the last one open; empty without a matrix.
    meat_clip : float
        T_m: contributions in the matrix of squares are cut to this length.
    last : bool
        The last round asks for directions of what was cut and for squares of contributions.
    """

    coefficients: Floats
    whitening: Floats
    clip: float
    edges: Floats
    radius: float | None
    far_edges: Floats
    meat_clip: float
    last: bool

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RoundRequest:
        """The request that `dataclasses.asdict` gave."""
        return cls(**values)


GRAM, BEYOND, FAR, COUNTS = 0.9, 0.5, 0.3, 0.6
"""Weights beside the score's of 1 in rounds that approach: what the matrix, the directions and the
lengths of long vectors and the counts get costs the score ``sqrt(1 + .81 + .25 + .09 + .36)``."""
DIRECTION, MEAT, LAST_COUNTS = 0.5, 0.4, 0.3
"""The same in the last round, where the score decides."""


def weights(request: RoundRequest) -> dict[str, float]:
    """Weights of the groups of a round by name; score and inside are one group."""
    if request.last:
        return {"score": 1.0, "counts": LAST_COUNTS, "direction": DIRECTION, "meat": MEAT}
    found = {"score": 1.0, "counts": COUNTS}
    if request.radius is not None:
        found |= {"gram": GRAM, "beyond": BEYOND, "far": FAR}
    return found


def norm(request: RoundRequest) -> float:
    """Noise of the score in units of ``T/mu``."""
    return float(np.sqrt(sum(weight**2 for weight in weights(request).values())))


@dataclass(frozen=True, slots=True)
class RoundAnswer:
    """Answer to a `RoundRequest`, or the standard deviations of its noise.

    Attributes
    ----------
    score : (k,) array
        ``sum u min(1, T/|u|)``.
    inside : float
        ``sum (1 - min(1, |u|/T)^2)``.
    counts : (c,) array
        Records by cell of |u|.
    gram : (k, k) array or None
        ``sum w w' min(1, R^2/|w|^2)``.
    beyond : (k, k) array or None
        ``sum 1{|w| > R} w w'/|w|^2``.
    far : (l,) array or None
        Records by cell of |w|.
    direction : (k,) array or None
        ``sum 1{|u| > T} u/|u|``.
    meat : (k, k) array or None
        ``sum u u' min(1, T_m^2/|u|^2)``.
    """

    score: Floats
    inside: float
    counts: Floats
    gram: Floats | None = None
    beyond: Floats | None = None
    far: Floats | None = None
    direction: Floats | None = None
    meat: Floats | None = None


@dataclass(frozen=True, slots=True)
class JointRequest:
    """Ask for one round of scores of several models: ``u_b / unit_b`` are one vector, one clip.

    Attributes
    ----------
    coefficients : (B, m) array
        Of each model.
    whitening : (k, m) array
        One block of rows a model: its own.
    blocks : tuple of int
        Numbers of rows.
    units : tuple of float
        Residual standard deviations.
    clip : float
        T: the vector of all contributions is cut to this length.
    square_clip : float
        T_s: in squared lengths of blocks it is cut to this length.
    edges : (c,) array, ascending
        Cells of its length, the last one open; shorter ones are in no cell.
    last : bool
        The last round asks for directions of what was cut.
    """

    coefficients: Floats
    whitening: Floats
    blocks: tuple[int, ...]
    units: tuple[float, ...]
    clip: float
    square_clip: float
    edges: Floats
    last: bool


SHARES = 0.4
"""Weight of the squared lengths of the models' blocks: standard deviations of residuals within a
few per cent, for 6% of the score's precision."""
SHARES_BEYOND = 0.2
"""Weight of the shares of blocks in what is cut: they tell whose the tail is."""


def joint_weights(last: bool) -> dict[str, float]:
    """Weights of the groups of a joint round by name; score and inside are one group."""
    if last:
        return {"score": 1.0, "counts": LAST_COUNTS, "shares": SHARES} | {
            "direction": DIRECTION,
            "beyond": SHARES_BEYOND,
        }
    return {"score": 1.0, "counts": COUNTS, "shares": SHARES}


def joint_norm(last: bool) -> float:
    """Noise of the joint score in units of ``T/mu``."""
    return float(np.sqrt(sum(weight**2 for weight in joint_weights(last).values())))


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """Answer to a `JointRequest`, or the standard deviations of its noise.

    Attributes
    ----------
    score : (k,) array
        ``sum u min(1, T/|u|)``, u in the units of the request.
    inside : float
        ``sum (1 - min(1, |u|/T)^2)``.
    counts : (c,) array
        Records by cell of |u|.
    shares : (B,) array
        ``sum |u_b|^2 min(1, T_s/|u|)^2``.
    direction : (k,) array or None
        ``sum 1{|u| > T} u/|u|``.
    beyond : (B,) array or None
        ``sum 1{|u| > T_s} |u_b|^2/|u|^2``.
    """

    score: Floats
    inside: float
    counts: Floats
    shares: Floats
    direction: Floats | None = None
    beyond: Floats | None = None
