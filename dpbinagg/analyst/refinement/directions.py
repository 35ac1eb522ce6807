"""How the size of residuals differs from direction to direction of the design."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.refinement import kalman
from dpbinagg.analyst.refinement.clipping import mean_clipped_square, sd_from_spread, share_beyond
from dpbinagg.analyst.types import Array

LEAST_MEAN, MOST_MEAN = 0.2, 0.85
"""Least mean of g in a direction relative to the overall one, and largest one at all."""

LEAST_KEPT = 0.3
"""Least share of residuals inside the clip, in any direction."""


@dataclass(frozen=True, slots=True)
class Directions:
    """Mean of ``g = min(1, (r/spread_clip)^2)`` by direction.

    In coordinates in which the matrix A is n times the identity, record i has weight
    ``(e'w_i)^2`` in direction e; the rows of ``vectors.T`` are such directions.

    Attributes
    ----------
    root, inverse_root : (k, k) arrays
        Symmetric ``A^(1/2)`` and ``A^(-1/2)``.
    vectors : (k, k) array
    means : (k,) array
    mean : float
        Over all records.
    spread_clip : float
    """

    root: Array
    inverse_root: Array
    vectors: Array
    means: Array
    mean: float
    spread_clip: float

    def kept(self, clip: float, beyond: float) -> Array:
        """Share of residuals inside `clip` by direction, for a normal law in each.

        `beyond` is the share outside over all records; where it exceeds the normal one, the
        excess counts in every direction.
        """
        outside = share_beyond(clip / sd_from_spread(self.means, self.spread_clip))
        overall = float(share_beyond(clip / sd_from_spread(self.mean, self.spread_clip)))
        return np.clip(1.0 - outside - max(beyond - overall, 0.0), LEAST_KEPT, 1.0)

    def relative_square(self, clip: float) -> Array:
        """Mean square of residuals cut at `clip` by direction, relative to the overall one."""
        square = mean_clipped_square(clip / sd_from_spread(self.means, self.spread_clip))
        overall = mean_clipped_square(clip / sd_from_spread(self.mean, self.spread_clip))
        return np.asarray(square / overall)


def directions(
    gram: Array,
    gram_variance: Array,
    spread: Array,
    spread_variance: Array,
    mean: float,
    nobs: float,
    spread_clip: float,
) -> Directions:
    """Find the directions from the released spread ``P = sum omega w w' (1 - g)``.

    The means are eigenvalues of ``I - A^-1/2 P A^-1/2``, its departure D from the overall
    mean shrunk by ``1 - E|noise|^2/|D|^2``.
    """
    root, inverse = kalman.roots(gram)
    departure = (1.0 - mean) * np.eye(len(root)) - symmetric(inverse @ spread @ inverse)
    noise = float(np.sum(gram_variance * (1.0 - mean) ** 2 + spread_variance)) / nobs**2
    found = max(float(np.sum(departure**2)), np.finfo(float).tiny)
    values, vectors = np.linalg.eigh(max(0.0, 1.0 - noise / found) * departure)
    means = np.clip(mean + values, LEAST_MEAN * mean, max(MOST_MEAN, mean))
    return Directions(root, inverse, vectors, means, mean, spread_clip)
