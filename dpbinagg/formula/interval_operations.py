"""Interval arithmetic on arrays, one interval for each box.

Additions, multiplications, divisions and square roots are rounded correctly,
and correct rounding is monotone: the operation on the ends of intervals, as
computed, bounds the operation on values inside, as computed. Other functions
are accurate to a few units in the last place and their bounds are widened by
`ULPS` such units, unless they are a single point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula import expression
from dpbinagg.formula.expression import MAX_PRODUCT_POWER, power
from dpbinagg.formula.functions import FUNCTIONS

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


def even(compute: Callable[[Array], Array], x: Interval) -> Interval:
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


def apply_function(name: str, x: Interval) -> Interval:
    """Bounds of a function of the white list."""
    function, compute = FUNCTIONS[name], expression.OPERATIONS[name]
    if function.above is not None:
        wrong = x.lower < function.above if function.closed else x.lower <= function.above
        if np.any(wrong):
            rule = f"must be {'at least' if function.closed else 'above'} {function.above:g}"
            raise UndefinedError(0, rule, "lower")
    if function.shape == "sine":
        return _wave(compute, np.pi / 2, x)
    if function.shape == "cosine":
        return _wave(compute, 0.0, x)
    if function.shape == "even":
        bounds = even(compute, x)
    else:
        bounds = Interval(compute(x.lower), compute(x.upper))
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
        bounds = even(compute, x)
    elif whole and k < 0:
        bounds = _divide(Interval(np.float64(1), np.float64(1)), _power(x, point(-k)))  # type: ignore[arg-type]
    else:
        ends = compute(x.lower), compute(x.upper)
        bounds = Interval(np.minimum(*ends), np.maximum(*ends))
    return bounds if whole and abs(k) <= MAX_PRODUCT_POWER else widen(bounds)


def point(value: float) -> Interval:
    return Interval(np.asarray(value), np.asarray(value))


def truth(lower: Truths, upper: Truths) -> Interval:
    """False is 0 and true is 1: [1, 1] where surely true, [0, 0] where surely false."""
    return Interval(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))


def _equal(a: Interval, b: Interval) -> Interval:
    surely = (a.lower == a.upper) & (b.lower == b.upper) & (a.lower == b.lower)
    return truth(surely, (a.lower <= b.upper) & (b.lower <= a.upper))


def _not(a: Interval) -> Interval:
    return Interval(1.0 - a.upper, 1.0 - a.lower)


def _xor(a: Interval, b: Interval) -> Interval:
    fixed = (a.lower == a.upper) & (b.lower == b.upper)
    differ = a.lower != b.lower
    return truth(fixed & differ, ~fixed | differ)


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
    "gt": lambda a, b: truth(a.lower > b.upper, a.upper > b.lower),
    "ge": lambda a, b: truth(a.lower >= b.upper, a.upper >= b.lower),
    "lt": lambda a, b: truth(a.upper < b.lower, a.lower < b.upper),
    "le": lambda a, b: truth(a.upper <= b.lower, a.lower <= b.upper),
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
