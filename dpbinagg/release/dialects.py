"""Names of variables and coefficients, and design columns, written in R and in Stata."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpbinagg.formula import Design
from dpbinagg.formula.rows import (
    Call,
    CategoricalFactor,
    Expression,
    Factor,
    Level,
    NumericFactor,
    Variable,
    VariableLevels,
)
from dpbinagg.public.domain import Categorical, Domain

R_WORDS = frozenset(
    ("if", "else", "repeat", "while", "function", "for", "next", "break", "in")
    + ("TRUE", "FALSE", "T", "F", "NULL", "Inf", "NaN", "NA")
    + ("NA_integer_", "NA_real_", "NA_complex_", "NA_character_")
)
"""Reserved by R's grammar, and its two short names for booleans."""

STATA_WORDS = frozenset(
    ("_all", "_b", "_coef", "_cons", "_n", "_N", "_pi", "_pred", "_rc", "_skip")
    + ("byte", "int", "long", "float", "double", "strL", "if", "else", "in", "using", "with")
)
"""Reserved by Stata, besides str1, str2 and so on."""

LONGEST = 32
"""Characters of a name in Stata."""

PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
REWRITTEN = (
    (r"""Q\((["'])(.*?)\1\)""", r"\2"),
    (r"C\(([^,()]*)[^()\[\]]*\)", r"\1"),
    (r"\[(?:[TS]\.)?([^\[\]]*)\]", r"_\1"),
    (r"\bnp\.", ""),
    (r"\bI\(", "("),
)
"""What a short name leaves out of a term as patsy writes it: quotes, C(), I() and codings."""

CONSTANT = "_cons"
"""Stata's name of the intercept."""


def is_plain_in_r(name: str) -> bool:
    """Whether R reads `name` as a variable without more."""
    return PLAIN.fullmatch(name) is not None and name not in R_WORDS


def is_plain_in_stata(name: str) -> bool:
    """Whether Stata takes `name` for a variable."""
    taken = name in STATA_WORDS or re.fullmatch(r"str\d+", name) is not None
    return PLAIN.fullmatch(name) is not None and len(name) <= LONGEST and not taken


def r_variables(columns: Sequence[str]) -> dict[str, str]:
    """A name in R for every column of a table: in backticks where its grammar asks for them.

    A name beyond ASCII is not read in every locale, so it is replaced.

    Examples
    --------
    >>> r_variables(["wage", "if", "hours per week", "größe"])
    {'wage': 'wage', 'if': '`if`', 'hours per week': '`hours per week`', 'größe': 'dp_v4'}
    """
    written = {}
    for place, name in enumerate(columns, start=1):
        if is_plain_in_r(name):
            written[name] = name
        elif re.fullmatch(r"[ -~]+", name) and not re.search(r"[`\\]", name) and name != ".":
            written[name] = f"`{name}`"
        else:
            written[name] = _free(f"dp_v{place}", columns)
    return written


def stata_variables(columns: Sequence[str]) -> dict[str, str]:
    """A name in Stata for every column of a table: its own where Stata takes it.

    Examples
    --------
    >>> stata_variables(["wage", "if", "hours per week"])
    {'wage': 'wage', 'if': 'dp_v2', 'hours per week': 'dp_v3'}
    """
    kept = {name for name in columns if is_plain_in_stata(name)}
    return {
        name: name if name in kept else _free(f"dp_v{place}", kept)
        for place, name in enumerate(columns, start=1)
    }


def short_names(terms: Iterable[str], intercept: int | None) -> list[str]:
    """A name of at most 32 plain characters for every coefficient; no two are equal.

    Examples
    --------
    >>> short_names(["Intercept", "C(region)[T.south]", "np.log(age)", "I(age ** 2)"], 0)
    ['_cons', 'region_south', 'log_age', 'age_2']
    >>> short_names(['Q("if")', 'C(Q("size"), Sum)[S.2]', "naïve[T.True]:k"], None)
    ['x_if', 'size_2', 'naive_True_k']
    """
    used: set[str] = {CONSTANT}
    found = []
    for place, term in enumerate(terms):
        if place == intercept:
            found.append(CONSTANT)
            continue
        name = _free(_shortened(term), used)
        used.add(name)
        found.append(name)
    return found


def _shortened(term: str) -> str:
    for pattern, plain in REWRITTEN:
        term = re.sub(pattern, plain, term)
    letters = unicodedata.normalize("NFKD", term).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9_]+", "_", letters).strip("_")[:LONGEST]
    return name if is_plain_in_stata(name) else f"x_{name}"[:LONGEST].rstrip("_")


def _free(name: str, used: Iterable[str]) -> str:
    """`name`, or with a number at its end where it is taken."""
    taken, made, number = set(used), name, 1
    while made in taken:
        number += 1
        end = f"_{number}"
        made = name[: LONGEST - len(end)] + end
    return made


_INFIX = {
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "pow": "({}^{})",
    "neg": "(-{})",
    "gt": "({} > {})",
    "ge": "({} >= {})",
    "lt": "({} < {})",
    "le": "({} <= {})",
    "eq": "({} == {})",
    "ne": "({} != {})",
    "and": "({} & {})",
    "or": "({} | {})",
    "not": "(!{})",
    "exp": "exp({})",
    "sqrt": "sqrt({})",
    "sinh": "sinh({})",
    "tanh": "tanh({})",
    "cosh": "cosh({})",
    "sin": "sin({})",
    "cos": "cos({})",
    "arctan": "atan({})",
    "arcsinh": "asinh({})",
    "abs": "abs({})",
    "square": "({}^2)",
    "exp2": "(2^{})",
    "sign": "sign({})",
    "floor": "floor({})",
    "trunc": "trunc({})",
    "log10": "log10({})",
}
R_OPERATIONS = {
    **_INFIX,
    "log": "log({})",
    "log2": "log2({})",
    "log1p": "log1p({})",
    "expm1": "expm1({})",
    "ceil": "ceiling({})",
    "rint": "round({})",
    "minimum": "pmin({}, {})",
    "maximum": "pmax({}, {})",
    "where": "ifelse({}, {}, {})",
    "floordiv": "({} %/% {})",
    "mod": "({} %% {})",
    "xor": "xor({}, {})",
}
STATA_OPERATIONS = {
    **_INFIX,
    "log": "ln({})",
    "log2": "(ln({})/ln(2))",
    "log1p": "ln(1 + {})",
    "expm1": "(exp({}) - 1)",
    "ceil": "ceil({})",
    "minimum": "min({}, {})",
    "maximum": "max({}, {})",
    "where": "cond({}, {}, {})",
}


class Untranslatable(Exception):
    """A column that a dialect cannot write."""


@dataclass(frozen=True)
class Dialect:
    """How a language writes expressions of raw variables.

    Attributes
    ----------
    operations : mapping
        Pattern of each operation.
    variables : mapping
        Name in the language for every variable of the table.
    words : frozenset
        Variables whose cells the script reads as text.
    stata : bool
    """

    operations: Mapping[str, str]
    variables: Mapping[str, str]
    words: frozenset[str]
    stata: bool = False

    def constant(self, value: float) -> str:
        """A number."""
        text = repr(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)
        return f"({text})" if value < 0 else text

    def variable(self, name: str) -> str:
        """A variable by its name."""
        return self.variables[name]

    def level(self, name: str, label: Hashable) -> str:
        """Whether a category has a level."""
        written = self.quoted(str(label)) if name in self.words else self.label(label)
        return f"({self.variable(name)} == {written})"

    def label(self, label: Hashable) -> str:
        """A level as the table holds it."""
        if isinstance(label, bool):
            return ('"TRUE"' if label else '"FALSE"') if self.stata else str(label).upper()
        if isinstance(label, int | float):
            return self.constant(label)
        return self.quoted(str(label))

    def quoted(self, text: str) -> str:
        """A text; R's is kept in ASCII, since a script is read in any locale."""
        if re.search(r'["\\`$\n\r]', text):
            raise Untranslatable(text)
        if self.stata or text.isascii():
            return f'"{text}"'
        return '"' + "".join(c if c.isascii() else f"\\U{ord(c):08x}" for c in text) + '"'

    def expression(self, expression: Expression) -> str:
        """An expression."""
        if isinstance(expression, Call):
            pattern = self.operations.get(expression.operation)
            if pattern is None or pattern.count("{}") != len(expression.arguments):
                raise Untranslatable(expression.operation)
            return pattern.format(*map(self.expression, expression.arguments))
        if isinstance(expression, Variable):
            return self.variable(expression.name)
        if isinstance(expression, Level):
            return self.level(expression.name, expression.label)
        return self.constant(expression.value)

    def columns(self, design: Design) -> list[str]:
        """Every design column as an expression; the intercept is ``1``."""
        written: list[str] = []
        for subterm in design.subterms:
            parts = list(zip(subterm.factors, subterm.matrices, strict=True))
            for choice in subterm.choices:
                pieces = [
                    self._factor(factor, None if matrix is None else matrix[:, chosen])
                    for (factor, matrix), chosen in zip(parts, choice, strict=True)
                ]
                written.append(" * ".join(pieces) if pieces else "1")
        return written

    def response(self, design: Design) -> str:
        """The response as an expression."""
        return strip(self.expression(design.response_factor.expression))

    def _factor(self, factor: Factor, coding: np.ndarray | None) -> str:
        if isinstance(factor, NumericFactor):
            if factor.basis is not None:
                raise Untranslatable(factor.name)
            return self.expression(factor.expression)
        assert isinstance(factor, CategoricalFactor)
        assert coding is not None
        if not isinstance(factor.source, VariableLevels):
            raise Untranslatable(factor.name)
        pieces = [
            self.level(factor.source.name, level)
            if weight == 1
            else f"{self.constant(float(weight))} * {self.level(factor.source.name, level)}"
            for level, weight in zip(factor.levels, coding, strict=True)
            if weight != 0
        ]
        if len(pieces) == 1 and not self.stata:
            return f"({pieces[0]} * 1)"
        return f"({' + '.join(pieces)})" if pieces else "0"


def strip(text: str) -> str:
    """`text` without brackets around the whole."""
    while text.startswith("(") and text.endswith(")"):
        depth = 0
        for place, letter in enumerate(text):
            depth += (letter == "(") - (letter == ")")
            if depth == 0 and place < len(text) - 1:
                return text
        text = text[1:-1]
    return text


def r_dialect(domain: Domain, columns: Sequence[str]) -> Dialect:
    """R, on a data frame whose columns are called by `r_variables`."""
    return Dialect(R_OPERATIONS, r_variables(columns), frozenset(word_columns(columns, domain)))


def stata_dialect(domain: Domain, columns: Sequence[str]) -> Dialect:
    """Stata, on a table whose columns are called by `stata_variables`."""
    words = frozenset(word_columns(columns, domain))
    return Dialect(STATA_OPERATIONS, stata_variables(columns), words, stata=True)


def word_columns(columns: Sequence[str], domain: Domain) -> list[str]:
    """Columns that hold words: categories with text levels."""
    return [
        name
        for name in columns
        if name in domain
        and isinstance(variable := domain[name], Categorical)
        and any(isinstance(level, str) for level in variable.levels)
    ]
