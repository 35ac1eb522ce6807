"""Goodness of fit from the released moments of the response and the error variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbinagg.analyst.fit import released_moments
from dpbinagg.release import Release


@dataclass(frozen=True, slots=True)
class Goodness:
    """Sums of squares of a fit, all of them noisy.

    Attributes
    ----------
    nobs : float
        Number of records n.
    n_params : int
        Number of coefficients p.
    constant : int
        1 where the model has a constant.
    total : float
        ``sum (y - mean y)^2``, or ``sum y^2`` without a constant.
    scale : float
        Error variance.
    """

    nobs: float
    n_params: int
    constant: int
    total: float
    scale: float

    @property
    def residual(self) -> float:
        """``scale (n - p)``, at most `total`."""
        return min(self.scale * max(self.nobs - self.n_params, 1.0), self.total)

    @property
    def rsquared(self) -> float:
        """``1 - residual / total``."""
        return 1.0 - self.residual / self.total

    @property
    def rsquared_adj(self) -> float:
        """``1 - (1 - R^2) (n - constant) / (n - p)``."""
        freedom = (self.nobs - self.constant) / max(self.nobs - self.n_params, 1.0)
        return 1.0 - (1.0 - self.rsquared) * freedom

    def information(self, penalty: float) -> float:
        """``n (log(2 pi residual / n) + 1) + penalty p``."""
        variance = self.residual / self.nobs
        return self.nobs * (math.log(2.0 * math.pi * variance) + 1.0) + penalty * self.n_params


def goodness(release: Release, n_params: int, constant: int, scale: float) -> Goodness | None:
    """Goodness of a fit; None where the moments were not released or noise drowns them.

    The total sum of squares is ``y'y - (1'y)^2 / n`` from the released moments.
    """
    moments = released_moments(release)
    if moments is None or scale <= 0.0:
        return None
    n = moments.nobs
    mean = float(moments.matrix[0] @ moments.response_map) / n
    total = moments.square - constant * n * mean**2
    if total <= 0.0 or n <= n_params:
        return None
    return Goodness(n, n_params, constant, total, scale)
