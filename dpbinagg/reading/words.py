"""Many categories at once: cells of a block of bytes looked up among declared levels."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.variables import Categorical
from dpbinagg.reading.lines import Bytes, Cells, Integers
from dpbinagg.reading.rules import Codes

Words = NDArray[np.uint64]

EIGHT = 8
"""Bytes of one word."""
LONGEST = 64
"""Bytes of a level that is looked up with all others; longer ones are read one by one."""
MIX = np.cumprod(np.full(LONGEST // EIGHT, 0x9E3779B97F4A7C15, dtype=np.uint64))
"""Odd factors that make one number of some words; what it finds is compared byte by byte."""


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
        known = {raw: code for raw, code in spelled.items() if 0 < len(raw) <= LONGEST}
        self._width = max(map(len, known), default=1)
        data = np.frombuffer(b"".join(known), dtype=np.uint8)
        stops = np.cumsum([len(raw) for raw in known], dtype=np.int64)
        starts = stops - np.array([len(raw) for raw in known], dtype=np.int64)
        words = _packed(data, starts, stops, self._width)
        order = np.argsort(_mixed(words), kind="stable")
        self._words = words[order]
        self._keys = _mixed(words)[order]
        self._found = np.array(list(known.values()), dtype=np.int64)[order]

    def read(self, data: Bytes, cells: Cells) -> Integers:
        """The code of each cell; -1 where it is missing or not declared."""
        width = cells.ends - cells.starts
        codes = np.full(len(width), -1, dtype=np.int64)
        rest = width > 0
        if len(self._keys):
            words = _packed(data, cells.starts, cells.ends, self._width)
            place = np.searchsorted(self._keys, _mixed(words))
            place[place == len(self._keys)] = 0
            same = (self._words[place] == words).all(axis=1) & (width <= self._width) & rest
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


@lru_cache(maxsize=256)
def _lookup(said: str, variable: Categorical, decimal: str, encoding: str) -> Lookup:
    return Lookup(variable, decimal, encoding)


def lookup(variable: Categorical, decimal: str, encoding: str) -> Lookup:
    """The levels of a category as bytes of a file, made once."""
    # Categories of 1 and of True are equal, and not spelled alike.
    return _lookup(repr(variable), variable, decimal, encoding)


def _encoded(text: str, encoding: str) -> bytes:
    """A level as bytes; none where the encoding has no such letters."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return b""


def _undoubled(raw: bytes) -> bytes:
    """A quoted cell without the quotes that double others; nothing if one is alone."""
    return b"" if b'"' in raw.replace(b'""', b"") else raw.replace(b'""', b'"')


def _packed(data: Bytes, starts: Integers, ends: Integers, width: int) -> Words:
    """The first `width` bytes of each cell, eight in a word, zeros behind."""
    words = np.zeros((len(starts), -(-width // EIGHT)), dtype=np.uint64)
    if not len(data):
        return words
    for place in range(width):
        byte = data.take(starts + place, mode="clip").astype(np.uint64)
        byte[starts + place >= ends] = 0
        words[:, place // EIGHT] |= byte << np.uint64(8 * (place % EIGHT))
    return words


def _mixed(words: Words) -> Words:
    if words.shape[1] == 1:
        return words[:, 0]
    mixed: Words = (words * MIX[: words.shape[1]]).sum(axis=1, dtype=np.uint64)
    return mixed
