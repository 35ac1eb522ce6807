"""Formula and domain to the structure of a design, on zero records."""

from __future__ import annotations

import ast
import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import patsy
import patsy.categorical
from numpy.typing import NDArray

from dpbinagg.errors import DataError, FormulaError
from dpbinagg.formula.describe import describe
from dpbinagg.formula.functions import Requirement, requirements
from dpbinagg.formula.parse import is_call, syntax, variable_name
from dpbinagg.formula.read import Reader, declared_levels
from dpbinagg.formula.rows import (
    Arrays,
    CategoricalFactor,
    Factor,
    NumericFactor,
    NumericLevels,
    Subterm,
    Truth,
)
from dpbinagg.public.domain import Categorical, Domain, Numeric, codes_of

Floats = NDArray[np.float64]

MAX_COLUMNS = 5000
ZERO_RECORDS: dict[str, Any] = {}


@dataclass(frozen=True)
class Structure:
    """What a formula says, whatever the numeric bounds; see `Design`."""

    formula: str
    constants: Mapping[str, float]
    domain: Domain
    subterms: tuple[Subterm, ...]
    factors: Mapping[Factor, frozenset[str]]
    requirements: tuple[Requirement, ...]
    response: NumericFactor
    response_variables: tuple[str, ...]
    variables: tuple[str, ...]
    fixed: tuple[str, ...]
    intercept: int | None
    column_names: tuple[str, ...]
    design_info: Any
    apart: bool


def as_numbers(values: Any, name: str) -> NDArray[Any]:
    """A column as floats, missing values as NaN; the error shows no value."""
    try:
        if hasattr(values, "isna"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"variable {name!r} must be numeric, got {getattr(values, 'dtype', type(values))}; "
            "convert the column, or declare its levels"
        ) from None


class PublicFactor(patsy.EvalFactor):  # type: ignore[misc]
    """A factor that patsy evaluates through our expressions, never through Python."""

    def __init__(self, factor: Factor, domain: Domain, contrast: object) -> None:
        super().__init__(factor.name)
        self._factor, self._domain, self._contrast = factor, domain, contrast

    def memorize_passes_needed(self, state: dict[str, Any], eval_env: object) -> int:
        """No pass over data is needed."""
        return 0

    def eval(self, memorize_state: dict[str, Any], data: Mapping[str, Any]) -> Any:
        """Values for a public table, in the form that patsy expects."""
        factor = self._factor
        records, n = self._records(data)
        arrays = Arrays(records, self._domain, n, clip=False)
        with np.errstate(all="ignore"):
            if isinstance(factor, CategoricalFactor):
                levels: Any = list(factor.levels)
                codes = arrays.codes(factor)
                codes = np.where(arrays.missing, -1, codes)
                values = pd.Categorical.from_codes(codes, categories=levels)
                return patsy.categorical.C(values, self._contrast, levels)
            columns = arrays.numbers(factor)
        columns = columns[:, 0] if columns.shape[1:] == (1,) else columns
        return np.where(arrays.missing.reshape(-1, *[1] * (columns.ndim - 1)), np.nan, columns)

    def _records(self, data: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
        records: dict[str, Any] = {}
        for name in self._factor.variables:
            try:
                values = np.empty(0) if data is ZERO_RECORDS else data[name]
            except KeyError:
                raise DataError(f"the table lacks the variable {name!r}; add the column") from None
            variable = self._domain[name]
            if isinstance(variable, Categorical):
                records[name] = codes_of(values, variable)
            else:
                records[name] = np.atleast_1d(as_numbers(values, name))
        return records, max(len(values) for values in records.values())


def build_structure(formula: str, domain: Domain, constants: Mapping[str, float]) -> Structure:
    """Parse `formula` against public facts."""
    response_code, right = describe(formula)
    codes = [factor.name() for term in right for factor in term.factors]
    declared = _levels_in_code([*codes, response_code], domain)
    extended = domain.updated(declared)
    reader = Reader(extended, constants, frozenset(declared))
    factors = {code: reader.factor(code) for code in dict.fromkeys(codes)}
    response = _response(reader.factor(response_code))
    variables = tuple(dict.fromkeys(name for code in codes for name in factors[code].variables))
    used = extended.updated(
        {name: Numeric() for name in (*variables, *response.variables) if name not in extended}
    ).subset(tuple(dict.fromkeys((*variables, *response.variables))))
    design_info = _design_info(right, factors, used, reader.contrasts)
    subterms = subterms_of(design_info, factors)
    both = dict.fromkeys((*factors.values(), response))
    fixed = _fixed(factors.values())
    return Structure(
        formula=formula,
        constants=constants,
        domain=used,
        subterms=subterms,
        factors={factor: frozenset(factor.variables) for factor in both},
        requirements=tuple(found for factor in both for found in _requirements(factor)),
        response=response,
        response_variables=response.variables,
        variables=variables,
        fixed=tuple(name for name in used if name in fixed),
        intercept=next((s.start for s in subterms if not s.factors), None),
        column_names=tuple(design_info.column_names),
        design_info=design_info,
        apart=response.name not in factors and not set(response.variables) <= set(variables),
    )


def _requirements(factor: Factor) -> Iterator[Requirement]:
    """What variables must obey for the factor to be defined."""
    if isinstance(factor, NumericFactor):
        yield from requirements(factor.expression)
    elif isinstance(factor.source, Truth):
        yield from requirements(factor.source.expression)


def _response(factor: Factor) -> NumericFactor:
    """The response as one number; a comparison counts as 0 and 1."""
    if isinstance(factor, CategoricalFactor):
        if isinstance(factor.source, Truth):
            return NumericFactor(factor.name, factor.source.expression)
        raise FormulaError(
            f"response {factor.name!r} is categorical and a regression needs a number; write a "
            f"comparison such as I({factor.variables[0]} == {factor.levels[-1]!r}), "
            "which counts as 0 and 1"
        )
    if factor.n_columns != 1:
        raise FormulaError(
            f"response {factor.name!r} has {factor.n_columns} columns; use one number"
        )
    return factor


def _levels_in_code(codes: list[str], domain: Domain) -> dict[str, Categorical]:
    """Levels that C(x, levels=...) declares for variables not in the domain."""
    declared: dict[str, Categorical] = {}
    for code in dict.fromkeys(codes):
        for name, levels in _declarations(code):
            if name in domain:
                continue
            if name in declared and repr(declared[name].levels) != repr(levels):
                raise FormulaError(
                    f"term {code!r}: the levels of {name!r} are written in two ways; declare them "
                    "once, in bounds"
                )
            declared[name] = Categorical(levels)
    return declared


def _declarations(code: str) -> Iterator[tuple[str, tuple[Hashable, ...]]]:
    try:
        for node in ast.walk(syntax(code)):
            if isinstance(node, ast.Call) and is_call(node, "C"):
                levels = declared_levels(node)
                name = variable_name(node.args[0]) if node.args else None
                if levels is not None and name is not None:
                    yield name, levels
    except FormulaError as error:
        raise FormulaError(f"term {code!r}: {error}") from None


def _fixed(factors: Any) -> frozenset[str]:
    """Numeric variables whose bounds are the levels of a factor."""
    return frozenset(
        factor.source.name
        for factor in factors
        if isinstance(factor, CategoricalFactor) and isinstance(factor.source, NumericLevels)
    )


def _design_info(
    terms: list[Any],
    factors: Mapping[str, Factor],
    domain: Domain,
    contrasts: Mapping[str, object],
) -> Any:
    """Patsy's names, contrasts and column order, on zero records."""
    width = sum(
        math.prod(_most_columns(factors[factor.name()]) for factor in term.factors)
        for term in terms
    )
    if width == 0 or width > MAX_COLUMNS:
        raise FormulaError(
            f"the right side must have from 1 to {MAX_COLUMNS} columns, got about {width}; "
            "name at least one term, or use fewer levels and interactions"
        )
    public = {
        code: PublicFactor(factor, domain, contrasts.get(code)) for code, factor in factors.items()
    }
    own = [patsy.Term([public[factor.name()] for factor in term.factors]) for term in terms]
    try:
        (info,) = patsy.design_matrix_builders(
            [own], lambda: iter([ZERO_RECORDS]), patsy.EvalEnvironment([])
        )
    except patsy.PatsyError as error:
        raise FormulaError(f"formula cannot be built: {error.message}; correct the term") from None
    return info


def _most_columns(factor: Factor) -> int:
    return len(factor.levels) if isinstance(factor, CategoricalFactor) else factor.n_columns


def merge_equal(matrix: Floats) -> Floats:
    """A contrast matrix in which entries of a column that differ by rounding are equal.

    Otherwise a column that is constant on a box would seem to vary.
    """
    close = 16 * np.finfo(float).eps * np.abs(matrix).max(axis=0, initial=0.0)
    order = np.argsort(matrix, axis=0)
    ascending = np.take_along_axis(np.where(np.abs(matrix) <= close, 0.0, matrix), order, axis=0)
    rows = np.broadcast_to(np.arange(len(matrix))[:, None], matrix.shape)
    new = np.diff(ascending, axis=0, prepend=-np.inf) > close
    first = np.maximum.accumulate(np.where(new, rows, 0), axis=0)
    merged = np.empty_like(matrix)
    np.put_along_axis(merged, order, np.take_along_axis(ascending, first, axis=0), axis=0)
    return merged


def subterms_of(design_info: object, factors: Mapping[str, Factor]) -> tuple[Subterm, ...]:
    """Read the subterms of a patsy DesignInfo."""
    found: list[Subterm] = []
    start = 0
    for coded in design_info.term_codings.values():  # type: ignore[attr-defined]
        for info in coded:
            matrices = tuple(
                merge_equal(np.asarray(info.contrast_matrices[factor].matrix, dtype=np.float64))
                if factor in info.contrast_matrices
                else None
                for factor in info.factors
            )
            parts = tuple(factors[factor.name()] for factor in info.factors)
            found.append(Subterm(parts, matrices, start))
            start = found[-1].stop
    return tuple(found)
