"""Estimators by name, what each needs, and how each follows from a release."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from dpbinagg.analyst import bins as bin_estimators
from dpbinagg.analyst.bins import at_least_model, combined
from dpbinagg.analyst.ols.coordinates import Margin, Plan, begin, plan_of, uniform_margins
from dpbinagg.analyst.ols.finish import Steps
from dpbinagg.analyst.ols.joint import Together
from dpbinagg.analyst.ols.rounds import round_mus
from dpbinagg.analyst.ols.smaller import never_seen, smaller_model, smaller_start
from dpbinagg.analyst.ols.start import from_start
from dpbinagg.analyst.types import Array, Bins, Estimate, Moments
from dpbinagg.errors import DPBinAggError, FormulaError, ReleaseError
from dpbinagg.formula import Design, linear_map
from dpbinagg.inputs import EstimatorName
from dpbinagg.release.questions import COUNTS, JOINT, MOMENTS, matrix_limits, scores_of
from dpbinagg.release.transcript import Released, counted, joint_rounds, margins, rounds

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

COV_TYPES = ("sandwich", "model")
"""Covariances of the estimate from bins, the default first."""

Own = Literal["sandwich", "model"]
OWN: Mapping[str, Own] = {"sandwich": "sandwich", "model": "model"}
"""The package's own words; they choose how the estimate from bins is treated."""

NAMES: Mapping[str, str] = {
    "HC1": "HC1 + privacy",
    "sandwich": "sandwich + privacy",
    "model": "nonrobust + privacy",
    "classical": "nonrobust, noise ignored",
    "paper": "as published",
}
"""What is printed for the covariance of an estimate."""

ROBUST = {"HC1": "HC1", "hetero": "HC1", "robust": "HC1", "stata": "HC1"}
"""Names of HC1: statsmodels', pyfixest's, Stata's, estimatr's."""

EQUAL = {"nonrobust": "model", "iid": "model", "classical": "model"}
"""Names of a covariance that takes all errors to have one variance."""

_CLUSTERED = "one record is one person here, and errors are not clustered"
_LEVERAGE = "it needs the leverage of every record, which is not released"
REFUSED = {
    "HC0": "HC1 is HC0 times n/(n - p), and is what is done",
    "HC2": _LEVERAGE,
    "HC3": _LEVERAGE,
    **dict.fromkeys(("cluster", "CR0", "CR1", "CR2", "CRV1", "CRV3"), _CLUSTERED),
    **dict.fromkeys(
        ("HAC", "hac-groupsum", "hac-panel", "NW", "DK"), "records have no order in time here"
    ),
}
"""Names of covariances that are not done, and why."""

KINDS = {"refined": "HC1", "combined": "model", "moments": "model", "naive": "model"}
"""What estimators have that offer no choice."""


def without_noise(cov_type: str) -> str:
    """A covariance as printed by tables that have a line of their own for the privacy noise."""
    return NAMES[cov_type].removesuffix(" + privacy").removesuffix(", noise ignored")


def resolve(cov_type: object, estimator: str | None) -> Own:
    """The package's own word for what a user asked of an estimator.

    Parameters
    ----------
    cov_type : str
        One of `OWN`, or a name of statsmodels, pyfixest or Stata.
    estimator : str or None
        None for the best of a release, which is the refined one.

    Returns
    -------
    str
        "sandwich" or "model".

    Raises
    ------
    DPBinAggError
        Where the estimate has another covariance than the name says.
    """
    if isinstance(cov_type, str):
        if cov_type in OWN:
            return OWN[cov_type]
        if cov_type in ROBUST or cov_type in EQUAL:
            return _choose(cov_type, estimator or "refined")
        if cov_type in REFUSED:
            raise DPBinAggError(
                f"cov_type={cov_type!r} is not done: {REFUSED[cov_type]}; use cov_type='HC1'"
            )
    got = repr(cov_type) if isinstance(cov_type, str) else type(cov_type).__name__
    raise DPBinAggError(
        "cov_type must be one of 'sandwich', 'model', or statsmodels' 'HC1' and 'nonrobust', "
        f"got {got}"
    )


def _choose(cov_type: str, estimator: str) -> Own:
    robust = cov_type in ROBUST
    kind = KINDS.get(estimator)
    if estimator == "corrected" and not robust:
        return "model"
    if kind is None:
        own = "'sandwich' (over bins) or 'model'" if estimator == "corrected" else "'sandwich'"
        raise DPBinAggError(
            f"cov_type={cov_type!r} is not what the {estimator} estimate has; write {own}, or use "
            "estimator='refined' for HC1"
        )
    if robust != (kind == "HC1"):
        has, other = (
            ("errors of one variance (nonrobust)", "estimator='refined' has HC1")
            if robust
            else ("HC1, which also holds with one variance", "leave cov_type out")
        )
        raise DPBinAggError(
            f"cov_type={cov_type!r} is not what the {estimator} estimate has: it has {has}; {other}"
        )
    return "sandwich" if robust else "model"


def choose(
    family: Mapping[str, Estimate], requested: str | None
) -> tuple[Estimate, tuple[str, ...]]:
    """The requested estimate, or the next one that the release allows, with a note.

    Parameters
    ----------
    family : mapping
        The estimates that the release allows.
    requested : str or None
        None for the best.
    """
    if requested is not None and requested not in NEEDS:
        raise ReleaseError(f"estimator must be one of {', '.join(NEEDS)}, got {requested!r}")
    if requested is not None and requested in family:
        return family[requested], ()
    start = 0
    if requested is not None:
        start = FALLBACK.index(requested if requested in FALLBACK else "corrected")
    candidates = (*FALLBACK[start:], *reversed(FALLBACK[:start]), *family)
    found = next((name for name in candidates if name in family), None)
    if found is None:
        raise ReleaseError(
            "the release has neither bin sums nor moments, so nothing can be estimated from it; "
            "give Budget.count, sum_x and sum_y, or Budget.moments, a positive share"
        )
    if requested is None:
        return family[found], ()
    return family[found], (
        f"The {requested} estimate needs {NEEDS[requested]}, which this release does not "
        f"contain; the {found} estimate is shown.",
    )


CHANGED = (
    "the rounds of scores do not follow from the moments of the release; it was changed, or made "
    "by another version of the package"
)


def released_bins(release: Released) -> Bins | None:
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


def released_moments(release: Released) -> Moments | None:
    """The second moments of design columns that a release tells; None where there are none."""
    if "moments" not in release.statistics:
        return None
    scaling, matrix = release.column_scaling, release.statistics["moments"]
    varying = scaling.varying
    design_map, response_map = np.zeros((len(matrix), len(scaling.centre))), np.zeros(len(matrix))
    design_map[0] = scaling.centre
    design_map[1 + np.arange(varying.size), varying] = scaling.scale[varying]
    response_map[0], response_map[-1] = scaling.centre_y, scaling.scale_y
    return Moments(matrix, release.noise_scales["moments"], design_map, response_map)


class Estimates(Mapping[str, Estimate]):
    """Every estimate that the components of a release allow, by name.

    Each is computed when it is first asked for.

    Parameters
    ----------
    release : Released
    steps : Steps or None
        Where its transcript leads, see `fold`; None where it has no moments.
    design : Design, optional
        A smaller model, whose columns are combinations of released ones; the
        release's own by default.
    cov_type : {"sandwich", "model"}
        Covariance of the estimate from bins.
    """

    def __init__(
        self,
        release: Released,
        steps: Steps | None,
        design: Design | None = None,
        cov_type: str = "sandwich",
    ) -> None:
        own = design is None or design is release.design
        self._release, self._cov_type, self._steps = release, cov_type, steps
        self._columns = None if own or design is None else linear_map(release.design, design)
        self._makers: dict[str, Callable[[], Estimate]] = {}
        self._found: dict[str, Estimate] = {}
        if release.transcript.first(COUNTS) and (self._columns is None or self._bins is not None):
            self._makers = {"naive": self._naive, "corrected": self._corrected}
            if release.calibration == "paper":
                self._makers["paper"] = self._paper
        if steps is not None:
            self._makers |= {"moments": self._from_moments, "combined": self._combined}
        if steps is not None and steps.fitted is not None:
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
        return self._of_seen(bin_estimators.naive(self._known_bins()))

    def _corrected(self) -> Estimate:
        found = bin_estimators.corrected(self._known_bins(), cov_type=self._cov_type)
        return self._of_seen(found)

    def _of_seen(self, estimate: Estimate) -> Estimate:
        """The estimate less terms that no record had: bins tell nothing of them either."""
        if self._steps is None:
            return estimate
        first = self._steps.first
        lost = first.public.lost if self._columns is None else never_seen(first, self._columns)
        if not lost.any():
            return estimate
        return replace(estimate, identified=False, identified_terms=~lost)

    def _paper(self) -> Estimate:
        return bin_estimators.paper(self._known_bins())

    def _from_moments(self) -> Estimate:
        assert self._steps is not None
        first = self._steps.first
        return from_start(first) if self._columns is None else smaller_start(first, self._columns)

    def _combined(self) -> Estimate:
        if "corrected" in self:
            model = bin_estimators.corrected(self._known_bins(), cov_type="model")
            return combined(at_least_model(self["corrected"], model), self["moments"])
        return replace(self["moments"], name="combined")

    def _refined(self) -> Estimate:
        assert self._steps is not None
        fitted = self._steps.fitted
        assert fitted is not None
        if self._columns is None:
            return fitted.estimate()
        return smaller_model(self._steps, self._columns)


def first_plan(release: Released) -> Plan:
    """Coordinates of a release's own design, and the moments to ask for, by its one-way counts."""
    known = {
        name: Margin(one["edges"], one["counts"], one["sd"])
        for name, one in margins(release.transcript).items()
    }
    outer = release.outer
    return begin(outer, release.domain, known or uniform_margins(outer.domain))


def fold(release: Released, model: Design | None = None, name: str | None = None) -> Steps | None:
    """Where the moments and the rounds of a transcript lead; None where it has no moments.

    Parameters
    ----------
    release : Released
    model : Design, optional
        A model of columns and response of the release's design, on the bounds of `outer`; that
        design itself by default.
    name : str, optional
        Of the model in its study, whose rounds are followed; a model without a name was not
        declared, and follows from the moments alone.
    """
    transcript = release.transcript
    entry = transcript.first(MOMENTS)
    if entry is None:
        return None
    try:
        plan = first_plan(release)
        if model is not None:
            plan = plan_of(plan, release.outer, model)
        products, sd = entry.answer.values[0], entry.answer.scales[0]
        known = counted(transcript)
        count = (0.0, math.inf) if known is None else (known.complete, known.sd)
        if model is not None and name is None:
            return Steps.start(plan, products, sd, count, alone=True)
        steps = Steps.start(plan, products, sd, count)
        for request, answer, noise in rounds(transcript, scores_of(name)):
            steps = steps.replayed(request, answer, noise)
    except FormulaError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError):
        raise ReleaseError(CHANGED) from None
    return steps


def fold_together(release: Released, models: Mapping[str, Design]) -> dict[str, Steps | None]:
    """The same for all declared models of a study, which have rounds together.

    Parameters
    ----------
    release : Released
    models : mapping of Design
        On the bounds of `outer`.
    """
    transcript = release.transcript
    if transcript.first(JOINT) is None:
        return {name: fold(release, design, name) for name, design in models.items()}
    started = {name: fold(release, design, name) for name, design in models.items()}
    together = Together({name: steps for name, steps in started.items() if steps is not None})
    mus = round_mus(release.allocation.scores)
    try:
        for mu, one in zip(mus, joint_rounds(transcript, models), strict=True):
            limits = {name: matrix_limits(e.question) for name, e in one.matrices.items()}
            answers = {name: entry.answer for name, entry in one.matrices.items()}
            together = together.replayed(mu, one.request, limits, (one.answer, one.noise), answers)
    except FormulaError:
        raise
    except (ValueError, TypeError, IndexError, KeyError, ArithmeticError):
        raise ReleaseError(CHANGED) from None
    return dict(together.steps)


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


def total(release: Released) -> float:
    """Best available noisy number of records."""
    if "moments" in release.statistics:
        return float(release.statistics["moments"][0, 0])
    return float(np.sum(release.statistics["count"]))
