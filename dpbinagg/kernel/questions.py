"""Questions: public data that say how a record becomes a vector of norm at most 1; and their sums.

A question is a list of groups ``(weight, map)`` over one public projection, with
``sum weight^2 norm2 <= 1``, checked in exact arithmetic: that is the whole proof that one record
moves the sums of a question by at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

import numpy as np

from dpbinagg.kernel import maps
from dpbinagg.kernel.maps import Map
from dpbinagg.kernel.view import Floats, Integers, Part, Projection, Rows, Sums, View
from dpbinagg.public.bins import Paths, TreeLocator

WEIGHT_BITS = 30
"""Weights are whole multiples of ``2^-WEIGHT_BITS``: fine against any noise."""
RECORDS = ("mapped", "complete", "all")

Group = tuple[Fraction, Map]


@dataclass(frozen=True, eq=False)
class Question:
    """A public question.

    Attributes
    ----------
    name : str
        What is released, as the list of mechanisms calls it.
    groups : tuple of (Fraction, Map)
        Weights, whole multiples of ``2^-WEIGHT_BITS``, and maps.
    projection : Projection, optional
        For maps of "w", "r" and "wr".
    records : {"mapped", "complete", "all"}
        Those for which the row map is defined; those that are complete in all variables that were
        read, whatever the row map says; or all.
    k : int
        Number of rows of W.
    raw : bool
        Whether it looks at more of a record than f.
    paths : Paths or None
        Whose path codes it needs.
    """

    name: str
    groups: tuple[Group, ...]
    projection: Projection | None = None
    records: str = "mapped"
    k: int = field(init=False)
    raw: bool = field(init=False)
    paths: Paths | None = field(init=False)

    def __post_init__(self) -> None:
        if self.records not in RECORDS or not self.groups:
            raise ValueError(f"a question needs groups, and records of {', '.join(RECORDS)}")
        pieces = [piece for _, map_ in self.groups for piece in map_.pieces()]
        for piece in pieces:
            piece.check(self.projection)
        total = Fraction(0)
        for weight, map_ in self.groups:
            if not isinstance(weight, Fraction) or (weight * 2**WEIGHT_BITS).denominator != 1:
                raise ValueError("a weight must be a Fraction on its grid; use weigh()")
            if not weight > 0:
                raise ValueError("a weight must be above 0; leave the group out instead")
            total += weight**2 * map_.norm2
        if not total <= 1:
            raise ValueError("the weights of a question's groups have a norm above 1")
        held = (p.partition for p in pieces if isinstance(p, maps.BinCells | maps.Deviations))
        paths = [p.paths for p in pieces if isinstance(p, maps.PrefixCells)]
        paths += [p.locator.paths for p in held if isinstance(p.locator, TreeLocator)]
        object.__setattr__(self, "k", 0 if not self.projection else len(self.projection.whitening))
        object.__setattr__(self, "raw", any(piece.raw for piece in pieces))
        object.__setattr__(self, "paths", paths[0] if paths else None)


@dataclass(frozen=True, eq=False)
class Answer:
    """Noisy answers to the groups of a question, and the standard deviations of their noise."""

    values: tuple[Floats, ...]
    scales: tuple[Floats, ...]


def weigh(groups: Sequence[tuple[float, Map]]) -> tuple[Group, ...]:
    """Groups with relative weights, brought to norm just below 1 together; those of 0 left out."""
    asked = [(weight, map_) for weight, map_ in groups if weight]
    norm = math.sqrt(sum(weight**2 * float(map_.norm2) for weight, map_ in asked))
    shaved = (1.0 - 2.0**-40) * 2**WEIGHT_BITS / norm
    return tuple(
        (Fraction(math.floor(weight * shaved), 2**WEIGHT_BITS), map_) for weight, map_ in asked
    )


def alone(map_: Map) -> tuple[Group, ...]:
    """One group; its weight is 1 where its norm is."""
    return ((Fraction(1), map_),) if map_.norm2 <= 1 else weigh([(1.0, map_)])


def scales_of(question: Question, mu: float) -> tuple[Floats, ...]:
    """Standard deviations of the noise of an answer."""
    return tuple(map_.scales(1.0 / (mu * float(w)), question.k) for w, map_ in question.groups)


@dataclass(frozen=True, eq=False)
class Sum:
    """The sums that several questions ask for, in one pass: what an engine applies to records.

    A pure function of clean records, with whole sums as its value. Pickled to other machines.
    Engines leave incomplete records out unless they are wanted, by all questions or by none.

    Attributes
    ----------
    questions : tuple of Question
    rows : Rows or None
    keys : tuple
        Of what may be kept of a pass and handed in again as `Part.known`.
    needs_records : bool
        Whether `Part.records` are needed even where everything of `keys` is known.
    all_records : bool
        Whether incomplete records are wanted too.
    width : int
        About how many numbers a record becomes on the way, so that steps fit the cache.
    """

    questions: tuple[Question, ...]
    rows: Rows | None = None
    keys: tuple[object, ...] = field(init=False)
    needs_records: bool = field(init=False)
    all_records: bool = field(init=False)
    width: int = field(init=False)

    def __post_init__(self) -> None:
        keys = dict.fromkeys((self.rows, *(question.paths for question in self.questions)))
        raw = any(question.raw or question.records != "mapped" for question in self.questions)
        every = {question.records == "all" for question in self.questions}
        if len(every) > 1:
            raise ValueError("questions about all records are asked by themselves")
        object.__setattr__(self, "keys", tuple(key for key in keys if key is not None))
        object.__setattr__(self, "needs_records", raw)
        object.__setattr__(self, "all_records", True in every)
        asked = [q.projection for q in self.questions if q.projection]
        parts = [part for one in asked for part in one.parts]
        each = {part.keys[0]: len(part.whitening) for part in parts}
        residuals = len({part.keys[1] for part in parts})
        cut = max((len(one.whitening) for one in asked), default=4)
        object.__setattr__(
            self,
            "width",
            (self.rows.size if self.rows else 4) + sum(each.values()) + residuals + cut,
        )

    def zeros(self) -> list[Integers]:
        """Sums over no record: for each group of each question."""
        return [
            np.zeros(map_.shape(question.k), dtype=np.int64)
            for question in self.questions
            for _, map_ in question.groups
        ]

    def run(self, parts: Iterable[Part]) -> list[Integers]:
        """Sums over some chunks, of at most `view.MOST_RECORDS` records together."""
        sums, rooms = self.zeros(), dict[object, Floats]()
        for part in parts:
            mapped, plain = View(part, self.rows, rooms), View(part, None, rooms)
            place = iter(sums)
            for question in self.questions:
                view = mapped if question.records == "mapped" else plain
                if question.projection is not None:
                    view.projection = question.projection
                for _, map_ in question.groups:
                    map_.add(view, next(place))
        return sums


class Engine(Protocol):
    """Holds a private table. What it returns must not leave the curator without noise."""

    def map_reduce(self, task: Sum) -> list[Sums]:
        """Apply `task` to all clean records and add up its sums exactly."""
        ...
