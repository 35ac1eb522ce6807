"""Expressions on intervals: bounds on every box of a partition at once.

Additions, multiplications, divisions and square roots are rounded correctly,
and correct rounding is monotone: the operation on the ends of intervals, as
computed, bounds the operation on values inside, as computed. Other functions
are accurate to a few units in the last place and their bounds are widened by
`ULPS` such units, unless they are a single point.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbinagg.boxes import Boxes
from dpbinagg.domain import Categorical, Domain
from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula.arrays import MAX_PRODUCT_POWER, power
from dpbinagg.formula.expression import COMPARISONS, Call, Variable, variables
from dpbinagg.formula.functions import FUNCTIONS, Function

Array = NDArray[np.float64]
Truths = NDArray[np.bool_]

ULPS = 8


class Interval(NamedTuple):
    """Closed intervals, one for each box: arrays of lower and of upper ends."""

    lower: Array
    upper: Array


class UndefinedError(Exception):
    """An operation meets arguments on which it is undefined.

    Carries the index of the argument, the rule it must obey, and whether its
    lower or upper end is at fault (None: neither one alone).
    """

    def __init__(self, argument: int, rule: str, side: str | None = None) -> None:
        super().__init__(rule)
        self.argument = argument
        self.rule = rule
        self.side = side


def widen(bounds: Interval) -> Interval:
    """Widen intervals that are not points by a few units in the last place."""
    slack = np.where(bounds.lower < bounds.upper, ULPS * np.finfo(float).eps, 0.0)
    return Interval(
        bounds.lower - slack * np.abs(bounds.lower), bounds.upper + slack * np.abs(bounds.upper)
    )


def _ends(operation: Callable[[Array, Array], Array], a: Interval, b: Interval) -> Interval:
    """Bounds of an operation that is monotone in each argument."""
    corners = [operation(x, y) for x in a for y in b]
    lower = np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3]))
    upper = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    return Interval(lower, upper)


def multiply(a: Interval, b: Interval) -> Interval:
    """Bounds of a product of two unrelated quantities."""
    return _ends(np.multiply, a, b)


def _divide(a: Interval, b: Interval) -> Interval:
    if np.any((b.lower <= 0) & (b.upper >= 0)):
        raise UndefinedError(1, "must not include 0")
    return _ends(np.divide, a, b)


def _floor_divide(a: Interval, b: Interval) -> Interval:
    if np.any((b.lower <= 0) & (b.upper >= 0)):
        raise UndefinedError(1, "must not include 0")
    return _ends(np.floor_divide, a, b)


def _modulo(a: Interval, b: Interval) -> Interval:
    """Remainders by one positive number."""
    if np.any(b.lower != b.upper) or np.any(b.lower <= 0):
        raise UndefinedError(1, "must be a positive number")
    same = np.floor_divide(a.lower, b.lower) == np.floor_divide(a.upper, b.lower)
    return Interval(
        np.where(same, np.mod(a.lower, b.lower), 0.0),
        np.where(same, np.mod(a.upper, b.lower), b.lower),
    )


def _even(compute: Callable[[Array], Array], x: Interval) -> Interval:
    """Bounds of a function that is even and increasing in the absolute value."""
    far = np.maximum(np.abs(x.lower), np.abs(x.upper))
    near = np.where(
        (x.lower <= 0) & (x.upper >= 0), 0.0, np.minimum(np.abs(x.lower), np.abs(x.upper))
    )
    return Interval(compute(near), compute(far))


def _wave(compute: Callable[[Array], Array], peak: float, x: Interval) -> Interval:
    """Bounds of a sine with maxima at `peak` + 2 pi k."""
    ends = compute(x.lower), compute(x.upper)
    slack = ULPS * np.finfo(float).eps * (1 + np.maximum(np.abs(x.lower), np.abs(x.upper)))
    slack = np.where(x.lower < x.upper, slack, 0.0)

    def reaches(point: float) -> NDArray[np.bool_]:
        turns = np.ceil((x.lower - slack - point) / (2 * np.pi))
        return np.asarray(point + turns * 2 * np.pi <= x.upper + slack)

    moving = x.lower < x.upper
    lower = np.where(moving & reaches(peak + np.pi), -1.0, np.minimum(*ends) - slack)
    upper = np.where(moving & reaches(peak), 1.0, np.maximum(*ends) + slack)
    return Interval(np.maximum(lower, -1.0), np.minimum(upper, 1.0))


def _function(function: Function, x: Interval) -> Interval:
    if function.above is not None:
        wrong = x.lower < function.above if function.closed else x.lower <= function.above
        if np.any(wrong):
            rule = f"must be {'at least' if function.closed else 'above'} {function.above:g}"
            raise UndefinedError(0, rule, "lower")
    if function.shape == "sine":
        return _wave(function.compute, np.pi / 2, x)
    if function.shape == "cosine":
        return _wave(function.compute, 0.0, x)
    if function.shape == "even":
        bounds = _even(function.compute, x)
    else:
        bounds = Interval(function.compute(x.lower), function.compute(x.upper))
    return bounds if function.exact else widen(bounds)


def _power(x: Interval, exponent: Interval) -> Interval:
    """Powers with a constant exponent, or of a constant positive base."""
    if np.any(exponent.lower != exponent.upper):
        return widen(_ends(power, x, exponent))
    k = float(exponent.lower.flat[0])
    whole = k.is_integer()
    if k < 0 and np.any((x.lower <= 0) & (x.upper >= 0)):
        raise UndefinedError(0, "must not include 0")
    if not whole and np.any(x.lower < 0):
        raise UndefinedError(0, "must not be negative", "lower")

    def compute(base: Array) -> Array:
        return power(base, np.float64(k))  # type: ignore[arg-type]

    if whole and k % 2 == 0 and k > 0:
        bounds = _even(compute, x)
    elif whole and k < 0:
        bounds = _divide(Interval(np.float64(1), np.float64(1)), _power(x, _point(-k)))  # type: ignore[arg-type]
    else:
        ends = compute(x.lower), compute(x.upper)
        bounds = Interval(np.minimum(*ends), np.maximum(*ends))
    return bounds if whole and abs(k) <= MAX_PRODUCT_POWER else widen(bounds)


def _point(value: float) -> Interval:
    return Interval(np.asarray(value), np.asarray(value))


def _truth(lower: Truths, upper: Truths) -> Interval:
    """False is 0 and true is 1: [1, 1] where surely true, [0, 0] where surely false."""
    return Interval(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))


def _equal(a: Interval, b: Interval) -> Interval:
    surely = (a.lower == a.upper) & (b.lower == b.upper) & (a.lower == b.lower)
    return _truth(surely, (a.lower <= b.upper) & (b.lower <= a.upper))


def _not(a: Interval) -> Interval:
    return Interval(1.0 - a.upper, 1.0 - a.lower)


def _xor(a: Interval, b: Interval) -> Interval:
    fixed = (a.lower == a.upper) & (b.lower == b.upper)
    differ = a.lower != b.lower
    return _truth(fixed & differ, ~fixed | differ)


def _minimum(a: Interval, b: Interval) -> Interval:
    return Interval(np.minimum(a.lower, b.lower), np.minimum(a.upper, b.upper))


def _maximum(a: Interval, b: Interval) -> Interval:
    return Interval(np.maximum(a.lower, b.lower), np.maximum(a.upper, b.upper))


def _where(condition: Interval, a: Interval, b: Interval) -> Interval:
    surely, possibly = condition.lower == 1, condition.upper == 1
    lower = np.where(surely, a.lower, np.where(possibly, np.minimum(a.lower, b.lower), b.lower))
    upper = np.where(surely, a.upper, np.where(possibly, np.maximum(a.upper, b.upper), b.upper))
    return Interval(lower, upper)


OPERATIONS: Mapping[str, Callable[..., Interval]] = {
    "add": lambda a, b: Interval(a.lower + b.lower, a.upper + b.upper),
    "sub": lambda a, b: Interval(a.lower - b.upper, a.upper - b.lower),
    "mul": multiply,
    "div": _divide,
    "floordiv": _floor_divide,
    "mod": _modulo,
    "pow": _power,
    "neg": lambda a: Interval(-a.upper, -a.lower),
    "gt": lambda a, b: _truth(a.lower > b.upper, a.upper > b.lower),
    "ge": lambda a, b: _truth(a.lower >= b.upper, a.upper >= b.lower),
    "lt": lambda a, b: _truth(a.upper < b.lower, a.lower < b.upper),
    "le": lambda a, b: _truth(a.upper <= b.lower, a.lower <= b.upper),
    "eq": _equal,
    "ne": lambda a, b: _not(_equal(a, b)),
    "and": _minimum,
    "or": _maximum,
    "xor": _xor,
    "not": _not,
    "minimum": _minimum,
    "maximum": _maximum,
    "where": _where,
}


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
        return _point(value)

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
            lower = np.ceil(lower)
            upper = np.where(top, np.floor(upper), np.ceil(upper) - 1)
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
        return _truth(possibly & (members.sum(axis=1) == 1), possibly)

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
            return _function(FUNCTIONS[call.operation], arguments[0])
        if call.operation == "mul" and call.arguments[0] == call.arguments[1]:
            return _even(np.square, arguments[0])
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
