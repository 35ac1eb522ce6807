"""Exact sums: the pure functions that engines apply to clean records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpbinagg.kernel.counts import Selection, count_codes
from dpbinagg.kernel.grid import Integers, Sums
from dpbinagg.kernel.questions import Question
from dpbinagg.kernel.view import Part, Rows, View, Workspace, complete
from dpbinagg.public.partition import TreeLocator
from dpbinagg.public.paths import Paths


class Task(Protocol):
    """A pure function of clean records, with whole sums as its value. Pickled to other machines."""

    @property
    def keys(self) -> tuple[object, ...]:
        """Keys of what may be kept and handed in again as `Part.known`."""
        ...

    @property
    def needs_records(self) -> bool:
        """Whether `Part.records` are needed even where everything of `keys` is known."""
        ...

    @property
    def all_records(self) -> bool:
        """Whether incomplete records are wanted too."""
        ...

    def zeros(self) -> list[Integers]:
        """Sums over no record."""
        ...

    def run(self, parts: Iterable[Part]) -> list[Integers]:
        """Sums over some chunks, of at most `grid.MOST_RECORDS` records together."""
        ...


class Engine(Protocol):
    """Holds a private table. What it returns must not leave the curator without noise."""

    def map_reduce(self, task: Task) -> list[Sums]:
        """Apply `task` to all clean records and add up its sums exactly."""
        ...


@dataclass(frozen=True, eq=False)
class Sum:
    """The sums that several questions ask for, in one pass.

    Engines leave incomplete records out unless they are wanted, by all questions or by none.
    """

    questions: tuple[Question, ...]
    rows: Rows | None

    def __post_init__(self) -> None:
        if len({question.records == "all" for question in self.questions}) > 1:
            raise ValueError("questions about all records are asked by themselves")

    @property
    def keys(self) -> tuple[object, ...]:
        return () if self.rows is None else (self.rows, *self._paths)

    @property
    def _paths(self) -> tuple[object, ...]:
        locators = (m.cut_by.locator for q in self.questions for _, m in q.groups if m.cut_by)
        return tuple(dict.fromkeys(x.paths for x in locators if isinstance(x, TreeLocator)))

    @property
    def needs_records(self) -> bool:
        return any(
            question.records != "mapped" or map_.raw
            for question in self.questions
            for _, map_ in question.groups
        )

    @property
    def all_records(self) -> bool:
        return any(question.records == "all" for question in self.questions)

    def zeros(self) -> list[Integers]:
        return [map_.zeros(q.k) for q in self.questions for _, map_ in q.groups]

    def run(self, parts: Iterable[Part]) -> list[Integers]:
        sums, room = self.zeros(), Workspace()
        for part in parts:
            mapped = View(part, self.rows, room)
            plain = View(part, None, room)
            place = iter(sums)
            for question in self.questions:
                view = mapped if question.records == "mapped" else plain
                for _, map_ in question.groups:
                    map_.add(view, question.projection, next(place))
        return sums


@dataclass(frozen=True, eq=False)
class CodeCounts:
    """Counts of prefixes of path codes, below some nodes."""

    paths: Paths
    bits: int
    selection: Selection | None

    needs_records = False
    all_records = False

    @property
    def keys(self) -> tuple[object, ...]:
        return (self.paths,)

    def zeros(self) -> list[Integers]:
        return [
            count_codes(np.zeros(0, dtype=np.int64), self.paths.depth, self.bits, self.selection)
        ]

    def run(self, parts: Iterable[Part]) -> list[Integers]:
        (counts,) = self.zeros()
        room = Workspace()
        for part in parts:
            codes = View(part, None, room).path_codes(self.paths).astype(np.int64, copy=False)
            counts = counts + count_codes(codes, self.paths.depth, self.bits, self.selection)
        return [counts]


@dataclass(frozen=True, eq=False)
class CountIncomplete:
    """The number of incomplete records."""

    keys = ()
    needs_records = True
    all_records = True

    def zeros(self) -> list[Integers]:
        return [np.zeros(1, dtype=np.int64)]

    def run(self, parts: Iterable[Part]) -> list[Integers]:
        (count,) = self.zeros()
        for part in parts:
            assert part.records is not None
            lengths = [len(next(iter(r.values()))) for r in (part.records, complete(part.records))]
            count += lengths[0] - lengths[1]
        return [count]


def split(sums: Sequence[Sums], questions: Sequence[Question]) -> list[list[Sums]]:
    """The sums of each question."""
    place = iter(sums)
    return [[next(place) for _ in question.groups] for question in questions]
