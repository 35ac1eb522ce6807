"""Find the interval of a code by looking up its leading bits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

FIRST_BITS = 16
NEXT_BITS = 6


@dataclass(frozen=True)
class PrefixTables:
    """Intervals of whole numbers, found a few bits at a time.

    Attributes
    ----------
    shifts : tuple of int
        Bits of a code below those that each table looks at.
    tables : tuple of (nodes, 2^bits) arrays
        The interval where the bits seen so far decide it; otherwise -1 minus
        the row of the next table.
    """

    shifts: tuple[int, ...]
    tables: tuple[Integers, ...]

    @classmethod
    def of(cls, starts: Integers, depth: int) -> PrefixTables:
        """Tables for the intervals that begin at `starts`, of codes of `depth` bits.

        Parameters
        ----------
        starts : (K,) array
            Ascending, the first of them 0.
        """
        bits = min(depth, FIRST_BITS, math.ceil(math.log2(len(starts) + 1)) + 3)
        nodes = np.zeros(1, dtype=np.int64)
        shift = depth - bits
        shifts, tables = [], []
        while True:
            first = ((nodes[:, None] << bits) | np.arange(2**bits)) << shift
            low = np.searchsorted(starts, first, side="right") - 1
            high = np.searchsorted(starts, first + (1 << shift), side="left") - 1
            undecided = low < high
            table = low.astype(np.int64, copy=False)
            table[undecided] = -1 - np.arange(undecided.sum())
            shifts.append(shift)
            tables.append(table)
            if not undecided.any():
                return cls(tuple(shifts), tuple(tables))
            nodes = first[undecided] >> shift
            bits = min(NEXT_BITS, shift)
            shift -= bits

    def locate(self, codes: Integers) -> Integers:
        """Interval of every code."""
        found: Integers = self.tables[0][0][codes >> self.shifts[0]]
        rows: Integers | None = None
        for shift, table in zip(self.shifts[1:], self.tables[1:], strict=True):
            open_ = np.flatnonzero(found < 0) if rows is None else rows[found[rows] < 0]
            rows = open_
            digit = (codes[rows] >> shift) & (table.shape[1] - 1)
            found[rows] = table[-1 - found[rows], digit]
        return found
