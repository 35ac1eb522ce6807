"""Which design columns tell of which raw variables.

Synthetic tables hold raw variables, the release speaks of design columns. A
variable is *carried* by a column that depends on it alone and increases or
decreases strictly with it, such as ``x``, ``np.log(x)`` or ``I(x / 10)``. A
variable with few values (a category, or whole numbers coded as levels) is told of
by all columns that depend on it alone, its dummies. Everything is found by
evaluating the design on public points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.types import Array
from dpbinagg.boxes import Boxes
from dpbinagg.domain import Categorical, Domain, Numeric
from dpbinagg.formula import Design

POINTS = 48
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
        Codes of a category, or whole numbers.
    columns : (J,) array
        Indices of the columns.
    coding : (L, J) array
        What the columns are at each value.
    """

    name: str
    values: Array
    columns: NDArray[np.intp]
    coding: Array

    def members(self, boxes: Boxes) -> NDArray[np.bool_]:
        """Which values every box holds, (K, L)."""
        if self.name in boxes.members:
            return boxes.members[self.name]
        lower, upper = boxes.lower[self.name], boxes.upper[self.name]
        return np.asarray((self.values >= lower[:, None]) & (self.values <= upper[:, None]))


Carrier = Continuous | Discrete
Rows = dict[str, NDArray[np.generic]]


def public_rows(domain: Domain, n: int, rng: np.random.Generator) -> Rows:
    """Rows spread evenly over a domain; no record is involved."""
    rows: Rows = {}
    for name, variable in domain.items():
        if isinstance(variable, Categorical):
            size = len(variable.levels)
            rows[name] = rng.permutation(np.arange(n) + int(rng.integers(size))) % size
        elif variable.integer:
            span = variable.upper - variable.lower + 1
            rows[name] = variable.lower + np.floor(rng.random(n) * span)
        else:
            rows[name] = rng.uniform(variable.lower, variable.upper, n)
    return rows


def carriers(design: Design) -> list[Carrier]:
    """A `Continuous` or `Discrete` for every raw variable of the right side."""
    domain = design.domain.subset(design.variables)
    if not design.variables:
        return []
    rng = np.random.default_rng(0)
    points = public_rows(domain, POINTS, rng)
    reference = design.columns(points)
    other = public_rows(domain, POINTS, rng)
    found: list[Carrier] = []
    for name in design.variables:
        mixed = {**other, name: points[name]}
        own = _equal(design.columns(mixed), reference)
        varies = ~_equal(design.columns({**points, name: other[name]}), reference)
        columns = np.flatnonzero(own & varies)
        found.append(_carrier(design, domain, name, columns))
    return found


def _equal(left: Array, right: Array) -> NDArray[np.bool_]:
    return np.asarray(((left == right) | (np.isnan(left) & np.isnan(right))).all(axis=0))


def _carrier(design: Design, domain: Domain, name: str, columns: NDArray[np.intp]) -> Carrier:
    variable = domain[name]
    if isinstance(variable, Categorical):
        values = np.arange(len(variable.levels), dtype=np.float64)
        return Discrete(name, values, columns, _at(design, domain, name, values)[:, columns])
    grid = _grid(variable)
    table = _at(design, domain, name, grid)[:, columns]
    for j in np.argsort(~(table == grid[:, None]).all(axis=0), kind="stable"):
        steps = np.diff(table[:, j])
        if (steps > 0).all() or (steps < 0).all():
            same = bool((table[:, j] == grid).all())
            return Continuous(name, int(columns[j]), grid, table[:, j], same)
    span = variable.upper - variable.lower + 1
    if variable.integer and span <= FEW_VALUES and columns.size:
        usable = np.isfinite(table).all(axis=1)
        return Discrete(name, grid[usable], columns, table[usable])
    return Continuous(name, None, grid, grid, True)


def _grid(variable: Numeric) -> Array:
    span = variable.upper - variable.lower + 1
    if variable.integer and span <= GRID:
        return variable.lower + np.arange(span)
    grid = np.linspace(variable.lower, variable.upper, GRID)
    return np.unique(np.rint(grid)) if variable.integer else grid


def _at(design: Design, domain: Domain, name: str, values: Array) -> Array:
    """The design columns where one variable takes `values`, the others fixed."""
    records: Rows = {}
    for other, variable in domain.items():
        if isinstance(variable, Categorical):
            records[other] = np.zeros(len(values), dtype=np.int64)
        else:
            records[other] = np.full(len(values), variable.lower)
    is_code = isinstance(domain[name], Categorical)
    records[name] = values.astype(np.int64) if is_code else values
    return design.columns(records)
