"""The release that callers see: what was released, and what can be done with it at no cost."""

from __future__ import annotations

import warnings
from dataclasses import InitVar, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpbinagg.analyst.estimators import COV_TYPES
from dpbinagg.analyst.fit import Estimates, fold
from dpbinagg.analyst.ols.steps import Steps
from dpbinagg.errors import IdentificationWarning, ReleaseError
from dpbinagg.formula import Design
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.release.saving import check_target, read_release, save_release
from dpbinagg.release.transcript import Released
from dpbinagg.report.choice import choose, misnomer, resolve, smaller
from dpbinagg.report.results import DPResults, warn_if_not_identified
from dpbinagg.report.statsmodels_wrapper import DPResultsWrapper

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.inputs import CovType, EstimatorName, Seed, SyntheticKind


@dataclass(frozen=True, eq=False, repr=False)
class Release(Released):
    """Public record of one release.

    Made by `dp_release` or `dp_ols`. Every number in it is public, was chosen
    by the caller, or passed a mechanism of `privacy`.

    Attributes
    ----------
    design, declared, partition, allocation, calibration, privacy, transcript, choice
        See `dpbinagg.release.transcript.Released`.
    statistics, noise_scales : mapping
        What was released, by component, and the standard deviations of its noise.
    led : Steps, optional
        Where the transcript leads, for who knows it; not kept in files and copies, which find it
        again.

    Examples
    --------
    >>> from dpbinagg import dp_release
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> release = dp_release("score ~ pretest + ses", school.frame, mu=1, bounds=school.codebook)
    >>> release.mu, release.column_names
    (1.0, ('Intercept', 'pretest', 'ses'))
    >>> release.statistics["count"].shape == (release.n_bins,)
    True
    >>> list(release.ols("score ~ pretest").params.index)
    ['Intercept', 'pretest']
    """

    led: InitVar[Steps | None] = None

    def __post_init__(self, led: Steps | None) -> None:
        if led is not None:
            self.__dict__["steps"] = led

    @classmethod
    def of(cls, released: Released) -> Release:
        """The same with verbs."""
        return cls(**{field.name: getattr(released, field.name) for field in fields(Released)})

    @cached_property
    def steps(self) -> Steps | None:
        """Where moments and rounds of scores lead: a fold over the transcript, computed once."""
        return fold(self)

    def estimates(self, design: Design | None = None, cov_type: str = "sandwich") -> Estimates:
        """All estimates of a model, by estimator.

        Parameters
        ----------
        design : Design, optional
            A smaller model; the release's own by default.
        cov_type : {"sandwich", "model"}
            Covariance of the estimate from bins.
        """
        return Estimates(self, self.steps, design, cov_type)

    @explains_arguments
    def ols(
        self,
        formula: str | None = None,
        *,
        estimator: EstimatorName | Literal["moments"] | None = None,
        cov_type: CovType | None = None,
    ) -> DPResults:
        """Fit the same or a smaller model from the release, at no cost.

        Parameters
        ----------
        formula : str, optional
            A formula whose columns are combinations of released ones; that of
            `choice` by default.
        estimator : str, optional
            As in `dp_ols`, or "moments"; that of `choice`, or the best that the release allows.
        cov_type : {"sandwich", "model", "HC1", "nonrobust"}, optional
            As in `dp_ols`; that of `choice` by default.

        Returns
        -------
        DPResults
            As `dp_ols` returns it.
        """
        choice = self.choice
        formula = choice.formula if formula is None else formula
        wanted = choice.estimator if estimator is None else estimator
        asked = choice.cov_type if cov_type is None else cov_type
        own = COV_TYPES[0] if asked is None else resolve(asked, wanted)
        design = self.design
        if formula is not None and formula != self.formula:
            design = smaller(design, formula)
        family = self.estimates(design, own)
        estimate, notes = choose(family, wanted)
        if asked is not None:
            # The next best estimate may be shown, with another covariance.
            notes += misnomer(resolve(asked, estimate.name), estimate.cov_type)
        warn_if_not_identified(estimate, design)
        return DPResultsWrapper(DPResults(self, estimate, family, design, notes))

    @explains_arguments
    def synthesize(
        self,
        size: int | None = None,
        copies: int = 1,
        kind: SyntheticKind = "calibrated",
        bin_id: bool = False,
        rng: Seed = None,
    ) -> pd.DataFrame:
        """Synthetic records from the release, at no cost; see `DPResults.synthesize`.

        Returns
        -------
        DataFrame
        """
        return self.ols().synthesize(size, copies, kind, bin_id, rng)

    def save(self, folder: str | Path, overwrite: bool = False, **options: Any) -> Path:
        """Write the release and the estimate of `choice` to a folder; see `DPResults.save`.

        Parameters
        ----------
        folder : path
            Made if it does not exist.
        overwrite : bool
            Whether a release that is there is replaced.
        **options
            As in `DPResults.save`.

        Returns
        -------
        Path
            The folder.
        """
        check_target(folder, overwrite)
        try:
            with warnings.catch_warnings():
                # The folder's README says so.
                warnings.simplefilter("ignore", IdentificationWarning)
                results = self.ols()
        except ReleaseError:
            # Nothing can be estimated: the statistics alone are saved.
            return save_release(self, folder, overwrite=overwrite)
        return results.save(folder, overwrite=overwrite, **options)

    def __repr__(self) -> str:
        return (
            f"<Release of {self.formula!r}: {self.n_bins} bins, "
            f"{len(self.column_names)} columns, mu = {self.mu:.4g}>"
        )


def load_release(folder: str | Path) -> Release:
    """Read a release that `DPResults.save` or `Release.save` wrote, equal to the last bit.

    `ols()` on it gives the estimate that was saved.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Release

    Raises
    ------
    ReleaseError
        If the folder is damaged, was edited, or has another version; the message says
        what is wrong.

    Examples
    --------
    >>> import tempfile
    >>> from dpbinagg import dp_release
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> release = dp_release("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load_release(release.save(f"{folder}/release"))
    >>> bool((again.ols().params == release.ols().params).all())
    True
    """
    return Release.of(read_release(folder))
