"""Factor code to factors: variables, categories with levels and contrasts, splines, expressions."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping
from difflib import get_close_matches

import patsy

from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula.foreign import bar, both, equivalent
from dpbinagg.formula.functions import is_boolean
from dpbinagg.formula.parse import (
    SPLINES,
    Parser,
    call_arguments,
    is_call,
    is_none,
    label,
    labels,
    number,
    numbers,
    syntax,
    variable_name,
)
from dpbinagg.formula.rows import (
    Basis,
    CategoricalFactor,
    Factor,
    LevelSource,
    NumericFactor,
    NumericLevels,
    Truth,
    VariableLevels,
)
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


SPLINE_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "bs": ("x", "df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
    "cr": ("x", "df", "knots", "lower_bound", "upper_bound", "constraints"),
    "cc": ("x", "df", "knots", "lower_bound", "upper_bound", "constraints"),
}


class Reader(Parser):
    """Reads whole factors; `Parser` reads the expressions inside them.

    Attributes
    ----------
    contrasts : dict of str to patsy contrast
        Of the factors that ask for one, by code.
    """

    def __init__(
        self, domain: Domain, constants: Mapping[str, float], only_levels: frozenset[str]
    ) -> None:
        super().__init__(domain, constants, only_levels)
        self.contrasts: dict[str, object] = {}

    def factor(self, code: str) -> Factor:
        """The factor with this code; errors name the term."""
        try:
            factor = self._factor(code, syntax(code))
            if not factor.variables:
                raise FormulaError("holds no variable; remove it, or use 1 for the intercept")
        except FormulaError as error:
            raise FormulaError(f"term {code!r}: {error}") from None
        except RecursionError:
            raise FormulaError(f"term {code!r} is nested too deeply; simplify it") from None
        return factor

    def _factor(self, code: str, node: ast.expr) -> Factor:
        while isinstance(node, ast.Call) and is_call(node, "I"):
            (node,) = call_arguments(node, ("x",)).values()
        if isinstance(node, ast.Call) and is_call(node, "C"):
            return self._category(code, node)
        if isinstance(node, ast.Call) and is_call(node, *SPLINES):
            return self._spline(code, node)
        name = variable_name(node)
        if name is not None and self._is_categorical(name):
            self._refuse_only_levels(name)
            return variable_factor(code, name, self.domain)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd):
            self._refuse_marks(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            raise FormulaError(f"is text; {equivalent(node)}")
        expression = self.expression(node)
        if is_boolean(expression):
            return CategoricalFactor(code, Truth(expression), (False, True))
        return NumericFactor(code, expression)

    def _refuse_marks(self, node: ast.BinOp) -> None:
        """Refuse | and & between what is no truth value: they mean something else in R."""
        for side in (node.left, node.right):
            name = variable_name(side)
            if isinstance(side, ast.Constant) or (name is not None and not self._is_truth(name)):
                raise FormulaError((bar if isinstance(node.op, ast.BitOr) else both)(node))

    def _is_truth(self, name: str) -> bool:
        return self._is_categorical(name) and is_boolean(self._name(name))

    def _category(self, code: str, call: ast.Call) -> CategoricalFactor:
        arguments = call_arguments(call, ("data", "contrast", "levels"))
        levels = declared_levels(call)
        coding = contrast(arguments.get("contrast"))
        if coding is not None:
            self.contrasts[code] = coding
        name = variable_name(arguments["data"])
        if name is not None and name not in self.constants:
            return variable_factor(code, name, self.domain, levels)
        expression = self.expression(arguments["data"])
        if not is_boolean(expression):
            raise FormulaError(
                "C takes a variable or a comparison; its levels must not be learnt from the data. "
                "Make a column for it before, and declare its levels"
            )
        if levels not in (None, (False, True)):
            raise FormulaError("the levels of a comparison are [False, True]; remove levels=")
        return CategoricalFactor(code, Truth(expression), (False, True))

    def _spline(self, code: str, call: ast.Call) -> NumericFactor:
        assert isinstance(call.func, ast.Name)
        given = call_arguments(call, SPLINE_ARGUMENTS[call.func.id])
        basis = spline_basis(call.func.id, given, self.constants)
        return NumericFactor(code, self._numeric(given["x"]), basis)


def spline_basis(kind: str, given: Mapping[str, ast.expr], constants: Mapping[str, float]) -> Basis:
    """The spline functions that public knots and bounds define."""
    example = f"{kind}(x, knots=[10, 20], lower_bound=0, upper_bound=40)"
    if not is_none(given.get("df")):
        raise FormulaError(
            f"df= places knots at quantiles of the data; write public knots, as in {example}"
        )
    if not is_none(given.get("constraints")):
        raise FormulaError("constraints= learn from the data; leave them out")
    for name in ("knots", "lower_bound", "upper_bound"):
        if is_none(given.get(name)):
            raise FormulaError(
                f"{name}= is missing and would be learnt from the data; write {example} "
                "with public numbers"
            )
    lower = number(given["lower_bound"], constants, "lower_bound")
    upper = number(given["upper_bound"], constants, "upper_bound")
    knots = numbers(given["knots"], constants, "knots")
    if not lower < upper or any(not lower < knot < upper for knot in knots):
        raise FormulaError(
            "knots must lie strictly between lower_bound and upper_bound; correct them"
        )
    if kind == "bs":
        degree = number(given["degree"], {}, "degree") if "degree" in given else 3.0
        if degree not in (0, 1, 2, 3, 4, 5):
            raise FormulaError("degree must be a whole number from 0 to 5; correct it")
        intercept = (
            bool(label(given["include_intercept"])) if "include_intercept" in given else False
        )
        return Basis("bs", knots, lower, upper, int(degree), intercept)
    if not knots or len(set(knots)) < len(knots):
        raise FormulaError("knots must be distinct, and at least one; correct knots=")
    return Basis("cr" if kind == "cr" else "cc", knots, lower, upper)
