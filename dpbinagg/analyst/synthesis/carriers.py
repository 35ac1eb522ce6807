"""Which design columns tell of which raw variables.

Synthetic tables hold raw variables, the release speaks of design columns. A
variable is *carried* by a column that depends on it alone and increases or
decreases strictly with it, such as ``x``, ``np.log(x)`` or ``I(x / 10)``. A
variable with few values (a category, or whole numbers coded as levels) is told of
by all columns that depend on it alone, its dummies. What columns are is found by
evaluating them on public points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.types import Array
from dpbinagg.formula import Design
from dpbinagg.public.domain import Categorical, Numeric
from dpbinagg.public.partition import Boxes

GRID = 2049
FEW_VALUES = 64


@dataclass(frozen=True, slots=True)
class Continuous:
    """A numeric variable and the column that carries it.

    Attributes
    ----------
    name : str
    column : int or None
        Index of the column, None where no column carries the variable.
    raw, carried : (G,) arrays
        The variable on a grid over its domain and the column there.
    identity : bool
        Whether the column is the variable itself.
    """

    name: str
    column: int | None
    raw: Array
    carried: Array
    identity: bool

    def forward(self, values: Array) -> Array:
        """The column where the variable takes `values`."""
        return values if self.identity else np.interp(values, self.raw, self.carried)

    def backward(self, values: Array) -> Array:
        """The variable where the column takes `values`."""
        if self.identity:
            return values
        if self.carried[0] > self.carried[-1]:
            return np.interp(values, self.carried[::-1], self.raw[::-1])
        return np.interp(values, self.carried, self.raw)


@dataclass(frozen=True, slots=True)
class Discrete:
    """A variable with L values and the J columns that depend on it alone.

    Attributes
    ----------
    name : str
    values : (L,) array
        Codes of a category, or whole numbers, for which the design is defined.
    columns : (J,) array
        Indices of the columns.
    coding : (L, J) array
        What the columns are at each value.
    whole : bool
        Whether the values are codes or whole numbers, of which a box holds its upper edge.
    """

    name: str
    values: Array
    columns: NDArray[np.intp]
    coding: Array
    whole: bool = True

    def members(self, boxes: Boxes) -> NDArray[np.bool_]:
        """Which values every box holds, (K, L)."""
        if self.name in boxes.members:
            return boxes.members[self.name][:, self.values.astype(np.intp)]
        lower, upper = boxes.lower[self.name], boxes.upper[self.name]
        closed = self.whole | (upper == upper.max())
        below = np.where(closed, np.nextafter(upper, np.inf), upper)
        return np.asarray((self.values >= lower[:, None]) & (self.values < below[:, None]))


Carrier = Continuous | Discrete


def carriers(design: Design) -> list[Carrier]:
    """A `Continuous` or `Discrete` for every raw variable of the right side."""
    plain, levels = design.plain_columns(), design.numeric_levels()
    found: list[Carrier] = []
    for name in design.variables:
        variable = design.domain[name]
        if name in plain and name not in levels and isinstance(variable, Numeric):
            ends = np.array([variable.lower, variable.upper])
            found.append(Continuous(name, plain[name], ends, ends, True))
        else:
            found.append(_tabulated(design, name, levels.get(name, np.empty(0))))
    return found


def _tabulated(design: Design, name: str, levels: Array) -> Carrier:
    """The carrier that the columns of a variable show, on a grid and at the listed levels."""
    variable = design.domain[name]
    grid = np.union1d(_grid(variable), levels)
    columns, table, defined = design.columns_of(name, grid)
    values, table = grid[defined], table[defined]
    varies = (table != table[:1]).any(axis=0)
    columns, table = columns[varies], table[:, varies]
    if isinstance(variable, Categorical):
        return Discrete(name, values, columns, table)
    if not defined.all():
        return Discrete(name, values, columns, table, variable.integer)
    carrying = _carrying(table, values)
    if carrying is not None:
        same = bool((table[:, carrying] == values).all())
        return Continuous(name, int(columns[carrying]), values, table[:, carrying], same)
    if variable.integer and len(values) <= FEW_VALUES and columns.size:
        return Discrete(name, values, columns, table)
    return Continuous(name, None, values, values, True)


def _carrying(table: Array, grid: Array) -> int | None:
    """A column that is the variable itself, else one that moves strictly with it."""
    for j in np.argsort(~(table == grid[:, None]).all(axis=0), kind="stable"):
        steps = np.diff(table[:, j])
        if (steps > 0).all() or (steps < 0).all():
            return int(j)
    return None


def _grid(variable: Numeric | Categorical) -> Array:
    if isinstance(variable, Categorical):
        return np.arange(len(variable.levels), dtype=np.float64)
    span = variable.upper - variable.lower + 1
    if variable.integer and span <= GRID:
        return variable.lower + np.arange(span)
    grid = np.linspace(variable.lower, variable.upper, GRID)
    return np.unique(np.rint(grid)) if variable.integer else grid
