"""A curator that notes down what it hands to its mechanisms, and one that replays it.

Privacy of an adaptive release is a matter of transcripts: the same public
answers, asked of two neighbouring tables. A `TapeCurator` records a run on one
table. A `ReplayCurator` lives through the same answers on another table and
records the exact sums that the mechanisms would have been given there. What
leaves the curator by any other way shows as a difference between the two runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DPBinAggError
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.questions import Engine
from dpbinagg.public.bins import Paths, TreeLocator

Floats = NDArray[np.float64]


class TranscriptError(DPBinAggError):
    """Two neighbouring tables led to different requests: the data leaked into them."""


@dataclass(frozen=True)
class Call:
    """One use of the Gaussian mechanism.

    Attributes
    ----------
    entry : int
        Place of the mechanism that it belongs to in the curator's list.
    sums : array of whole numbers
        The exact sums, private.
    sensitivity, mu : float
        What the mechanism was asked for.
    noisy : array
        What it answered.
    """

    entry: int
    sums: NDArray[Any]
    sensitivity: float
    mu: float
    noisy: Floats

    @property
    def public(self) -> tuple[object, ...]:
        """Everything about the request that must not depend on the records."""
        return self.entry, self.sums.shape, self.sensitivity, self.mu


@dataclass(frozen=True)
class TreeCall:
    """One private partition."""

    entry: int
    paths: Paths
    mu: float
    theta: float
    partition: TreeLocator

    @property
    def public(self) -> tuple[object, ...]:
        """Everything about the request that must not depend on the records."""
        return self.entry, self.paths, self.mu, self.theta


@dataclass
class Transcript:
    """All mechanisms of one run, in order."""

    calls: list[Call] = field(default_factory=list)
    trees: list[TreeCall] = field(default_factory=list)


class TapeCurator(Curator):
    """A curator that records its mechanisms. For audits: it keeps exact sums."""

    def __init__(self, engine: Engine, rng: Any) -> None:
        super().__init__(engine, rng)
        self.transcript = Transcript()

    def _answer(self, sums: NDArray[Any], sensitivity: float, mu: float) -> Floats:
        return super()._privatise(sums, sensitivity, mu)

    def _privatise(self, sums: NDArray[Any], sensitivity: float, mu: float) -> Floats:
        noisy = self._answer(sums, sensitivity, mu)
        self.transcript.calls.append(Call(self._entry, sums, sensitivity, mu, noisy))
        return noisy

    @property
    def _entry(self) -> int:
        return len(self._spent) - 1

    def _tree(self, paths: Paths, mu: float, theta: float) -> TreeLocator:
        return super().partition(paths, mu, theta)

    def partition(self, paths: Paths, mu: float, theta: float) -> TreeLocator:
        """As `Curator.partition`, recorded."""
        partition = self._tree(paths, mu, theta)
        self.transcript.trees.append(TreeCall(self._entry, paths, mu, theta, partition))
        return partition


class ReplayCurator(TapeCurator):
    """A curator of another table that gives the answers of a transcript."""

    def __init__(self, engine: Engine, rng: Any, script: Transcript) -> None:
        super().__init__(engine, rng)
        self._script = script

    def _answer(self, sums: NDArray[Any], sensitivity: float, mu: float) -> Floats:
        place = len(self.transcript.calls)
        if place >= len(self._script.calls):
            raise TranscriptError("a neighbouring table led to more requests")
        told = self._script.calls[place]
        if told.public != (self._entry, sums.shape, sensitivity, mu):
            name = self._spent[-1].name
            raise TranscriptError(f"a neighbouring table changed the request for {name!r}")
        return told.noisy

    def _tree(self, paths: Paths, mu: float, theta: float) -> TreeLocator:
        super()._tree(paths, mu, theta)
        place = len(self.transcript.trees)
        if place >= len(self._script.trees):
            raise TranscriptError("a neighbouring table led to more requests")
        told = self._script.trees[place]
        if told.public != (self._entry, paths, mu, theta):
            raise TranscriptError("a neighbouring table changed the request for a partition")
        return told.partition
