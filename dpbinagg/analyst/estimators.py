"""The estimators by name: their order, and what each needs of a release."""

from __future__ import annotations

from typing import get_args

from dpbinagg.inputs import CovType, EstimatorName

_BINS = "bin counts and sums (Budget.count, Budget.sum_x, Budget.sum_y)"
_MOMENTS = "second moments (Budget.moments)"

NEEDS: dict[str, str] = {
    "paper": "calibration='paper'",
    "naive": _BINS,
    "corrected": _BINS,
    "moments": _MOMENTS,
    "combined": _MOMENTS,
    "refined": "residual scores (Budget.scores)",
}
"""Every estimator, in the order in which they build on each other, and what it needs."""

OFFERED: tuple[str, ...] = get_args(EstimatorName)
"""What a caller may ask for, the best first; "moments" is a part of "combined"."""

FALLBACK = tuple(name for name in reversed(NEEDS) if name != "paper")
"""What is shown where the one asked for was not released, the best first; "paper" is there for
replication alone."""

COV_TYPES: tuple[str, ...] = get_args(CovType)
"""Covariances of the estimate from bins."""
