"""Structured second moments: a bounded map of blocks.

f = (1, blocks). A block has norm at most 1: a number in [-1, 1], the response among them; the
one-hot code of ALL levels of a factor; a number times such a code. Released are the count, every
block, the products of pairs of blocks, and squares, centred by `centre`. Products within a block of
codes are zero and not released; squares of codes are the codes; the square of a number that is +-1
is 1.

Norm, with ``t = |block|^2 <= 1`` and centre c: a block and its squares together have
``t + (t - c)^2``, convex in t and therefore at most ``s = max(c^2, 1 + (1 - c)^2)``, 1 where the
squares are known; a pair has ``t t' <= 1``. So ``norm2 = 1 + sum_b s_b + B (B - 1)/2`` for B
blocks. Entries are products of whole factors: exact, nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np

from dpbinagg.kernel.grid import LONGEST_RUN, Floats, Integers, Sums, whole_square
from dpbinagg.kernel.maps import UNIT_BITS, OfFactors
from dpbinagg.kernel.view import ONE, Projection, View
from dpbinagg.public.grid import FACTOR_BITS


@dataclass(frozen=True)
class Block:
    """One block of f.

    Attributes
    ----------
    number : int or None
        Row of the dense part (1, z*, y*) of f; None for a plain code.
    factor : int or None
        Factor of the row map; None for a plain number.
    levels : int
        Of the factor.
    sign : bool
        The number is cut to -1 or 1; its square is known.
    """

    number: int | None = None
    factor: int | None = None
    levels: int = 1
    sign: bool = False

    @property
    def known_squares(self) -> bool:
        """Whether squares follow from the block itself."""
        return self.sign or self.number is None


@dataclass(frozen=True, eq=False)
class Moments(OfFactors):
    """Second moments of f; the answer is ``sum f f'``, squares completed by `centre` counts.

    Squares of a number times a code are centred by, and completed with, the count of the code's
    level, if the code is a block too; else they are not centred.

    Attributes
    ----------
    blocks : tuple of Block
        In the order of f. A dense number appears in one block without a factor at most.
    centre : Fraction
        c, a multiple of 1/2 from 0 to 1.
    """

    kind: ClassVar[str] = "moments"
    blocks: tuple[Block, ...]
    centre: Fraction = Fraction(1, 2)

    @property
    def norm2(self) -> Fraction:
        b = len(self.blocks)
        return 1 + sum(map(self._block_norm2, self.blocks), Fraction(b * (b - 1), 2))

    def _block_norm2(self, block: Block) -> Fraction:
        c = self._centre_of(block)
        return Fraction(1) if block.known_squares else max(c**2, 1 + (1 - c) ** 2)

    def _centre_of(self, block: Block) -> Fraction:
        """c, or 0 where no released count could complete centred squares."""
        if block.factor is None or self._code_of(block) is not None:
            return self.centre
        return Fraction(0)

    def _code_of(self, block: Block) -> int | None:
        """Place of the plain code of a block's factor."""
        for place, other in enumerate(self.blocks):
            if other.number is None and other.factor == block.factor is not None:
                return place
        return None

    def check(self, projection: Projection | None) -> None:
        plain = [block.number for block in self.blocks if block.factor is None]
        codes = [block.factor for block in self.blocks if block.number is None]
        if None in plain or len(set(plain)) < len(plain) or len(set(codes)) < len(codes):
            raise ValueError("blocks need a number, a factor or both, and none of them twice")
        if any(block.number == 0 or block.levels < 1 for block in self.blocks):
            raise ValueError("blocks need a number that is not the constant, and levels")
        if self.centre not in (Fraction(0), Fraction(1, 2), Fraction(1)):
            raise ValueError("centre must be 0, 1/2 or 1")

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each block begins in f, and the length of f."""
        ends = np.cumsum([1, *(block.levels for block in self.blocks)])
        return tuple(int(end) for end in ends)

    @cached_property
    def entries(self) -> tuple[Integers, Integers]:
        """Rows and columns of the entries that are released."""
        size = self.starts[-1]
        asked = np.triu(np.ones((size, size), dtype=bool))
        for place, block in enumerate(self.blocks):
            inside = slice(self.starts[place], self.starts[place + 1])
            asked[inside, inside] = False
            if not block.known_squares:
                asked[inside, inside] = np.eye(block.levels, dtype=bool)
        for one, other in combinations(range(len(self.blocks)), 2):
            first, second = self.blocks[one], self.blocks[other]
            if first.factor is not None and first.factor == second.factor:
                rows, columns = self._inside(one), self._inside(other)
                asked[rows, columns] = np.eye(first.levels, dtype=bool)
        found = np.nonzero(asked)
        return found[0], found[1]

    def _inside(self, place: int) -> slice:
        return slice(self.starts[place], self.starts[place + 1])

    def zeros(self, k: int) -> Integers:
        return np.zeros((self.starts[-1], self.starts[-1]), dtype=np.int64)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        numbers = [i for i, block in enumerate(self.blocks) if block.factor is None]
        codes = [i for i, block in enumerate(self.blocks) if block.factor is not None]
        dense = self._dense(view, numbers)
        place = np.array([0, *(self.starts[i] for i in numbers)])
        sums[np.ix_(place, place)] += whole_square(dense)
        for i in codes:
            products = self._by_level(view, i, dense)
            sums[place, self._inside(i)] += products
            sums[self._inside(i), place] += products.T
        for i in codes:
            for j in codes:
                if i <= j:
                    sums[self._inside(i), self._inside(j)] += self._by_pair(view, i, j)

    def _dense(self, view: View, numbers: list[int]) -> Floats:
        """The constant and the plain numbers, whole."""
        f = view.f
        rows = [0, *(self.blocks[i].number or 0 for i in numbers)]
        signs = [self.blocks[i].sign for i in numbers]
        if rows == list(range(len(f))) and not any(signs):
            return f
        dense = f[rows]
        for row, sign in zip(dense[1:], signs, strict=True):
            if sign:
                row[:] = np.where(row > 0.0, ONE, -ONE)
        return dense

    def _value(self, view: View, place: int) -> Floats:
        """What stands at the place of a record's level, whole."""
        number = self.blocks[place].number
        value: Floats = view.f[number or 0]
        return np.where(value > 0.0, ONE, -ONE) if self.blocks[place].sign else value

    def _by_level(self, view: View, place: int, dense: Floats) -> Integers:
        """Products of a coded block with dense rows, (rows, levels)."""
        block = self.blocks[place]
        assert block.factor is not None
        code, value = view.codes(block.factor), self._value(view, place)
        return np.array([binned(code, block.levels, row, value) for row in dense])

    def _by_pair(self, view: View, one: int, other: int) -> Integers:
        """Products of two coded blocks, (levels, levels)."""
        first, second = self.blocks[one], self.blocks[other]
        assert first.factor is not None
        assert second.factor is not None
        value, values = self._value(view, one), self._value(view, other)
        code = view.codes(first.factor)
        if first.factor == second.factor:
            return np.diag(binned(code, first.levels, value, values))
        pair = code * second.levels + view.codes(second.factor)
        size = first.levels * second.levels
        return binned(pair, size, value, values).reshape(first.levels, second.levels)

    def whole(self, sums: Sums) -> Sums:
        """Released entries, squares centred."""
        matrix = sums * 2
        for place, block in enumerate(self.blocks):
            inside = np.arange(self.starts[place], self.starts[place + 1])
            if not block.known_squares:
                counts = sums[0, 0] if block.factor is None else self._counts(sums, block)
                matrix[inside, inside] -= int(2 * self._centre_of(block)) * counts
        return np.asarray(matrix[self.entries] << (UNIT_BITS - 2 * FACTOR_BITS - 1))

    def _counts(self, sums: Sums, block: Block) -> Sums | int:
        place = self._code_of(block)
        return 0 if place is None else np.asarray(sums[0, self._inside(place)])

    def answer(self, noisy: Floats, k: int) -> Floats:
        """``sum f f'``, (m, m)."""
        size = self.starts[-1]
        upper = np.zeros((size, size))
        upper[self.entries] = noisy
        matrix: Floats = upper + np.triu(upper, 1).T
        for place, block in enumerate(self.blocks):
            inside = np.arange(self.starts[place], self.starts[place + 1])
            if block.sign and block.factor is None:
                matrix[inside, inside] = matrix[0, 0]
            elif block.known_squares:
                code = inside if block.number is None else self._code_inside(block)
                matrix[inside, inside] = matrix[0, code] if code is not None else np.nan
            else:
                counts = matrix[0, 0] if block.factor is None else self._answered(matrix, block)
                matrix[inside, inside] += float(self._centre_of(block)) * counts
        return matrix

    def _code_inside(self, block: Block) -> Integers | None:
        place = self._code_of(block)
        return None if place is None else np.arange(self.starts[place], self.starts[place + 1])

    def _answered(self, matrix: Floats, block: Block) -> Floats | float:
        place = self._code_of(block)
        return 0.0 if place is None else np.asarray(matrix[0, self._inside(place)])

    def scales(self, sd: float, k: int) -> Floats:
        """Of the entries as they were released: squares before they were completed."""
        size = self.starts[-1]
        upper = np.zeros((size, size))
        upper[self.entries] = sd
        return np.asarray(upper + np.triu(upper, 1).T)


def binned(code: Integers, size: int, one: Floats, other: Floats) -> Integers:
    """Sums of products of whole factors by code, exact: `LONGEST_RUN` records at a time."""
    total = np.zeros(size, dtype=np.int64)
    for start in range(0, len(code), LONGEST_RUN):
        run = slice(start, start + LONGEST_RUN)
        sums = np.bincount(code[run], weights=one[run] * other[run], minlength=size)
        total += sums.astype(np.int64)
    return total
