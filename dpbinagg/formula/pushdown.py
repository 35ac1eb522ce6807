"""Expressions of a data-frame engine: the design computed where the data are.

Built with narwhals, so that Polars, DuckDB, Arrow, Spark and others compute
the columns themselves. The rules are those of `arrays`: raw values are clipped
into the domain; NaN, infinities, nulls and undeclared levels are missing, and
a record with a missing value gives null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import FormulaError
from dpbinagg.formula.arrays import MAX_PRODUCT_POWER, integer_power
from dpbinagg.formula.expression import LOGICAL, Call, evaluate, is_boolean
from dpbinagg.formula.factors import (
    CategoricalFactor,
    Factor,
    NumericFactor,
    NumericLevels,
    VariableLevels,
)
from dpbinagg.formula.terms import Subterm
from dpbinagg.public.domain import Categorical, Domain

WHOLE = 2.0**52
"""Numbers from here on are whole."""

FUNCTIONS: Mapping[str, Callable[[nw.Expr], nw.Expr]] = {
    "log": lambda x: x.log(),
    "log2": lambda x: x.log(2),
    "log10": lambda x: x.log(10),
    "log1p": lambda x: (x + 1.0).log(),
    "exp": lambda x: x.exp(),
    "exp2": lambda x: (x * math.log(2.0)).exp(),
    "expm1": lambda x: x.exp() - 1.0,
    "sqrt": lambda x: x.sqrt(),
    "sinh": lambda x: (x.exp() - (0.0 - x).exp()) / 2.0,
    "cosh": lambda x: (x.exp() + (0.0 - x).exp()) / 2.0,
    "tanh": lambda x: 1.0 - 2.0 / ((2.0 * x).exp() + 1.0),
    "arcsinh": lambda x: _sign(x) * (x.abs() + (x * x + 1.0).sqrt()).log(),
    "floor": lambda x: floor(x),
    "ceil": lambda x: 0.0 - floor(0.0 - x),
    "trunc": lambda x: _choose(x >= 0.0, floor(x), 0.0 - floor(0.0 - x)),
    "sign": lambda x: _sign(x),
    "abs": lambda x: x.abs(),
    "square": lambda x: x * x,
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
}


def _choose(condition: nw.Expr, yes: nw.Expr | float, no: nw.Expr | float) -> nw.Expr:
    return nw.when(condition).then(yes).otherwise(no)


def floor(x: nw.Expr) -> nw.Expr:
    """The next whole number below; that of Spark has 64 bits and fails where they do not do."""
    return _choose(x.abs() < WHOLE, x.clip(-WHOLE, WHOLE).floor(), x)


def _sign(x: nw.Expr) -> nw.Expr:
    return _choose(x > 0.0, nw.lit(1.0), _choose(x < 0.0, nw.lit(-1.0), nw.lit(0.0)))


def _literal(x: Any) -> nw.Expr:
    return x if isinstance(x, nw.Expr) else nw.lit(x)


def _power(x: Any, exponent: Any) -> Any:
    whole = not isinstance(exponent, nw.Expr) and float(exponent).is_integer()
    if whole and 1 <= abs(exponent) <= MAX_PRODUCT_POWER:
        product: Any = integer_power(x, int(abs(exponent)))
        return product if exponent > 0 else 1.0 / product
    return x**exponent


def _modulo(x: Any, divisor: float) -> Any:
    return x - floor(x / divisor) * divisor


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: floor(a / b),
    "mod": _modulo,
    "pow": _power,
    "neg": lambda a: 0.0 - a,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: (a & ~b) | (~a & b),
    "not": lambda a: ~a,
    "minimum": lambda a, b: nw.min_horizontal(_literal(a), _literal(b)),
    "maximum": lambda a, b: nw.max_horizontal(_literal(a), _literal(b)),
    "where": lambda c, a, b: _choose(c, _literal(a), _literal(b)),
    **FUNCTIONS,
}


class Expressions:
    """The variables of a domain as engine expressions."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def constant(self, value: float) -> Any:
        """A number."""
        return value

    def variable(self, name: str) -> nw.Expr:
        """A numeric variable, clipped into the domain."""
        variable = self._domain[name]
        assert not isinstance(variable, Categorical)
        lower, upper = (
            side if math.isfinite(side) else None for side in (variable.lower, variable.upper)
        )
        x = nw.col(name).cast(nw.Float64)
        if lower is not None or upper is not None:
            x = x.clip(lower, upper)
        return x.round(0) if variable.integer else x

    def present(self, name: str) -> nw.Expr:
        """Whether a variable is not missing."""
        variable = self._domain[name]
        if isinstance(variable, Categorical):
            return nw.col(name).is_in(list(variable.levels)).fill_null(False)
        return nw.col(name).cast(nw.Float64).is_finite().fill_null(False)

    def level(self, name: str, label: Hashable) -> nw.Expr:
        """Whether a categorical variable has a level."""
        return nw.col(name) == label

    def apply(self, call: Call, arguments: Sequence[Any]) -> Any:
        """An operation on expressions; truth values become numbers where needed."""
        if call.operation not in OPERATIONS:
            raise FormulaError(
                f"{call.source} cannot be computed inside a data-frame engine; load the table as "
                "a pandas frame instead"
            )
        if call.operation not in LOGICAL and call.operation != "where":
            arguments = [
                value.cast(nw.Float64) if is_boolean(argument) else value
                for argument, value in zip(call.arguments, arguments, strict=True)
            ]
        return OPERATIONS[call.operation](*arguments)

    def within(self, call: Call) -> Expressions:
        """The same variables."""
        return self


def _levels(factor: CategoricalFactor, backend: Expressions) -> list[nw.Expr]:
    """Whether a record has each level of a factor."""
    source = factor.source
    if isinstance(source, VariableLevels):
        return [backend.level(source.name, label) for label in factor.levels]
    if isinstance(source, NumericLevels):
        return [backend.variable(source.name) == value for value in source.values]
    truth = evaluate(source.expression, backend)
    return [~truth, truth]


def _present(factor: Factor, backend: Expressions) -> list[nw.Expr]:
    """Conditions for a factor not to be missing."""
    conditions = [backend.present(name) for name in factor.variables]
    if isinstance(factor, CategoricalFactor):
        if isinstance(factor.source, NumericLevels):
            x = backend.variable(factor.source.name)
            conditions.append(x.is_in(list(factor.source.values)))
        elif isinstance(factor.source, VariableLevels):
            conditions.append(nw.col(factor.source.name).is_in(list(factor.levels)))
    return conditions


def _coded(tests: list[nw.Expr], entries: NDArray[np.float64]) -> nw.Expr:
    """A column of a contrast matrix."""
    column: nw.Expr = nw.lit(0.0)
    for test, entry in zip(tests, entries, strict=True):
        if entry != 0:
            column = _choose(test, nw.lit(float(entry)), column)
    return column


def _value(factor: NumericFactor, backend: Expressions) -> nw.Expr:
    if factor.basis is not None:
        raise FormulaError(
            f"term {factor.name!r}: splines cannot be computed inside a data-frame engine; load "
            "the table as a pandas frame instead"
        )
    value: nw.Expr = evaluate(factor.expression, backend)
    return value.cast(nw.Float64) if is_boolean(factor.expression) else value


def factor_expression(factor: NumericFactor, domain: Domain) -> nw.Expr:
    """The engine expression of a response, null where missing."""
    backend = Expressions(domain)
    valid = nw.all_horizontal(*_present(factor, backend), ignore_nulls=True)
    return nw.when(valid).then(_value(factor, backend)).alias(factor.name)


def column_expressions(
    subterms: Sequence[Subterm], names: Sequence[str], domain: Domain
) -> list[nw.Expr]:
    """Engine expressions of all design columns, null where the record is incomplete."""
    backend = Expressions(domain)
    factors = {factor.name: factor for part in subterms for factor in part.factors}
    conditions = [test for factor in factors.values() for test in _present(factor, backend)]
    values = {
        name: _value(factor, backend)
        for name, factor in factors.items()
        if isinstance(factor, NumericFactor)
    }
    tests = {
        name: _levels(factor, backend)
        for name, factor in factors.items()
        if isinstance(factor, CategoricalFactor)
    }
    columns = []
    for subterm in subterms:
        for choice in subterm.choices:
            pieces = [
                values[factor.name] if matrix is None else _coded(tests[factor.name], matrix[:, c])
                for factor, matrix, c in zip(subterm.factors, subterm.matrices, choice, strict=True)
            ]
            columns.append(reduce(lambda a, b: a * b, pieces) if pieces else nw.lit(1.0))
    if conditions:
        valid = nw.all_horizontal(*conditions, ignore_nulls=True)
        columns = [nw.when(valid).then(column) for column in columns]
    return [column.alias(name) for column, name in zip(columns, names, strict=True)]
