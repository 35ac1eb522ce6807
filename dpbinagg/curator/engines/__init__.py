"""Engines: where the exact sums are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.privtree import Counts
from dpbinagg.curator.scores import ScoreSums
from dpbinagg.formula import Design
from dpbinagg.public.partition import Partition
from dpbinagg.public.paths import Paths
from dpbinagg.public.rounds import ScoreRequest
from dpbinagg.public.scaling import BinScaling, ColumnScaling
from dpbinagg.reading import open_source

Sums = NDArray[np.object_]


class Engine(Protocol):
    """Exact aggregates of a private table, as whole numbers.

    Every engine gives the same numbers for the same table. Nothing that an
    engine returns may leave the curator without noise.
    """

    def total(self) -> int:
        """Number of complete records."""
        ...

    def histograms(self, edges: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.int64]]:
        """Records by interval of raw variables; the outer intervals take the rest."""
        ...

    def code_counts(self, paths: Paths) -> Counts:
        """Records by path code."""
        ...

    def expect_bins(self, design: Design, partition: Partition, scaling: BinScaling) -> None:
        """Say that `bin_sums` will be asked for: a pass over the table may serve others too."""
        ...

    def bin_sums(
        self, design: Design, partition: Partition, scaling: BinScaling
    ) -> tuple[NDArray[np.int64], Sums, Sums]:
        """Counts and scaled deviations by bin; see `memory.Pass`."""
        ...

    def moment_sums(self, design: Design, scaling: ColumnScaling) -> Sums:
        """Second moments; see `memory.Pass`."""
        ...

    def score_sums(
        self, design: Design, scaling: ColumnScaling, request: ScoreRequest
    ) -> ScoreSums:
        """Residual scores; see `scores.score_sums`."""
        ...


def open_engine(data: Any, design: Design, missing: str) -> Engine:
    """The engine for a table, or for a source that was opened."""
    source = open_source(data)
    if source.kind == "memory":
        from dpbinagg.curator.engines.memory import MemoryEngine

        return MemoryEngine.from_frame(source, design, missing)
    from dpbinagg.curator.engines.choice import engine_for

    return engine_for(source, design, missing)
