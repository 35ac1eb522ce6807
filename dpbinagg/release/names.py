"""Names of variables and coefficients in other languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

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
