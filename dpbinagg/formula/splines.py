"""Splines with public knots and bounds: patsy's bs, cr and cc.

The argument is clamped to [lower_bound, upper_bound], so that nothing is
learnt from records and nothing is extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline, CubicSpline, PPoly

from dpbinagg.formula.interval_operations import Interval

Array = NDArray[np.float64]

SLACK = 1e-13


@dataclass(frozen=True)
class Basis:
    """Spline functions of one number.

    Parameters
    ----------
    kind : "bs", "cr" or "cc"
        B-splines; natural cubic splines; cyclic cubic splines. The cubic ones
        are parametrised by their values at the knots.
    inner : tuple of float
        Knots strictly inside the bounds.
    lower, upper : float
        Boundary knots.
    degree : int
        Of B-splines.
    intercept : bool
        Whether the first B-spline is kept.
    """

    kind: Literal["bs", "cr", "cc"]
    inner: tuple[float, ...]
    lower: float
    upper: float
    degree: int = 3
    intercept: bool = False

    @cached_property
    def _spline(self) -> Any:
        if self.kind == "bs":
            ends = [self.lower, self.upper] * (self.degree + 1)
            knots = np.sort(np.concatenate([ends, self.inner]))
            coefficients = np.eye(len(knots) - self.degree - 1)
            return BSpline(knots, coefficients[:, 0 if self.intercept else 1 :], self.degree)
        knots = np.sort(np.concatenate([[self.lower, self.upper], self.inner]))
        values = np.eye(len(knots))
        if self.kind == "cr":
            return CubicSpline(knots, values, bc_type="natural")
        values = values[:, :-1]
        values[-1, 0] = 1.0
        return CubicSpline(knots, values, bc_type="periodic")

    @cached_property
    def n_columns(self) -> int:
        """Number of spline functions."""
        return int(self._spline.c.shape[-1])

    def _values(self, x: Array) -> Array:
        return np.asarray(self._spline(np.clip(x, self.lower, self.upper)))

    def columns(self, x: Array) -> list[Array]:
        """The functions at `x`, one array for each."""
        return list(np.moveaxis(self._values(x), -1, 0))

    @cached_property
    def _critical(self) -> tuple[Array, Array]:
        """Where a function may have an extreme inside an interval, and all functions there."""
        knots = np.unique(self._spline.t if self.kind == "bs" else self._spline.x)
        points = [knots, np.nextafter(knots, -np.inf)]
        for j in range(self.n_columns):
            if self.kind == "bs":
                column = (self._spline.t, self._spline.c[:, j], self.degree)
                piecewise = PPoly.from_spline(column)
            else:
                piecewise = PPoly(self._spline.c[:, :, j], self._spline.x)
            if self.kind != "bs" or self.degree > 1:
                roots = np.atleast_1d(piecewise.derivative().roots(extrapolate=False))
                points.append(roots[np.isfinite(roots)])
        where = np.unique(np.clip(np.concatenate(points), self.lower, self.upper))
        return where, self._values(where)

    def bounds(self, x: Interval) -> list[Interval]:
        """Bounds of the functions on intervals, attained up to rounding."""
        ends = self._values(x.lower), self._values(x.upper)
        where, extremes = self._critical
        inside = (x.lower[..., None] <= where) & (where <= x.upper[..., None])
        slack = SLACK * max(1.0, float(np.abs(extremes).max()))
        intervals = []
        for j in range(self.n_columns):
            low = np.where(inside, extremes[:, j], np.inf).min(axis=-1)
            high = np.where(inside, extremes[:, j], -np.inf).max(axis=-1)
            lower = np.minimum(np.minimum(ends[0][..., j], ends[1][..., j]), low)
            upper = np.maximum(np.maximum(ends[0][..., j], ends[1][..., j]), high)
            varies = lower < upper
            intervals.append(
                Interval(lower - np.where(varies, slack, 0), upper + np.where(varies, slack, 0))
            )
        return intervals
