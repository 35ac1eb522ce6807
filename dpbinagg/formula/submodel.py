"""Smaller models: the columns of one design from those of another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula.design import Design
from dpbinagg.public.domain import Categorical, Numeric

Array = NDArray[np.float64]

TOLERANCE = 1e-9
POINTS_PER_COLUMN = 8
MIN_POINTS = 400
MAX_COMBINATIONS = 20_000


def public_points(design: Design, n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Public points spread over the domain of the right side, at least n of them.

    Numeric variables are uniform. Levels occur in all combinations, as long as
    these are not too many; no record is involved.
    """
    levels: dict[str, Array] = {}
    ranges: dict[str, Numeric] = {}
    for name, variable in design.domain.subset(design.variables).items():
        if isinstance(variable, Categorical):
            levels[name] = np.arange(len(variable.levels), dtype=np.float64)
        elif not variable.bounded:
            raise DomainError(
                f"bounds of {name!r} are not known; declare them before comparing designs"
            )
        elif name in design.fixed and variable.integer:
            levels[name] = np.arange(variable.lower, variable.upper + 1)
        else:
            ranges[name] = variable
    combinations = math.prod(len(values) for values in levels.values())
    if combinations <= MAX_COMBINATIONS:
        n = combinations * math.ceil(n / combinations)
    points: dict[str, Array] = {design.response_name: np.zeros(n)}
    stride = 1
    for name, values in levels.items():
        points[name] = values[np.arange(n) // stride % len(values)]
        stride *= len(values)
        if combinations > MAX_COMBINATIONS:
            points[name], stride = rng.permutation(points[name]), 1
    for name, variable in ranges.items():
        points[name] = rng.uniform(variable.lower, variable.upper, n)
    return points


def linear_map(full: Design, sub: Design) -> Array:
    """Columns of `sub` as linear combinations of the columns of `full`.

    Solves ``full.columns(x) @ M = sub.columns(x)`` on public points x spread
    over the domain of `full`, and checks the residual.

    Parameters
    ----------
    full, sub : Design
        The released design and a smaller one; `sub` is taken to the domain of
        `full`.

    Returns
    -------
    (p_full, p_sub) array M
        A unit vector for each column that both share by name.

    Raises
    ------
    FormulaError
        Naming the first column that is not a combination.
    """
    foreign = [name for name in sub.variables if name not in full.variables]
    if foreign:
        raise FormulaError(
            f"variable {foreign[0]!r} is not on the right side of the released formula "
            f"{full.formula!r}; release a formula that has it"
        )
    sub = sub.with_domain(full.domain)
    n = max(MIN_POINTS, POINTS_PER_COLUMN * len(full.column_names))
    points = public_points(full, n, np.random.default_rng(20))
    released, wanted = full.columns(points), sub.columns(points)
    usable = np.isfinite(released).all(axis=1) & np.isfinite(wanted).all(axis=1)
    released, wanted = released[usable], wanted[usable]
    mapping = by_name(full.column_names, sub.column_names)
    unknown = residuals(released, wanted, mapping) > TOLERANCE
    if unknown.any():
        mapping[:, unknown] = solve(released, wanted[:, unknown])
        unknown = residuals(released, wanted, mapping) > TOLERANCE
    if unknown.any():
        raise FormulaError(
            f"column {sub.column_names[int(np.argmax(unknown))]!r} is not a linear combination of "
            f"the released columns; fit a formula made of those of {full.formula!r}, or make a "
            "new release"
        )
    return mapping


def by_name(full: tuple[str, ...], sub: tuple[str, ...]) -> Array:
    """Unit vectors for columns with equal names, zeros for others."""
    return np.array([[float(name == other) for other in sub] for name in full])


def solve(released: Array, wanted: Array) -> Array:
    """Least squares with columns scaled to unit maximum; tiny weights set to zero."""
    scale = np.maximum(np.abs(released).max(axis=0, initial=0.0), np.finfo(float).tiny)
    weights = np.linalg.lstsq(released / scale, wanted, rcond=1e-12)[0]
    largest = np.abs(weights).max(axis=0, initial=0.0)
    weights[np.abs(weights) < TOLERANCE * largest] = 0.0
    return np.asarray(weights / scale[:, None])


def residuals(released: Array, wanted: Array, mapping: Array) -> Array:
    """Largest deviation of each column, relative to its size."""
    size = np.maximum(np.abs(wanted).max(axis=0, initial=0.0), np.finfo(float).tiny)
    return np.asarray(np.abs(released @ mapping - wanted).max(axis=0, initial=0.0) / size)
