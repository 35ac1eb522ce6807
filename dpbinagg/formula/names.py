"""The names that a formula uses, whatever the table and the domain are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dpbinagg.errors import FormulaError
from dpbinagg.formula.categories import declared_levels
from dpbinagg.formula.describe import describe
from dpbinagg.formula.parse import is_call, syntax, variable_name


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
