"""Variables: what is declared about one column, validated when it is made; and what a cell says.

A number is an optional sign, digits with at most one decimal point, and an optional exponent:
``-12``, ``.5``, ``3.``, ``1e5``. Only ASCII digits count. There are no thousands separators, no
hexadecimals, no ``inf`` and no ``nan``: such cells are missing. The words true and false, in any
case, are the numbers 1 and 0, because programs write truth values so. Blanks (spaces and tabs)
at both ends of a cell do not count, in numbers and in words alike.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DomainError

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


Records = Mapping[str, NDArray[np.generic]]
"""Columns by name: float64 for numeric variables (NaN is missing), integer
codes into the declared levels for categorical ones (-1 is missing, -2 a value that is no level)."""

Code = int | float | str
"""A missing code: a number, or a word."""


def check_missing(codes: object) -> tuple[Code, ...]:
    """Missing codes as plain numbers and trimmed words.

    Examples
    --------
    >>> check_missing((-9, "99.0", " refused "))
    (-9, 99, 'refused')
    """
    if isinstance(codes, str) or not isinstance(codes, tuple | list | set | frozenset):
        raise DomainError(
            f"missing must list codes, got {type(codes).__name__}; write missing=(-9, 99)"
        )
    return tuple(dict.fromkeys(_code(code) for code in codes))


def _code(code: object) -> Code:
    plain = code.item() if hasattr(code, "item") else code
    if isinstance(plain, bool) or not isinstance(plain, int | float | str):
        raise DomainError(f"missing codes must be numbers or words, got {type(code).__name__}")
    value = number(plain) if isinstance(plain, str) else float(plain)
    if isinstance(plain, str) and math.isnan(value):
        word = plain.strip(BLANKS)
        if not word:
            raise DomainError("missing codes must not be empty; an empty cell is always missing")
        return word
    if not math.isfinite(value):
        raise DomainError("missing codes must be finite; NaN and infinities are always missing")
    return int(value) if value.is_integer() else value


def _as_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise DomainError(f"{name} must be a text, got {type(value).__name__}")


@dataclass(frozen=True, slots=True, repr=False)
class Numeric:
    """A numeric variable with public bounds.

    Parameters
    ----------
    lower, upper : float
        Public bounds, `lower < upper`. An infinite bound is unknown: the
        curator finds a working range privately.
    integer : bool
        Whether only whole numbers occur.
    missing : tuple
        Codes that stand for no answer, such as ``(-9, 99, "refused")``.
    description, unit : str
        For readers of tables.
    """

    lower: float = -math.inf
    upper: float = math.inf
    integer: bool = False
    missing: tuple[Code, ...] = ()
    description: str = field(default="", compare=False)
    unit: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for side in ("lower", "upper"):
            value = getattr(self, side)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise DomainError(
                    f"{side} bound must be a number, got {type(value).__name__}; "
                    "write bounds as (lower, upper)"
                )
            object.__setattr__(self, side, float(value))
        if math.isnan(self.lower) or math.isnan(self.upper):
            raise DomainError("bounds must not be NaN; use None for a bound that is not known")
        if not self.lower < self.upper or self.lower == math.inf or self.upper == -math.inf:
            raise DomainError(
                f"bounds must be (lower, upper) with lower < upper, got ({self.lower:g}, "
                f"{self.upper:g}); a constant needs no bounds, reversed ones must be swapped"
            )
        if self.bounded and not math.isfinite(self.upper - self.lower):
            raise DomainError("bounds must be less than 1.7e308 apart; narrow them")
        if self.integer and self.bounded:
            self._check_integer()
        object.__setattr__(self, "missing", check_missing(self.missing))
        _as_text("description", self.description)
        _as_text("unit", self.unit)

    def _check_integer(self) -> None:
        if self.lower != math.floor(self.lower) or self.upper != math.floor(self.upper):
            raise DomainError(
                f"bounds of an integer variable must be whole numbers, got ({self.lower:g}, "
                f"{self.upper:g}); round them outward"
            )
        if max(abs(self.lower), abs(self.upper)) > 2.0**53:
            raise DomainError("bounds of an integer variable must lie within 2**53")

    def __repr__(self) -> str:
        return _shown(self, always=3)

    @property
    def bounded(self) -> bool:
        """Whether both bounds are known."""
        return math.isfinite(self.lower) and math.isfinite(self.upper)

    def within(self, lower: float, upper: float) -> Numeric:
        """The same variable with other bounds: what is missing stays missing."""
        return replace(self, lower=lower, upper=upper)


@dataclass(frozen=True, slots=True, repr=False)
class Categorical:
    """A categorical variable with declared levels, in their order.

    Parameters
    ----------
    levels : tuple
        Every value that may occur: strings, numbers or booleans.
    labels : tuple of str
        One for each level, for readers of tables; empty if the levels speak for themselves.
    missing : tuple
        Codes that stand for no answer, such as ``(-9, 99, "refused")``.
    description, unit : str
        For readers of tables.
    """

    levels: tuple[Hashable, ...]
    labels: tuple[str, ...] = field(default=(), compare=False)
    missing: tuple[Code, ...] = ()
    description: str = field(default="", compare=False)
    unit: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        levels = tuple(self.levels)
        object.__setattr__(self, "levels", levels)
        if not levels:
            raise DomainError("levels must not be empty; declare every value that may occur")
        for level in levels:
            if level is None or (isinstance(level, float) and not math.isfinite(level)):
                raise DomainError("levels must not contain missing or infinite values; remove them")
            if not isinstance(level, str | int | float | bool):
                raise DomainError(
                    f"levels must be strings, numbers or booleans, got {type(level).__name__}"
                )
        if len(set(levels)) != len(levels):
            raise DomainError("levels must be distinct (note that 1, 1.0 and True are equal)")
        object.__setattr__(self, "labels", tuple(self.labels))
        for label in self.labels:
            _as_text("each label", label)
        if len(self.labels) not in (0, len(levels)):
            raise DomainError(
                f"labels must name every level in its order, or be left out; got "
                f"{len(self.labels)} for {len(levels)} levels"
            )
        object.__setattr__(self, "missing", check_missing(self.missing))
        self._check_disjoint()
        _as_text("description", self.description)
        _as_text("unit", self.unit)

    def __repr__(self) -> str:
        return _shown(self, always=1)

    def _check_disjoint(self) -> None:
        """No code is a level and missing at once."""
        if not self.missing:
            return
        same = {_code(str(level)) for level in self.levels if str(level).strip(BLANKS)}
        both = [code for code in self.missing if code in same]
        if both:
            raise DomainError(
                f"missing code {both[0]!r} is also a level; remove it from one of the two"
            )

    @property
    def boolean(self) -> bool:
        """Whether the levels are false and true, which are not the numbers that they equal."""
        return self.levels == (False, True) and all(type(level) is bool for level in self.levels)

    @property
    def label_of(self) -> dict[Hashable, str]:
        """The label of each level; the level itself where there are none."""
        labels = self.labels or tuple(str(level) for level in self.levels)
        return dict(zip(self.levels, labels, strict=True))


Variable = Numeric | Categorical
Variables = Mapping[str, Variable]
"""What is declared, by name: a `Domain`, as those see it who only look up names."""


def _shown(variable: Variable, always: int) -> str:
    """The usual form of a dataclass, without what was left out."""
    pairs = [(f.name, getattr(variable, f.name)) for f in fields(variable)]
    shown = pairs[:always] + [(name, value) for name, value in pairs[always:] if value]
    inside = ", ".join(f"{name}={value!r}" for name, value in shown)
    return f"{type(variable).__name__}({inside})"
