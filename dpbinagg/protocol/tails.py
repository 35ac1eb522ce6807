"""How far a distribution reaches beyond what a noisy histogram can show.

Pure post-processing: every input is a noisy count or a public fact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHAPES = np.linspace(-1.0, 0.5, 9) + 1e-6
"""Tail shapes tried: -1 uniform, about -0.25 normal, near 0 exponential, 1/3 Pareto of index 3."""

PRIOR_SHAPE, PRIOR_SPREAD = -0.2, 0.35
"""Centre and spread of the prior over shapes, a public constant: about that of a normal tail."""

SCALES = np.geomspace(1.0 / 64.0, 8.0, 20)
"""Tail scales tried, in units of the distance up to which records have been detected."""

SHAPE = np.repeat(SHAPES, SCALES.size)[:, None]
SCALE = np.tile(SCALES, SHAPES.size)[:, None]
LOG_PRIOR = -0.5 * ((SHAPE[:, 0] - PRIOR_SHAPE) / PRIOR_SPREAD) ** 2

REACH = 50.0
ENDS = np.geomspace(1.0, REACH, 100)
STRETCH = 1.35


@dataclass(frozen=True, slots=True)
class Tail:
    """One side of a histogram, from a threshold outward.

    Attributes
    ----------
    distance : (m + 1,) array
        Distances of the bins' edges from the threshold, increasing from 0.
    counts : (m,) array
        Noisy counts of those bins.
    sd : float
        Standard deviation of the noise of each count.
    seen : float
        Distance up to which records have been detected.
    total : float
        Noisy number of records beyond the threshold.
    """

    distance: Array
    counts: Array
    sd: float
    seen: float
    total: float


def survival(distance: Array, shape: Array, scale: Array) -> Array:
    r"""Survival function of the generalised Pareto law.

    .. math:: S(t) = (1 + \xi t / \sigma)_+^{-1/\xi}, \qquad \xi \ne 0
    """
    with np.errstate(divide="ignore"):
        result: Array = np.log(np.maximum(1.0 + (shape / scale) * distance, 0.0))
    result *= -1.0 / shape
    # At the end of a bounded tail the logarithm is -inf and -1/shape positive.
    return np.exp(result, out=result)


BEYOND = survival(ENDS, SHAPE, SCALE)
"""Share of the records of each model beyond each end."""


def tail_end(tail: Tail, enough: float, few: float) -> float:
    r"""Distance beyond which a negligible number of records is expected.

    The tail is modelled as generalised Pareto with shape :math:`\xi` and
    scale :math:`\sigma`. The noisy counts weigh the models by their Gaussian
    likelihood, with variance :math:`s^2 + N p_i` for noise and sampling and
    with the number of records :math:`N` profiled out; the prior is normal in
    :math:`\xi` and flat in :math:`\log \sigma`. The end is where the expected
    number of records beyond it, averaged over the models,
    :math:`\sum_j w_j N_j S_j(t)`, falls to `few`, but no more than `STRETCH`
    times as far as where it falls to `enough`: a light tail is kept whole, a
    heavy one is cut.

    Returns
    -------
    float
        At least ``tail.seen``, at most `REACH` times it.
    """
    unit = tail.distance / tail.seen
    near = int(np.searchsorted(unit, REACH)) + 1
    distance, counts = unit[: near + 1], tail.counts[:near]
    share = -np.diff(survival(distance, SHAPE, SCALE), axis=1)
    variance = max(tail.total, 0.0) * share + tail.sd**2
    weighted = share / variance
    precision = np.einsum("ij,ij->i", weighted, share)
    # Not by BLAS, whose threads would spin for a while on a core that draws noise.
    matched = np.einsum("ij,j->i", weighted, counts)
    fitted = np.maximum(matched / np.maximum(precision, 1e-300), 0.0)
    rest = counts - fitted[:, None] * share
    misfit = np.einsum("ij,ij->i", rest, rest / variance) + np.log(variance).sum(axis=1)
    log_weight = LOG_PRIOR - 0.5 * misfit
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    kept = weight > 1e-6
    beyond = np.einsum("i,ij->j", weight[kept] * fitted[kept], BEYOND[kept])
    return min(_first(beyond <= few), STRETCH * _first(beyond <= enough)) * tail.seen


def _first(condition: NDArray[np.bool_]) -> float:
    """The first end for which it is true, or the last one."""
    return float(ENDS[np.argmax(condition)] if condition.any() else ENDS[-1])
