"""What lies beyond a clip, by noisy counts of contributions of different lengths.

The lengths |u| beyond a first edge t_0 are taken to follow a generalised Pareto law, survival
``(1 + xi (t - t_0)/sigma)^(-1/xi)``; every scale and shape is weighed by how well it fits the
counts. Light tails leave next to nothing beyond a clip, heavy ones much: what is not seen is
believed in proportion. And from the mean of clipped squares back to a standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from dpbinagg.analyst.types import Array

SHAPES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75)
"""Exponential to a tail whose variance is infinite."""
SCALES = np.geomspace(0.15, 3.0, 10)
"""In units of the first edge."""
STEPS = 40
ALIGNED = 0.5
"""Share of what a clip hides that points in one direction, where it is no lump: all of it, and
clips would be wide and intervals long where errors are symmetric; none, and a bias would be."""
ALIKE = np.linspace(0.0, 1.0, 11)
"""Shares that are weighed by how long the sum of the directions of what was cut is."""
BEYOND = 100.0
"""Contributions end at so many times the clip where what it hides is estimated. The laws of the
tail have means, and next to nothing of these lies further out. A nearer end would leave out the few
records by which heavy tails hide most."""
STANDS = 2.5
"""Noise standard deviations at which a cell counts as seen: fewer would follow noise, which widens
clips and intervals; more would miss tails."""
SURE = 4.0
"""The same beyond a gap: one in a thousand rounds has such noise."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Posterior of the tail.

    Attributes
    ----------
    first : float
    weight, number, scale, shape : (laws,) arrays
        Of each law; `number` of records is beyond `first`.
    edges : (c,) array
        Of cells, the last one open.
    lumps : (c, laws) array
        Records by cell beyond what a law expects, where they stand out of it and of the noise: laws
        are smooth, and people who are alike are not.
    """

    first: float
    weight: Array
    number: Array
    scale: Array
    shape: Array
    edges: Array
    lumps: Array

    def survival(self, at: Array) -> Array:
        """Share of the records beyond `first` that is beyond each point, (points, laws)."""
        heavy = np.where(self.shape > 0.0, self.shape, 1.0)
        x = np.maximum(at[:, None] - self.first, 0.0) / self.scale
        pareto = (1.0 + heavy * x) ** (-1.0 / heavy)
        return np.asarray(np.where(self.shape > 0.0, pareto, np.exp(-x)))

    def beyond(self, clip: float, reach: float, smooth: float = 1.0) -> tuple[Array, Array]:
        """For every law: number beyond `clip`, and their sum of ``|u| - clip``.

        Lengths end at `reach`; what is no lump counts `smooth`.
        """
        at = np.geomspace(max(clip, self.first), max(reach, 1.01 * clip, 1.01 * self.first), STEPS)
        left = self.survival(at)
        middle = (left[1:] + left[:-1]) / 2.0 * np.diff(at)[:, None]
        number = smooth * self.number
        excess = number * middle.sum(axis=0)
        ends = np.append(self.edges[1:], self.edges[-1] ** 2 / self.edges[-2])
        low, high = np.maximum(self.edges, clip), np.maximum(ends, clip)
        lumps = (np.log(high / low) / np.log(ends / self.edges))[:, None] * self.lumps
        longer = np.sqrt(low * high) - clip
        return number * left[0] + lumps.sum(axis=0), excess + longer @ lumps

    def mean_excess(self, clip: float) -> float:
        """What lengths beyond `clip` exceed it by in the mean: the median over the laws.

        Where the counts tell no law from another the mean over all is that of the heaviest.
        """
        number, excess = self.beyond(clip, BEYOND * clip)
        mean = excess / np.maximum(number, 1e-9)
        order = np.argsort(mean)
        below = np.cumsum(self.weight[order])
        return float(mean[order][np.searchsorted(below, 0.5 * below[-1])])

    def number_cut(self, clip: float, directions: Array, sd: float) -> float:
        """Number beyond `clip`: by the counts, or as many as are seen to point alike.

        Parameters
        ----------
        clip : float
        directions : (k,) array
            Their sum, each entry with noise.
        sd : float
            Of this noise.
        """
        pointing2 = float(directions @ directions) - len(directions) * sd**2
        number = float(self.weight @ self.beyond(clip, BEYOND * clip)[0])
        return max(number, float(np.sqrt(max(pointing2, 0.0))))

    def alike(self, clip: float, reach: float) -> float:
        """Sum of ``|u| - clip`` of those beyond `clip` whose directions may be alike."""
        return float(self.weight @ self.beyond(clip, reach, ALIGNED)[1])


def fit(counts: Array, edges: Array, sd: float) -> Tail:
    """Weigh the laws by noisy counts in cells that begin at `edges`; the last one is open.

    The variance of a count is that of its noise and that of sampling, as the law itself says.
    """
    shape, scale = (a.ravel() for a in np.meshgrid(SHAPES, SCALES * edges[0], indexing="ij"))
    lumps = np.zeros((len(edges), shape.size))
    empty = Tail(float(edges[0]), shape, np.ones_like(shape), scale, shape, edges, lumps)
    left = empty.survival(edges).T
    cells = left - np.append(left[:, 1:], np.zeros((len(left), 1)), axis=1)
    number = np.full(len(shape), max(float(counts.sum()), 2.0 * sd))
    for _ in range(3):
        variance = sd**2 + number[:, None] * cells
        information = np.sum(cells**2 / variance, axis=1)
        number = np.maximum(np.sum(cells * counts / variance, axis=1) / information, 0.0)
    variance = sd**2 + number[:, None] * cells
    misfit = (counts - number[:, None] * cells) ** 2 / variance + np.log(variance)
    score = -0.5 * np.sum(misfit, axis=1)
    weight = np.exp(score - score.max())
    rest = counts - number[:, None] * cells
    seen = (edges < run_end(counts, edges, sd, STANDS)) & (rest > STANDS * np.sqrt(variance))
    lumps = np.where(seen, rest, 0.0).T
    return replace(empty, weight=weight / weight.sum(), number=number, lumps=lumps)


def directions(seen: Array, sd: float, number: float, part: float = 1.0) -> Array:
    """Second moment of D, the sum of the directions of N contributions that were cut.

    A share a of them points alike, anywhere, the others everywhere: ``D ~ N(0, v I)``, ``v =
    p (a^2 N^2 + (1 - a) N)/k``. D is seen with noise s: given a, its second moment is ``g s^2 I +
    g^2 D D'``, ``g = v/(v + s^2)``. How likely each a is the length of what is seen says.

    Parameters
    ----------
    seen : (k,) array
    sd : float
        s.
    number : float
        N.
    part : float
        p, the share of these k directions where there are more.
    """
    k, a = len(seen), ALIKE
    v = part * (a**2 * number**2 + (1.0 - a) * number) / k
    whole, length2 = v + sd**2, float(seen @ seen)
    fit = -0.5 * (k * np.log(whole) + length2 / whole)
    weight = np.exp(fit - fit.max())
    g = v / whole
    spread, along = (float(weight @ x / weight.sum()) for x in (g * sd**2, g**2))
    return np.asarray(spread * np.eye(k) + along * np.outer(seen, seen))


def both(one: Tail, other: Tail) -> Tail:
    """Two looks at the same tail, in units of their first edges."""
    weight = one.weight * other.weight
    number = (one.number + other.number) / 2.0
    return replace(other, weight=weight / weight.sum(), number=number)


def run_end(counts: Array, edges: Array, sd: float, times: float) -> float:
    """Where the run of cells ends that stand out, each alone or with the next one.

    Beyond a gap a cell is noise, for most tails have none, unless it stands out by `SURE`: people
    who are alike make a lump.
    """
    pair = counts + np.append(np.minimum(counts[1:], counts[:-1]), 0.0)
    height = np.maximum(counts, pair / np.sqrt(2.0)) / sd
    run = len(counts) if (height > times).all() else int(np.argmin(height > times))
    sure = np.flatnonzero(height > SURE)
    end = max(run, int(sure.max(initial=-1)) + 1)
    step = float(edges[-1] / edges[-2])
    return float(edges[end]) if end < len(edges) else float(edges[-1]) * step


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
