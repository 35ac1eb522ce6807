"""Many cells of a block of bytes at once: numbers, and categories among declared levels.

Plain decimal numbers of up to `WIDEST` characters are read digit by digit in whole-number
arithmetic; all others, one by one, by `number` itself. Both give the double next to what is
written: m / 10^k is correctly rounded where m and 10^k are exact doubles, and otherwise computed
with 64 bits and checked not to lie half-way between two doubles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.variables import Categorical, number
from dpbinagg.reading.columns import Codes

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of one column, for the readable lines of a block.

    Attributes
    ----------
    starts, ends : (n,) arrays
        Without blanks and quotes around them.
    quoted : (k,) array
        Which cells hold doubled quotes.
    broken : (k,) array
        Which cells have a quote in a wrong place.
    """

    starts: Integers
    ends: Integers
    quoted: Integers
    broken: Integers


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


LONGEST = 64
"""Bytes of a level that is looked up with all others; longer ones are read one by one."""


class Lookup:
    """The levels of a category as bytes of a file.

    Parameters
    ----------
    variable : Categorical
    decimal : {".", ","}
        Of numbers in the file.
    encoding : str
        Of texts in the file.
    """

    def __init__(self, variable: Categorical, decimal: str, encoding: str) -> None:
        self.codes = Codes(variable, decimal)
        self.encoding = encoding
        spelled = {_encoded(text, encoding): code for text, code in self.codes.texts.items()}
        known = sorted((raw, code) for raw, code in spelled.items() if 0 < len(raw) <= LONGEST)
        self._known = np.array([raw for raw, _ in known], dtype=np.bytes_)
        self._found = np.array([code for _, code in known], dtype=np.int64)

    def read(self, data: Bytes, cells: Cells) -> Integers:
        """The code of each cell; -1 where it is missing or not declared."""
        width = cells.ends - cells.starts
        codes = np.full(len(width), -1, dtype=np.int64)
        rest = width > 0
        if len(self._known):
            longest = self._known.itemsize
            words = _words(data, cells.starts, width, longest)
            place = np.searchsorted(self._known, words)
            place[place == len(self._known)] = 0
            same = (self._known[place] == words) & (width <= longest) & rest
            codes[same] = self._found[place[same]]
            rest &= ~same
        doubled = set(cells.quoted.tolist())
        # Of this block alone: what is not declared is private and must not stay in memory.
        seen: dict[bytes, int] = {}
        for at in np.flatnonzero(rest).tolist():
            raw = data[cells.starts[at] : cells.ends[at]].tobytes()
            raw = _undoubled(raw) if at in doubled else raw
            if raw not in seen:
                seen[raw] = self._one(raw)
            codes[at] = seen[raw]
        codes[cells.broken] = -1
        return codes

    def _one(self, raw: bytes) -> int:
        try:
            return self.codes.of_text(raw.decode(self.encoding))
        except UnicodeDecodeError:
            return -1


def _encoded(text: str, encoding: str) -> bytes:
    """A level as bytes; none where the encoding has no such letters."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return b""


def _undoubled(raw: bytes) -> bytes:
    """A quoted cell without the quotes that double others; nothing if one is alone."""
    return b"" if b'"' in raw.replace(b'""', b"") else raw.replace(b'""', b'"')


def _words(data: Bytes, starts: Integers, width: Integers, longest: int) -> NDArray[np.bytes_]:
    """The first `longest` bytes of each cell as one value, NULs behind: no cell holds any."""
    room = np.concatenate([data, np.zeros(longest, dtype=np.uint8)])
    words = np.ndarray(len(data) + 1, dtype=f"S{longest}", buffer=room, strides=(1,))[starts]
    letters = words.view(np.uint8).reshape(len(starts), longest)
    letters[np.arange(longest) >= width[:, None]] = 0
    return words
