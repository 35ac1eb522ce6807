"""The curator: answers public questions about private records with noisy numbers.

It has two ways to answer. `Curator.answer` computes exact sums, notes down what they cost, and adds
Gaussian noise, in one call: there is no release without spending and no spending without noise.
`Curator.partition` is PrivTree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.kernel.cells import PrefixCells
from dpbinagg.kernel.grid import Floats, Integers, Sums
from dpbinagg.kernel.maps import UNIT_BITS, OneHot
from dpbinagg.kernel.noise import Noise, gaussian_mechanism, noise_source
from dpbinagg.kernel.privtree import PrefixCounts, privtree
from dpbinagg.kernel.questions import (
    WEIGHT_BITS,
    Answer,
    Engine,
    Question,
    Sum,
    alone,
    scales_of,
)
from dpbinagg.kernel.view import Rows
from dpbinagg.public.bins import TreeLocator
from dpbinagg.public.paths import Paths

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

        return privtree(paths, PrefixCounts(paths, count).between, mu, self._noise, theta)
