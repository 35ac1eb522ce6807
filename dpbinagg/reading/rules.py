"""The rule of each type: from the text or the number of one cell to a value.

A number: see `grammar`; a missing code is missing. A category: a cell is the level that is
spelled like it. Failing that, if both are numbers, the cell is the level that is the same number:
``2``, ``2.0`` and ``02`` are the level 2, whether it was declared as 2 or "2", so that it does not
matter how a program prints or stores codes. Levels that are the same number ("1" and "01") are
told apart by spelling alone. Anything else was not declared. Each cell is read by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.grammar import BLANKS, number, spelled
from dpbinagg.public.variables import Categorical, Variable

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNDECLARED = -2
"""Code of a value that is no level; -1 is missing. Such records are as incomplete as others."""

YES, NO = ("true", "t", "yes", "1"), ("false", "f", "no", "0")
"""How truth values are written, in any case, for a variable of type boolean."""


class Codes:
    """Codes of the levels of one category.

    Attributes
    ----------
    texts : dict of str to int
        Code by spelling; -1 for missing codes.
    numbers : dict of float to int
        Code by number, where spelling does not tell; -1 for missing codes.
    """

    def __init__(self, variable: Categorical, decimal: str = ".") -> None:
        self.boolean = variable.boolean
        self.decimal = decimal
        self.texts = {_text(level): code for code, level in enumerate(variable.levels)}
        self.texts |= {str(code): -1 for code in variable.missing}
        if self.boolean:
            for code, words in enumerate((NO, YES)):
                for word in words:
                    spellings = (word, word.upper(), word.capitalize())
                    self.texts = dict.fromkeys(spellings, code) | self.texts
        found: dict[float, list[int]] = {}
        for code, level in enumerate(variable.levels):
            value = number(_text(level), decimal if isinstance(level, str) else ".")
            if not math.isnan(value):
                found.setdefault(value, []).append(code)
        self.numbers = {value: codes[0] for value, codes in found.items() if len(codes) == 1}
        self.numbers |= {float(c): -1 for c in variable.missing if not isinstance(c, str)}

    def of_text(self, text: str) -> int:
        """The code of a cell that holds a text."""
        word = text.strip(BLANKS)
        code = self.texts.get(word)
        if code is None and self.boolean:
            code = self.texts.get(word.lower())
        if code is None:
            code = self.numbers.get(number(word, self.decimal), UNDECLARED) if word else -1
        return code

    def of_number(self, value: float) -> int:
        """The code of a cell that holds a number."""
        if not math.isfinite(value):
            return -1
        code = self.texts.get(spelled(value))
        return self.numbers.get(value, UNDECLARED) if code is None else code

    def of_texts(self, texts: Iterable[Any]) -> Integers:
        """Codes of the distinct texts of a column; what is no text is missing."""
        return np.array(
            [self.of_text(text) if isinstance(text, str) else -1 for text in texts], dtype=np.int64
        )

    def of_numbers(self, values: Floats) -> Integers:
        """Codes of a column of numbers."""
        known = self.known_numbers
        if not known:
            return np.where(np.isfinite(values), UNDECLARED, -1)
        keys = np.array(sorted(known))
        place = np.searchsorted(keys, values)
        place[place == len(keys)] = 0
        codes = np.array([known[key] for key in keys.tolist()], dtype=np.int64)[place]
        codes[keys[place] != values] = UNDECLARED
        codes[~np.isfinite(values)] = -1
        return codes

    @property
    def known_numbers(self) -> Mapping[float, int]:
        """All numbers that are levels: `of_number` as a table."""
        spelled_out = {}
        for text, code in self.texts.items():
            value = number(text)
            if not math.isnan(value) and spelled(value) == text:
                spelled_out[value] = code
        return {**self.numbers, **spelled_out}


def _text(level: object) -> str:
    """A level as cells spell it."""
    if isinstance(level, float):
        return spelled(level)
    return str(level).strip(BLANKS)


def without_codes(values: Floats, variable: Variable) -> Floats:
    """Numbers, with missing codes and infinities as NaN."""
    codes = [float(code) for code in variable.missing if not isinstance(code, str)]
    unknown = np.isinf(values)
    if codes:
        unknown |= np.isin(values, codes)
    return np.where(unknown, np.nan, values) if unknown.any() else values


def finished(values: Floats, variable: Variable) -> Floats:
    """Numbers as records hold them: missing codes out, whole where they must be."""
    values = without_codes(values, variable)
    return np.rint(values) if getattr(variable, "integer", False) else values


def numbers_of_texts(texts: Iterable[Any], decimal: str = ".") -> Floats:
    """Numbers of the distinct texts of a column; what is no text is missing."""
    return np.array(
        [number(text, decimal) if isinstance(text, str) else math.nan for text in texts],
        dtype=np.float64,
    )
