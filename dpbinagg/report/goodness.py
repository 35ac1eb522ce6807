"""Goodness of fit from the estimate, the released moments and the error variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpbinagg.analyst.covariance import noise_of_product
from dpbinagg.analyst.fit import released_moments
from dpbinagg.analyst.types import Estimate
from dpbinagg.formula import Design, linear_map
from dpbinagg.release import Release

DROWNED = 0.5
"""Noise of R-squared, as a standard deviation, from which on it is not shown."""


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
    explained : float
        ``sum (yhat - mean yhat)^2``, or ``sum yhat^2`` without a constant.
    residual : float
        ``scale (n - p)``.
    """

    nobs: float
    n_params: int
    constant: int
    explained: float
    residual: float

    @property
    def rsquared(self) -> float:
        """``explained / (explained + residual)``."""
        return self.explained / (self.explained + self.residual)

    @property
    def rsquared_adj(self) -> float:
        """``1 - (1 - R^2) (n - constant) / (n - p)``."""
        freedom = (self.nobs - self.constant) / (self.nobs - self.n_params)
        return 1.0 - (1.0 - self.rsquared) * freedom

    def information(self, penalty: float) -> float:
        """``n (log(2 pi residual / n) + 1) + penalty p``."""
        variance = self.residual / self.nobs
        return self.nobs * (math.log(2.0 * math.pi * variance) + 1.0) + penalty * self.n_params


def goodness(
    release: Release, design: Design, estimate: Estimate, constant: int
) -> Goodness | None:
    """Goodness of a fit; None where the moments were not released or noise drowns them.

    The explained sum of squares is ``v'Gv``, G the released moments and v the fitted
    values, less their mean, as a combination of what G was taken of. Its noise is
    much smaller than that of the sum of squares of the response, which the range of
    the response scales.
    """
    moments = released_moments(release)
    p = len(estimate.params)
    if moments is None or estimate.scale <= 0.0 or moments.nobs <= p:
        return None
    params = estimate.params
    if design is not release.design:
        params = linear_map(release.design, design) @ params
    v = moments.design_map @ params
    v[0] -= constant * float(moments.matrix[0] @ v) / moments.nobs
    noise = float(v @ noise_of_product(moments.sd, moments.centring, np.outer(v, v)) @ v)
    explained = max(float(v @ moments.matrix @ v), 0.0)
    residual = estimate.scale * (moments.nobs - p)
    if math.sqrt(max(noise, 0.0)) > DROWNED * (explained + residual):
        return None
    return Goodness(moments.nobs, p, constant, explained, residual)
