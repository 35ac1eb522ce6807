"""The optimal test between neighbours on what the Gaussian mechanism releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.audit.bounds import Errors
from dpbinagg.audit.tape import Call
from dpbinagg.kernel.curator import Curator, Spent

Floats = NDArray[np.float64]
BATCH = 2**21
"""Most values drawn at a time."""


@dataclass(frozen=True)
class Pair:
    """The same request, answered for two neighbouring tables.

    Only coordinates in which the tables differ are kept: the noise of the
    others has the same law for both.
    """

    entry: int
    sensitivity: float
    mu: float
    without: NDArray[np.object_]
    present: NDArray[np.object_]

    @classmethod
    def of(cls, without: Call, present: Call) -> Pair:
        """Pair the calls of two transcripts."""
        first, second = without.sums.ravel(), present.sums.ravel()
        moved = np.flatnonzero(first != second)
        return cls(
            without.entry,
            without.sensitivity,
            without.mu,
            first[moved].astype(object),
            second[moved].astype(object),
        )

    @property
    def shift(self) -> Floats:
        """Difference of the exact sums, in units of the noise that was asked for."""
        moved = np.asarray(self.present - self.without, dtype=np.float64)
        scaled: Floats = moved * (self.mu / self.sensitivity)
        return scaled

    @property
    def theory(self) -> float:
        """The mu of the pair if the noise is what was asked for: the length of the shift."""
        return float(np.linalg.norm(self.shift))

    def scores(self, exact: NDArray[np.object_], releases: int, curator: Curator) -> Floats:
        """Log-likelihood ratios of simulated releases of `exact`, centred between the tables.

        The released numbers come from the curator's own mechanism, many
        releases in one call. With x in units of the noise and means m0, m1 the score is
        ``(x - (m0 + m1)/2)'(m1 - m0)``.
        """
        size = len(exact)
        if not size:
            return np.zeros(releases)
        middle = np.asarray((self.without + self.present) // 2, dtype=np.float64)
        parts = []
        for start in range(0, releases, max(1, BATCH // size)):
            rows = min(releases - start, max(1, BATCH // size))
            tiled = np.tile(exact, (rows, 1))
            noisy = curator._privatise(tiled, self.sensitivity, self.mu)
            parts.append((noisy - middle) @ self.shift * (self.mu / self.sensitivity))
        return np.concatenate(parts)


def pair_up(without: Sequence[Call], present: Sequence[Call]) -> list[Pair]:
    """The requests of two transcripts, side by side."""
    return [Pair.of(first, second) for first, second in zip(without, present, strict=True)]


def theory(pairs: Sequence[Pair]) -> float:
    """The mu of several pairs together."""
    return math.sqrt(sum(pair.theory**2 for pair in pairs))


def likelihood_tests(
    pairs: Sequence[Pair], trials: int, curator: Curator, names: Sequence[str]
) -> tuple[dict[int, Errors], Errors]:
    """Errors of the likelihood-ratio tests on each mechanism, and on all of them together.

    The threshold is 0, half-way between the two tables, fixed beforehand.

    Parameters
    ----------
    names : sequence of str
        Names of the mechanisms, by entry.
    """
    scores: dict[int, Floats] = {}
    for pair in pairs:
        curator._spent.append(Spent(names[pair.entry], pair.mu))
        sides = [pair.scores(exact, trials, curator) for exact in (pair.without, pair.present)]
        scores[pair.entry] = scores.get(pair.entry, 0.0) + np.array(sides)
    single = {entry: Errors.from_scores(one[0], one[1], 0.0) for entry, one in scores.items()}
    together = np.sum(list(scores.values()), axis=0)
    return single, Errors.from_scores(together[0], together[1], 0.0)
