"""Formula and domain to the structure of a design, on zero records."""

from __future__ import annotations

import ast
import math
import threading
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import patsy
import patsy.categorical

from dpbinagg.errors import DataError, FormulaError
from dpbinagg.formula.arrays import Arrays, as_numbers
from dpbinagg.formula.categories import declared_levels
from dpbinagg.formula.describe import describe
from dpbinagg.formula.factors import CategoricalFactor, Factor, NumericFactor, NumericLevels, Truth
from dpbinagg.formula.parse import is_call, syntax, variable_name
from dpbinagg.formula.read import Reader
from dpbinagg.formula.terms import Subterm, subterms_of
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.public.rows import codes_of

MAX_COLUMNS = 5000
ZERO_RECORDS: dict[str, Any] = {}


CACHE_SIZE = 64


@dataclass(frozen=True)
class Structure:
    """What a formula says, whatever the numeric bounds."""

    formula: str
    constants: Mapping[str, float]
    domain: Domain
    subterms: tuple[Subterm, ...]
    right_factors: tuple[Factor, ...]
    response: NumericFactor
    variables: tuple[str, ...]
    fixed: frozenset[str]
    design_info: Any


_CACHE: dict[tuple[str, str, str], Structure] = {}
_CACHE_LOCK = threading.Lock()


class PublicFactor(patsy.EvalFactor):  # type: ignore[misc]
    """A factor that patsy evaluates through our expressions, never through Python."""

    def __init__(self, factor: Factor, domain: Domain) -> None:
        super().__init__(factor.name)
        self._factor = factor
        self._domain = domain

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
                codes = factor.source.codes(arrays)
                codes = np.where(arrays.missing, -1, codes)
                values = pd.Categorical.from_codes(codes, categories=levels)
                return patsy.categorical.C(values, factor.contrast, levels)
            columns = factor.columns(arrays)
        stacked = np.stack(columns, axis=1) if factor.n_columns > 1 else columns[0]
        return np.where(arrays.missing.reshape(-1, *[1] * (stacked.ndim - 1)), np.nan, stacked)

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


def check_constants(constants: Mapping[str, float], domain: Domain) -> dict[str, float]:
    """Check the numbers that a formula may call by name."""
    checked: dict[str, float] = {}
    for name, value in constants.items():
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool) or not isinstance(plain, int | float):
            raise FormulaError(
                f"constants[{name!r}] must be a number, got {type(value).__name__}; arrays and "
                "columns must not be passed"
            )
        if not math.isfinite(plain):
            raise FormulaError(f"constants[{name!r}] must be finite; correct it")
        if name in domain:
            raise FormulaError(
                f"constants[{name!r}] is also a variable of the domain; rename the constant"
            )
        checked[name] = float(plain)
    return checked


def cached_structure(formula: str, domain: Domain, constants: Mapping[str, float]) -> Structure:
    """`build_structure`, remembering what was built."""
    numbers = check_constants(constants, domain)
    key = (str(formula), repr(domain), repr(numbers))
    structure = _CACHE.get(key)
    if structure is None:
        structure = build_structure(formula, domain, numbers)
        with _CACHE_LOCK:
            if len(_CACHE) >= CACHE_SIZE:
                _CACHE.clear()
            _CACHE[key] = structure
    return structure


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
    design_info = _design_info(right, factors, used)
    return Structure(
        formula,
        constants,
        used,
        subterms_of(design_info, factors),
        tuple(factors.values()),
        response,
        variables,
        _fixed(factors.values()),
        design_info,
    )


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


def check_sides(structure: Structure) -> None:
    """Refuse a response that the right side determines."""
    response, names = structure.response, {factor.name for factor in structure.right_factors}
    if response.name in names or set(response.variables) <= set(structure.variables):
        raise FormulaError(
            f"response {response.name!r} is made of variables that are also on the right side; "
            "remove them there"
        )


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


def _design_info(terms: list[Any], factors: Mapping[str, Factor], domain: Domain) -> Any:
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
    public = {code: PublicFactor(factor, domain) for code, factor in factors.items()}
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
