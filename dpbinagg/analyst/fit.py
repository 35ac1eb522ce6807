"""From a release to estimates: every estimator that its components allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np

from dpbinagg.analyst import bins as bin_estimators
from dpbinagg.analyst.combine import combined
from dpbinagg.analyst.moments import from_moments
from dpbinagg.analyst.refinement.refine import State, start, update, with_schedule
from dpbinagg.analyst.refinement.refined import finish
from dpbinagg.analyst.refinement.smaller import smaller_model
from dpbinagg.analyst.types import Array, Bins, Estimate, Moments
from dpbinagg.errors import ReleaseError
from dpbinagg.formula import Design, linear_map
from dpbinagg.public.scaling import column_scaling
from dpbinagg.release.questions import MOMENTS, SCORES, noisy_scores, request_of
from dpbinagg.release.release import Release
from dpbinagg.release.transcript import Entry, Transcript


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
    if release.transcript.first(MOMENTS) is None:
        return None
    return moments_in(release.transcript, release.design)


def moments_in(transcript: Transcript, design: Design) -> Moments:
    """The second moments of a transcript that has them."""
    entry, scaling = transcript.first(MOMENTS), column_scaling(design)
    assert entry is not None
    return Moments.from_scaling(
        entry.answer.values[0],
        entry.answer.scales[0],
        scaling.centre,
        scaling.scale,
        scaling.centre_y,
        scaling.scale_y,
    )


class Estimates(Mapping[str, Estimate]):
    """Every estimate that the components of a release allow, by name.

    Each is computed when it is first asked for.

    Parameters
    ----------
    release : Release
    design : Design, optional
        A smaller model, whose columns are combinations of released ones; the
        release's own by default.
    cov_type : {"sandwich", "model"}
        Covariance of the estimate from bins.
    """

    def __init__(
        self, release: Release, design: Design | None = None, cov_type: str = "sandwich"
    ) -> None:
        own = design is None or design is release.design
        self._release, self._cov_type = release, cov_type
        self._columns = None if own or design is None else sub_model(release, design)
        self._makers: dict[str, Callable[[], Estimate]] = {}
        self._found: dict[str, Estimate] = {}
        if "count" in release.statistics and (self._columns is None or self._bins is not None):
            self._makers = {"naive": self._naive, "corrected": self._corrected}
            if release.calibration == "paper":
                self._makers["paper"] = self._paper
        if "moments" in release.statistics:
            self._makers |= {"moments": self._from_moments, "combined": self._combined}
        if "scores" in release.statistics:
            self._makers["refined"] = self._refined

    def __getitem__(self, name: str) -> Estimate:
        if name not in self._found:
            self._found[name] = self._makers[name]()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    @cached_property
    def _bins(self) -> Bins | None:
        bins = released_bins(self._release)
        return bins if bins is None or self._columns is None else bins_of(bins, self._columns)

    def _known_bins(self) -> Bins:
        assert self._bins is not None
        return self._bins

    def _naive(self) -> Estimate:
        return bin_estimators.naive(self._known_bins())

    def _corrected(self) -> Estimate:
        return bin_estimators.corrected(self._known_bins(), cov_type=self._cov_type)

    def _paper(self) -> Estimate:
        return bin_estimators.paper(self._known_bins())

    def _from_moments(self) -> Estimate:
        moments = released_moments(self._release)
        assert moments is not None
        return from_moments(
            moments if self._columns is None else moments_of(moments, self._columns)
        )

    def _combined(self) -> Estimate:
        if "corrected" in self:
            return combined(self["corrected"], self["moments"])
        return replace(self["moments"], name="combined")

    def _refined(self) -> Estimate:
        state = replay(self._release)
        return finish(state) if self._columns is None else smaller_model(state, self._columns)


_AFTER: WeakKeyDictionary[Entry, tuple[State | None, State]] = WeakKeyDictionary()
"""What an entry led to, and from where: a fold over the same entries is not computed twice."""


def replay(release: Release) -> State:
    """Where the released rounds of scores lead: a fold over the transcript."""
    try:
        return _replayed(release)
    except (ValueError, TypeError, IndexError, ArithmeticError):
        raise ReleaseError(
            "the rounds of scores do not follow from the moments of the release; it was "
            "changed, or made by another version of the package"
        ) from None


def _replayed(release: Release) -> State:
    rounds = list(release.transcript.of(SCORES))
    state = started(release.transcript, release.design)
    if len(rounds) == 1:
        state = with_schedule(state, release.allocation.scores)
    if len(rounds) != len(state.schedule):
        raise ValueError("rounds of scores and their schedule differ in number")
    for entry in rounds:
        state = update_by(state, entry)
    return state


def started(transcript: Transcript, design: Design) -> State:
    """What the second moments tell."""
    entry = transcript.first(MOMENTS)
    if entry is None:
        raise ValueError("rounds of scores need second moments")
    if entry not in _AFTER:
        _AFTER[entry] = None, start(moments_in(transcript, design))
    return _AFTER[entry][1]


def update_by(state: State, entry: Entry) -> State:
    """Learn from a round of scores."""
    before, after = _AFTER.get(entry, (None, state))
    if before is not state:
        request = request_of(entry.question)
        answer = noisy_scores(request, entry.answer.values, 0.0)
        after = update(state, request, answer, entry.mu)
        _AFTER[entry] = state, after
    return after


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
