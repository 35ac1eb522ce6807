"""Counts of path codes, found as deep as the tree asks for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

FIRST_BITS = 16
"""Enough for most trees: more take time even where few records are."""
NEXT_BITS = 8


class Selection:
    """The nodes below which codes are counted: all of them, or some at one depth."""

    def __init__(self, depth: int, prefixes: Integers) -> None:
        self.depth = depth
        self.prefixes = prefixes

    def __len__(self) -> int:
        return len(self.prefixes)


Counter = Callable[[int, Selection | None], tuple[Integers, Integers]]
"""``counter(depth, selection)``: distinct prefixes of `depth` bits, ascending, and their counts."""


class PrefixCounts:
    """Counts of path codes by prefix, each level of detail counted when it is needed.

    The codes of a large table are too many to be held. A tree asks for the
    counts of ever longer prefixes, below few nodes: the first pass counts
    `FIRST_BITS` bits, later ones `NEXT_BITS` more below the nodes asked for.
    Which nodes are asked for follows from earlier noisy decisions.

    Parameters
    ----------
    depth : int
        Number of bits of a code.
    counter : callable
        Passes over the table.
    """

    def __init__(self, depth: int, counter: Counter) -> None:
        self._depth = depth
        self._counter = counter
        self._levels: list[tuple[int, Integers, Integers, Integers]] = []
        self._add(min(FIRST_BITS, depth), None)

    def _add(self, depth: int, selection: Selection | None) -> None:
        prefixes, counts = self._counter(depth, selection)
        if selection is None:
            covered = np.zeros(1, dtype=np.int64)
            stop = covered + (1 << self._depth)
        else:
            shift = self._depth - selection.depth
            covered, stop = selection.prefixes << shift, (selection.prefixes + 1) << shift
        cumulative = np.concatenate([[0], np.cumsum(counts)])
        starts = prefixes << (self._depth - depth)
        self._levels.append((depth, np.stack([covered, stop]), starts, cumulative))

    def between(self, start: Integers, stop: Integers) -> Integers:
        """Number of records with ``start <= code < stop``, for nodes of one depth."""
        if not len(start):
            return np.zeros(0, dtype=np.int64)
        node_depth = self._depth - int(stop[0] - start[0]).bit_length() + 1
        counts = np.full(len(start), -1, dtype=np.int64)
        for depth, covered, starts, cumulative in self._levels:
            if depth < node_depth:
                continue
            place = np.searchsorted(covered[0], start, side="right") - 1
            known = (place >= 0) & (stop <= covered[1][place]) & (counts < 0)
            low = np.searchsorted(starts, start[known], side="left")
            high = np.searchsorted(starts, stop[known], side="left")
            counts[known] = cumulative[high] - cumulative[low]
        unknown = counts < 0
        if unknown.any():
            prefixes = np.sort(start[unknown]) >> (self._depth - node_depth)
            depth = min(node_depth + NEXT_BITS - 1, self._depth)
            self._add(depth, Selection(node_depth, prefixes))
            counts[unknown] = self.between(start[unknown], stop[unknown])
        return counts


def count_codes(codes: Integers, depth: int, bits: int, selection: Selection | None) -> Integers:
    """Counts of the prefixes of `bits` bits of codes of `depth` bits, below some nodes.

    Returns
    -------
    array
        Without a selection a count for each of the 2^bits prefixes; with one,
        for each prefix below its nodes, node after node.
    """
    if selection is None:
        return np.bincount(codes >> (depth - bits), minlength=2**bits)
    below = bits - selection.depth
    prefixes = codes >> (depth - selection.depth)
    place = np.searchsorted(selection.prefixes, prefixes)
    place[place == len(selection)] = 0
    inside = selection.prefixes[place] == prefixes
    digits = (codes[inside] >> (depth - bits)) & ((1 << below) - 1)
    return np.bincount((place[inside] << below) | digits, minlength=len(selection) << below)


def dense_prefixes(bits: int, selection: Selection | None) -> Integers:
    """The prefixes that `count_codes` counts, in its order."""
    if selection is None:
        return np.arange(2**bits, dtype=np.int64)
    below = bits - selection.depth
    return ((selection.prefixes[:, None] << below) | np.arange(1 << below)).ravel()
