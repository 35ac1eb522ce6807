"""Questions: public data that say how a record becomes a vector of norm at most 1.

A question is a list of groups ``(weight, map)`` over one public projection, with
``sum weight^2 norm2 <= 1``, checked in exact arithmetic: that is the whole proof that one record
moves the sums of a question by at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from dpbinagg.kernel import cells, maps, moments
from dpbinagg.kernel.grid import Floats
from dpbinagg.kernel.maps import Map
from dpbinagg.kernel.view import Projection
from dpbinagg.public.partition import Partition

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
    """

    name: str
    groups: tuple[Group, ...]
    projection: Projection | None = None
    records: str = "mapped"

    def __post_init__(self) -> None:
        if self.records not in RECORDS or not self.groups:
            raise ValueError(f"a question needs groups, and records of {', '.join(RECORDS)}")
        total = Fraction(0)
        for weight, map_ in self.groups:
            map_.check(self.projection)
            if not isinstance(weight, Fraction) or (weight * 2**WEIGHT_BITS).denominator != 1:
                raise ValueError("a weight must be a Fraction on its grid; use weigh()")
            if not weight > 0:
                raise ValueError("a weight must be above 0; leave the group out instead")
            total += weight**2 * map_.norm2
        if not total <= 1:
            raise ValueError("the weights of a question's groups have a norm above 1")

    @property
    def k(self) -> int:
        """Number of rows of W."""
        return 0 if self.projection is None else len(self.projection)


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


_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(maps.OneHot, maps.Unit, maps.Direction, maps.Outer, maps.OuterBeyond, maps.Interval),
        *(maps.Deviations, maps.Tensor, maps.UnitInside, moments.Moments),
        *(cells.Everyone, cells.Completeness, cells.NumberCells, cells.LevelCells),
        *(cells.FactorCells, cells.NormCells, cells.BinCells, Projection, Question),
    )
}
"""The closed set of what a question may hold."""


def to_plain(value: Any) -> Any:
    """A question, or what it holds, as plain values, lists and arrays."""
    if type(value).__name__ in _KINDS:
        held = {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **held}
    if isinstance(value, Partition):
        return {"kind": "Partition"}
    if isinstance(value, Fraction):
        return {"kind": "Fraction", "value": [value.numerator, value.denominator]}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(plain: Any, partition: Partition | None = None) -> Any:
    """The question that `to_plain` described; its partition, public too, is handed in."""
    if isinstance(plain, list):
        return tuple(from_plain(item, partition) for item in plain)
    if not isinstance(plain, Mapping):
        return plain
    kind = plain["kind"]
    if kind == "Partition":
        if partition is None:
            raise ValueError("the question needs a partition")
        return partition
    if kind == "Fraction":
        return Fraction(*plain["value"])
    held = {name: from_plain(item, partition) for name, item in plain.items() if name != "kind"}
    return _KINDS[kind](**held)
