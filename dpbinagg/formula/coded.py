"""Design columns with factors as codes: what wide factors cost is then a look-up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.arrays import Arrays
from dpbinagg.formula.design import Design
from dpbinagg.formula.factors import CategoricalFactor
from dpbinagg.formula.terms import Subterm, Values
from dpbinagg.public.boxes import Boxes, Records

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

FEWEST = 3
"""Levels from which on a factor is a code: one of two levels is a number like any other."""


@dataclass(frozen=True)
class CodedDesign:
    """A design whose pure factors are codes of all their levels.

    A factor of one term, or the crossing of several, makes its design columns by a public matrix:
    column j of a record at level l is ``matrix[l, j]``. All other columns are numbers.
    """

    design: Design

    @cached_property
    def coded(self) -> tuple[Subterm, ...]:
        """Subterms that are codes."""
        return tuple(s for s in self.design.subterms if _levels(s) >= FEWEST)

    @cached_property
    def numeric(self) -> NDArray[np.intp]:
        """Design columns that are numbers, the intercept left out."""
        held = [
            np.arange(s.start, s.stop)
            for s in self.design.subterms
            if s.factors and _levels(s) < FEWEST
        ]
        return np.concatenate([np.empty(0, dtype=np.intp), *held]).astype(np.intp)

    @cached_property
    def matrices(self) -> tuple[tuple[Array, NDArray[np.intp]], ...]:
        """Contrast matrix of each code, (L, q), and the design columns that it makes."""
        return tuple((_matrix(s), np.arange(s.start, s.stop)) for s in self.coded)

    def __call__(self, records: Records) -> tuple[Array, Array, Codes]:
        """A constant and the numbers, (n, 1 + q); the response, (n,); the codes, (F, n).

        A record that is missing has NaN in all columns and as its response.
        """
        design, response = self.design, self.design.response(records)
        n = len(response)
        arrays = Arrays(records, design.domain, n)
        values = Values(arrays)
        whole = np.empty((n, len(design.column_names)), order="F")
        with np.errstate(all="ignore"):
            codes = np.zeros((len(self.coded), n), dtype=np.int64)
            for code, subterm in zip(codes, self.coded, strict=True):
                step = 1
                for factor, matrix in zip(subterm.factors, subterm.matrices, strict=True):
                    assert isinstance(factor, CategoricalFactor)
                    assert matrix is not None
                    code += step * values.codes(factor)
                    step *= len(matrix)
            for subterm in design.subterms:
                if subterm.factors and _levels(subterm) < FEWEST:
                    for factor in subterm.factors:
                        if isinstance(factor, CategoricalFactor):
                            values.codes(factor)
                    values.fill(subterm, whole)
        columns = np.empty((n, 1 + len(self.numeric)), order="F")
        columns[:, 0] = 1.0
        columns[:, 1:] = whole[:, self.numeric]
        missing = arrays.missing | np.isnan(response)
        if design.unbounded:
            missing |= ~np.isfinite(columns).all(axis=1)
        columns[missing], response[missing] = np.nan, np.nan
        codes[:, missing] = 0
        return columns, response, codes

    def bounds(self) -> tuple[Array, Array]:
        """Bounds of the columns that `__call__` gives, two (1 + q,) arrays."""
        lower, upper = self.design.column_bounds(
            Boxes.whole(self.design.domain, self.design.variables)
        )
        return np.append(1.0, lower[0, self.numeric]), np.append(1.0, upper[0, self.numeric])


def _levels(subterm: Subterm) -> int:
    """Levels of a subterm of factors alone; 0 of any other."""
    if not subterm.factors or not all(isinstance(f, CategoricalFactor) for f in subterm.factors):
        return 0
    return int(np.prod([len(m) for m in subterm.matrices if m is not None]))


def _matrix(subterm: Subterm) -> Array:
    """Columns of every combination of levels, that of the first factor moving fastest."""
    found = np.ones((1, 1))
    for matrix in subterm.matrices:
        assert matrix is not None
        found = np.einsum("ab,cd->cadb", found, matrix).reshape(
            len(matrix) * len(found), found.shape[1] * matrix.shape[1]
        )
    return np.asarray(found)
