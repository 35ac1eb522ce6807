"""Bounds on boxes: of variables, expressions, factors and design columns, for all boxes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PPoly

from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula.expression import (
    COMPARISONS,
    Call,
    Expression,
    Level,
    Variable,
    variables,
)
from dpbinagg.formula.functions import FUNCTIONS
from dpbinagg.formula.interval_operations import (
    OPERATIONS,
    Interval,
    UndefinedError,
    apply_function,
    even,
    multiply,
    point,
    truth,
)
from dpbinagg.formula.rows import (
    Basis,
    CategoricalFactor,
    Factor,
    NumericFactor,
    NumericLevels,
    Subterm,
    VariableLevels,
)
from dpbinagg.public.boxes import Boxes
from dpbinagg.public.domain import Categorical, Domain

Array = NDArray[np.float64]
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
        if isinstance(expression, Call):
            inner = self.half_open() if expression.operation in COMPARISONS else self
            return _applied(expression, [inner.interval(a) for a in expression.arguments])
        if isinstance(expression, Variable):
            return self.variable(expression.name)
        if isinstance(expression, Level):
            variable, members = self._domain[expression.name], self.levels(expression.name)
            assert isinstance(variable, Categorical)
            possibly = members[:, variable.levels.index(expression.label)]
            return truth(possibly & (members.sum(axis=1) == 1), possibly)
        return point(expression.value)

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
        factors = [
            self._coded(factor, matrix)
            for factor, matrix in zip(subterm.factors, subterm.matrices, strict=True)
        ]
        for choice in subterm.choices:
            yield product_bounds(
                [factor[chosen] for factor, chosen in zip(factors, choice, strict=True)]
            )

    def _coded(self, factor: Factor, matrix: Array | None) -> list[Interval]:
        if isinstance(factor, NumericFactor):
            return self.numeric(factor)
        assert matrix is not None
        members = self.members(factor)
        none = ~members.any(axis=1)
        coded = []
        for column in matrix.T:
            lower = np.where(members, column, np.inf).min(axis=1)
            upper = np.where(members, column, -np.inf).max(axis=1)
            coded.append(Interval(np.where(none, 0.0, lower), np.where(none, 0.0, upper)))
        return coded


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


def _applied(call: Call, arguments: Sequence[Interval]) -> Interval:
    """An operation on intervals; `FormulaError` where it is undefined."""
    try:
        with np.errstate(all="ignore"):
            if call.operation in FUNCTIONS:
                result = apply_function(call.operation, arguments[0])
            elif call.operation == "mul" and call.arguments[0] == call.arguments[1]:
                result = even(np.square, arguments[0])
            else:
                result = OPERATIONS[call.operation](*arguments)
    except UndefinedError as error:
        raise FormulaError(_undefined(call, arguments, error)) from None
    if not (np.all(np.isfinite(result.lower)) and np.all(np.isfinite(result.upper))):
        raise FormulaError(
            f"{call.source} overflows on the declared bounds; narrow the bounds of "
            f"{' and '.join(map(repr, variables(call)))} or rescale it"
        )
    return result


def _undefined(call: Call, arguments: Sequence[Interval], error: UndefinedError) -> str:
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
