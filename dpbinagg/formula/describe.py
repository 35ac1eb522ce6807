"""The formula as patsy reads it: terms, the code of their factors, and the names that they use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import comb
from typing import Any

import patsy
from patsy.parse_formula import parse_formula

from dpbinagg.errors import FormulaError
from dpbinagg.formula.foreign import refuse_foreign
from dpbinagg.formula.parse import is_call, syntax, variable_name
from dpbinagg.formula.read import declared_levels

MAX_FORMULA = 50_000
MAX_TERMS = 5000


def describe(formula: str) -> tuple[str, list[Any]]:
    """The code of the response and the terms of the right side; nothing is evaluated."""
    if not isinstance(formula, str):
        raise FormulaError(
            f'formula must be a string such as "y ~ x1 + x2", got {type(formula).__name__}'
        )
    if len(formula) > MAX_FORMULA:
        raise FormulaError(f"formula must have at most {MAX_FORMULA} characters; shorten it")
    if "\0" in formula:
        raise FormulaError("formula must not contain a null character; remove it")
    refuse_foreign(formula)
    try:
        tree = parse_formula(formula)
        _refuse_powers(tree)
        _refuse_differences(tree)
        if _most_terms(tree) > MAX_TERMS:
            raise FormulaError(
                f"formula must have at most {MAX_TERMS} terms; use fewer interactions"
            )
        description = patsy.ModelDesc.from_formula(tree)
    except patsy.PatsyError as error:
        raise FormulaError(
            f"formula cannot be read: {error}; arithmetic goes in I(...), as in I(2 * x) or "
            "I(x ** 0.5); patsy's documentation has the syntax"
        ) from None
    # Characters that patsy does not expect run into its own assertions.
    except (RecursionError, MemoryError, ValueError, SyntaxError, AssertionError, LookupError):
        raise FormulaError("formula cannot be read; check brackets and operators") from None
    return _response_code(description.lhs_termlist), description.rhs_termlist


def _most_terms(tree: Any) -> int:
    """At most so many terms come of a patsy parse tree."""
    if not tree.args:
        return 1
    counts = [min(_most_terms(argument), MAX_TERMS + 1) for argument in tree.args]
    if tree.type == "**":
        exponent = tree.args[1].token.extra if tree.args[1].token is not None else ""
        most = int(exponent) if str(exponent).isdigit() else 1
        total = 0
        for size in range(1, min(most, counts[0]) + 1):
            total += comb(counts[0], size)
            if total > MAX_TERMS:
                break
        return total
    if tree.type == ":":
        return counts[0] * counts[1]
    if tree.type == "*":
        return counts[0] + counts[1] + counts[0] * counts[1]
    return sum(counts)


def _refuse_powers(tree: Any) -> None:
    """Refuse ``x ** 2`` outside I(): to patsy, as to R, it is x without a square."""
    if tree.type == "**" and tree.args[0].type == "PYTHON_EXPR":
        code = tree.args[0].token.extra
        raise FormulaError(
            f"formula has {code} ** {tree.args[1].token.extra}, which by the rules of formulas is "
            f"{code} itself; for the power write I({code} ** {tree.args[1].token.extra})"
        )
    for argument in tree.args:
        _refuse_powers(argument)


def _refuse_differences(tree: Any) -> None:
    """Refuse ``x - mean(x)`` outside I(): to patsy, as to R, it takes away a term that is not."""
    if tree.type == "-" and len(tree.args) == 2 and tree.args[1].type == "PYTHON_EXPR":
        taken = tree.args[1].token.extra
        if taken not in _codes(tree.args[0]):
            raise FormulaError(
                f"formula takes {taken} away, which is none of its terms; a difference goes in "
                "I(), with a public number, as in I(x - 40)"
            )
    for argument in tree.args:
        _refuse_differences(argument)


def _codes(tree: Any) -> set[str]:
    """The code of all factors in a patsy parse tree."""
    own = {tree.token.extra} if tree.type == "PYTHON_EXPR" else set()
    return own.union(*map(_codes, tree.args))


def _response_code(terms: list[Any]) -> str:
    if len(terms) != 1 or len(terms[0].factors) != 1:
        raise FormulaError(
            f"formula must have exactly one response, got {len(terms)} terms left of '~'; "
            'write "y ~ x1 + x2", and arithmetic in I(...), as in "I(y1 + y2) ~ x1"'
        )
    return str(terms[0].factors[0].name())


def undeclared_names(formula: str) -> tuple[str, ...]:
    """Variables of a formula, but for those whose levels it lists: ``C(x, levels=[...])``.

    A formula that cannot be read has none: building it tells why.

    Examples
    --------
    >>> undeclared_names("np.log(wage) ~ educ + C(region) + C(sex, levels=['f', 'm'])")
    ('educ', 'region', 'wage')
    """
    try:
        response, right = describe(formula)
        codes = [*(factor.name() for term in right for factor in term.factors), response]
        trees = [syntax(code) for code in codes]
        listed = {name for tree in trees for name in _listed(tree)}
        names = dict.fromkeys(name for tree in trees for name in _variables(tree))
    except (FormulaError, RecursionError):
        return ()
    return tuple(name for name in names if name not in listed)


def _variables(node: ast.AST) -> Iterator[str]:
    name = variable_name(node) if isinstance(node, ast.expr) else None
    if name is not None:
        yield name
        return
    # What else C() takes is a contrast and levels.
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call) and is_call(node, "C"):
        children = list(node.args[:1])
    for child in children:
        called = isinstance(node, ast.Call) and child is node.func
        if not called and not isinstance(node, ast.Attribute):
            yield from _variables(child)


def _listed(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and is_call(node, "C") and node.args:
            name = variable_name(node.args[0])
            if name is not None and declared_levels(node) is not None:
                yield name
