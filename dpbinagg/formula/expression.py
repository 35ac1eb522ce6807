"""Expressions: what a factor of a formula computes for one record.

An expression is a small immutable tree. One walker, `evaluate`, computes it
with whatever backend it is given: arrays of records, intervals over boxes, or
source code of another language.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Constant:
    """A public number."""

    value: float

    @property
    def source(self) -> str:
        """The expression as text."""
        return f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A raw numeric variable."""

    name: str

    @property
    def source(self) -> str:
        """The expression as text."""
        return self.name


@dataclass(frozen=True, slots=True)
class Level:
    """Whether a categorical variable has the level `label`: false or true."""

    name: str
    label: Hashable

    @property
    def source(self) -> str:
        """The expression as text."""
        return self.name if self.label is True else f"{self.name} == {self.label!r}"


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of the white list applied to expressions."""

    operation: str
    arguments: tuple[Expression, ...]
    source: str = field(compare=False)


Expression = Constant | Variable | Level | Call

COMPARISONS = frozenset({"gt", "ge", "lt", "le", "eq", "ne"})
LOGICAL = frozenset({"and", "or", "xor", "not"})


class Backend(Protocol[V]):
    """What a walk needs: values for the leaves, and operations on them."""

    def constant(self, value: float) -> V: ...

    def variable(self, name: str) -> V: ...

    def level(self, name: str, label: Hashable) -> V: ...

    def apply(self, call: Call, arguments: Sequence[V]) -> V: ...

    def within(self, call: Call) -> Backend[V]:
        """The backend for the arguments of `call`."""
        ...


def evaluate(expression: Expression, backend: Backend[V]) -> V:
    """Compute `expression` with `backend`."""
    if isinstance(expression, Call):
        inner = backend.within(expression)
        return backend.apply(expression, [evaluate(a, inner) for a in expression.arguments])
    if isinstance(expression, Variable):
        return backend.variable(expression.name)
    if isinstance(expression, Level):
        return backend.level(expression.name, expression.label)
    return backend.constant(expression.value)


def leaves(expression: Expression) -> Iterator[Variable | Level]:
    """The variables of `expression`, left to right, repeated as they occur."""
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from leaves(argument)
    elif not isinstance(expression, Constant):
        yield expression


def variables(expression: Expression) -> tuple[str, ...]:
    """Names of the variables of `expression`, in order of appearance."""
    return tuple(dict.fromkeys(leaf.name for leaf in leaves(expression)))


def is_boolean(expression: Expression) -> bool:
    """Whether `expression` is false or true rather than a number."""
    if isinstance(expression, Call):
        return expression.operation in COMPARISONS or expression.operation in LOGICAL
    return isinstance(expression, Level)
