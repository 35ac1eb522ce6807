"""Factors: the pieces of a term, each understood from public facts alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.arrays import Arrays
from dpbinagg.formula.expression import Expression, Variable, evaluate, variables
from dpbinagg.formula.interval_operations import Interval
from dpbinagg.formula.intervals import Intervals
from dpbinagg.formula.inverse import Requirement, requirements
from dpbinagg.formula.splines import Basis

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Members = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class NumericFactor:
    """A number for each record.

    Attributes
    ----------
    name : str
        The factor's code, as patsy writes it.
    expression : Expression
        What it computes.
    basis : Basis, optional
        Spline functions of `expression`, a column for each.
    """

    name: str
    expression: Expression
    basis: Basis | None = None

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return 1 if self.basis is None else self.basis.n_columns

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the raw variables."""
        return variables(self.expression)

    @property
    def is_variable(self) -> bool:
        """Whether the factor is a raw variable itself."""
        return self.basis is None and isinstance(self.expression, Variable)

    def requirements(self) -> Iterator[Requirement]:
        """What variables must obey for the factor to be defined."""
        return requirements(self.expression)

    def columns(self, arrays: Arrays) -> list[Array]:
        """Values for records, one (n,) array for each column."""
        values = np.asarray(evaluate(self.expression, arrays), dtype=np.float64)
        return [values] if self.basis is None else self.basis.columns(values)

    def bounds(self, intervals: Intervals) -> list[Interval]:
        """Bounds on boxes, one interval array for each column."""
        interval = evaluate(self.expression, intervals)
        return [interval] if self.basis is None else self.basis.bounds(interval)


@dataclass(frozen=True, slots=True)
class VariableLevels:
    """Levels of a categorical variable, `recode` its codes to the factor's (-1: not a level)."""

    name: str
    recode: tuple[int, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the raw variables."""
        return (self.name,)

    def codes(self, arrays: Arrays) -> Codes:
        """Level of each record, (n,); -1 is missing."""
        codes: Codes = arrays.codes(self.name)
        if self.recode == tuple(range(len(self.recode))):
            return codes
        codes = np.append(np.asarray(self.recode, dtype=np.intp), -1)[np.maximum(codes, -1)]
        arrays.missing |= codes < 0
        return codes

    def members(self, intervals: Intervals) -> Members:
        """Levels in each box, (K or 1, L)."""
        declared = intervals.members(self.name)
        members = np.zeros((len(declared), max(self.recode) + 1), dtype=bool)
        for code, level in enumerate(self.recode):
            if level >= 0:
                members[:, level] = declared[:, code]
        return members


@dataclass(frozen=True, slots=True)
class NumericLevels:
    """Some values of a numeric variable as levels; other values are missing."""

    name: str
    values: tuple[float, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the raw variables."""
        return (self.name,)

    def codes(self, arrays: Arrays) -> Codes:
        """Level of each record, (n,); -1 is missing."""
        x = arrays.variable(self.name)
        values = np.asarray(self.values)
        order = np.argsort(values)
        place = np.minimum(np.searchsorted(values[order], x), len(values) - 1)
        codes: Codes = order[place]
        codes = np.where(values[codes] == x, codes, -1)
        arrays.missing |= codes < 0
        return codes

    def members(self, intervals: Intervals) -> Members:
        """Levels in each box, (K or 1, L)."""
        lower, upper = intervals.half_open().variable(self.name)
        values = np.asarray(self.values)
        return np.asarray((lower[:, None] <= values) & (values <= upper[:, None]))


@dataclass(frozen=True, slots=True)
class Truth:
    """False and true as levels."""

    expression: Expression

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the raw variables."""
        return variables(self.expression)

    def codes(self, arrays: Arrays) -> Codes:
        """Level of each record, (n,)."""
        return np.asarray(evaluate(self.expression, arrays)).astype(np.intp)

    def members(self, intervals: Intervals) -> Members:
        """Levels in each box, (K or 1, 2)."""
        lower, upper = evaluate(self.expression, intervals)
        return np.stack([np.atleast_1d(lower) < 1, np.atleast_1d(upper) > 0], axis=1)


LevelSource = VariableLevels | NumericLevels | Truth


@dataclass(frozen=True, slots=True)
class CategoricalFactor:
    """A level for each record; patsy's contrast turns levels into columns.

    Attributes
    ----------
    name : str
        The factor's code, as patsy writes it.
    source : LevelSource
        Where the level of a record comes from.
    levels : tuple
        The declared levels, in order.
    contrast : object
        A patsy contrast, or None for patsy's default.
    """

    name: str
    source: LevelSource
    levels: tuple[Hashable, ...]
    contrast: object = None

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the raw variables."""
        return self.source.variables

    def requirements(self) -> Iterator[Requirement]:
        """What variables must obey for the factor to be defined."""
        if isinstance(self.source, Truth):
            return requirements(self.source.expression)
        return iter(())


Factor = NumericFactor | CategoricalFactor
