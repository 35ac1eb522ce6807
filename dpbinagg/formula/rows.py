"""Expressions and row maps: from clean records to design columns, response and codes of factors.

This is all of a formula that sees records. An expression is a small immutable tree; a row map is
data: expressions, levels, contrast matrices and splines, which the other modules of this room made
of public facts. Whatever they do is done elementwise, by the functions of `OPERATIONS`, so that
what they give for a record depends on that record: they are row-local.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, CubicSpline

from dpbinagg.errors import DataError
from dpbinagg.public.variables import Categorical, Records, Variables

Values = NDArray[Any]

MAX_PRODUCT_POWER = 16


@dataclass(frozen=True, slots=True)
class Constant:
    """A public number."""

    value: float


@dataclass(frozen=True, slots=True)
class Variable:
    """A raw numeric variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Level:
    """Whether a categorical variable has the level `label`: false or true."""

    name: str
    label: Hashable


@dataclass(frozen=True, slots=True)
class Call:
    """An operation of the white list applied to expressions."""

    operation: str
    arguments: tuple[Expression, ...]
    source: str = field(compare=False)


Expression = Constant | Variable | Level | Call


def variables(expression: Expression) -> tuple[str, ...]:
    """Names of the variables of `expression`, in order of appearance."""
    if isinstance(expression, Call):
        found = chain.from_iterable(map(variables, expression.arguments))
        return tuple(dict.fromkeys(found))
    return () if isinstance(expression, Constant) else (expression.name,)


def power(base: Values, exponent: Values) -> Values:
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


Array = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Basis:
    """Spline functions of one number: patsy's bs, cr and cc, with public knots and bounds.

    The argument is clamped to [lower, upper], so that nothing is learnt from records and nothing
    is extrapolated.

    Parameters
    ----------
    kind : "bs", "cr" or "cc"
        B-splines; natural cubic splines; cyclic cubic splines. The cubic ones
        are parametrised by their values at the knots.
    inner : tuple of float
        Knots strictly inside the bounds.
    lower, upper : float
        Boundary knots.
    degree : int
        Of B-splines.
    intercept : bool
        Whether the first B-spline is kept.
    """

    kind: Literal["bs", "cr", "cc"]
    inner: tuple[float, ...]
    lower: float
    upper: float
    degree: int = 3
    intercept: bool = False

    @cached_property
    def spline(self) -> Any:
        """All functions, as scipy has them."""
        if self.kind == "bs":
            ends = [self.lower, self.upper] * (self.degree + 1)
            knots = np.sort(np.concatenate([ends, self.inner]))
            coefficients = np.eye(len(knots) - self.degree - 1)
            return BSpline(knots, coefficients[:, 0 if self.intercept else 1 :], self.degree)
        knots = np.sort(np.concatenate([[self.lower, self.upper], self.inner]))
        values = np.eye(len(knots))
        if self.kind == "cr":
            return CubicSpline(knots, values, bc_type="natural")
        values = values[:, :-1]
        values[-1, 0] = 1.0
        return CubicSpline(knots, values, bc_type="periodic")

    def __call__(self, x: Array) -> Array:
        """The functions at `x`, one column for each."""
        return np.asarray(self.spline(np.clip(x, self.lower, self.upper)))


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
        return 1 if self.basis is None else int(self.basis.spline.c.shape[-1])

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the raw variables."""
        return variables(self.expression)


@dataclass(frozen=True, slots=True)
class VariableLevels:
    """Levels of a categorical variable, `recode` its codes to the factor's (-1: not a level)."""

    name: str
    recode: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NumericLevels:
    """Some values of a numeric variable as levels; other values are missing."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Truth:
    """False and true as levels."""

    expression: Expression


LevelSource = VariableLevels | NumericLevels | Truth


@dataclass(frozen=True, slots=True)
class CategoricalFactor:
    """A level for each record; contrast matrices turn levels into columns.

    Attributes
    ----------
    name : str
        The factor's code, as patsy writes it.
    source : LevelSource
        Where the level of a record comes from.
    levels : tuple
        The declared levels, in order.
    """

    name: str
    source: LevelSource
    levels: tuple[Hashable, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the raw variables."""
        source = self.source
        return variables(source.expression) if isinstance(source, Truth) else (source.name,)


Factor = NumericFactor | CategoricalFactor


@dataclass(frozen=True)
class Subterm:
    """Consecutive columns: products of one column of each factor.

    Attributes
    ----------
    factors : tuple of Factor
        None for the intercept.
    matrices : tuple
        The (L, q) contrast matrix of each categorical factor, else None.
    start : int
        Index of the first column.
    """

    factors: tuple[Factor, ...]
    matrices: tuple[Array | None, ...]
    start: int

    @cached_property
    def choices(self) -> tuple[tuple[int, ...], ...]:
        """For each column, the column of each factor; the first factor's moves fastest."""
        widths = [
            factor.n_columns if isinstance(factor, NumericFactor) else np.shape(matrix)[1]  # type: ignore[arg-type]
            for factor, matrix in zip(self.factors, self.matrices, strict=True)
        ]
        backwards = product(*(range(width) for width in reversed(widths)))
        return tuple(tuple(reversed(choice)) for choice in backwards)

    @cached_property
    def stop(self) -> int:
        """Index after the last column."""
        return self.start + len(self.choices)


class Arrays:
    """Records of a domain, ready for expressions and factors; each is computed once.

    Numeric values are clipped into the domain and rounded to whole numbers where the variable is
    integer; NaN and infinities are missing.

    Attributes
    ----------
    missing : (n,) bool array
        Records with a missing value in any variable that was asked for.
    """

    def __init__(self, records: Records, domain: Variables, n: int, clip: bool = True) -> None:
        self._records, self._domain, self._clip = records, domain, clip
        self._variables: dict[str, NDArray[Any]] = {}
        self._factors: dict[str, NDArray[Any]] = {}
        self.missing = np.zeros(n, dtype=bool)

    def variable(self, name: str) -> NDArray[Any]:
        """Values of a variable, (n,): clipped numbers, or codes."""
        if name in self._variables:
            return self._variables[name]
        if name not in self._records:
            raise DataError(
                f"records lack the variable {name!r}, which the formula uses; add the column"
            )
        variable = self._domain[name]
        raw: NDArray[Any] = np.asarray(self._records[name])
        if isinstance(variable, Categorical):
            raw = raw.astype(np.intp, copy=False)
            self.missing |= raw < 0
        else:
            raw = np.asarray(raw, dtype=np.float64)
            self.missing |= ~np.isfinite(raw)
            if self._clip:
                # A copy: of an array that runs backward, numpy's functions differ in the last bit.
                raw = np.clip(raw, variable.lower, variable.upper)
                if variable.integer:
                    np.rint(raw, out=raw)
        self._variables[name] = raw
        return raw

    def value(self, expression: Expression) -> Any:
        """Values of an expression, (n,), or one number where it holds no variable."""
        if isinstance(expression, Call):
            arguments = [self.value(argument) for argument in expression.arguments]
            return OPERATIONS[expression.operation](*arguments)
        if isinstance(expression, Variable):
            return self.variable(expression.name)
        if isinstance(expression, Level):
            variable = self._domain[expression.name]
            assert isinstance(variable, Categorical)
            return self.variable(expression.name) == variable.levels.index(expression.label)
        return np.float64(expression.value)

    def codes(self, factor: CategoricalFactor) -> Codes:
        """Level of a factor, (n,); -1 is missing."""
        if factor.name in self._factors:
            return self._factors[factor.name]
        source = factor.source
        if isinstance(source, VariableLevels):
            codes: Codes = self.variable(source.name)
            if source.recode != tuple(range(len(source.recode))):
                known = np.append(np.asarray(source.recode, dtype=np.intp), -1)
                codes = known[np.maximum(codes, -1)]
                self.missing |= codes < 0
        elif isinstance(source, NumericLevels):
            x, values = self.variable(source.name), np.asarray(source.values)
            order = np.argsort(values)
            codes = order[np.minimum(np.searchsorted(values[order], x), len(values) - 1)]
            codes = np.where(values[codes] == x, codes, -1)
            self.missing |= codes < 0
        else:
            codes = np.asarray(self.value(source.expression)).astype(np.intp)
        self._factors[factor.name] = codes
        return codes

    def numbers(self, factor: NumericFactor) -> Array:
        """Values of a factor, (n, columns), or (n,) of one without splines."""
        if factor.name not in self._factors:
            values = np.asarray(self.value(factor.expression), dtype=np.float64)
            self._factors[factor.name] = values if factor.basis is None else factor.basis(values)
        return self._factors[factor.name]

    def fill(self, subterm: Subterm, out: Array) -> None:
        """Write the columns of `subterm` into its places in the matrix `out`."""
        if not subterm.factors:
            out[:, subterm.start] = 1.0
        for factor in subterm.factors:
            if isinstance(factor, CategoricalFactor):
                # Also where a single level leaves no column: who has another one is missing.
                self.codes(factor)
        for column, choice in zip(
            out.T[subterm.start : subterm.stop], subterm.choices, strict=True
        ):
            for place, factor in enumerate(subterm.factors):
                if isinstance(factor, NumericFactor):
                    numbers = self.numbers(factor)
                    piece = numbers if factor.basis is None else numbers[:, choice[place]]
                else:
                    matrix = subterm.matrices[place]
                    assert matrix is not None
                    piece = np.take(matrix[:, choice[place]], self.codes(factor), mode="clip")
                if place:
                    column *= piece
                else:
                    column[:] = piece


@dataclass(frozen=True, eq=False)
class RowMap:
    """Columns, response and codes of clean records: what the kernel is handed.

    Attributes
    ----------
    domain : Variables
        Bounds that numbers are clipped to.
    response : NumericFactor
    subterms : tuple of Subterm
        Whose columns are numbers; they start at column 0 and leave no gap.
    coded : tuple of Subterm
        Of categorical factors alone: codes of their combinations of levels, the first factor's
        moving fastest.
    finite : bool
        Whether a record with an infinite column or response is missing: where bounds are unknown.
    """

    domain: Variables
    response: NumericFactor
    subterms: tuple[Subterm, ...]
    coded: tuple[Subterm, ...] = ()
    finite: bool = False

    def __call__(self, records: Records) -> tuple[Array, Array, NDArray[np.int64]]:
        """Columns, (n, q); response, (n,); codes, (F, n).

        A record that misses anything has NaN in all columns and as its response.
        """
        n = len(next(iter(records.values())))
        arrays = Arrays(records, self.domain, n)
        columns = np.empty((n, self.subterms[-1].stop if self.subterms else 0), order="F")
        codes = np.zeros((len(self.coded), n), dtype=np.int64)
        with np.errstate(all="ignore"):
            response = arrays.numbers(self.response).reshape(n).copy()
            for code, subterm in zip(codes, self.coded, strict=True):
                step = 1
                for factor in subterm.factors:
                    assert isinstance(factor, CategoricalFactor)
                    code += step * arrays.codes(factor)
                    step *= len(factor.levels)
            for subterm in self.subterms:
                arrays.fill(subterm, columns)
        missing = arrays.missing
        if self.finite:
            missing |= ~np.isfinite(response) | ~np.isfinite(columns).all(axis=1)
        if missing.any():
            columns[missing], response[missing] = np.nan, np.nan
            codes[:, missing] = 0
        return columns, response, codes
