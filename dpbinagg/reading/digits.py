"""Many numbers at once: the grammar of `number`, on cells of a block of bytes.

Plain decimal numbers of up to `WIDEST` characters are read digit by digit in whole-number
arithmetic; all others, one by one, by `number` itself. Both give the double next to what is
written: m / 10^k is correctly rounded where m and 10^k are exact doubles, and otherwise computed
with 64 bits and checked not to lie half-way between two doubles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.grammar import number

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

WIDEST = 21
"""A sign, a point, and `DIGITS` digits."""
TOO_WIDE = 255
"""Widths are counted up to here."""
DIGITS = 19
"""10^19 is less than 2^64."""
EXACT = np.uint64(2**53)
"""Whole numbers up to here, and powers of ten up to 10^22, are doubles."""
POWERS = 10.0 ** np.arange(DIGITS + 1)
LONG_POWERS = np.cumprod(np.array([1] + [10] * DIGITS, dtype=np.longdouble))
LONG = np.finfo(np.longdouble).nmant == 63
"""Whether there are floats of 64 bits: elsewhere long numbers are read one by one."""
ZERO, PLUS, MINUS = (np.uint8(ord(sign)) for sign in "0+-")
TEN = np.uint64(10)


def read_numbers(data: Bytes, starts: Integers, ends: Integers, decimal: str = ".") -> Floats:
    """The numbers in the cells ``data[start:end]``; NaN where there is none.

    Parameters
    ----------
    data : bytes of a block
    starts, ends : (n,) arrays
        Cells without blanks around them.
    decimal : {".", ","}
    """
    values = np.full(len(starts), np.nan)
    if not len(starts):
        return values
    mantissa, decimals, plain = _digits(data, starts, ends, ord(decimal))
    short = plain & (mantissa <= EXACT)
    signed = mantissa.astype(np.float64)
    np.divide(signed, POWERS[decimals], out=values, where=short)
    read = short
    if LONG and not short.all():
        long = np.flatnonzero(plain & ~short)
        values[long], certain = _long_quotients(mantissa[long], decimals[long])
        read = short.copy()
        read[long] = certain
    negative = data.take(starts, mode="clip") == MINUS
    np.negative(values, out=values, where=read & negative)
    rest = np.flatnonzero(~read & (ends > starts))
    if len(rest):
        values[rest] = _one_by_one(data, starts[rest], ends[rest], decimal)
    return values


def _digits(
    data: Bytes, starts: Integers, ends: Integers, point: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.bool_]]:
    """Digits as a whole number, how many are after the point, and whether that is all."""
    n = len(starts)
    width = np.minimum(ends - starts, TOO_WIDE).astype(np.uint8)
    mantissa = np.zeros(n, dtype=np.uint64)
    digits, points, after, others = np.zeros((4, n), dtype=np.uint8)
    at = starts.copy()
    for place in range(min(int(width.max()), WIDEST)):
        cell = data.take(at, mode="clip")
        at += 1
        inside = width > place
        digit = cell - ZERO
        is_digit = (digit <= 9) & inside
        is_point = (cell == point) & inside
        other = inside & ~is_digit & ~is_point
        if place == 0:
            other &= (cell != PLUS) & (cell != MINUS)
        digits += is_digit
        points += is_point
        others += other
        after += is_digit & (points > 0)
        np.multiply(mantissa, TEN, out=mantissa, where=is_digit)
        mantissa += digit * is_digit
    plain = (others == 0) & (points <= 1) & (digits > 0) & (digits <= DIGITS) & (width <= WIDEST)
    return mantissa, np.minimum(after, DIGITS).astype(np.uint8), plain


def _long_quotients(
    mantissa: NDArray[np.uint64], decimals: NDArray[np.uint8]
) -> tuple[Floats, NDArray[np.bool_]]:
    """``mantissa / 10^decimals`` and whether rounding twice was rounding once."""
    quotient = mantissa.astype(np.longdouble) / LONG_POWERS[decimals]
    value = quotient.astype(np.float64)
    off = np.abs(quotient - value)
    space = np.spacing(value)
    return value, (2 * off != space) & (4 * off != space)


def _one_by_one(data: Bytes, starts: Integers, ends: Integers, decimal: str) -> Floats:
    return np.array(
        [
            number(data[start:end].tobytes().decode("ascii", "replace"), decimal)
            for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
        ]
    )
