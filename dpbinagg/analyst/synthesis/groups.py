"""Rows and the bins they belong to."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.types import Array

Bin = NDArray[np.int64]
Number = TypeVar("Number", np.float32, np.float64)


class Groups:
    """The bins of n rows, of K bins, and where their rows are.

    Parameters
    ----------
    bins : (n,) array
        Bin of every row.
    n_bins : int
        K.
    """

    def __init__(self, bins: Bin, n_bins: int) -> None:
        self.bins, self.n_bins = bins, n_bins

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of every bin, (K,)."""
        return np.bincount(self.bins, minlength=self.n_bins)

    @cached_property
    def _order(self) -> NDArray[np.intp] | None:
        """An order in which rows of a bin follow each other; None where they do as they are."""
        sorted_already = (self.bins[1:] >= self.bins[:-1]).all()
        return None if sorted_already else np.argsort(self.bins, kind="stable")

    @cached_property
    def _filled(self) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
        """Bins that have rows, where the first of them is in that order, and how many."""
        filled = np.flatnonzero(self.sizes)
        size = self.sizes[filled]
        return filled, np.cumsum(size) - size, size

    def each(self, per_bin: NDArray[Number]) -> NDArray[Number]:
        """What the bin of every row has, (n,); one number, (1,), where all bins have the same.

        Most variables of a large design are never split, and have the same edges in all bins.
        """
        if (per_bin == per_bin[0]).all():
            return per_bin[:1]
        return per_bin[self.bins] if self._order is not None else np.repeat(per_bin, self.sizes)

    def means(self, values: Array) -> Array:
        """Mean of the rows of every bin, (K,), NaN for a bin without rows."""
        filled, first, size = self._filled
        means = np.full(self.n_bins, np.nan)
        if filled.size:
            ordered = values if self._order is None else values[self._order]
            means[filled] = np.add.reduceat(ordered, first) / size
        return means
