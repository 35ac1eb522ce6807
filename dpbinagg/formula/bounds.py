"""Bounds on boxes: of variables, expressions, factors and design columns, for all boxes at once.

Interval arithmetic is on arrays, one interval for each box. Additions, multiplications, divisions
and square roots are rounded correctly, and correct rounding is monotone: the operation on the ends
of intervals, as computed, bounds the operation on values inside, as computed. Other functions are
accurate to a few units in the last place and their bounds are widened by `ULPS` such units, unless
they are a single point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula.functions import COMPARISONS, FUNCTIONS, text_of
from dpbinagg.formula.rows import (
    MAX_PRODUCT_POWER,
    OPERATIONS,
    Basis,
    Call,
    CategoricalFactor,
    Expression,
    Level,
    NumericFactor,
    NumericLevels,
    Subterm,
    Variable,
    VariableLevels,
    power,
    variables,
)
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.public.partition import Boxes

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
    function, compute = FUNCTIONS[name], OPERATIONS[name]
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
    compute = partial(power, exponent=np.float64(k))  # type: ignore[arg-type]
    if whole and k % 2 == 0 and k > 0:
        bounds = even(compute, x)
    elif whole and k < 0:
        one, positive = np.asarray(1.0), Interval(-exponent.lower, -exponent.upper)
        bounds = _divide(Interval(one, one), _power(x, positive))
    else:
        ends = compute(x.lower), compute(x.upper)
        bounds = Interval(np.minimum(*ends), np.maximum(*ends))
    return bounds if whole and abs(k) <= MAX_PRODUCT_POWER else widen(bounds)


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


ON_INTERVALS: Mapping[str, Callable[..., Interval]] = {
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


Members = NDArray[np.bool_]

SLACK = 1e-13
"""What splines may be off, relative to their largest value."""


class Bounds:
    """Bounds on K boxes over a domain; those of a variable or a factor are computed once.

    Variables that the boxes do not restrict range over the domain. Boxes are
    half-open: a comparison sees the largest float below the upper edge, so
    that ``x >= 65`` is false on all of [60, 65).
    """

    def __init__(self, domain: Domain, boxes: Boxes, half_open: bool = False) -> None:
        self._domain, self._boxes, self._half_open = domain, boxes, half_open
        self._ranges: dict[str, Interval] = {}
        self._numeric: dict[str, list[Interval]] = {}
        self._members: dict[str, Members] = {}

    def variable(self, name: str) -> Interval:
        """The range of a numeric variable on each box."""
        if name in self._ranges:
            return self._ranges[name]
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
        self._ranges[name] = Interval(lower, np.maximum(lower, upper))
        return self._ranges[name]

    def half_open(self) -> Bounds:
        """The same boxes without the upper edges that belong to the next box."""
        return self if self._half_open else Bounds(self._domain, self._boxes, half_open=True)

    def levels(self, name: str) -> Members:
        """Which levels of a categorical variable each box holds, (K or 1, L)."""
        variable = self._domain[name]
        assert isinstance(variable, Categorical)
        everything = np.ones((1, len(variable.levels)), dtype=bool)
        return np.asarray(self._boxes.members.get(name, everything), dtype=bool)

    def interval(self, expression: Expression) -> Interval:
        """The range of an expression on each box; `FormulaError` where it is undefined."""
        if isinstance(expression, Variable):
            return self.variable(expression.name)
        if isinstance(expression, Level):
            variable, members = self._domain[expression.name], self.levels(expression.name)
            assert isinstance(variable, Categorical)
            possibly = members[:, variable.levels.index(expression.label)]
            return truth(possibly & (members.sum(axis=1) == 1), possibly)
        if not isinstance(expression, Call):
            value = np.asarray(expression.value)
            return Interval(value, value)
        operation, of = expression.operation, expression.arguments
        inner = self.half_open() if operation in COMPARISONS else self
        arguments = [inner.interval(argument) for argument in of]
        try:
            with np.errstate(all="ignore"):
                if operation in FUNCTIONS:
                    result = apply_function(operation, arguments[0])
                elif operation == "mul" and of[0] == of[1]:
                    result = even(np.square, arguments[0])
                else:
                    result = ON_INTERVALS[operation](*arguments)
        except UndefinedError as error:
            raise FormulaError(_undefined(expression, arguments, error)) from None
        if not (np.all(np.isfinite(result.lower)) and np.all(np.isfinite(result.upper))):
            raise FormulaError(
                f"{text_of(expression)} overflows on the declared bounds; narrow the bounds of "
                f"{' and '.join(map(repr, variables(expression)))} or rescale it"
            )
        return result

    def numeric(self, factor: NumericFactor) -> list[Interval]:
        """Bounds of a numeric factor's columns."""
        if factor.name not in self._numeric:
            interval = self.interval(factor.expression)
            self._numeric[factor.name] = (
                [interval] if factor.basis is None else spline_bounds(factor.basis, interval)
            )
        return self._numeric[factor.name]

    def members(self, factor: CategoricalFactor) -> Members:
        """Levels of a factor in each box, (K or 1, L)."""
        if factor.name not in self._members:
            source = factor.source
            if isinstance(source, VariableLevels):
                declared = self.levels(source.name)
                members = np.zeros((len(declared), max(source.recode) + 1), dtype=bool)
                for code, level in enumerate(source.recode):
                    if level >= 0:
                        members[:, level] = declared[:, code]
            elif isinstance(source, NumericLevels):
                lower, upper = self.half_open().variable(source.name)
                values = np.asarray(source.values)
                members = np.asarray((lower[:, None] <= values) & (values <= upper[:, None]))
            else:
                lower, upper = self.interval(source.expression)
                members = np.stack([np.atleast_1d(lower) < 1, np.atleast_1d(upper) > 0], axis=1)
            self._members[factor.name] = members
        return self._members[factor.name]

    def columns(self, subterm: Subterm) -> Iterator[Interval]:
        """Bounds of the columns of `subterm`, in order."""
        factors: list[list[Interval]] = []
        for factor, matrix in zip(subterm.factors, subterm.matrices, strict=True):
            if isinstance(factor, NumericFactor):
                factors.append(self.numeric(factor))
                continue
            assert matrix is not None
            members, coded = self.members(factor), []
            none = ~members.any(axis=1)
            for column in matrix.T:
                lower = np.where(members, column, np.inf).min(axis=1)
                upper = np.where(members, column, -np.inf).max(axis=1)
                coded.append(Interval(np.where(none, 0.0, lower), np.where(none, 0.0, upper)))
            factors.append(coded)
        for choice in subterm.choices:
            yield product_bounds(
                [factor[chosen] for factor, chosen in zip(factors, choice, strict=True)]
            )


def product_bounds(pieces: Sequence[Interval]) -> Interval:
    """Bounds of a product of unrelated quantities."""
    if not pieces:
        return Interval(np.ones(1), np.ones(1))
    result = pieces[0]
    for piece in pieces[1:]:
        result = multiply(result, piece)
    return result


def spline_bounds(basis: Basis, x: Interval) -> list[Interval]:
    """Bounds of spline functions on intervals, attained up to rounding."""
    ends = basis(x.lower), basis(x.upper)
    where = _critical(basis)
    extremes = basis(where)
    inside = (x.lower[..., None] <= where) & (where <= x.upper[..., None])
    slack = SLACK * max(1.0, float(np.abs(extremes).max()))
    intervals = []
    for j in range(extremes.shape[1]):
        low = np.where(inside, extremes[:, j], np.inf).min(axis=-1)
        high = np.where(inside, extremes[:, j], -np.inf).max(axis=-1)
        lower = np.minimum(np.minimum(ends[0][..., j], ends[1][..., j]), low)
        upper = np.maximum(np.maximum(ends[0][..., j], ends[1][..., j]), high)
        varies = lower < upper
        intervals.append(
            Interval(lower - np.where(varies, slack, 0), upper + np.where(varies, slack, 0))
        )
    return intervals


@lru_cache(maxsize=64)
def _critical(basis: Basis) -> Array:
    """Where a function may have an extreme inside an interval."""
    spline, b_spline = basis.spline, basis.kind == "bs"
    knots = np.unique(spline.t if b_spline else spline.x)
    points = [knots, np.nextafter(knots, -np.inf)]
    for j in range(spline.c.shape[-1]):
        if b_spline:
            piecewise = PPoly.from_spline((spline.t, spline.c[:, j], basis.degree))
        else:
            piecewise = PPoly(spline.c[:, :, j], spline.x)
        if not b_spline or basis.degree > 1:
            roots = np.atleast_1d(piecewise.derivative().roots(extrapolate=False))
            points.append(roots[np.isfinite(roots)])
    return np.unique(np.clip(np.concatenate(points), basis.lower, basis.upper))


def _undefined(call: Call, arguments: Sequence[Interval], error: UndefinedError) -> str:
    """Say which argument of `call` is at fault and which bound to change."""
    culprit = call.arguments[error.argument]
    lower = float(np.min(arguments[error.argument].lower))
    upper = float(np.max(arguments[error.argument].upper))
    text = (
        f"{text_of(call)} is undefined on the declared bounds: {text_of(culprit)} ranges over "
        f"[{lower:.6g}, {upper:.6g}] and {error.rule}; "
    )
    if isinstance(culprit, Variable) and error.side is not None:
        return text + f"change the {error.side} bound of {culprit.name!r}, which {error.rule}"
    named = " or ".join(repr(name) for name in variables(culprit)) or repr(text_of(culprit))
    return text + f"change the lower or the upper bound of {named} accordingly"
