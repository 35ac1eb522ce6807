"""What the signed tails of residuals say about clipping them.

Cutting residuals at C biases slopes when the tails differ and their weight follows a
covariate.  The mean that a cut hides, ``E[(r - C)+] - E[(-r - C)+]``, is estimated
from noisy counts on a lattice of thresholds, averaged over tail shapes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbinagg.analyst.types import Array

RATIO = 1.5
"""Thresholds are powers of RATIO, so that the cells of all rounds line up."""

SHAPES = (0.0, 0.25, 0.5)
"""Shapes of the generalised Pareto tail: exponential to (1 + x/2)^-2."""

SCALES = np.exp(np.linspace(np.log(0.3), np.log(3.0), 8))
"""Scales of the tail, in standard deviations of the residuals."""

PRIOR = 0.02
"""Prior probability that the tails differ at all."""

PRIOR_SHARE = 0.12
"""Prior standard deviation of the share of records in a short excess tail; less if it is long."""


def lattice(first: float, n_cells: int) -> tuple[int, Array]:
    """Exponent of the first threshold nearest `first`, and the thresholds."""
    start = int(np.round(np.log(first) / np.log(RATIO)))
    return start, RATIO ** (start + np.arange(n_cells, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class TailCount:
    """Noisy signed counts of one round on the lattice; `scale` is that round's residual sd."""

    start: int
    lower: Array
    upper: Array
    sd: float
    scale: float


@dataclass(frozen=True, slots=True)
class Tails:
    """Merged counts beyond the lattice thresholds."""

    thresholds: Array
    lower: Array
    upper: Array
    variance: Array
    nobs: float
    scale: float

    @classmethod
    def merge(cls, counts: tuple[TailCount, ...], nobs: float) -> Tails:
        """Weigh the rounds whose residuals were nearly as small as the last one's.

        The last cell of a round is open; where a later cell exists its excess is
        negligible, and it is merged like the others.
        """
        last = counts[-1]
        cells: dict[int, list[float]] = {}
        for count in counts:
            if count.scale > 1.15 * last.scale:
                continue
            weight = 1.0 / count.sd**2
            for i in range(count.lower.size):
                cell = cells.setdefault(count.start + i, [0.0, 0.0, 0.0])
                cell[0] += weight * float(count.lower[i])
                cell[1] += weight * float(count.upper[i])
                cell[2] += weight
        index = np.array(sorted(cells))
        table = np.array([cells[int(j)] for j in index])
        return cls(
            RATIO ** index.astype(np.float64),
            table[:, 0] / table[:, 2],
            table[:, 1] / table[:, 2],
            1.0 / table[:, 2],
            nobs,
            last.scale,
        )

    def share_beyond(self, clip: float, normal_share: float, normal_first: float) -> float:
        """Share of residuals beyond `clip`: the normal one, unless the counts say otherwise.

        The counts are interpolated; under the first threshold the normal shares beyond `clip`
        and beyond that threshold complete them.
        """
        beyond = np.cumsum((self.lower + self.upper)[::-1])[::-1] / self.nobs
        noise = np.sqrt(2.0 * np.cumsum(self.variance[::-1])[::-1]) / self.nobs
        place, marks = np.log(clip), np.log(self.thresholds)
        share = float(np.interp(place, marks, beyond))
        if clip < self.thresholds[0]:
            share += max(normal_share - normal_first, 0.0)
        if abs(share - normal_share) < 2.0 * float(np.interp(place, marks, noise)):
            share = normal_share
        return float(np.clip(share, 0.0, 0.4))

    def clipped_square(self, inner: float, clip: float) -> float:
        """``E[min(r, clip)^2 - inner^2; |r| > inner]`` from cells that stand out."""
        return self._square(inner, clip, self._stand_out(2.0))

    def tail_square(self, inner: float, most: float) -> float:
        """``E[r^2 - inner^2; |r| > inner]`` from cells that stand out without a gap.

        The far ones weigh most, and one that noise raised would count much.
        """
        return self._square(inner, most, np.logical_and.accumulate(self._stand_out(3.0)))

    def _stand_out(self, times: float) -> NDArray[np.bool_]:
        """Cells that exceed so many standard deviations, alone or with the next one."""
        both, noise = np.maximum(self.lower + self.upper, 0.0), 2.0 * self.variance
        pair, pair_noise = (a + np.append(a[1:], 0.0) for a in (both, noise))
        return np.asarray((both > times * np.sqrt(noise)) | (pair > times * np.sqrt(pair_noise)))

    def _square(self, inner: float, clip: float, cells: NDArray[np.bool_]) -> float:
        both = np.maximum(self.lower + self.upper, 0.0)
        middle = np.minimum(self.thresholds * np.sqrt(RATIO), clip)
        gain = np.maximum(middle**2 - inner**2, 0.0)
        return float(np.sum(np.where(cells, both * gain, 0.0)) / self.nobs)


@dataclass(frozen=True, slots=True)
class Excess:
    """Posterior of the excess tail: amplitude moments, scale and shape of each model."""

    first: float
    amplitude: Array
    amplitude2: Array
    scale: Array
    shape: Array
    weight: Array
    nobs: float
    balanced: float

    def hidden(self, clip: float) -> float:
        """The mean that a cut at `clip` is expected to hide."""
        return float(self._beyond(clip) @ (self.weight * self.amplitude)) / self.nobs

    def hidden2(self, clip: ArrayLike, other: float | None = None) -> Array:
        """Mean square of the mean that a cut at `clip` hides (or hides beyond `other`'s)."""
        reach = self._beyond(clip)
        if other is not None:
            reach = reach - self._beyond(other)
        return np.asarray(reach**2 @ (self.weight * self.amplitude2) / self.nobs**2)

    def _beyond(self, clip: ArrayLike) -> Array:
        """Integral of the survival function beyond each `clip`, for every model."""
        cut = np.asarray(clip, dtype=np.float64)[..., None]
        x = np.maximum(cut - self.first, 0.0) / self.scale
        heavy = np.where(self.shape > 0, self.shape, 1.0)
        pareto = (1.0 + heavy * x) ** (1.0 - 1.0 / heavy) / (1.0 - np.minimum(self.shape, 0.9))
        value = self.scale * np.where(self.shape > 0, pareto, np.exp(-x))
        return np.asarray(value + np.maximum(self.first - cut, 0.0))


def excess(tails: Tails) -> Excess:
    """Fit ``upper - lower`` by a tail of every shape and weigh the shapes by their likelihood.

    A model has survival ``a S((t - t_0)/L)`` and mean excess m (in sds); its amplitude a has
    prior standard deviation ``PRIOR_SHARE n/(1 + m)``, and the balanced model (a = 0) prior
    probability 1 - PRIOR.
    """
    difference = tails.upper - tails.lower
    variance = 2.0 * tails.variance + np.maximum(tails.upper + tails.lower, 0.0)
    first = float(tails.thresholds[0])
    scale, shape = (
        a.ravel() for a in np.meshgrid(SCALES * tails.scale, np.array(SHAPES), indexing="ij")
    )
    x = (tails.thresholds[None, :] - first) / scale[:, None]
    heavy = np.where(shape > 0, shape, 1.0)[:, None]
    survival = np.where(shape[:, None] > 0, (1.0 + heavy * x) ** (-1.0 / heavy), np.exp(-x))
    cells = survival - np.append(survival[:, 1:], np.zeros((scale.size, 1)), axis=1)
    information = np.sum(cells**2 / variance, axis=1)
    fitted = (cells @ (difference / variance)) / information
    length = scale / (1.0 - shape) / tails.scale
    ratio = information * (PRIOR_SHARE * tails.nobs / (1.0 + length)) ** 2
    shrink = ratio / (1.0 + ratio)
    log_weight = 0.5 * fitted**2 * information * shrink - 0.5 * np.log1p(ratio)
    top = max(float(np.max(log_weight)), 0.0)
    weight = PRIOR / scale.size * np.exp(log_weight - top)
    balanced = (1.0 - PRIOR) * float(np.exp(-top))
    total = float(np.sum(weight)) + balanced
    amplitude = fitted * shrink
    amplitude2 = amplitude**2 + shrink / information
    weight /= total
    return Excess(first, amplitude, amplitude2, scale, shape, weight, tails.nobs, balanced / total)
