"""Terms: how factors multiply into design columns, in patsy's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.arrays import Arrays
from dpbinagg.formula.factors import CategoricalFactor, Factor, NumericFactor
from dpbinagg.formula.interval_operations import Interval, multiply
from dpbinagg.formula.intervals import Intervals

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
Members = NDArray[np.bool_]


@dataclass(frozen=True)
class Subterm:
    """Consecutive design columns: products of one column of each factor.

    Attributes
    ----------
    factors : tuple of Factor
        None for the intercept.
    matrices : tuple
        The (L, q) contrast matrix of each categorical factor, else None.
    start : int
        Index of the first column.
    """

    factors: tuple[Factor, ...]
    matrices: tuple[Array | None, ...]
    start: int

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Columns of each factor."""
        return tuple(
            factor.n_columns if isinstance(factor, NumericFactor) else _width(matrix)
            for factor, matrix in zip(self.factors, self.matrices, strict=True)
        )

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names of the raw variables."""
        return frozenset(name for factor in self.factors for name in factor.variables)

    @cached_property
    def choices(self) -> tuple[tuple[int, ...], ...]:
        """For each column, the column of each factor; the first factor's moves fastest."""
        backwards = product(*(range(width) for width in reversed(self.widths)))
        return tuple(tuple(reversed(choice)) for choice in backwards)

    @property
    def stop(self) -> int:
        """Index after the last column."""
        return self.start + len(self.choices)


def _width(matrix: Array | None) -> int:
    assert matrix is not None
    return int(matrix.shape[1])


class Values:
    """Columns of factors for records, each computed once."""

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._columns: dict[str, list[Array]] = {}
        self._codes: dict[str, Codes] = {}

    def codes(self, factor: CategoricalFactor) -> Codes:
        """The level of each record, (n,)."""
        if factor.name not in self._codes:
            self._codes[factor.name] = factor.source.codes(self._arrays)
        return self._codes[factor.name]

    def fill(self, subterm: Subterm, out: Array) -> None:
        """Write the columns of `subterm` into the design matrix `out`."""
        for j, choice in enumerate(subterm.choices, start=subterm.start):
            column = out[:, j]
            if not choice:
                column[:] = 1.0
                continue
            self._put(subterm, 0, choice[0], column)
            for i in range(1, len(choice)):
                column *= self._column(subterm, i, choice[i])

    def _put(self, subterm: Subterm, i: int, chosen: int, out: Array) -> None:
        factor, matrix = subterm.factors[i], subterm.matrices[i]
        if isinstance(factor, CategoricalFactor):
            assert matrix is not None
            np.take(matrix[:, chosen], self.codes(factor), out=out, mode="clip")
        else:
            out[:] = self._numeric(factor)[chosen]

    def _column(self, subterm: Subterm, i: int, chosen: int) -> Array:
        factor, matrix = subterm.factors[i], subterm.matrices[i]
        if isinstance(factor, CategoricalFactor):
            assert matrix is not None
            return np.take(matrix[:, chosen], self.codes(factor), mode="clip")
        return self._numeric(factor)[chosen]

    def _numeric(self, factor: NumericFactor) -> list[Array]:
        if factor.name not in self._columns:
            self._columns[factor.name] = factor.columns(self._arrays)
        return self._columns[factor.name]


class Bounds:
    """Bounds of factors on boxes, each computed once."""

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._numeric: dict[str, list[Interval]] = {}
        self._members: dict[str, Members] = {}

    def members(self, factor: CategoricalFactor) -> Members:
        """Levels of a factor in each box, (K or 1, L)."""
        if factor.name not in self._members:
            self._members[factor.name] = factor.source.members(self._intervals)
        return self._members[factor.name]

    def numeric(self, factor: NumericFactor) -> list[Interval]:
        """Bounds of a numeric factor's columns."""
        if factor.name not in self._numeric:
            self._numeric[factor.name] = factor.bounds(self._intervals)
        return self._numeric[factor.name]

    def check(self, factor: Factor) -> None:
        """Raise `FormulaError` where the factor is undefined."""
        if isinstance(factor, NumericFactor):
            self.numeric(factor)
        else:
            self.members(factor)

    def columns(self, subterm: Subterm) -> Iterator[Interval]:
        """Bounds of the columns of `subterm`, in order."""
        one = Interval(np.ones(1), np.ones(1))
        factors = [
            self._coded(factor, matrix)
            for factor, matrix in zip(subterm.factors, subterm.matrices, strict=True)
        ]
        for choice in subterm.choices:
            pieces = [factor[chosen] for factor, chosen in zip(factors, choice, strict=True)]
            yield product_bounds(pieces) if pieces else one

    def _coded(self, factor: Factor, matrix: Array | None) -> list[Interval]:
        if isinstance(factor, NumericFactor):
            return self.numeric(factor)
        assert matrix is not None
        members = self.members(factor)
        none = ~members.any(axis=1)
        coded = []
        for column in matrix.T:
            lower = np.where(members, column, np.inf).min(axis=1)
            upper = np.where(members, column, -np.inf).max(axis=1)
            coded.append(Interval(np.where(none, 0.0, lower), np.where(none, 0.0, upper)))
        return coded


def product_bounds(pieces: Sequence[Interval]) -> Interval:
    """Bounds of a product of unrelated quantities."""
    result = pieces[0]
    for piece in pieces[1:]:
        result = multiply(result, piece)
    return result


def merge_equal(matrix: Array) -> Array:
    """A contrast matrix in which entries of a column that differ by rounding are equal.

    Otherwise a column that is constant on a box would seem to vary.
    """
    close = 16 * np.finfo(float).eps * np.abs(matrix).max(axis=0, initial=0.0)
    order = np.argsort(matrix, axis=0)
    ascending = np.take_along_axis(np.where(np.abs(matrix) <= close, 0.0, matrix), order, axis=0)
    rows = np.broadcast_to(np.arange(len(matrix))[:, None], matrix.shape)
    new = np.diff(ascending, axis=0, prepend=-np.inf) > close
    first = np.maximum.accumulate(np.where(new, rows, 0), axis=0)
    merged = np.empty_like(matrix)
    np.put_along_axis(merged, order, np.take_along_axis(ascending, first, axis=0), axis=0)
    return merged


def subterms_of(design_info: object, factors: Mapping[str, Factor]) -> tuple[Subterm, ...]:
    """Read the subterms of a patsy DesignInfo."""
    found: list[Subterm] = []
    start = 0
    for coded in design_info.term_codings.values():  # type: ignore[attr-defined]
        for info in coded:
            matrices = tuple(
                merge_equal(np.asarray(info.contrast_matrices[factor].matrix, dtype=np.float64))
                if factor in info.contrast_matrices
                else None
                for factor in info.factors
            )
            parts = tuple(factors[factor.name()] for factor in info.factors)
            found.append(Subterm(parts, matrices, start))
            start = found[-1].stop
    return tuple(found)
