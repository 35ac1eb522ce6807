"""Structured second moments: a bounded map of blocks.

``g = (1, nu, codes, rho)``: a vector nu cut to norm 1 at a limit; the one-hot codes of ALL levels
of factors; and rho, the residual over a reach, cut to [-1, 1]. Released are the count, every block,
the products of pairs of blocks, ``nu nu'``, and ``rho^2 - 1``. Products within a code are zero,
squares of a code are the code: neither is released.

Norm: with B blocks, all of norm at most 1, the count has 1, the blocks have B, pairs have
``B (B - 1)/2``. ``|nu nu'| <= 1`` adds 1. With ``t = rho^2``, rho and its centred square have
``t + (t - 1)^2 <= 1`` together: the square is free. Hence ``norm2 = 1 + B (B + 1)/2 + 1``, less 1
without nu. Entries are products of whole factors: exact, nothing is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpbinagg.kernel.grid import LONGEST_RUN, Floats, Integers, Sums, whole_square
from dpbinagg.kernel.maps import UNIT_BITS, OfFactors, require_limit
from dpbinagg.kernel.view import ONE, Projection, View
from dpbinagg.public.grid import FACTOR_BITS


@dataclass(frozen=True, eq=False)
class Moments(OfFactors):
    """Second moments of g; the answer is what was released, the upper triangle of ``sum g g'``.

    Attributes
    ----------
    size : int
        Length of nu, the rows of the question's W; 0 leaves it out.
    limit : float
        What of W f has norm 1.
    levels : tuple of int
        Of the factors of the row map.
    reach : float
        Residual that has norm 1.
    """

    kind: ClassVar[str] = "moments"
    size: int
    limit: float
    levels: tuple[int, ...]
    reach: float

    @property
    def norm2(self) -> Fraction:
        blocks = (self.size > 0) + len(self.levels) + 1
        return Fraction(1 + blocks * (blocks + 1) // 2 + (self.size > 0))

    def check(self, projection: Projection | None) -> None:
        if projection is None or self.size not in (0, len(projection)):
            raise ValueError("moments need a projection with as many rows as their vector, or none")
        if any(levels < 1 for levels in self.levels):
            raise ValueError("moments need factors with levels")
        require_limit(self.limit, self.reach)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each code begins in g, and where they end: the place of rho."""
        ends = np.cumsum([1 + self.size, *self.levels])
        return tuple(int(end) for end in ends)

    @property
    def length(self) -> int:
        """Of g."""
        return self.starts[-1] + 1

    @cached_property
    def entries(self) -> tuple[Integers, Integers]:
        """Rows and columns of the entries that are released."""
        asked = np.triu(np.ones((self.length, self.length), dtype=bool))
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            asked[start:stop, start:stop] = False
        found = np.nonzero(asked)
        return found[0], found[1]

    def zeros(self, k: int) -> Integers:
        return np.zeros((self.length, self.length), dtype=np.int64)

    def add(self, view: View, projection: Projection | None, sums: Integers) -> None:
        assert projection is not None
        dense = self._dense(view, projection)
        place = np.array([*range(1 + self.size), self.length - 1])
        sums[np.ix_(place, place)] += whole_square(dense)
        for factor, start in enumerate(self.starts[:-1]):
            code = slice(start, self.starts[factor + 1])
            with_code = by_level(view.codes(factor), self.levels[factor], dense)
            sums[: 1 + self.size, code] += with_code[:-1]
            sums[code, -1] += with_code[-1]
            for other in range(factor + 1, len(self.levels)):
                pair = view.codes(factor) * self.levels[other] + view.codes(other)
                counts = np.bincount(pair, minlength=self.levels[factor] * self.levels[other])
                inside = slice(self.starts[other], self.starts[other + 1])
                shape = (self.levels[factor], self.levels[other])
                sums[code, inside] += counts.reshape(shape) * 2 ** (2 * FACTOR_BITS)

    def _dense(self, view: View, projection: Projection) -> Floats:
        """The constant, nu and rho, whole."""
        dense = view.room("dense", self.size + 2)
        dense[0] = ONE
        if self.size:
            dense[1:-1] = view.cut(projection, "w", self.limit, FACTOR_BITS)
        rho = view.residual(projection) * (ONE / self.reach)
        np.fmax(np.fmin(rho, ONE, out=rho), -ONE, out=rho)
        np.trunc(rho, out=dense[-1])
        return dense

    def whole(self, sums: Sums) -> Sums:
        """Released entries, the square of rho less the count."""
        matrix = sums.copy()
        matrix[-1, -1] -= sums[0, 0]
        return np.asarray(matrix[self.entries] << (UNIT_BITS - 2 * FACTOR_BITS))

    def answer(self, noisy: Floats, k: int) -> Floats:
        """Released entries in their places above the diagonal; below it the same."""
        upper = np.zeros((self.length, self.length))
        upper[self.entries] = noisy
        return np.asarray(upper + np.triu(upper, 1).T)

    def scales(self, sd: float, k: int) -> Floats:
        return self.answer(np.full(len(self.entries[0]), sd), k)


def by_level(code: Integers, levels: int, dense: Floats) -> Integers:
    """Sums of dense rows by level, (rows, levels), exact: `LONGEST_RUN` records at a time."""
    total = np.zeros((len(dense), levels), dtype=np.int64)
    for start in range(0, len(code), LONGEST_RUN):
        run = slice(start, start + LONGEST_RUN)
        for row, sums in zip(dense, total, strict=True):
            sums += np.bincount(code[run], weights=row[run] * ONE, minlength=levels).astype(
                np.int64
            )
    return total
