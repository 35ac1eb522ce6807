"""The test between neighbours on a private partition.

Two tables of m and m + 1 copies of one record differ along one path of the
tree. All that a partition tells of them is how deep the leaf of that record
lies; its law is known for every m, so the worst m and the best event
``depth >= t`` are chosen by calculation before anything is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpbinagg.accounting.gdp import pure_from_mu
from dpbinagg.public.bins import TreeLocator
from dpbinagg.public.variables import Records

Floats = NDArray[np.float64]


def split_log_probabilities(count: int, depth: int, mu: float, theta: float) -> tuple[float, float]:
    """Logarithms of the probabilities that a node is split, and that it is not.

    A node at depth h is split when ``max(c - h tau, theta - tau) + Laplace(lambda)``
    exceeds theta, ``lambda = 3/eps``, ``tau = lambda ln 2``.
    """
    scale = 3.0 / pure_from_mu(mu)
    decay = scale * math.log(2.0)
    distance = (theta - max(count - depth * decay, theta - decay)) / scale
    tail = -abs(distance) - math.log(2.0)
    rest = math.log1p(-math.exp(tail))
    return (tail, rest) if distance >= 0.0 else (rest, tail)


def depth_law(count: int, max_depth: int, mu: float, theta: float) -> Floats:
    """Probability of every depth, 0 to `max_depth`, of the leaf that holds `count` copies."""
    law = np.zeros(max_depth + 1)
    reached = 0.0
    for depth in range(max_depth):
        split, stop = split_log_probabilities(count, depth, mu, theta)
        law[depth] = math.exp(reached + stop)
        reached += split
    law[max_depth] = math.exp(reached)
    return law


@dataclass(frozen=True, slots=True)
class TreeAttack:
    """Tables of `copies` and ``copies + 1`` records, told apart by ``depth >= cut``.

    `theory` is the mu that this event would show with any number of trials.
    """

    copies: int
    cut: int
    max_depth: int
    theory: float


def worst_attack(mu: float, theta: float, max_depth: int) -> TreeAttack:
    """The number of copies and the event that tell neighbours apart best."""
    scale = 3.0 / pure_from_mu(mu)
    most = math.ceil(theta + max_depth * scale * math.log(2.0) + 3.0 * scale) + 2
    best = TreeAttack(0, 1, max_depth, 0.0)
    for copies in np.unique(np.linspace(0, most, 200).astype(int)).tolist():
        first = depth_law(copies, max_depth, mu, theta)
        second = depth_law(copies + 1, max_depth, mu, theta)
        for cut in range(1, max_depth + 1):
            false_alarm, miss = float(first[cut:].sum()), float(second[:cut].sum())
            if 1e-3 < false_alarm < 1.0 - 1e-3 and 1e-3 < miss < 1.0 - 1e-3:
                shown = float(ndtri(1.0 - false_alarm) - ndtri(miss))
                if shown > best.theory:
                    best = TreeAttack(copies, cut, max_depth, shown)
    return best


def leaf_depth(tree: TreeLocator, record: Records) -> int:
    """Depth of the leaf that holds a record."""
    return int(tree.leaf_depth[tree.locate(record)[0]])


def simulate_depths(
    attack: TreeAttack, make: Callable[[int], TreeLocator], record: Records, trials: int
) -> tuple[Floats, Floats]:
    """Depths of the leaf in partitions made by the curator, for both tables.

    Parameters
    ----------
    make : callable
        Gives a new private partition of a table of so many copies.
    record : Records
        The record of which the tables hold copies.
    """
    without, present = (
        np.array([leaf_depth(make(copies), record) for _ in range(trials)], dtype=np.float64)
        for copies in (attack.copies, attack.copies + 1)
    )
    return without, present


def follows_law(depths: Floats, law: Floats, chance: float = 1e-5) -> bool:
    """Whether simulated depths agree with a law.

    The distance of the distribution functions stays below
    ``sqrt(ln(2/chance) / (2 n))`` but for a `chance` (Dvoretzky, Kiefer, Wolfowitz).
    """
    shares = np.bincount(depths.astype(np.int64), minlength=len(law)) / len(depths)
    distance = float(np.abs(np.cumsum(shares - law)).max())
    return distance <= math.sqrt(math.log(2.0 / chance) / (2.0 * len(depths)))
