"""Literals and arguments in the code of a factor."""

from __future__ import annotations

import ast
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import cast

from dpbinagg.errors import FormulaError
from dpbinagg.formula.foreign import reference_sentence


def call_arguments(call: ast.Call, names: Sequence[str], required: int = 1) -> dict[str, ast.expr]:
    """Arguments of `call` by name, positional ones matched to `names`."""
    text = ast.unparse(call.func)
    signature = f"{text}({', '.join(names)})"
    if len(call.args) > len(names):
        raise FormulaError(f"{text} takes at most {len(names)} arguments; write {signature}")
    found = dict(zip(names, call.args, strict=False))
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        raise FormulaError(f"{text}: '*' is not allowed; write out the arguments of {signature}")
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg not in names or keyword.arg in found:
            instead = reference_sentence(call)
            if instead is not None:
                raise FormulaError(f"{text} has no argument {keyword.arg!r}; {instead}")
            raise FormulaError(f"{text} has no further argument {keyword.arg!r}; write {signature}")
        found[keyword.arg] = keyword.value
    for name in names[:required]:
        if name not in found:
            raise FormulaError(f"{text} lacks its argument {name!r}; write {signature}")
    return found


def number(node: ast.expr, constants: Mapping[str, float], what: str) -> float:
    """A finite number written out, or a constant passed by name."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number(node.operand, constants, what)
    if isinstance(node, ast.Name) and node.id in constants:
        return constants[node.id]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        try:
            value = float(node.value)  # type: ignore[arg-type]
        except OverflowError:
            value = math.inf
        if math.isfinite(value):
            return value
    raise FormulaError(
        f"{what} must be a finite number written out, got {ast.unparse(node)!r}; write the number, "
        'or pass it by name with constants={"k": ...}'
    )


def numbers(node: ast.expr, constants: Mapping[str, float], what: str) -> tuple[float, ...]:
    """A list of numbers written out."""
    if not isinstance(node, ast.List | ast.Tuple):
        raise FormulaError(
            f"{what} must be a list of numbers written out, got {ast.unparse(node)!r}; "
            f"write {what}=[10, 20]"
        )
    return tuple(number(item, constants, what) for item in node.elts)


def label(node: ast.expr) -> Hashable:
    """A level: text, a number or a truth value, written out."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = label(node.operand)
        if type(value) in (int, float):
            return cast(float, -value)  # type: ignore[operator]
    if isinstance(node, ast.Constant) and type(node.value) in (str, int, float, bool):
        return node.value
    raise FormulaError(
        f"levels must be text, numbers or True and False, written out; got {ast.unparse(node)!r}"
    )


def labels(node: ast.expr) -> tuple[Hashable, ...]:
    """A list of levels written out."""
    if not isinstance(node, ast.List | ast.Tuple):
        raise FormulaError(
            f"levels must be a list written out, got {ast.unparse(node)!r}; "
            'write levels=["a", "b"], or declare them in bounds'
        )
    return tuple(label(item) for item in node.elts)


def is_none(node: ast.expr | None) -> bool:
    """Whether an argument is absent or None."""
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
