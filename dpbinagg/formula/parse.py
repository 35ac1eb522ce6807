"""Factor code to expressions: a white list over Python's syntax tree.

Nothing of a formula is ever run by Python. The code of each factor is parsed, checked node by node,
and turned into an expression; what is not on the list is refused with the remedy.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NoReturn, cast

import numpy as np

from dpbinagg.errors import FormulaError
from dpbinagg.formula.foreign import equivalent, not_python, reference_sentence
from dpbinagg.formula.functions import (
    ALIASES,
    BARE_NAMES,
    FUNCTIONS,
    LEARNING,
    REMEDIES,
    SPELLED,
    is_boolean,
    remedy,
    text_of,
)
from dpbinagg.formula.rows import (
    Arrays,
    Call,
    Constant,
    Expression,
    Level,
    Variable,
    variables,
)
from dpbinagg.public.domain import Categorical, Domain


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


BINARY: Mapping[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
COMPARE: Mapping[type[ast.AST], str] = {
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
PAIRS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "power": "pow",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
}
NUMPY_CONSTANTS = {"pi": math.pi, "e": math.e}
SPLINES = ("bs", "cr", "cc")
MAX_CODE = 2000


def syntax(code: str) -> ast.expr:
    """The syntax tree of a factor's code."""
    if len(code) > MAX_CODE:
        raise FormulaError(f"has more than {MAX_CODE} characters; split it")
    try:
        return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        why = not_python(code) or "is not a Python expression; check brackets and operators"
        raise FormulaError(why) from None


def is_call(node: ast.AST, *names: str) -> bool:
    """Whether `node` calls a function by one of these bare names."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def variable_name(node: ast.expr) -> str | None:
    """The variable that ``x``, ``Q("x")`` or ``I(x)`` names, else None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and is_call(node, "I", "Q"):
        argument = next(iter(call_arguments(node, ("x",)).values()))
        if is_call(node, "I"):
            return variable_name(argument)
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
        raise FormulaError('Q needs a column name written out, as in Q("weekly wage")')
    return None


class Parser:
    """Turns syntax trees into expressions, knowing only public facts.

    Parameters
    ----------
    domain : Domain
        Declared variables; any other name is a numeric variable.
    constants : mapping
        Numbers that the formula may call by name.
    only_levels : frozenset of str
        Variables whose levels only ``C(x, levels=...)`` declares.
    """

    def __init__(
        self,
        domain: Domain,
        constants: Mapping[str, float],
        only_levels: frozenset[str] = frozenset(),
    ) -> None:
        self.domain = domain
        self.constants = constants
        self.only_levels = only_levels

    def _is_categorical(self, name: str) -> bool:
        return name in self.domain and isinstance(self.domain[name], Categorical)

    def _refuse_only_levels(self, name: str) -> None:
        if name in self.only_levels:
            raise FormulaError(
                f"{name!r} is used both by itself and in C({name}, levels=...); declare it in "
                "bounds, by its numeric bounds or by its list of levels"
            )

    def _numeric(self, node: ast.expr) -> Expression:
        """An expression that is a number."""
        expression = self.expression(node)
        if is_boolean(expression):
            raise FormulaError(
                f"{text_of(expression)} is false or true where a number is needed; "
                f"write 1.0 * ({text_of(expression)})"
            )
        return expression

    def _truth(self, node: ast.expr) -> Expression:
        """An expression that is false or true."""
        expression = self.expression(node)
        if not is_boolean(expression):
            raise FormulaError(
                f"{text_of(expression)} is a number where a comparison is needed; "
                f"write ({text_of(expression)} > 0)"
            )
        return expression

    def expression(self, node: ast.expr) -> Expression:
        """The expression for a syntax tree."""
        if isinstance(node, ast.Constant):
            return Constant(number(node, {}, "a constant"))
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            return self._operation(BINARY[type(node.op)], (node.left, node.right), node)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        return _refuse(node)

    def _name(self, name: str) -> Expression:
        if name in self.constants:
            return Constant(self.constants[name])
        self._refuse_only_levels(name)
        if not self._is_categorical(name):
            return Variable(name)
        levels = self.domain[name].levels  # type: ignore[union-attr]
        if all(isinstance(level, bool) for level in levels) and True in levels:
            return Level(name, True)
        raise FormulaError(
            f"{name!r} is categorical and cannot be computed with; compare it with a level, as in "
            f"({name} == {levels[0]!r}), or use it as a term of its own"
        )

    def _unary(self, node: ast.UnaryOp) -> Expression:
        if isinstance(node.op, ast.UAdd):
            return self._numeric(node.operand)
        if isinstance(node.op, ast.USub):
            return _fold("neg", (self._numeric(node.operand),), node)
        if isinstance(node.op, ast.Invert):
            return _fold("not", (self._truth(node.operand),), node)
        raise FormulaError('"not" does not work on columns; write ~(x > 3)')

    def _operation(
        self, operation: str, nodes: tuple[ast.expr, ast.expr], node: ast.expr
    ) -> Expression:
        if operation in ("and", "or", "xor"):
            return _fold(operation, (self._truth(nodes[0]), self._truth(nodes[1])), node)
        left, right = self.expression(nodes[0]), self.expression(nodes[1])
        if is_boolean(left) and is_boolean(right):
            raise FormulaError(
                f"{ast.unparse(node)} computes with two comparisons; join them by & or |, or "
                f"multiply one by 1.0 to count"
            )
        if operation in ("mod", "floordiv") and not (
            isinstance(right, Constant) and right.value > 0
        ):
            raise FormulaError(
                f"{ast.unparse(node)}: the divisor must be a positive number; write it out"
            )
        positive = isinstance(left, Constant) and left.value > 0
        if operation == "pow" and not (isinstance(right, Constant) or positive):
            raise FormulaError(
                f"{ast.unparse(node)}: the exponent must be a number; write it out, or write "
                "np.exp(z * np.log(x))"
            )
        return _fold(operation, (left, right), node)

    def _compare(self, node: ast.Compare) -> Expression:
        if len(node.ops) > 1:
            raise FormulaError(
                f"{ast.unparse(node)}: chained comparisons do not work on columns; "
                "write (0 < x) & (x < 5)"
            )
        operation = COMPARE.get(type(node.ops[0]))
        if operation is None:
            raise FormulaError(
                f'{ast.unparse(node)}: this comparison is not allowed; write (x == "a") | '
                '(x == "b")'
            )
        sides = node.left, node.comparators[0]
        for side, other in (sides, sides[::-1]):
            name = variable_name(side)
            if name is not None and self._is_categorical(name) and operation in ("eq", "ne"):
                return self._level(name, other, operation, node)
            if isinstance(other, ast.Constant) and isinstance(other.value, str):
                raise FormulaError(
                    f"{ast.unparse(node)} compares with text; declare the levels of the variable "
                    "in bounds and use == or !="
                )
        left, right = self.expression(sides[0]), self.expression(sides[1])
        return _fold(operation, (left, right), node)

    def _level(self, name: str, other: ast.expr, operation: str, node: ast.expr) -> Expression:
        value = label(other)
        if value not in self.domain[name].levels:  # type: ignore[union-attr]
            raise FormulaError(
                f"{ast.unparse(node)}: {value!r} is not among the levels declared for {name!r}; "
                "correct it or declare it in bounds"
            )
        test = Level(name, value)
        return test if operation == "eq" else Call("not", (test,), ast.unparse(node))

    def _attribute(self, node: ast.Attribute) -> Expression:
        numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
        if numpy and node.attr in NUMPY_CONSTANTS:
            return Constant(NUMPY_CONSTANTS[node.attr])
        return _refuse(node)

    def _call(self, node: ast.Call) -> Expression:
        function = node.func
        if isinstance(function, ast.Name):
            name = function.id
            if name in ("I", "Q"):
                variable = variable_name(node)
                if variable is not None:
                    return self._name(variable)
                (argument,) = call_arguments(node, ("x",)).values()
                return self.expression(argument)
            if name in BARE_NAMES:
                return self._function(name, node)
        elif (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "np"
        ):
            return self._function(ALIASES.get(function.attr, function.attr), node)
        return _refuse(node)

    def _function(self, name: str, node: ast.Call) -> Expression:
        if name in FUNCTIONS:
            (argument,) = call_arguments(node, ("x",)).values()
            return _fold(name, (self._numeric(argument),), node)
        if name in PAIRS:
            given = call_arguments(node, ("x1", "x2"), required=2)
            return self._operation(PAIRS[name], (given["x1"], given["x2"]), node)
        if name == "logical_not":
            (argument,) = call_arguments(node, ("x",)).values()
            return _fold("not", (self._truth(argument),), node)
        if name == "where":
            given = call_arguments(node, ("condition", "x", "y"), required=3)
            branches = self._numeric(given["x"]), self._numeric(given["y"])
            return _fold("where", (self._truth(given["condition"]), *branches), node)
        if name == "clip":
            return self._clip(node)
        return _refuse(node)

    def _clip(self, node: ast.Call) -> Expression:
        renamed = {"min": "a_min", "max": "a_max"}
        for keyword in node.keywords:
            keyword.arg = renamed.get(keyword.arg or "", keyword.arg)
        given = call_arguments(node, ("a", "a_min", "a_max"))
        result = self._numeric(given["a"])
        for side, operation in (("a_min", "maximum"), ("a_max", "minimum")):
            if not is_none(given.get(side)):
                result = _fold(operation, (result, self._numeric(given[side])), node)
        return result


def _fold(operation: str, arguments: tuple[Expression, ...], node: ast.expr) -> Expression:
    """A call; a number if all its arguments are numbers."""
    call = Call(operation, arguments, ast.unparse(node))
    if variables(call):
        return call
    with np.errstate(all="ignore"):
        value = float(Arrays({}, Domain(), 0).value(call))
    if not math.isfinite(value):
        raise FormulaError(f"{text_of(call)} is not a finite number; correct it")
    return Constant(value)


def _refuse(node: ast.expr) -> NoReturn:
    """Say why `node` is not allowed and what to write instead."""
    text = ast.unparse(node)
    function = node.func if isinstance(node, ast.Call) else node
    name = function.attr if isinstance(function, ast.Attribute) else None
    name = function.id if isinstance(function, ast.Name) else name
    instead = equivalent(node)
    if instead is not None:
        raise FormulaError(f"{text} is not allowed in a formula; {instead}")
    if name in SPELLED:
        raise FormulaError(f"{text} is not allowed in a formula; {SPELLED[name]}")
    if name in LEARNING or name in REMEDIES:
        raise FormulaError(f"{text} learns from the data; {remedy(name or '')}")
    if name == "C" or name in SPLINES:
        raise FormulaError(f"{text} must be a term of its own; take it out of the expression")
    if name in FUNCTIONS or name in PAIRS:
        raise FormulaError(f"{text}: this function needs its prefix; write np.{name}")
    raise FormulaError(
        f"{text} is not allowed in a formula; use variables, numbers, arithmetic, comparisons and "
        "functions of one record such as np.log, np.sqrt, np.minimum, np.clip or np.where, or make "
        "it a column of the table"
    )
