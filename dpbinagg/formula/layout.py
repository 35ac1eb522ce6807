"""How design columns follow from what the kernel sees of a record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.coded import CodedDesign
from dpbinagg.formula.design import Design
from dpbinagg.public.scaling import ColumnScaling, centre_and_half_width, response_scale

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How design columns x and the response follow from what the kernel sees of a record.

    ``f = (1, z*, codes, y*)``: the numeric columns scaled to [-1, 1], one-hot codes of factors, and
    the response: ``x = design_map' f``, ``y = centre_y + scale_y y*``.

    Attributes
    ----------
    design_map : (m, p) array
    numeric : (q,) array of int
        Design columns that are numbers.
    factors : tuple of ((L, c) array, (c,) array of int)
        Contrast matrix of each factor and the design columns it makes.
    intercept : int or None
    centre_y, scale_y : float
        Of the response of the rows.
    offset : (m,) array
        What is added to coefficients on f for a model with another response than the rows':
        ``centre_y + scale_y y* - offset' f`` is that response.
    """

    design_map: Array
    numeric: NDArray[np.intp]
    factors: tuple[tuple[Array, NDArray[np.intp]], ...]
    intercept: int | None
    centre_y: float
    scale_y: float
    offset: Array

    @property
    def response(self) -> Array:
        """The response of the rows as a combination of f, (m,)."""
        found = np.zeros(len(self.design_map))
        found[0], found[-1] = self.centre_y, self.scale_y
        return found

    @property
    def levels(self) -> tuple[int, ...]:
        """Levels of the factors."""
        return tuple(len(matrix) for matrix, _ in self.factors)


@lru_cache(maxsize=16)
def coded_scaling(design: Design) -> ColumnScaling:
    """Scaling to [-1, 1] of the columns that `CodedDesign` gives, and of the response."""
    centre, half = centre_and_half_width(*CodedDesign(design).bounds())
    middle, half_y = response_scale(*design.response_bounds())
    return ColumnScaling(centre, half, middle, half_y)


@lru_cache(maxsize=16)
def row_layout(design: Design) -> RowLayout:
    """The map from ``f = (1, z*, codes, y*)`` to design columns and response."""
    coded, scaling = CodedDesign(design), coded_scaling(design)
    levels = [len(matrix) for matrix, _ in coded.matrices]
    size = len(scaling.varying) + sum(levels) + 2
    design_map = np.zeros((size, len(design.column_names)))
    if design.intercept is not None:
        design_map[0, design.intercept] = 1.0
    design_map[0, coded.numeric] = scaling.centre[1:]
    place = 1 + np.arange(len(scaling.varying))
    design_map[place, coded.numeric[scaling.varying - 1]] = scaling.scale[scaling.varying]
    start = 1 + len(scaling.varying)
    for matrix, columns in coded.matrices:
        design_map[start : start + len(matrix), columns] = matrix
        start += len(matrix)
    return RowLayout(
        design_map,
        coded.numeric,
        coded.matrices,
        design.intercept,
        scaling.centre_y,
        scaling.scale_y,
        np.zeros(size),
    )
