"""Checked public numbers and square roots that are rounded in a stated direction."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal, SupportsFloat

from dpbinagg.errors import BudgetError

MANTISSA_BITS = 53


Rule = Literal["positive", "nonnegative", "probability"]


def as_number(value: object, name: str, rule: Rule) -> float:
    """Return `value` as a finite float that obeys a rule, or say what is wrong with it.

    Parameters
    ----------
    value : object
        What the caller passed.
    name : str
        The argument's name, for the message.
    rule : {"positive", "nonnegative", "probability"}
        Above zero, at least zero, or strictly between zero and one.
    """
    if type(value).__name__ in ("bool", "bool_") or not isinstance(value, numbers.Real):
        raise BudgetError(
            f"{name} must be a number, but a {type(value).__name__} was passed; "
            f"pass a float such as {name}=1.0."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BudgetError(f"{name} must be finite, but {number} was passed.")
    if rule == "positive" and number <= 0.0:
        raise BudgetError(f"{name} must be greater than zero, but {number} was passed.")
    if rule == "nonnegative" and number < 0.0:
        raise BudgetError(f"{name} must not be negative, but {number} was passed.")
    if rule == "probability" and not 0.0 < number < 1.0:
        raise BudgetError(
            f"{name} must lie strictly between 0 and 1, but {number} was passed; "
            f"a usual choice is far below one over the number of records."
        )
    return number + 0.0


def sum_of_squares(values: Iterable[SupportsFloat]) -> Fraction:
    """Return the sum of the squares of floats, without any rounding."""
    by_exponent: dict[int, int] = {}
    for value in values:
        mantissa, exponent = math.frexp(float(value))
        digits = int(math.ldexp(mantissa, MANTISSA_BITS))
        by_exponent[exponent] = by_exponent.get(exponent, 0) + digits * digits
    total = Fraction(0)
    for exponent, squares in by_exponent.items():
        total += squares * Fraction(2) ** (2 * (exponent - MANTISSA_BITS))
    return total


def sqrt_down(square: Fraction) -> float:
    """Return the largest float whose exact square is at most `square`."""
    if square < 0:
        raise ValueError("square must not be negative.")
    if square == 0:
        return 0.0
    # A finite float within a few units in the last place of the root, then to the right one.
    bits = square.numerator.bit_length() - square.denominator.bit_length()
    half_shift = (2 * MANTISSA_BITS + 20 - bits) // 2
    scaled = square * Fraction(2) ** (2 * half_shift)
    try:
        root = math.ldexp(float(math.isqrt(int(scaled))), -half_shift)
    except OverflowError:
        root = math.nextafter(math.inf, 0.0)
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    while (above := math.nextafter(root, math.inf)) < math.inf and Fraction(above) ** 2 <= square:
        root = above
    return root


def sqrt_up(square: Fraction) -> float:
    """Return the smallest float whose exact square is at least `square`, or infinity."""
    root = sqrt_down(square)
    return root if Fraction(root) ** 2 == square else math.nextafter(root, math.inf)
