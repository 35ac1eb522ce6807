"""What goes into an estimator and what comes out of it; public numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Bins:
    """Noisy sums of K disjoint bins for a design of p columns.

    The noise is that of ``count`` (standard deviation ``sd_count``), of the
    deviations ``sum (z_j - centre_kj)`` (``sd_x``) and of ``sum (y - centre_y)``
    (``sd_y``), all independent.  The intercept is a column like any other, with
    centre 1, half-width 0 and ``sd_x`` 0.

    Parameters
    ----------
    counts : (K,) array
        Noisy counts; may be negative.
    sum_x : (K, p) array
        Noisy sums of the columns, ``dev_x + centre * counts``.
    sum_y : (K,) array
        Noisy sums of the response, ``dev_y + centre_y * counts``.
    centre, half_width, sd_x : (K, p) arrays
    centre_y, half_width_y, sd_count, sd_y : float
    """

    counts: Array
    sum_x: Array
    sum_y: Array
    centre: Array
    centre_y: float
    sd_count: float
    sd_x: Array
    sd_y: float
    half_width: Array
    half_width_y: float

    @property
    def n_bins(self) -> int:
        return int(self.counts.shape[0])

    @property
    def n_params(self) -> int:
        return int(self.sum_x.shape[1])


@dataclass(frozen=True, slots=True)
class Moments:
    """Noisy second moments of f = (1, z*, y*) and how the design follows from f.

    Every design column and the response are linear in f: ``z = f @ design_map``,
    ``y = f @ response_map``. A public constant (the intercept) has no coordinate in f.

    The noise of entry (i, j) has the standard deviation ``sd[i, j]``; entries are not
    independent: they follow from products of blocks.

    Parameters
    ----------
    matrix, sd : (m, m) arrays, symmetric
    design_map : (m, p) array
    response_map : (m,) array
    """

    matrix: Array
    sd: Array
    design_map: Array
    response_map: Array

    @property
    def nobs(self) -> float:
        return float(max(self.matrix[0, 0], 1.0))

    @property
    def gram(self) -> Array:
        """Noisy Z'Z, (p, p)."""
        return np.asarray(self.design_map.T @ self.matrix @ self.design_map)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What every estimator returns.

    ``cov`` is the full covariance of ``params``, sampling and privacy; ``noise_cov``
    the part that privacy adds, where it is known.  ``scale`` is the error variance.
    ``identified`` is False when the numbers lean on a prior or a guard somewhere;
    ``identified_terms`` (p,) says so coefficient by coefficient (None: nobody judged), and
    ``dependence`` (p, p), a second moment like ``cov``, is what a start that was not from the data
    left in ``params``.
    """

    name: str
    params: Array
    cov: Array
    noise_cov: Array | None
    scale: float
    df_resid: float
    nobs: float
    cov_type: str
    notes: tuple[str, ...]
    identified: bool
    identified_terms: NDArray[np.bool_] | None = None
    dependence: Array | None = None

    @property
    def bse(self) -> Array:
        """Standard errors."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.cov), 0.0)))
