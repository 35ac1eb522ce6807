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


def open_data(data: Any) -> Any:
    """A pandas frame as it is; other tables, and files, opened."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data
    from dpbinagg.curator.engines.tables import open_table

    return open_table(data)


def open_engine(data: Any, design: Design, missing: str) -> Engine:
    """The engine for a kind of table."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        from dpbinagg.curator.engines.memory import MemoryEngine

        return MemoryEngine.from_frame(data, design, missing)
    from dpbinagg.curator.engines.choice import engine_for
    from dpbinagg.curator.engines.tables import open_table

    return engine_for(open_table(data), design, missing)
