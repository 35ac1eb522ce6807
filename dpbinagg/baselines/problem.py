"""From a formula or arrays to a regression in bounded coordinates, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import BudgetError, DataError, DomainError, FormulaError
from dpbinagg.public.domain import Domain, rows_of

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
Arrays = tuple[Any, Any]
Model = str | Arrays
Bounds = Mapping[str, object] | tuple[Any, Any]
Seed = int | np.random.Generator | np.random.SeedSequence | None


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """What a baseline returns.

    Attributes
    ----------
    params : (p,) array
        Coefficients in the units of the data.
    cov : (p, p) array or None
        Their covariance, where the method has one.
    names : tuple of str
        Names of the coefficients.
    notes : tuple of str
        What a reader must know besides, such as a choice made in the open.
    """

    params: Array
    cov: Array | None
    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Design columns and response of the records, with their public bounds."""

    columns: Array
    response: Array
    lower: Array
    upper: Array
    response_bounds: tuple[float, float]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A regression of `target` on `features`, every value within its limit.

    Coefficients beta of the response on the design columns are
    ``theta = lift @ beta + shift`` in the coordinates of `features`, so that
    centring is possible for a model without an intercept too.

    Attributes
    ----------
    features : (n, m) array, ``|features[:, j]| <= limits[j]``
    target : (n,) array, ``|target| <= target_limit``
    lift : (m, p) array
    shift : (m,) array
    """

    features: Array
    target: Array
    limits: Array
    target_limit: float
    lift: Array
    shift: Array
    names: tuple[str, ...]

    @property
    def radius(self) -> float:
        """Bound on the L2 norm of one record's features."""
        return float(np.linalg.norm(self.limits))

    def solve(self, gram: Array, cross: Array) -> Array:
        """Coefficients beta from `gram` = F'F and `cross` = F't.

        ``(L'AL) beta = L'(b - A l)`` with L, l the lift and the shift.
        """
        lift = self.lift
        beta, *_ = np.linalg.lstsq(lift.T @ gram @ lift, lift.T @ (cross - gram @ self.shift))
        return np.asarray(beta)

    def coefficients(self, theta: Array) -> Array:
        """The beta whose image is nearest to `theta`."""
        beta, *_ = np.linalg.lstsq(self.lift, theta - self.shift)
        return np.asarray(beta)


def prepare(
    model: Model,
    data: pd.DataFrame | None,
    bounds: Bounds | None,
    *,
    intercept: bool = True,
    scale: bool = True,
) -> Problem:
    """Clip the records to their bounds and move them to bounded coordinates.

    With ``scale=True``, features are 1 and ``(z_j - c_j)/h_j`` for every
    column that varies, the target is ``(y - c_y)/h_y`` (c, h: centre and half-width
    of the public bounds), and every limit is 1. With ``scale=False`` the
    units of the data are kept.
    """
    table = tabulate(model, data, bounds, intercept=intercept)
    lower, upper, (low, high) = table.lower, table.upper, table.response_bounds
    if not scale:
        limits = np.maximum(abs(lower), abs(upper))
        size = len(limits)
        return Problem(
            table.columns, table.response, limits, max(abs(low), abs(high)),
            np.eye(size), np.zeros(size), table.names,
        )  # fmt: skip
    centre, half = (lower + upper) / 2, (upper - lower) / 2
    centre_y, half_y = (low + high) / 2, (high - low) / 2
    varying = np.flatnonzero(half > 0)
    scaled = (table.columns[:, varying] - centre[varying]) / half[varying]
    lift = np.vstack([centre, np.diag(half)[varying]]) / half_y
    shift = np.zeros(len(lift))
    shift[0] = -centre_y / half_y
    return Problem(
        features=np.column_stack([np.ones(len(scaled)), scaled]),
        target=(table.response - centre_y) / half_y,
        limits=np.ones(len(lift)),
        target_limit=1.0,
        lift=lift,
        shift=shift,
        names=table.names,
    )


def tabulate(
    model: Model, data: pd.DataFrame | None, bounds: Bounds | None, *, intercept: bool
) -> Table:
    """Design, response and public bounds of ``(formula, data)`` or ``(X, y)``."""
    if isinstance(model, str):
        if data is None:
            raise DataError("data must be a table when the first argument is a formula, got None")
        return _from_formula(model, data, bounds)
    return _from_arrays(model, bounds, intercept)


def check_mu(mu: float) -> float:
    """Refuse a privacy level that is not a positive number."""
    if not mu > 0:
        raise BudgetError(f"mu must be a positive number, got {mu!r}; mu=1 is a usual choice")
    return float(mu)


def generator(rng: Seed) -> np.random.Generator:
    """A numpy generator from a seed, a generator or None."""
    return np.random.default_rng(rng)


def _from_arrays(model: Arrays, bounds: Bounds | None, intercept: bool) -> Table:
    if not isinstance(model, tuple) or len(model) != 2:
        raise FormulaError(
            f"the model must be a formula or a pair (X, y), got {type(model).__name__}"
        )
    columns, response = (np.asarray(part, dtype=np.float64) for part in model)
    if columns.ndim != 2 or response.shape != columns.shape[:1]:
        raise DataError(
            "X must be (n, d) and y (n,), "
            f"got {columns.ndim} and {response.ndim} dimensions of unequal length or wrong number"
        )
    names = tuple(f"x{j + 1}" for j in range(columns.shape[1]))
    lower, upper, response_bounds = _array_bounds(bounds, names)
    columns = np.clip(columns, lower, upper)
    if intercept:
        columns = np.column_stack([np.ones(len(columns)), columns])
        lower, upper = (np.concatenate([[1.0], side]) for side in (lower, upper))
        names = ("Intercept", *names)
    return Table(
        columns, np.clip(response, *response_bounds), lower, upper, response_bounds,
        names,
    )  # fmt: skip


def _array_bounds(
    bounds: Bounds | None, names: tuple[str, ...]
) -> tuple[Array, Array, tuple[float, float]]:
    if isinstance(bounds, Mapping):
        try:
            bounds = ([bounds[name] for name in names], bounds["y"])
        except KeyError as error:
            raise DomainError(f"bounds must name x1, ..., xd and y; {error} is missing") from None
    if not isinstance(bounds, tuple) or len(bounds) != 2:
        raise DomainError(
            "bounds must be given for a private method on arrays, as "
            "([(lower, upper), ...], (lower, upper)) for X and y, "
            f"got {type(bounds).__name__}"
        )
    sides = np.broadcast_to(np.asarray(bounds[0], dtype=np.float64), (len(names), 2))
    low, high = np.asarray(bounds[1], dtype=np.float64).tolist()
    if not (np.all(sides[:, 0] < sides[:, 1]) and low < high and np.isfinite(sides).all()):
        raise DomainError("bounds must be finite pairs with lower < upper for every column and y")
    return sides[:, 0].copy(), sides[:, 1].copy(), (low, high)


def _from_formula(formula: str, data: pd.DataFrame, bounds: Bounds | None) -> Table:
    from dpbinagg.formula import build_design

    if bounds is not None and not isinstance(bounds, Mapping):
        raise DomainError(
            f"bounds must be a mapping or a Domain with a formula, got {type(bounds).__name__}"
        )
    domain = Domain({**Domain.from_frame(data), **(bounds or {})})
    design = build_design(formula, domain)
    if design.unbounded:
        raise DomainError(
            f"bounds must be given for {', '.join(design.unbounded)}: "
            "baselines cannot find them privately"
        )
    names = tuple(design.domain)
    rows = rows_of(data, design.domain, names)
    columns, response = design.columns(rows), design.response(rows)
    complete = np.isfinite(columns).all(axis=1) & np.isfinite(response)
    lower, upper = design.column_bounds()
    return Table(
        columns[complete], response[complete], lower[0], upper[0],
        design.response_bounds(), design.column_names,
    )  # fmt: skip
