"""Categorical factors: declared levels and contrasts."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from difflib import get_close_matches

import patsy

from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula.parse import call_arguments, is_none, label, labels, numbers
from dpbinagg.formula.rows import CategoricalFactor, LevelSource, NumericLevels, VariableLevels
from dpbinagg.public.domain import Categorical, Domain

MAX_LEVELS = 1000

CONTRASTS: dict[str, tuple[type, tuple[str, ...]]] = {
    "Treatment": (patsy.Treatment, ("reference",)),
    "Sum": (patsy.Sum, ("omit",)),
    "Helmert": (patsy.Helmert, ()),
    "Poly": (patsy.Poly, ("scores",)),
    "Diff": (patsy.Diff, ()),
}


def contrast(node: ast.expr | None) -> object:
    """A patsy contrast from the code of C's second argument; None if absent."""
    if is_none(node):
        return None
    function = node.func if isinstance(node, ast.Call) else node
    if not isinstance(function, ast.Name) or function.id not in CONTRASTS:
        assert node is not None
        raise FormulaError(
            f"contrast {ast.unparse(node)!r} is not known; use {', '.join(CONTRASTS)}, "
            'as in C(x, Treatment("b"))'
        )
    kind, names = CONTRASTS[function.id]
    if not isinstance(node, ast.Call):
        return kind()
    arguments = call_arguments(node, names, required=0)
    values: dict[str, object] = {}
    for name, argument in arguments.items():
        if not is_none(argument):
            values[name] = numbers(argument, {}, name) if name == "scores" else label(argument)
    return kind(**values)


def check_levels(levels: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Refuse levels that are repeated, missing or too many."""
    try:
        Categorical(levels)
    except DomainError as error:
        raise FormulaError(str(error)) from None
    if len(levels) > MAX_LEVELS:
        raise FormulaError(
            f"has {len(levels)} levels, more than {MAX_LEVELS}; group them before, "
            "or use the variable as a number"
        )
    return levels


def variable_factor(
    code: str, name: str, domain: Domain, levels: tuple[Hashable, ...] | None = None
) -> CategoricalFactor:
    """A factor made of the levels of one variable of the domain."""
    source: LevelSource
    variable = None
    if name in domain:
        variable = domain[name]
    if isinstance(variable, Categorical):
        if levels is None:
            levels = variable.levels
        place = {level: i for i, level in enumerate(check_levels(levels))}
        recode = tuple(place.get(level, -1) for level in variable.levels)
        if set(place) - set(variable.levels):
            raise FormulaError(
                f"levels are not among those declared for {name!r}; declare all of them in bounds"
            )
        source = VariableLevels(name, recode)
    else:
        if levels is None:
            if variable is None or not (variable.integer and variable.bounded):
                near = get_close_matches(name, [n for n in domain if n != name], n=1, cutoff=0.75)
                hint = f" (did you mean {near[0]!r}?)" if near and name not in domain else ""
                raise FormulaError(
                    f"the levels of {name!r} are not declared{hint} and must not be learnt from "
                    f'the data; write C({name}, levels=["a", "b"]), or declare them in bounds as '
                    f'{{"{name}": ["a", "b"]}} or, for whole numbers, range(...)'
                )
            span = int(variable.upper - variable.lower) + 1
            if span > MAX_LEVELS:
                raise FormulaError(
                    f"{name!r} has {span} possible whole numbers, more than {MAX_LEVELS}; narrow "
                    "its bounds or use it as a number"
                )
            levels = tuple(range(int(variable.lower), int(variable.upper) + 1))
        if not all(type(level) in (int, float) for level in check_levels(levels)):
            raise FormulaError(
                f"levels must be numbers, because {name!r} is declared numeric; declare it by "
                "its list of levels in bounds"
            )
        source = NumericLevels(name, tuple(float(level) for level in levels))  # type: ignore[arg-type]
    return CategoricalFactor(code, source, levels)


def declared_levels(call: ast.Call) -> tuple[Hashable, ...] | None:
    """The levels that a call of C writes out, None if it does not."""
    node = call_arguments(call, ("data", "contrast", "levels")).get("levels")
    return None if node is None or is_none(node) else check_levels(labels(node))
