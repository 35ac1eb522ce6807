"""A Johnson-Lindenstrauss sketch of the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq
from scipy.stats import chi2

from dpbinagg.accounting import gdp
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
from dpbinagg.errors import BudgetError

if TYPE_CHECKING:
    import pandas as pd


def jlt(
    model: Model,
    data: pd.DataFrame | None = None,
    *,
    mu: float,
    bounds: Bounds | None = None,
    rng: Seed = None,
    intercept: bool = True,
    scale: bool = True,
    delta: float | None = None,
    rows: int | None = None,
) -> BaselineResult:
    """Least squares on a private Johnson-Lindenstrauss sketch.

    The records A = (F, t) are stacked on w I and multiplied by an (r, n + m + 1)
    matrix of standard normals; least squares on the r released rows is a
    ridge regression in expectation. The rows are independent N(0, A'A + w^2 I),
    so adding a record v changes the variance in one direction from 1 to 1 + g,
    ``g = v'(A'A + w^2 I)^-1 v <= B^2/w^2``, ``B^2 = sum a^2 + a_t^2``. What an
    adversary sees is a chi-square of r degrees of freedom, scaled by 1 or 1 + g:
    its exact tails give the smallest w^2 that is (epsilon, delta)-DP for
    adding or removing a record (`largest_ratio`), several times less than
    the published bound. It is not mu-GDP for any mu (the tail is exponential);
    epsilon is that of mu-GDP at `delta`.

    Parameters
    ----------
    model, data, mu, bounds, rng, intercept, scale
        As for `ssp`.
    delta : float, optional
        Default n^-1.1, as in the paper, which treats n as public.
    rows : int, optional
        r, the number of rows of the sketch: more of them lower its sampling error
        and raise the ridge. Default n/4, treated as public too.

    References
    ----------
    Sheffet (2017), "Differentially private ordinary least squares", ICML,
    Algorithm 1, in the branch that alters the matrix; Blocki, Blum, Datta,
    Sheffet (2012), FOCS.

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
    >>> bool(abs(jlt((x, y), mu=1, bounds=bounds, rng=2).params - [1, 2]).max() < 1)
    True
    """
    problem = prepare(model, data, bounds, intercept=intercept, scale=scale)
    count = len(problem.target)
    delta = count**-1.1 if delta is None else delta
    rows = max(count // 4, problem.features.shape[1] + 2) if rows is None else rows
    if not 0 < delta < 1:
        raise BudgetError(f"delta must lie between 0 and 1, got {delta!r}")
    epsilon = gdp.epsilon(check_mu(mu), delta)
    sketch = sketch_rows(problem, epsilon, delta, rows, generator(rng))
    second = sketch.T @ sketch
    return BaselineResult(problem.solve(second[:-1, :-1], second[:-1, -1]), None, problem.names)


def sketch_rows(
    problem: Problem, epsilon: float, delta: float, rows: int, rng: np.random.Generator
) -> Array:
    """The mechanism of `jlt`: (r, m + 1) rows, drawn from their distribution N(0, A'A + w^2 I)."""
    records = np.column_stack([problem.features, problem.target])
    bound2 = problem.radius**2 + problem.target_limit**2
    ridge = bound2 / largest_ratio(epsilon, delta, rows)
    root = np.linalg.cholesky(records.T @ records + ridge * np.eye(records.shape[1]))
    drawn: Array = rng.normal(size=(rows, records.shape[1])) @ root.T
    return drawn


def sketch_delta(epsilon: float, ratio: float, rows: int) -> float:
    """The smallest delta at `epsilon` between chi2_r and (1 + ratio) chi2_r.

    The log likelihood ratio ``s g / (2 (1 + g)) - r ln(1 + g) / 2`` grows with
    the statistic s, so the worst events are tails that start where it is +-epsilon.
    """
    scale = 2 * (1 + ratio) / ratio
    middle = rows * np.log1p(ratio) / 2
    high, low = scale * (middle + epsilon), scale * max(middle - epsilon, 0.0)
    adding = chi2.sf(high / (1 + ratio), rows) - np.exp(epsilon + chi2.logsf(high, rows))
    removing = chi2.cdf(low, rows) - np.exp(epsilon + chi2.logcdf(low / (1 + ratio), rows))
    return float(max(adding, removing))


def largest_ratio(epsilon: float, delta: float, rows: int) -> float:
    """The largest g = B^2/w^2 for which `sketch_delta` is at most `delta`."""

    def excess(log_ratio: float) -> float:
        return sketch_delta(epsilon, float(np.exp(log_ratio)), rows) - delta

    upper = 0.0
    while excess(upper) < 0 and upper < 50:
        upper += 2.0
    if excess(upper) < 0:
        return float(np.exp(upper))
    root = float(brentq(excess, -30.0, upper, xtol=1e-6))
    return float(np.exp(root - 2e-6))
