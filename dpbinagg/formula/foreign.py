"""What users of R, Stata, fixest and statsmodels type in a formula, and how to write it here.

Nothing is translated: a formula is part of what is published, so it says itself what was
fitted. What is refused comes with its equivalent, made of the caller's own names.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable

from dpbinagg.errors import FormulaError

_STRING = re.compile(r"""'[^'\n]*'|"[^"\n]*\"""")
_MEMBER = re.compile(r"(?<![\w.])(?P<name>[\w.]+)\s*%\s*in\s*%\s*(?:c\s*\((?P<levels>[^)]*)\))?")
_OPERATOR = re.compile(r"%(?:[A-Za-z]{1,6}|[*>|<+-]{1,3})%")
_BACKTICK = re.compile(r"`(?P<name>[^`]*)`")
_POWER = re.compile(r"(?P<base>(?<![\w.])[\w.]+|\))\s*\^\s*(?P<exponent>\d+(?:\.\d+)?)")
_DOLLAR = re.compile(r"(?<![\w.])(?P<table>[^\W\d][\w.]*)\$(?P<name>\w+)")
_ALL = re.compile(r"(?<![\w.)\]])\.(?![\w.])")
_PREFIX = re.compile(r"(?<![\w.])(?P<kind>i|c|ib\d+|ibn)\.(?P<name>[^\W\d]\w*)(?![\w(.])")
_R_CALL = re.compile(
    r"(?<![\w.])(?P<name>as\.(?:factor|numeric|integer|character|logical)|is\.na)\("
)
_COMMANDS = ("reg", "regress", "areg", "xtreg", "reghdfe", "ivregress", "ivreg2", "xi", "lm")
_OPTION = re.compile(r",\s*(?:robust|r|vce|cluster|beta|noconstant|nocons|absorb|hc[123])\b")
_TIME = re.compile(r"(?<![\w.])[LFDS]\d*\.(?P<name>[^\W\d]\w*)(?![\w(.])")
_BETWEEN = re.compile(r"[\w)\]]\s*~")
_JOINED = re.compile(r"\)\s*(?:[&|]|and\b|or\b)\s*\(")
_SPACED = re.compile(r"(?<![\w.])[^\W\d]\w*(?: +[^\W\d]\w*)+")
_OPERATORS = frozenset({"and", "or", "not", "in", "is", "if", "else", "for", "lambda"})


def refuse_foreign(formula: str) -> None:
    """Refuse signs of other languages, before patsy stumbles over them."""
    hidden = _STRING.sub(
        lambda found: found[0][0] + "_" * (len(found[0]) - 2) + found[0][-1], formula
    )
    checks = (_command, _options, _time, _backtick, _member, _dollar, _stata, _r_call, _power)
    for check in (*checks, _all_columns, _tildes, _joined):
        sentence = check(formula, hidden)
        if sentence is not None:
            raise FormulaError(f"formula cannot be read: {sentence}")


def _command(formula: str, hidden: str) -> str | None:
    """A command of Stata, or an equation."""
    if "~" in hidden:
        return None
    names = re.findall(r"[^\W\d][\w.]*", hidden.split(",")[0])
    names = [name for name in names if name not in _COMMANDS]
    if len(names) < 2 or _STRING.search(formula):
        return None
    return (
        "there is no ~ between the response and the terms; write "
        f'"{names[0]} ~ {" + ".join(names[1:])}"'
    )


def _options(formula: str, hidden: str) -> str | None:
    found = next((f for f in _OPTION.finditer(hidden) if _outside(hidden, f.start())), None)
    if found is None:
        return None
    return (
        "what follows a comma are options of Stata; robust errors are the default here "
        "(cov_type='HC1'), '- 1' removes the intercept, and help(dpbinagg.dp_ols) has the arguments"
    )


def _outside(hidden: str, place: int) -> bool:
    """Whether no bracket is open there."""
    return hidden.count("(", 0, place) == hidden.count(")", 0, place)


def _time(formula: str, hidden: str) -> str | None:
    found = _TIME.search(hidden)
    if found is None:
        return None
    return (
        f"{found[0]} looks at another record, as a lag or a difference in Stata; make it a column "
        f'of the table beforehand (a column whose name has a dot is written Q("{found[0]}"))'
    )


def _tildes(formula: str, hidden: str) -> str | None:
    if len(_BETWEEN.findall(hidden)) > 1:
        return (
            "it has more than one ~; instrumental variables do not exist here, write y ~ x1 + x2, "
            "and cases as np.where(x > 3, 1, 0)"
        )
    response, tilde, terms = hidden.partition("~")
    if tilde and response.strip() and not terms.strip():
        return f'nothing is right of ~; for the mean alone write "{response.strip()} ~ 1"'
    return None


def _joined(formula: str, hidden: str) -> str | None:
    found = next((f for f in _JOINED.finditer(hidden) if _outside(hidden, f.start() + 1)), None)
    if found is None:
        return None
    return "comparisons are joined inside I(), as in I((x > 0) & (z > 0)) or I((x > 0) | (z > 0))"


def _backtick(formula: str, hidden: str) -> str | None:
    found = _BACKTICK.search(hidden)
    if found is None:
        return None
    name = formula[found.start("name") : found.end("name")]
    return f'{found[0]} is a name quoted as in R; write Q("{name}")'


def _member(formula: str, hidden: str) -> str | None:
    found = _MEMBER.search(hidden)
    if found is None:
        if _OPERATOR.search(hidden):
            return "operators between percent signs are R's; make a column of the table beforehand"
        return None
    levels = formula[found.start("levels") : found.end("levels")] if found["levels"] else ""
    listed = [level.strip() for level in levels.split(",") if level.strip()]
    tests = " | ".join(f"({found['name']} == {level})" for level in listed or ['"a"', '"b"'])
    return f"%in% is R's; write I({tests})"


def _dollar(formula: str, hidden: str) -> str | None:
    found = _DOLLAR.search(hidden)
    if found is None:
        return None
    return f"{found[0]} names a table as in R; write the column alone, {found['name']}"


def _stata(formula: str, hidden: str) -> str | None:
    """Stata's factor variables: ``i.region``, ``c.age##c.age``, ``ib2.region``."""
    if "#" not in hidden and _PREFIX.search(hidden) is None:
        return None
    square = re.compile(r"(?<![\w.])(?:c\.)?(\w+)##(?:c\.)?\1(?!\w)")
    text = square.sub(r"\1 + I(\1 ** 2)", formula)
    text = " * ".join(part.strip() for part in text.split("##"))
    text = ":".join(part.strip() for part in text.split("#"))
    text = _PREFIX.sub(_without_prefix, text)
    return (
        f'i., c., # and ## are Stata\'s; write "{text}"'
        ' (a column whose name has a dot is written Q("i.region"))'
    )


def _without_prefix(found: re.Match[str]) -> str:
    name, kind = found["name"], found["kind"]
    if kind == "c":
        return name
    base = kind.removeprefix("ib") if kind.startswith("ib") else ""
    return f"C({name}, Treatment({base}))" if base.isdigit() else f"C({name})"


def _r_call(formula: str, hidden: str) -> str | None:
    found = _R_CALL.search(hidden)
    if found is None:
        return None
    instead = {
        "as.factor": "C(x) makes categories, and bounds declares their levels",
        "as.character": "C(x) makes categories, and bounds declares their levels",
        "is.na": "records with a missing value are dropped; make a column that says so beforehand",
    }
    default = "1.0 * (x > 3) makes a number of a comparison; other types belong in bounds"
    return f"{found['name']} is R's; {instead.get(found['name'], default)}"


def _power(formula: str, hidden: str) -> str | None:
    found = _POWER.search(hidden)
    if found is None:
        return None
    base, exponent = found["base"], found["exponent"]
    if base == ")":
        start = formula[: found.start() + 1].rfind("(")
        inner = formula[start : found.start() + 1] if start >= 0 else "(a + b)"
        return f"the power is written **, not ^; write {inner}**{exponent}"
    return (
        f"the power is written **, not ^, and arithmetic goes in I(); write I({base} ** {exponent})"
    )


def _all_columns(formula: str, hidden: str) -> str | None:
    if _ALL.search(hidden) is None:
        return None
    return (
        "a dot for all other columns is R's; name the columns, since the formula is published "
        "and the table is not"
    )


def not_python(code: str) -> str | None:
    """Why the code of a factor is not an expression, where that can be told."""
    hidden = _STRING.sub(lambda one: "0" * len(one[0]), code)
    for word in re.findall(r"[^\W\d]\w*", hidden):
        if keyword.iskeyword(word) and word not in _OPERATORS | {"True", "False", "None"}:
            return f'uses {word}, a word of Python; write the column as Q("{word}")'
    if code.strip() in _OPERATORS:
        return f'is a word of Python; write the column as Q("{code.strip()}")'
    for found in _SPACED.finditer(hidden):
        if not _OPERATORS & set(found[0].split()):
            return f'has a name with spaces; write Q("{found[0]}")'
    return None


# Calls and other pieces that parse as Python.


def equivalent(node: ast.AST) -> str | None:
    """A sentence for a piece of code that other packages understand; None without one."""
    if isinstance(node, ast.Call):
        return _call(node)
    if isinstance(node, ast.BoolOp):
        sign = " & " if isinstance(node.op, ast.And) else " | "
        return f"write I({sign.join(f'({_text(value)})' for value in node.values)})"
    if _word(node) is not None:
        return f'a column is written without quotes, or as Q("{_word(node)}")'
    if isinstance(node, ast.Tuple):
        return f"write terms with a plus, {' + '.join(map(_text, node.elts))}"
    if isinstance(node, ast.Subscript) and _word(node.slice) is not None:
        return f'a column is written by its name alone, Q("{_word(node.slice)}")'
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.attr.startswith("_"):
            return None
        return (
            f'a column whose name has a dot is written Q("{_text(node)}"), and a column of a table '
            f"by its name alone, {node.attr}"
        )
    return None


def bar(node: ast.BinOp) -> str:
    """The sentence for ``x | group`` with operands that are no comparisons."""
    left, right = _text(node.left), _text(node.right)
    start = "" if isinstance(node.left, ast.Constant) else f"{left} + "
    return (
        "a bar does not absorb effects here, as it does in fixest and pyfixest, and there are no "
        f"random effects as in lme4; write the categories as a term, {start}C({right}), with their "
        "levels in bounds (for 'or' write I((x > 0) | (z > 0)))"
    )


def both(node: ast.BinOp) -> str:
    """The sentence for ``x & z`` with operands that are no comparisons."""
    left, right = _text(node.left), _text(node.right)
    return (
        f"& joins comparisons; an interaction is written {left}:{right}, with the terms themselves "
        f"{left} * {right} (for 'and' write I((x > 0) & (z > 0)))"
    )


def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def _word(node: ast.AST | None) -> str | None:
    """The text that a node writes out."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def _column(node: ast.expr) -> str:
    """The variable inside ``factor(x)``, ``C(x)`` or ``x``, as code."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return _text(node)


def _argument(call: ast.Call, place: int, *names: str) -> ast.expr | None:
    for entry in call.keywords:
        if entry.arg in names:
            return entry.value
    return call.args[place] if place < len(call.args) else None


def _coded(call: ast.Call, reference: ast.expr | None) -> str:
    column = _column(call.args[0])
    return f"C({column})" if reference is None else f"C({column}, Treatment({_text(reference)}))"


def _factor(call: ast.Call) -> str:
    return f"categories are written {_coded(call, None)}, with their levels in bounds"


def _fixest(call: ast.Call) -> str:
    coded = _coded(call, _argument(call, 9, "ref"))
    if len(call.args) > 1:
        coded = f"{coded}:{_text(call.args[1])}"
    return f"i() is fixest's; write {coded}, with the levels in bounds"


def _relevel(call: ast.Call) -> str:
    reference = _argument(call, 1, "ref", "reference") or ast.Constant("a")
    return f"the reference category is chosen by {_coded(call, reference)}"


def _interaction(call: ast.Call) -> str:
    return f"an interaction is written {':'.join(f'C({_column(one)})' for one in call.args)}"


def _polynomial(call: ast.Call) -> str:
    column = _text(call.args[0])
    degree = _argument(call, 1, "degree")
    most = degree.value if isinstance(degree, ast.Constant) else 2
    powers = range(2, min(most, 5) + 1) if isinstance(most, int) else range(2, 3)
    terms = " + ".join([column, *(f"I({column} ** {k})" for k in powers)])
    return f"orthogonal polynomials are computed from the data; write {terms}"


def _smooth(call: ast.Call) -> str:
    return (
        "its knots would be learnt from the data; write "
        f"cr({_text(call.args[0])}, knots=[10, 20], lower_bound=0, upper_bound=40) with public "
        "numbers"
    )


def _choice(call: ast.Call) -> str:
    return f"write np.where({', '.join(map(_text, call.args))})"


def _offset(call: ast.Call) -> str:
    return f"an offset is subtracted from the response, as in I(y - {_text(call.args[0])}) ~ x"


def _isin(call: ast.Call) -> str:
    base = call.func.value if isinstance(call.func, ast.Attribute) else call.args[0]
    levels = call.args[-1]
    listed = levels.elts if isinstance(levels, ast.List | ast.Tuple | ast.Set) else [levels]
    return f"write I({' | '.join(f'({_text(base)} == {_text(one)})' for one in listed)})"


def _logarithm(call: ast.Call) -> str:
    return f"write np.log({_text(call.args[0])})"


def _responses(call: ast.Call) -> str:
    return "a model has one response; fit one formula for each"


def _stepwise(call: ast.Call) -> str:
    return (
        "several models are fitted one by one; smaller models of one release cost nothing: "
        "res.release.ols(formula)"
    )


def _clusters(call: ast.Call) -> str:
    return "clusters, strata and weights are no terms of a formula; leave it out"


CALLS: dict[str, Callable[[ast.Call], str]] = {
    **dict.fromkeys(
        ("factor", "as_factor", "category", "Categorical", "dummy", "fe", "FE"), _factor
    ),
    **dict.fromkeys(("absorb", "get_dummies", "categorical", "ordered"), _factor),
    "i": _fixest,
    "relevel": _relevel,
    "fct_relevel": _relevel,
    "interaction": _interaction,
    "poly": _polynomial,
    **dict.fromkeys(("ns", "s", "rcs", "lo", "spline", "natural_spline"), _smooth),
    **dict.fromkeys(("ifelse", "if_else", "fifelse"), _choice),
    "offset": _offset,
    "isin": _isin,
    "ln": _logarithm,
    "cbind": _responses,
    **dict.fromkeys(("csw", "csw0", "sw", "sw0", "mvsw"), _stepwise),
    **dict.fromkeys(("cluster", "strata", "weights", "id"), _clusters),
}
"""Functions of other packages, by name."""


def _call(node: ast.Call) -> str | None:
    function = node.func
    name = function.id if isinstance(function, ast.Name) else None
    name = function.attr if isinstance(function, ast.Attribute) else name
    sentence = CALLS.get(name or "")
    return sentence(node) if sentence is not None and node.args else None


def reference_sentence(call: ast.Call) -> str | None:
    """For ``C(x, ref="a")`` and ``Treatment(ref="a")``: where the reference belongs."""
    for entry in call.keywords:
        if entry.arg in ("ref", "reference", "base"):
            value = _text(entry.value)
            if isinstance(call.func, ast.Name) and call.func.id == "C":
                column = _column(call.args[0]) if call.args else "x"
                return f"the reference category is chosen by C({column}, Treatment({value}))"
            if entry.arg != "reference":
                return f"write Treatment({value})"
    return None
