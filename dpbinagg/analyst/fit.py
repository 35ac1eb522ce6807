"""From a release to estimates: every estimator that its components allow."""

from __future__ import annotations

import numpy as np

from dpbinagg.analyst import bins as bin_estimators
from dpbinagg.analyst.combine import combined
from dpbinagg.analyst.moments import from_moments
from dpbinagg.analyst.types import Array, Bins, Estimate, Moments
from dpbinagg.release import Release


def released_bins(release: Release) -> Bins | None:
    """What the release says of its bins; None where it has no sums."""
    statistics, scales = release.statistics, release.noise_scales
    if "count" not in statistics:
        return None
    scaling = release.bin_scaling
    count = statistics["count"]
    return Bins(
        counts=count,
        sum_x=statistics["dev_x"] + scaling.centre * count[:, None],
        sum_y=statistics["dev_y"] + scaling.centre_y * count,
        centre=scaling.centre,
        centre_y=scaling.centre_y,
        sd_count=float(scales["count"][0]),
        sd_x=scales["dev_x"],
        sd_y=float(scales["dev_y"][0]),
        half_width=scaling.half_width,
        half_width_y=scaling.unit_y,
    )


def released_moments(release: Release) -> Moments | None:
    """The released second moments; None where there are none."""
    if "moments" not in release.statistics:
        return None
    scaling = release.column_scaling
    return Moments.from_scaling(
        release.statistics["moments"],
        release.noise_scales["moments"],
        scaling.centre,
        scaling.scale,
        scaling.centre_y,
        scaling.scale_y,
    )


def estimates(release: Release, cov_type: str = "sandwich") -> dict[str, Estimate]:
    """Every estimate that the components of the release allow, by name."""
    found: dict[str, Estimate] = {}
    bins = released_bins(release)
    moments = released_moments(release)
    if bins is not None:
        found["naive"] = bin_estimators.naive(bins)
        found["corrected"] = bin_estimators.corrected(bins, cov_type=cov_type)
        if release.calibration == "paper":
            found["paper"] = bin_estimators.paper(bins)
    if moments is not None:
        found["moments"] = from_moments(moments)
        found["combined"] = (
            combined(found["corrected"], found["moments"]) if bins is not None else found["moments"]
        )
    return found


def total(release: Release) -> float:
    """Best available noisy number of records."""
    if "moments" in release.statistics:
        return float(release.statistics["moments"][0, 0])
    return float(np.sum(release.statistics["count"]))


__all__ = ["Array", "estimates", "released_bins", "released_moments", "total"]
