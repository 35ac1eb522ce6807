"""Lower confidence bounds on mu from the errors of a test between neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from dpbinagg.errors import DPBinAggError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Errors:
    """How often a test between two neighbouring tables was wrong.

    Attributes
    ----------
    false_alarms : int
        Releases from the table without the record that the test took for the other.
    misses : int
        Releases from the table with the record that the test took for the other.
    trials : int
        Releases from each of the two tables.
    """

    false_alarms: int
    misses: int
    trials: int

    @classmethod
    def from_scores(cls, without: Floats, present: Floats, threshold: float) -> Errors:
        """Count the errors of the test "the record is present if score > threshold"."""
        if len(without) != len(present) or not len(present):
            raise DPBinAggError("an audit needs the same positive number of releases on each side")
        return cls(
            int((without > threshold).sum()), int((~(present > threshold)).sum()), len(without)
        )

    def mu_lower(self, confidence: float = 0.95) -> float:
        """Lower confidence bound on mu.

        With Clopper-Pearson upper bounds a and b on the two error rates, each
        at level ``(1 + confidence)/2``, a mu-GDP mechanism has
        ``mu >= Phi^-1(1 - a) - Phi^-1(b)``. 0 where the errors show nothing.

        Parameters
        ----------
        confidence : float

        Returns
        -------
        float

        Examples
        --------
        >>> round(Errors(false_alarms=309, misses=309, trials=1000).mu_lower(), 2)
        0.83
        """
        level = (1.0 + confidence) / 2.0
        a = clopper_pearson_upper(self.false_alarms, self.trials, level)
        b = clopper_pearson_upper(self.misses, self.trials, level)
        if a >= 1.0 or b >= 1.0:
            return 0.0
        return max(0.0, float(ndtri(1.0 - a) - ndtri(b)))


def clopper_pearson_upper(successes: int, trials: int, level: float) -> float:
    """Upper confidence bound on a binomial probability.

    The quantile at `level` of the Beta(successes + 1, trials - successes) law.

    Parameters
    ----------
    successes, trials : int
    level : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(clopper_pearson_upper(0, 100, 0.975), 4)
    0.0362
    """
    if successes >= trials:
        return 1.0
    return float(betaincinv(successes + 1.0, float(trials - successes), level))


def largest_bound(trials: int, confidence: float = 0.95) -> float:
    """The bound that a test without a single error would give; no audit can show more.

    Parameters
    ----------
    trials : int
    confidence : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(largest_bound(1000), 2)
    5.36
    """
    return Errors(0, 0, trials).mu_lower(confidence)


def gaussian_bound(mu: float, trials: int, confidence: float = 0.95) -> float:
    """The bound to expect from `trials` releases a side of a mechanism that is tight at mu.

    Parameters
    ----------
    mu : float
    trials : int
    confidence : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(gaussian_bound(1.0, 5000), 2)
    0.93
    """
    expected = round(trials * float(0.5 * math.erfc(mu / 2.0 / math.sqrt(2.0))))
    return Errors(expected, expected, trials).mu_lower(confidence)
