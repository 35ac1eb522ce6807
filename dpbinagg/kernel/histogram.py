"""Fast histograms over any edges.

A value's bin is sought among 100 or more edges by a binary search, which costs
more than all else that is done with it. Instead, values are first put into
buckets by a cheap monotone map; only those in a bucket that an edge cuts are
searched for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Keys = Callable[[Floats], Integers]

SMALL = 2**13
"""Values for which a search takes less time than finding buckets."""
STEP = 2**14
"""Values of one step: their buckets fit the cache."""
LINEAR_BUCKETS = 4096
SHIFT = 51
"""Keeps sign, exponent and one bit of the significand of a double."""
OFFSET = 2 ** (63 - SHIFT)
POSITIVE = np.int64(2**63 - 1)


def histogram(values: Floats, edges: Floats) -> Integers:
    """Records by interval: bin i is ``(edges[i], edges[i + 1]]``, the outer ones take the rest.

    A value on an edge lies in the interval below it.
    """
    if len(values) <= SMALL:
        return _by_search(values, edges)
    return _best(edges.tobytes()).count(values, edges)


def _by_search(values: Floats, edges: Floats) -> Integers:
    index = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)
    return np.bincount(index, minlength=len(edges) - 1).astype(np.int64, copy=False)


@dataclass(frozen=True)
class _Buckets:
    """A monotone map to bucket numbers, and the bin of each bucket.

    Attributes
    ----------
    keys : callable
        Bucket of each value. Monotone as computed, so a value in a lower
        bucket than an edge is below it, and one in a higher bucket above.
    bins : (B,) array
        Bin of the buckets that no edge cuts.
    cut : (B,) bool array
        Buckets that an edge cuts.
    """

    keys: Keys
    bins: Integers
    cut: NDArray[np.bool_]

    @classmethod
    def of(cls, keys: Keys, n_buckets: int, edges: Floats) -> _Buckets:
        own = keys(edges)
        # The largest number of a bucket cuts nothing: all others there lie below it.
        last = keys(np.nextafter(edges, np.inf)) > own
        inside = np.bincount(own[~last], minlength=n_buckets)
        below = np.cumsum(np.bincount(own, minlength=n_buckets))
        below = np.concatenate([[0], below[:-1]])
        return cls(keys, np.clip(below - 1, 0, len(edges) - 2), inside > 0)

    def cost(self, edges: Floats) -> int:
        """A guess at how many values must be searched for."""
        inside = np.bincount(self.keys(edges), minlength=len(self.bins))[self.cut]
        return int((inside * inside).sum())

    def count(self, values: Floats, edges: Floats) -> Integers:
        """Values by bin."""
        by_bucket = np.zeros(len(self.bins), dtype=np.int64)
        counts = np.zeros(len(edges) - 1, dtype=np.int64)
        any_cut = bool(self.cut.any())
        for start in range(0, len(values), STEP):
            some = values[start : start + STEP]
            keys = self.keys(some)
            by_bucket += np.bincount(keys, minlength=len(self.bins))
            if any_cut:
                counts += _by_search(some[self.cut[keys]], edges)
        by_bucket[self.cut] = 0
        np.add.at(counts, self.bins, by_bucket)
        return counts


@lru_cache(maxsize=32)
def _best(edges_bytes: bytes) -> _Buckets:
    """The buckets that edges cut least: linear ones, or octaves of the distance from a point."""
    edges = np.frombuffer(edges_bytes)
    scale = LINEAR_BUCKETS / (edges[-1] - edges[0])

    def linear(values: Floats) -> Integers:
        with np.errstate(over="ignore"):
            position = (values - edges[0]) * scale
        np.clip(position, 0.0, LINEAR_BUCKETS - 1.0, out=position)
        return np.asarray(position, dtype=np.int64)

    candidates = [_Buckets.of(linear, LINEAR_BUCKETS, edges)]
    for origin in (0.0, float(edges[0]), float(edges[-1])):
        candidates.append(_Buckets.of(_octaves(origin), 2 * OFFSET, edges))
    return min(candidates, key=lambda buckets: buckets.cost(edges))


def _octaves(origin: float) -> Keys:
    def keys(values: Floats) -> Integers:
        bits = np.subtract(values, origin).view(np.int64)
        sign = bits >> 63
        # Negative numbers in their order; positive ones such that a power of
        # two is the last number of its bucket.
        bits ^= sign & POSITIVE
        bits -= 1 + sign
        bits >>= SHIFT
        bits += OFFSET
        return bits

    return keys
