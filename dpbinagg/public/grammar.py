"""What a cell says: the grammar of numbers and how values are spelled.

A number is an optional sign, digits with at most one decimal point, and an optional exponent:
``-12``, ``.5``, ``3.``, ``1e5``. Only ASCII digits count. There are no thousands separators, no
hexadecimals, no ``inf`` and no ``nan``: such cells are missing. The words true and false, in any
case, are the numbers 1 and 0, because programs write truth values so. Blanks (spaces and tabs)
at both ends of a cell do not count, in numbers and in words alike.
"""

from __future__ import annotations

import math
import re

BLANKS = " \t"
"""What is trimmed from both ends of a cell."""
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
TRUTH = {"true": 1.0, "false": 0.0}
DECIMALS = (".", ",")
WHOLE = 2.0**53
"""Whole numbers below are exact as floats; they are spelled without a point."""


def number(text: str, decimal: str = ".") -> float:
    """The finite number that a text spells, or NaN.

    Examples
    --------
    >>> number(" 1e5 "), number("2,5", decimal=","), number("TRUE")
    (100000.0, 2.5, 1.0)
    >>> number("1,000"), number("inf")
    (nan, nan)
    """
    plain = text.strip(BLANKS)
    if decimal == ",":
        plain = "" if "." in plain else plain.replace(",", ".")
    if NUMBER.fullmatch(plain):
        value = float(plain)
        return value if math.isfinite(value) else math.nan
    return TRUTH.get(plain.lower(), math.nan)


def spelled(value: float) -> str:
    """How a number is spelled where it has to be compared with words.

    Examples
    --------
    >>> spelled(2.0), spelled(2.5), spelled(-0.0)
    ('2', '2.5', '0')
    """
    if value.is_integer() and abs(value) <= WHOLE:
        return str(int(value))
    return repr(value)
