"""Expressions on intervals: bounds on every box of a partition at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula.expression import COMPARISONS, Call, Variable, variables
from dpbinagg.formula.functions import FUNCTIONS
from dpbinagg.formula.interval_operations import (
    OPERATIONS,
    Interval,
    UndefinedError,
    apply_function,
    even,
    point,
    truth,
)
from dpbinagg.public.boxes import Boxes
from dpbinagg.public.domain import Categorical, Domain


class Intervals:
    """The ranges of a domain's variables on K boxes, ready for expressions.

    Variables that the boxes do not restrict range over the domain. Boxes are
    half-open: a comparison sees the largest float below the upper edge, so
    that ``x >= 65`` is false on all of [60, 65).
    """

    def __init__(self, domain: Domain, boxes: Boxes, half_open: bool = False) -> None:
        self._domain = domain
        self._boxes = boxes
        self._half_open = half_open
        self._ranges: dict[str, Interval] = {}

    def constant(self, value: float) -> Interval:
        """A number."""
        return point(value)

    def variable(self, name: str) -> Interval:
        """The range of a numeric variable on each box."""
        if name not in self._ranges:
            self._ranges[name] = self._range(name)
        return self._ranges[name]

    def _range(self, name: str) -> Interval:
        variable = self._domain[name]
        assert not isinstance(variable, Categorical)
        if not variable.bounded:
            raise DomainError(
                f"bounds of {name!r} are not known yet; declare them or let the curator find them"
            )
        whole = np.array([variable.lower]), np.array([variable.upper])
        lower = np.clip(self._boxes.lower.get(name, whole[0]), variable.lower, variable.upper)
        upper = np.clip(self._boxes.upper.get(name, whole[1]), variable.lower, variable.upper)
        top = upper >= variable.upper
        if variable.integer:
            # Boxes of whole numbers hold both ends.
            lower, upper = np.ceil(lower), np.floor(upper)
        elif self._half_open:
            upper = np.where(top, upper, np.nextafter(upper, -np.inf))
        return Interval(lower, np.maximum(lower, upper))

    def half_open(self) -> Intervals:
        """The same ranges without the upper edges that belong to the next box."""
        return self if self._half_open else Intervals(self._domain, self._boxes, half_open=True)

    def members(self, name: str) -> NDArray[np.bool_]:
        """Which levels of a categorical variable each box holds, (K or 1, L)."""
        variable = self._domain[name]
        assert isinstance(variable, Categorical)
        everything = np.ones((1, len(variable.levels)), dtype=bool)
        return np.asarray(self._boxes.members.get(name, everything), dtype=bool)

    def level(self, name: str, label: Hashable) -> Interval:
        """Whether a categorical variable has a level."""
        variable = self._domain[name]
        assert isinstance(variable, Categorical)
        members = self.members(name)
        possibly = members[:, variable.levels.index(label)]
        return truth(possibly & (members.sum(axis=1) == 1), possibly)

    def apply(self, call: Call, arguments: Sequence[Interval]) -> Interval:
        """An operation on intervals; `FormulaError` where it is undefined."""
        try:
            with np.errstate(all="ignore"):
                result = self._apply(call, arguments)
        except UndefinedError as error:
            raise FormulaError(undefined_message(call, arguments, error)) from None
        if not (np.all(np.isfinite(result.lower)) and np.all(np.isfinite(result.upper))):
            raise FormulaError(
                f"{call.source} overflows on the declared bounds; narrow the bounds of "
                f"{_names(call)} or rescale it"
            )
        return result

    def _apply(self, call: Call, arguments: Sequence[Interval]) -> Interval:
        if call.operation in FUNCTIONS:
            return apply_function(FUNCTIONS[call.operation], arguments[0])
        if call.operation == "mul" and call.arguments[0] == call.arguments[1]:
            return even(np.square, arguments[0])
        return OPERATIONS[call.operation](*arguments)

    def within(self, call: Call) -> Intervals:
        """Comparisons see half-open boxes."""
        return self.half_open() if call.operation in COMPARISONS else self


def _names(call: Call) -> str:
    return " and ".join(repr(name) for name in variables(call))


def undefined_message(call: Call, arguments: Sequence[Interval], error: UndefinedError) -> str:
    """Say which argument of `call` is at fault and which bound to change."""
    culprit = call.arguments[error.argument]
    lower = float(np.min(arguments[error.argument].lower))
    upper = float(np.max(arguments[error.argument].upper))
    text = (
        f"{call.source} is undefined on the declared bounds: {culprit.source} ranges over "
        f"[{lower:.6g}, {upper:.6g}] and {error.rule}; "
    )
    if isinstance(culprit, Variable) and error.side is not None:
        return text + f"change the {error.side} bound of {culprit.name!r}, which {error.rule}"
    named = " or ".join(repr(name) for name in variables(culprit)) or repr(culprit.source)
    return text + f"change the lower or the upper bound of {named} accordingly"
