"""Factor code to factors: variables, categories, splines and expressions."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from dpbinagg.errors import FormulaError
from dpbinagg.formula.categories import contrast, declared_levels, variable_factor
from dpbinagg.formula.foreign import bar, both, equivalent
from dpbinagg.formula.parse import (
    SPLINES,
    Parser,
    call_arguments,
    is_call,
    is_none,
    label,
    number,
    numbers,
    syntax,
    variable_name,
)
from dpbinagg.formula.rows import Basis, CategoricalFactor, Factor, NumericFactor, Truth, is_boolean
from dpbinagg.public.domain import Domain

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
