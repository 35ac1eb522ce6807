"""Neighbouring tables chosen against a release: ordinary records and the worst ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.public.partition import Partition

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]

KINDS = (
    "corner of a box",
    "corner of the domain",
    "edge between boxes",
    "corner of a box, any response",
    "inside a box",
    "beyond the bounds",
    "missing or undeclared value",
)
REACH = 1e3
"""Magnitude of values of a variable without public bounds."""
SPREAD = 0.7
"""Share of a range that ordinary records fill."""
UNDECLARED = "an undeclared level"


def ordinary_table(
    domain: Domain, variables: tuple[str, ...], n: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Some records in the lower part of the domain.

    The last level of every category, and the upper part of every range, are
    left to the record in which the neighbour differs.
    """
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in variables:
        variable = domain[name]
        if isinstance(variable, Categorical):
            index = rng.integers(max(len(variable.levels) - 1, 1), size=n)
            columns[name] = [variable.levels[i] for i in index]
        else:
            low, high = finite_bounds(variable)
            values = rng.uniform(low, low + (high - low) * SPREAD, n)
            columns[name] = np.floor(values) if variable.integer else values
    return pd.DataFrame(columns)


def neighbour_of(table: pd.DataFrame, record: Record, neighbours: str) -> pd.DataFrame:
    """The table with one record more, or with its last record replaced."""
    import pandas as pd

    kept = len(table) if neighbours == "add-remove" else len(table) - 1
    columns = {name: [*table[name].tolist()[:kept], record[name]] for name in table.columns}
    return pd.DataFrame(columns)


def lowest_record(domain: Domain, variables: tuple[str, ...]) -> Record:
    """The lower corner of the domain."""
    return {
        name: variable.levels[0]
        if isinstance(variable := domain[name], Categorical)
        else finite_bounds(variable)[0]
        for name in variables
    }


def finite_bounds(variable: Numeric) -> tuple[float, float]:
    """Bounds of a variable, `REACH` from the other one where one is unknown."""
    low, high = variable.lower, variable.upper
    if math.isinf(low) and math.isinf(high):
        return -REACH, REACH
    if math.isinf(low):
        return high - REACH, high
    if math.isinf(high):
        return low, low + REACH
    return low, high


class Candidates:
    """Records that move a release the most, by kind.

    Parameters
    ----------
    domain : Domain
        Declared bounds and levels of all variables.
    working : Domain
        The domain that the release worked on.
    partition : Partition
        The partition of the release.
    rng : Generator
        Picks boxes and corners where there are too many.
    limit : int
        Most candidates of a kind.
    """

    def __init__(
        self,
        domain: Domain,
        working: Domain,
        partition: Partition,
        rng: np.random.Generator,
        limit: int = 12,
    ) -> None:
        self._domain, self._working = domain, working
        self._partition = partition
        self._rng = rng
        self._limit = limit

    def of_kind(self, kind: str) -> list[Record]:
        """The candidates of one of `KINDS`."""
        makers = {
            "corner of a box": self._corners,
            "corner of the domain": self._domain_corners,
            "edge between boxes": self._edges,
            "corner of a box, any response": self._responses,
            "inside a box": self._inside,
            "beyond the bounds": self._beyond,
            "missing or undeclared value": self._missing,
        }
        return list(itertools.islice(makers[kind](), self._limit))

    def _others(self) -> list[str]:
        return [name for name in self._domain if name not in self._partition.variables]

    def _boxes(self) -> Iterator[tuple[int, int]]:
        """Boxes, and a pattern of sides: the extreme ones first."""
        k = self._partition.n_bins
        yield from ((0, 0), (k - 1, 1), (0, 1), (k - 1, 0))
        while True:
            yield int(self._rng.integers(k)), int(self._rng.integers(2, 2**31))

    def _side(self, pattern: int, place: int) -> int:
        if pattern < 2:
            return pattern
        return int(np.random.default_rng([pattern, place]).integers(2))

    def _corners(self) -> Iterator[Record]:
        boxes = self._partition.boxes
        for k, pattern in self._boxes():
            record: Record = {}
            for place, name in enumerate(self._partition.variables):
                side = self._side(pattern, place)
                variable = self._domain[name]
                if isinstance(variable, Categorical):
                    held = np.flatnonzero(boxes.members[name][k])
                    record[name] = variable.levels[held[-1] if side else held[0]]
                else:
                    low, high = float(boxes.lower[name][k]), float(boxes.upper[name][k])
                    inner = variable.integer or high >= self._top(name)
                    top = high if inner else math.nextafter(high, low)
                    record[name] = top if side else low
            for place, name in enumerate(self._others(), start=len(record)):
                record[name] = self._end(name, self._side(pattern, place))
            yield record

    def _domain_corners(self) -> Iterator[Record]:
        """Ends of the declared domain, last levels included, whatever the release made of it."""
        for pattern in (1, 0, 2, 3, 4, 5):
            record: Record = {}
            for place, (name, variable) in enumerate(self._domain.items()):
                side = self._side(pattern, place)
                if isinstance(variable, Categorical):
                    record[name] = variable.levels[-1 if side else 0]
                else:
                    record[name] = finite_bounds(variable)[side]
            yield record

    def _top(self, name: str) -> float:
        variable = self._working[name]
        assert isinstance(variable, Numeric)
        return variable.upper

    def _end(self, name: str, side: int) -> Any:
        variable = self._working[name]
        if isinstance(variable, Categorical):
            return variable.levels[-1 if side else 0]
        return finite_bounds(variable)[side]

    def _edges(self) -> Iterator[Record]:
        """Every variable on an inner edge, where a closed box would count it twice."""
        boxes = self._partition.boxes
        inner = {}
        for name, edges in boxes.lower.items():
            distinct = np.unique(edges)
            inner[name] = distinct[1:] if len(distinct) > 1 else distinct
        for record in self._corners():
            for name, edges in inner.items():
                record[name] = float(edges[self._rng.integers(len(edges))])
            yield record

    def _responses(self) -> Iterator[Record]:
        """Corners with the response anywhere, where a clipped residual weighs most."""
        inside = self._inside()
        for record in self._corners():
            somewhere = next(inside)
            yield {**record, **{name: somewhere[name] for name in self._others()}}

    def _inside(self) -> Iterator[Record]:
        names = tuple(self._domain)
        while True:
            table = ordinary_table(self._working, names, 1, self._rng)
            yield {name: table[name].iloc[0] for name in names}

    def _beyond(self) -> Iterator[Record]:
        for record, factor in zip(
            self._corners(), itertools.cycle((2.0, 1e6, 1e300)), strict=False
        ):
            for name in self._domain:
                variable = self._working[name]
                if isinstance(variable, Numeric):
                    low, high = finite_bounds(variable)
                    away = (high - low) * factor
                    up = record[name] > low + (high - low) / 2.0
                    record[name] = high + away if up else low - away
            yield record

    def _missing(self) -> Iterator[Record]:
        numeric = itertools.cycle((math.nan, math.inf, -math.inf))
        for record, name in zip(self._corners(), itertools.cycle(self._domain), strict=False):
            is_category = isinstance(self._domain[name], Categorical)
            record[name] = UNDECLARED if is_category else next(numeric)
            yield record
