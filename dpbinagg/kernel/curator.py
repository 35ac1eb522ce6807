"""The curator: answers public questions about private records with noisy numbers.

It has two ways to answer. `Curator.answer` computes exact sums, notes down what they cost, and adds
Gaussian noise, in one call: there is no release without spending and no spending without noise.
`Curator.partition` is PrivTree (Zhang, Xiao and Xie 2016, binary splits) on public path codes: a
private partition by repeated halving.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dpbinagg.kernel.maps import UNIT_BITS, OneHot, PrefixCells
from dpbinagg.kernel.noise import Noise, gaussian_mechanism, noise_source
from dpbinagg.kernel.questions import (
    WEIGHT_BITS,
    Answer,
    Engine,
    Question,
    Sum,
    alone,
    scales_of,
)
from dpbinagg.kernel.view import Floats, Integers, Rows, Sums
from dpbinagg.public.bins import Paths, TreeLocator

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
    count: Callable[[int, Integers], Integers],
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
    count : callable
        The private number of records in nodes, given their depth and their prefixes.
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
        splittable = paths.splittable(depth, prefix)
        asked = prefix[splittable]
        records = count(depth, prefix)[splittable]
        score = np.maximum(records * SCORE_GRID - depth * decay, threshold - decay)
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
    prefixes, below few nodes: the first pass counts `FIRST_BITS` bits, each later one `NEXT_BITS`
    more below the nodes that the tree has then. Which these are follows from earlier noisy
    decisions.

    Parameters
    ----------
    paths : Paths
    count : callable
        Passes over the table: records by cell.
    """

    def __init__(self, paths: Paths, count: Callable[[PrefixCells], Integers]) -> None:
        self._paths, self._count = paths, count
        self._bits = -1

    def of(self, depth: int, nodes: Integers) -> Integers:
        """Number of records in all nodes that a tree has at a depth, deeper from call to call."""
        if depth > self._bits:
            self._look(depth, np.sort(nodes))
        ends = np.stack([nodes, nodes + 1]) << (self._bits - depth)
        start, stop = np.searchsorted(self._prefixes, ends)
        return np.asarray(self._below[stop] - self._below[start])

    def _look(self, depth: int, nodes: Integers) -> None:
        """Hold the prefixes below nodes that records have, and the records before each."""
        bits = self._bits = min(max(FIRST_BITS, depth + NEXT_BITS - 1), self._paths.depth)
        counts = self._count(PrefixCells(self._paths, bits, depth, nodes))
        more = bits - depth
        prefixes = ((nodes[:, None] << more) | np.arange(1 << more)).ravel()
        self._prefixes = prefixes[counts > 0]
        self._below = np.concatenate([[0], np.cumsum(counts[counts > 0])])


ONE_BITS = UNIT_BITS + WEIGHT_BITS
"""One record moves the sums of a question by at most ``2^ONE_BITS`` of their units."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What was released, and what it cost.

    Attributes
    ----------
    name : str
    mu : float
        Per record added or removed.
    law : {"gaussian", "laplace"}
    """

    name: str
    mu: float
    law: str = "gaussian"


class Curator:
    """Guards one private table.

    Parameters
    ----------
    engine : Engine
        Holds the records.
    rng : None, seed or Generator
        None for secure noise.
    """

    def __init__(self, engine: Engine, rng: Any) -> None:
        self._engine = engine
        self._noise: Noise = noise_source(rng)
        self._spent: list[Spent] = []

    def __reduce__(self) -> Any:
        raise TypeError("a curator guards private records and is not pickled")

    @property
    def spent(self) -> tuple[Spent, ...]:
        """What was released so far."""
        return tuple(self._spent)

    @property
    def secure(self) -> bool:
        """Whether the noise comes from the secure source."""
        return self._noise.secure

    def answer(
        self, questions: Sequence[Question], mus: Sequence[float], rows: Rows | None = None
    ) -> list[Answer]:
        """Answer questions, in one pass over the records.

        Neighbours: one record added or removed. Sensitivity of each question: 1, by the bounds of
        its maps (see `Question`). Privacy: each answer is mu-GDP with its own mu, given all earlier
        answers, which questions may depend on.

        Parameters
        ----------
        questions : sequence of Question
        mus : sequence of float
        rows : Rows, optional
            The row map, for questions that look at f or at design columns.
        """
        groups = ((map_, question.k) for question in questions for _, map_ in question.groups)
        self._noise.prepare(sum(map_.n_entries(k) for map_, k in groups))
        sums = iter(self._engine.map_reduce(Sum(tuple(questions), rows)))
        return [
            self._release(question, [next(sums) for _ in question.groups], mu)
            for question, mu in zip(questions, mus, strict=True)
        ]

    def _release(self, question: Question, sums: Sequence[Sums], mu: float) -> Answer:
        """``sum over records of contributions + N(0, 1/mu^2)``, brought to the answer's units."""
        self._spent.append(Spent(question.name, mu))
        groups = [(int(weight * 2**WEIGHT_BITS), map_) for weight, map_ in question.groups]
        whole = [
            map_.whole(one.astype(object)) * weight
            for (weight, map_), one in zip(groups, sums, strict=True)
        ]
        noisy = self._privatise(np.concatenate(whole), 2.0**ONE_BITS, mu)
        parts = np.split(noisy, np.cumsum([len(part) for part in whole])[:-1])
        values = (
            map_.answer(part / (weight * 2.0**UNIT_BITS), question.k)
            for (weight, map_), part in zip(groups, parts, strict=True)
        )
        return Answer(tuple(values), scales_of(question, mu))

    def _privatise(self, sums: NDArray[np.generic], sensitivity: float, mu: float) -> Floats:
        return gaussian_mechanism(sums, sensitivity, mu, self._noise)

    def partition(self, paths: Paths, mu: float, theta: float) -> TreeLocator:
        """PrivTree over public path codes; see `privtree`."""
        self._spent.append(Spent("partition", mu, "laplace"))

        def count(cells: PrefixCells) -> Integers:
            (counts,) = self._engine.map_reduce(Sum((Question("codes", alone(OneHot(cells))),)))
            return np.asarray(counts, dtype=np.int64)

        return privtree(paths, PrefixCounts(paths, count).of, mu, self._noise, theta)
