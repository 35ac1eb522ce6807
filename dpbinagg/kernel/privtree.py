"""PrivTree: a private partition by repeated halving.

Zhang, Xiao and Xie (2016), binary splits, on the public path codes of
`dpbinagg.public.paths`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import log_ndtr

from dpbinagg.kernel.cells import PrefixCells
from dpbinagg.kernel.grid import Integers
from dpbinagg.kernel.noise import Noise
from dpbinagg.public.bins import TreeLocator
from dpbinagg.public.paths import Paths

SCORE_GRID = 2**30
"""Scores are compared in whole units of 1/SCORE_GRID records."""
LEAST_SCALE = 2.0**-20
"""More noise than asked for where mu is so large that the grid would show."""
ROUNDED = 1.0 - 2.0**-30
FIRST_BITS = 16
"""Bits of a code that are counted at first: enough for most trees, and more take time even where
few records are."""
NEXT_BITS = 8
"""Bits that are counted in addition, below the nodes that the tree asks for."""


def pure_from_mu(mu: float) -> float:
    """An epsilon for which epsilon-DP implies mu-GDP: ``ln((1-a)/a)``, ``a = Phi(-mu/2)``.

    Just below the largest one: `ROUNDED` outweighs rounding for mu of 2^-16 and more.
    """
    return float(log_ndtr(mu / 2.0) - log_ndtr(-mu / 2.0)) * ROUNDED


def laplace_scale(mu: float) -> float:
    """lambda, in records."""
    return max(3.0 / pure_from_mu(mu), LEAST_SCALE)


def privtree(
    paths: Paths,
    between: Callable[[Integers, Integers], Integers],
    mu: float,
    noise: Noise,
    theta: float = 0.0,
) -> TreeLocator:
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
    between : callable
        The private number of records with ``start <= code < stop``, for nodes of one depth.
    mu : float
        Privacy of the partition.
    theta : float
        Split threshold, public or already private.
    """
    scale = laplace_scale(mu)
    decay = math.ceil(scale * math.log(2.0) * SCORE_GRID)
    threshold = math.ceil(theta * SCORE_GRID)
    prefix = np.zeros(1, dtype=np.int64)
    leaves: list[tuple[int, Integers]] = []
    for depth in range(paths.depth):
        shift = paths.depth - depth
        splittable = paths.splittable(depth, prefix)
        asked = prefix[splittable]
        count = between(asked << shift, (asked + 1) << shift)
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
    return TreeLocator(paths, depth_of[order], prefix_of[order])


class PrefixCounts:
    """Counts of path codes by prefix, each level of detail counted when it is needed.

    The codes of a large table are too many to be held. A tree asks for the counts of ever longer
    prefixes, below few nodes: the first pass counts `FIRST_BITS` bits, later ones `NEXT_BITS` more
    below the nodes asked for. Which nodes are asked for follows from earlier noisy decisions.

    Parameters
    ----------
    paths : Paths
    count : callable
        Passes over the table: records by cell.
    """

    def __init__(self, paths: Paths, count: Callable[[PrefixCells], Integers]) -> None:
        self._paths, self._count = paths, count
        self._levels: list[tuple[int, Integers, Integers, Integers]] = []
        self._add(min(FIRST_BITS, paths.depth), 0, np.zeros(1, dtype=np.int64))

    def _add(self, bits: int, depth: int, nodes: Integers) -> None:
        """Count `bits` bits below nodes."""
        counts = self._count(PrefixCells(self._paths, bits, depth, nodes))
        digits = np.arange(1 << (bits - depth))
        prefixes = ((nodes[:, None] << (bits - depth)) | digits).ravel()
        some = counts > 0
        covered = np.stack([nodes, nodes + 1]) << (self._paths.depth - depth)
        starts = prefixes[some] << (self._paths.depth - bits)
        cumulative = np.concatenate([[0], np.cumsum(counts[some])])
        self._levels.append((bits, covered, starts, cumulative))

    def between(self, start: Integers, stop: Integers) -> Integers:
        """Number of records with ``start <= code < stop``, for nodes of one depth."""
        if not len(start):
            return np.zeros(0, dtype=np.int64)
        all_bits = self._paths.depth
        depth = all_bits - int(stop[0] - start[0]).bit_length() + 1
        counts = np.full(len(start), -1, dtype=np.int64)
        for bits, covered, starts, cumulative in self._levels:
            if bits < depth:
                continue
            place = np.searchsorted(covered[0], start, side="right") - 1
            known = (place >= 0) & (stop <= covered[1][place]) & (counts < 0)
            low = np.searchsorted(starts, start[known], side="left")
            high = np.searchsorted(starts, stop[known], side="left")
            counts[known] = cumulative[high] - cumulative[low]
        unknown = counts < 0
        if unknown.any():
            nodes = np.sort(start[unknown]) >> (all_bits - depth)
            self._add(min(depth + NEXT_BITS - 1, all_bits), depth, nodes)
            counts[unknown] = self.between(start[unknown], stop[unknown])
        return counts
