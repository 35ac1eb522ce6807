"""Perturbed sufficient statistics: SSP and AdaSSP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from dpbinagg.baselines.problem import (
    Array,
    BaselineResult,
    Bounds,
    Model,
    Problem,
    Seed,
    check_mu,
    generator,
    prepare,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """Noisy sufficient statistics and the standard deviation of their noise.

    `gram` (m, m) and `cross` (m,) always; `total_square` and `count` only
    where a covariance was asked for (SSP); `smallest`, a lower bound on the
    smallest eigenvalue of the Gram matrix, in AdaSSP.
    """

    gram: Array
    cross: Array
    sd_gram: float
    sd_cross: float
    total_square: float | None = None
    count: float | None = None
    smallest: float = 0.0


def gram_sensitivity(limits: Array) -> float:
    """L2 sensitivity of the distinct entries of F'F when a record is added.

    ``sup sum_{i<=j} (f_i f_j)^2 = ((sum a_i^2)^2 + sum a_i^4) / 2`` for
    ``|f_i| <= a_i``, reached at a corner.
    """
    squares = limits**2
    return float(np.sqrt((squares.sum() ** 2 + (squares**2).sum()) / 2))


def cross_sensitivity(problem: Problem) -> float:
    """L2 sensitivity of F't: ``sup |f| |t|``."""
    return problem.radius * problem.target_limit


def symmetric_noise(size: int, sd: float, rng: np.random.Generator) -> Array:
    """A symmetric matrix of Gaussian noise, independent in its distinct entries."""
    upper = np.triu(rng.normal(scale=sd, size=(size, size)))
    return upper + np.triu(upper, 1).T


def ssp(
    model: Model,
    data: pd.DataFrame | None = None,
    *,
    mu: float,
    bounds: Bounds | None = None,
    rng: Seed = None,
    intercept: bool = True,
    scale: bool = True,
    intervals: bool = True,
) -> BaselineResult:
    """Sufficient statistics perturbation.

    Releases the distinct entries of F'F, F't and, for a covariance, t't and n
    as one Gaussian mechanism, and solves ``theta = (F'F + E)^-1 (F't + e)``.
    With ``|f_j| <= a_j``, ``|t| <= a_t``, adding or removing one record moves them by at most
    ``Delta^2 = (R^4 + sum a^4)/2 + R^2 a_t^2 (+ a_t^4 + 1)``, R^2 = sum a^2.
    Every entry gets N(0, (Delta/mu)^2), so the whole is mu-GDP.

    ``cov = A^-1 (sigma^2 A + V) A^-1``, A the noisy Gram matrix and
    ``V = s^2 ((1 + |theta|^2) I + theta theta' - diag(theta^2))`` the
    covariance of ``e - E theta``; None where A is not positive definite.

    Parameters
    ----------
    model : str or (X, y)
        A formula, with `data`, or arrays.
    data : DataFrame, optional
    mu : float
        Privacy, mu-GDP for adding or removing a record.
    bounds : mapping, or (bounds of X, bounds of y)
        Public bounds; records are clipped to them.
    rng : seed or Generator, optional
    intercept : bool
        Whether to add an intercept to X (a formula says so itself).
    scale : bool
        Centre (with an intercept) and scale columns by their bounds.
    intervals : bool
        Release what a covariance needs besides.

    References
    ----------
    Foulds, Geumlek, Welling, Chaudhuri (2016), UAI; Vu and Slavkovic (2009),
    ICDM Workshops; Dwork, Talwar, Thakurta, Zhang (2014), STOC.

    Returns
    -------
    BaselineResult

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.random((2000, 1))
    >>> y = 1.0 + 2.0 * x[:, 0] + 0.1 * rng.normal(size=2000)
    >>> bounds = ([(0, 1)], (0, 4))
    >>> bool(abs(ssp((x, y), mu=1, bounds=bounds, rng=2).params - [1, 2]).max() < 0.1)
    True
    """
    problem = prepare(model, data, bounds, intercept=intercept, scale=scale)
    noisy = ssp_moments(problem, check_mu(mu), generator(rng), intervals=intervals)
    params = problem.solve(noisy.gram, noisy.cross)
    return BaselineResult(params, _ssp_cov(problem, noisy, params), problem.names)


def ssp_moments(
    problem: Problem, mu: float, rng: np.random.Generator, *, intervals: bool = True
) -> NoisyMoments:
    """The mechanism of `ssp`."""
    features, target = problem.features, problem.target
    squared = gram_sensitivity(problem.limits) ** 2 + cross_sensitivity(problem) ** 2
    if intervals:
        squared += problem.target_limit**4 + 1.0
    sd = float(np.sqrt(squared)) / mu
    size = features.shape[1]
    return NoisyMoments(
        gram=features.T @ features + symmetric_noise(size, sd, rng),
        cross=features.T @ target + rng.normal(scale=sd, size=size),
        sd_gram=sd,
        sd_cross=sd,
        total_square=float(target @ target + rng.normal(scale=sd)) if intervals else None,
        count=float(len(target) + rng.normal(scale=sd)) if intervals else None,
    )


def _ssp_cov(problem: Problem, noisy: NoisyMoments, params: Array) -> Array | None:
    if noisy.total_square is None or noisy.count is None:
        return None
    lift, gram = problem.lift, noisy.gram
    information = lift.T @ gram @ lift
    if np.linalg.eigvalsh(information)[0] <= 0:
        return None
    theta = lift @ params + problem.shift
    squares = noisy.total_square - 2 * noisy.cross @ theta + theta @ gram @ theta
    sigma2 = max(float(squares), 0.0) / max(noisy.count - len(params), 1.0)
    noise = noisy.sd_gram**2 * (
        (1 + theta @ theta) * np.eye(len(theta)) + np.outer(theta, theta) - np.diag(theta**2)
    )
    bread = np.linalg.inv(information)
    cov: Array = bread @ (sigma2 * information + lift.T @ noise @ lift) @ bread
    return cov


def adassp(
    model: Model,
    data: pd.DataFrame | None = None,
    *,
    mu: float,
    bounds: Bounds | None = None,
    rng: Seed = None,
    intercept: bool = True,
    scale: bool = True,
    failure: float = 0.05,
) -> BaselineResult:
    """Adaptive sufficient statistics perturbation (AdaSSP).

    Three Gaussian mechanisms, mu/sqrt(3) each: the smallest eigenvalue of F'F
    (sensitivity R^2 = sum a^2), its distinct entries (sensitivity
    sqrt((R^4 + sum a^4)/2)) and F't (sensitivity R a_t). Then

    ``l = max(0, l_min + s_l (Z - z_{1-rho}))``,
    ``ridge = max(0, s_A sqrt(m ln(2 m^2/rho)) - l)``,
    ``theta = (F'F + E + ridge I)^-1 (F't + e)``.

    Wang's tail bounds in delta, which buy (epsilon, delta)-DP, become the
    normal quantile z of the failure probability rho: under GDP the ridge is
    post-processing and needs none.

    Parameters
    ----------
    model, data, mu, bounds, rng, intercept, scale
        As for `ssp`.
    failure : float
        rho, the probability with which the bound on the noise may fail.

    References
    ----------
    Wang (2018), "Revisiting differentially private linear regression", UAI,
    Algorithm 2.

    Returns
    -------
    BaselineResult

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> x = rng.random((2000, 1))
    >>> y = 1.0 + 2.0 * x[:, 0] + 0.1 * rng.normal(size=2000)
    >>> bounds = ([(0, 1)], (0, 4))
    >>> bool(abs(adassp((x, y), mu=1, bounds=bounds, rng=2).params - [1, 2]).max() < 0.1)
    True
    """
    problem = prepare(model, data, bounds, intercept=intercept, scale=scale)
    noisy = adassp_moments(problem, check_mu(mu), generator(rng), failure=failure)
    size = len(noisy.cross)
    wanted = noisy.sd_gram * np.sqrt(size * np.log(2 * size**2 / failure))
    ridge = max(0.0, wanted - noisy.smallest)
    params = problem.solve(noisy.gram + ridge * np.eye(size), noisy.cross)
    return BaselineResult(params, None, problem.names)


def adassp_moments(
    problem: Problem, mu: float, rng: np.random.Generator, *, failure: float = 0.05
) -> NoisyMoments:
    """The three mechanisms of `adassp`."""
    features, target = problem.features, problem.target
    share = mu / np.sqrt(3)
    gram, size = features.T @ features, features.shape[1]
    sd_smallest = problem.radius**2 / share
    sd_gram = gram_sensitivity(problem.limits) / share
    sd_cross = cross_sensitivity(problem) / share
    smallest = np.linalg.eigvalsh(gram)[0] + rng.normal(scale=sd_smallest)
    return NoisyMoments(
        gram=gram + symmetric_noise(size, sd_gram, rng),
        cross=features.T @ target + rng.normal(scale=sd_cross, size=size),
        sd_gram=sd_gram,
        sd_cross=sd_cross,
        smallest=max(0.0, smallest - sd_smallest * float(norm.isf(failure))),
    )
