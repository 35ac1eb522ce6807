"""From a release to estimates: every estimator that its components allow."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np

from dpbinagg.analyst import bins as bin_estimators
from dpbinagg.analyst.combine import combined
from dpbinagg.analyst.moments import from_moments
from dpbinagg.analyst.refinement.refine import State, round_mus, start, update
from dpbinagg.analyst.refinement.refined import finish
from dpbinagg.analyst.refinement.smaller import smaller_model
from dpbinagg.analyst.types import Array, Bins, Estimate, Moments
from dpbinagg.errors import ReleaseError
from dpbinagg.formula import Design, linear_map
from dpbinagg.release import Release
from dpbinagg.rounds import NoisyScores, ScoreRequest


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


def estimates(
    release: Release, design: Design | None = None, cov_type: str = "sandwich"
) -> dict[str, Estimate]:
    """Every estimate that the components of the release allow, by name.

    Parameters
    ----------
    release : Release
    design : Design, optional
        A smaller model, whose columns are combinations of released ones; the
        release's own by default.
    cov_type : {"sandwich", "model"}
        Covariance of the estimate from bins.
    """
    columns = None if design is None or design is release.design else sub_model(release, design)
    found: dict[str, Estimate] = {}
    bins, moments = released_bins(release), released_moments(release)
    if columns is not None:
        bins = None if bins is None else bins_of(bins, columns)
        moments = None if moments is None else moments_of(moments, columns)
    if bins is not None:
        found["naive"] = bin_estimators.naive(bins)
        found["corrected"] = bin_estimators.corrected(bins, cov_type=cov_type)
        if release.calibration == "paper":
            found["paper"] = bin_estimators.paper(bins)
    if moments is not None:
        found["moments"] = from_moments(moments)
        found["combined"] = (
            combined(found["corrected"], found["moments"])
            if bins is not None
            else replace(found["moments"], name="combined")
        )
    if "scores" in release.statistics:
        state = replay(release)
        found["refined"] = finish(state) if columns is None else smaller_model(state, columns)
    return found


_STATES: WeakKeyDictionary[Release, State] = WeakKeyDictionary()


def replay(release: Release) -> State:
    """Where the released rounds of scores lead."""
    if release not in _STATES:
        try:
            _STATES[release] = _replayed(release)
        except (ValueError, TypeError, IndexError, ArithmeticError):
            raise ReleaseError(
                "the rounds of scores do not follow from the moments of the release; it was "
                "changed, or made by another version of the package"
            ) from None
    return _STATES[release]


def remember(release: Release, state: State) -> None:
    """Keep the state that the rounds of a fresh release led to."""
    _STATES[release] = state


def _replayed(release: Release) -> State:
    moments = released_moments(release)
    assert moments is not None
    state = start(moments)
    answers, requests = release.statistics["scores"], release.statistics["requests"]
    mus = round_mus(release.allocation.scores, state.schedule)
    for mu, request, answer in zip(mus, requests, answers, strict=True):
        state = update(state, ScoreRequest.from_dict(request), NoisyScores(**answer), mu)
    return state


def sub_model(release: Release, design: Design) -> Array:
    """The columns of a smaller model as combinations of released ones, (p, p_sub)."""
    return np.asarray(linear_map(release.design, design))


def bins_of(bins: Bins, columns: Array) -> Bins | None:
    """The bins of a smaller model; None where its columns mix released ones.

    Noise is independent from column to column only where every column of the
    smaller model is a multiple of a released one, plus public constants.
    """
    noisy = np.any(bins.sd_x > 0.0, axis=0)
    if np.any(np.count_nonzero(columns[noisy], axis=0) > 1) or np.any(
        np.count_nonzero(columns[noisy], axis=1) > 1
    ):
        return None
    return replace(
        bins,
        sum_x=bins.sum_x @ columns,
        centre=bins.centre @ columns,
        sd_x=bins.sd_x @ np.abs(columns),
        half_width=bins.half_width @ np.abs(columns),
    )


def moments_of(moments: Moments, columns: Array) -> Moments:
    """The moments of a smaller model."""
    return replace(moments, design_map=moments.design_map @ columns)


def total(release: Release) -> float:
    """Best available noisy number of records."""
    if "moments" in release.statistics:
        return float(release.statistics["moments"][0, 0])
    return float(np.sum(release.statistics["count"]))
