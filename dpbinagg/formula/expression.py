"""Expressions: what a factor of a formula computes for one record.

An expression is a small immutable tree. On records it is computed by the functions of `OPERATIONS`
alone: all of them are elementwise, so that the value of a record depends on that record.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MAX_PRODUCT_POWER = 16


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


def power(base: Array, exponent: Array) -> Array:
    """`base ** exponent`; whole exponents up to 16 by repeated multiplication.

    Each product is rounded correctly, so the computed power is monotone wherever the power is.
    """
    if np.ndim(exponent) == 0 and float(exponent).is_integer():
        whole = int(exponent)
        if 1 <= abs(whole) <= MAX_PRODUCT_POWER:
            base = product = np.asarray(base, dtype=np.float64)
            for digit in bin(abs(whole))[3:]:
                product = product * product
                if digit == "1":
                    product = product * base
            return product if whole > 0 else 1.0 / product
    return np.asarray(np.power(base, exponent))


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "pow": power,
    "neg": np.negative,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "where": np.where,
    **{
        name: getattr(np, name)
        for name in (
            *("log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "sqrt", "cbrt", "arcsinh"),
            *("sinh", "tanh", "arctan", "sign", "floor", "ceil", "trunc", "rint", "abs", "square"),
            *("cosh", "sin", "cos"),
        )
    },
}
