"""PrivTree: a private partition by repeated halving.

Zhang, Xiao and Xie (2016), binary splits, on the public path codes of
`dpbinagg.public.paths`.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpbinagg.kernel.noise import Noise
from dpbinagg.public.partition import Partition, TreeLocator
from dpbinagg.public.paths import Paths

SCORE_GRID = 2**30
"""Scores are compared in whole units of 1/SCORE_GRID records."""
LEAST_SCALE = 2.0**-20
"""More noise than asked for where mu is so large that the grid would show."""


ROUNDED = 1.0 - 2.0**-30


class Counts(Protocol):
    """Counts of path codes, all at once or as they are asked for."""

    def between(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of records with ``start <= code < stop``, for nodes of one depth."""
        ...


def pure_from_mu(mu: float) -> float:
    """An epsilon for which epsilon-DP implies mu-GDP: ``ln((1-a)/a)``, ``a = Phi(-mu/2)``.

    Just below the largest one: `ROUNDED` outweighs rounding for mu of 2^-16 and more.
    """
    return float(log_ndtr(mu / 2.0) - log_ndtr(-mu / 2.0)) * ROUNDED


def laplace_scale(mu: float) -> float:
    """lambda, in records."""
    return max(3.0 / pure_from_mu(mu), LEAST_SCALE)


def privtree(
    paths: Paths, counts: Counts, mu: float, noise: Noise, theta: float = 0.0
) -> Partition:
    """Split boxes whose noisy count stands out.

    A node at depth h with count c has the score
    ``max(c - h tau, theta - tau) + Laplace(lambda)`` and is split where it
    exceeds theta; ``lambda = 3/eps``, ``tau = lambda ln 2``. Nodes whose
    variable has a single value left are passed down without a decision.

    Neighbours: one record added or removed. Privacy: eps-DP by the PrivTree
    theorem for binary trees, hence mu-GDP with ``eps = ln((1-a)/a)``,
    ``a = Phi(-mu/2)``. Only the decisions are released; codes, split order,
    depth cap and theta are public.

    Parameters
    ----------
    paths : Paths
        The public subdivision.
    counts : Counts
        The private counts of path codes.
    mu : float
        Privacy of the partition.
    theta : float
        Split threshold, public or already private.
    """
    scale = laplace_scale(mu)
    decay = math.ceil(scale * math.log(2.0) * SCORE_GRID)
    threshold = math.ceil(theta * SCORE_GRID)
    prefix = np.zeros(1, dtype=np.int64)
    leaves: list[tuple[int, NDArray[np.int64]]] = []
    for depth in range(paths.depth):
        shift = paths.depth - depth
        splittable = paths.splittable(depth, prefix)
        asked = prefix[splittable]
        count = counts.between(asked << shift, (asked + 1) << shift)
        score = np.maximum(count * SCORE_GRID - depth * decay, threshold - decay)
        score += noise.laplace(len(asked), scale * SCORE_GRID)
        split = score > threshold
        leaves.append((depth, asked[~split]))
        grown = asked[split]
        passed = prefix[~splittable] << 1
        prefix = np.concatenate([grown << 1, (grown << 1) | 1, passed])
        if not len(prefix):
            break
    leaves.append((paths.depth, prefix))
    depth_of = np.concatenate([np.full(len(p), d, dtype=np.int64) for d, p in leaves])
    prefix_of = np.concatenate([p for _, p in leaves])
    order = np.argsort(prefix_of << (paths.depth - depth_of), kind="stable")
    locator = TreeLocator(paths, depth_of[order], prefix_of[order])
    return Partition(paths.domain, paths.variables, locator)
