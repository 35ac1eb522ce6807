"""What lies beyond a clip, by noisy counts of contributions of different lengths.

The lengths |u| beyond a first edge t_0 are taken to follow a generalised Pareto law, survival
``(1 + xi (t - t_0)/sigma)^(-1/xi)``; every scale and shape is weighed by how well it fits the
counts. Light tails leave next to nothing beyond a clip, heavy ones much: what is not seen is
believed in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.types import Array

SHAPES = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75)
"""Exponential to a tail whose variance is infinite."""
SCALES = np.geomspace(0.15, 3.0, 10)
"""In units of the first edge."""
STEPS = 40


@dataclass(frozen=True, slots=True)
class Tail:
    """Posterior of the tail: weight, number of records beyond `first`, scale, shape of each law."""

    first: float
    weight: Array
    number: Array
    scale: Array
    shape: Array

    def survival(self, at: Array) -> Array:
        """Share of the records beyond `first` that is beyond each point, (points, laws)."""
        heavy = np.where(self.shape > 0.0, self.shape, 1.0)
        x = np.maximum(at[:, None] - self.first, 0.0) / self.scale
        pareto = (1.0 + heavy * x) ** (-1.0 / heavy)
        return np.asarray(np.where(self.shape > 0.0, pareto, np.exp(-x)))

    def beyond(self, clip: float, reach: float) -> tuple[Array, Array, Array]:
        """For every law: number beyond `clip`, sums of ``|u| - clip`` and ``|u|^2 - clip^2``.

        Lengths end at `reach`.
        """
        at = np.geomspace(max(clip, self.first), max(reach, 1.01 * clip, 1.01 * self.first), STEPS)
        left = self.survival(at)
        middle = (left[1:] + left[:-1]) / 2.0 * np.diff(at)[:, None]
        excess = self.number * middle.sum(axis=0)
        square = self.number * (middle * (at[1:] + at[:-1])[:, None]).sum(axis=0)
        return self.number * left[0], excess, square

    def hidden(self, clip: float, reach: float) -> float:
        """Expected sum of ``|u| - clip``."""
        return float(self.weight @ self.beyond(clip, reach)[1])


def fit(counts: Array, edges: Array, sd: float) -> Tail:
    """Weigh the laws by noisy counts in cells that begin at `edges`; the last one is open.

    The variance of a count is that of its noise and that of sampling, as the law itself says.
    """
    shape, scale = (a.ravel() for a in np.meshgrid(SHAPES, SCALES * edges[0], indexing="ij"))
    empty = Tail(float(edges[0]), np.ones_like(shape), np.ones_like(shape), scale, shape)
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
    return Tail(float(edges[0]), weight / weight.sum(), number, scale, shape)


def both(one: Tail, other: Tail) -> Tail:
    """Two looks at the same tail, in units of their first edges."""
    weight = one.weight * other.weight
    number = (one.number + other.number) / 2.0
    return Tail(other.first, weight / weight.sum(), number, other.scale, other.shape)


def run_end(counts: Array, edges: Array, sd: float, times: float) -> float:
    """Where the run of cells ends that stand out, each alone or with the next one.

    A far cell that stands out by itself is noise: tails have no gaps.
    """
    padded = np.append(counts, 0.0)
    pair = padded[:-1] + padded[1:]
    stands = (padded[:-1] > times * sd) | (pair > times * sd * np.sqrt(2.0))
    end = len(counts) if stands.all() else int(np.argmin(stands))
    step = float(edges[-1] / edges[-2])
    return float(edges[end]) if end < len(edges) else float(edges[-1]) * step
