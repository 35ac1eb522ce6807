"""The release that callers see: what was released, and what can be done with it at no cost."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpbinagg.analyst.fit import (
    COV_TYPES,
    NAMES,
    Estimates,
    choose,
    fold,
    fold_together,
    resolve,
)
from dpbinagg.analyst.ols.finish import Steps
from dpbinagg.analyst.synthesis.supports import calibrated_names, supports
from dpbinagg.analyst.synthesis.tables import synthesize
from dpbinagg.errors import IdentificationWarning, ReleaseError
from dpbinagg.formula import Design
from dpbinagg.formula.union import is_smaller, released_design, smaller
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.public.partition import Partition
from dpbinagg.release.questions import COUNTS, RESPONSES, SUMS
from dpbinagg.release.saving import check_target, read_release, save_release
from dpbinagg.release.transcript import Released, Statistics, model_statistics
from dpbinagg.report import table_one
from dpbinagg.report.results import DPResults, warn_if_not_identified
from dpbinagg.report.statsmodels_wrapper import DPResultsWrapper
from dpbinagg.report.table_one import Description
from dpbinagg.report.tables import with_labels

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
    led : mapping of Steps, optional
        Where the transcript leads, for who knows it, by declared model, None for the release's own;
        not kept in files and copies, which find it again.

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

    led: InitVar[Mapping[str | None, Steps | None] | None] = None

    def __post_init__(self, led: Mapping[str | None, Steps | None] | None) -> None:
        if led and self.models:
            self.__dict__["steps_of_models"] = {name: led[name] for name in self.models}
        elif led:
            self.__dict__["steps"] = led[None]

    @classmethod
    def of(cls, released: Released) -> Release:
        """The same with verbs."""
        return cls(**{field.name: getattr(released, field.name) for field in fields(Released)})

    @cached_property
    def steps(self) -> Steps | None:
        """Where moments and rounds of scores lead: a fold over the transcript, computed once."""
        return fold(self)

    @cached_property
    def steps_of_models(self) -> dict[str, Steps | None]:
        """The same for each declared model of a study."""
        outer = {
            name: ModelRelease.within(self, formula, name).outer
            for name, formula in self.models.items()
        }
        return fold_together(self, outer)

    @explains_arguments
    def ols(
        self,
        formula: str | None = None,
        *,
        estimator: EstimatorName | Literal["moments"] | None = None,
        cov_type: CovType | None = None,
    ) -> DPResults:
        """Fit a model of released columns, at no cost.

        The model of the release, or a declared one of a study, has its own rounds of scores, and a
        smaller one what follows from them. Any other model of released columns, with any of them
        as response, follows from the second moments: its standard errors are larger, and take
        errors to have one variance.

        Parameters
        ----------
        formula : str, optional
            A formula whose columns and response are combinations of released ones, or the name of
            a model of a study; that of `choice` by default.
        estimator : str, optional
            As in `dp_ols`, or "moments"; that of `choice`, or the best that the release allows.
        cov_type : {"sandwich", "model", "HC1", "nonrobust"}, optional
            As in `dp_ols`; that of `choice` by default.

        Returns
        -------
        DPResults
            As `dp_ols` returns it.
        """
        chosen = self.choice
        name = chosen.formula if formula is None else formula
        return self.told_of(name)._fit(
            self.models.get(str(name), name),
            chosen.estimator if estimator is None else estimator,
            chosen.cov_type if cov_type is None else cov_type,
        )

    def _fit(
        self,
        formula: str | None = None,
        estimator: str | None = None,
        cov_type: str | None = None,
    ) -> DPResultsWrapper:
        """Fit the design or a smaller one; the next best estimate where one was not released."""
        own = COV_TYPES[0] if cov_type is None else resolve(cov_type, estimator)
        design = self.design
        if formula is not None and formula != self.formula:
            design = smaller(design, formula)
        family = Estimates(self, self.steps, design, own)
        estimate, notes = choose(family, estimator)
        done = estimate.cov_type
        # The next best estimate may be shown, with another covariance.
        asked = None if cov_type is None else resolve(cov_type, estimate.name)
        if asked == "model" and done not in ("model", "classical"):
            notes += (
                "cov_type='model' concerns the estimate from bins; the covariance of this one is "
                f"{NAMES[done]}.",
            )
        warn_if_not_identified(estimate, design)
        return DPResultsWrapper(DPResults(self, estimate, family, design, notes))

    @property
    def origin(self) -> Release:
        """The release that it is part of: itself, but for one model of a study."""
        return self

    def declares(self, design: Design) -> bool:
        """Whether a model is the release's own, or a declared one of a study."""
        return not self.models and design is self.design

    @cached_property
    def declared_terms(self) -> int:
        """Number of coefficients of all declared models that are identified, at least 1."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IdentificationWarning)
            told = [self.ols(name).identified for name in self.models] or [self.ols().identified]
        return max(sum(int(one.sum()) for one in told), 1)

    def told_of(self, formula: str | None) -> Release:
        """What the release says of a model: the declared one that holds it, or moments alone."""
        if formula is None and not self.models:
            return self
        name = next(iter(self.models)) if formula is None else formula
        if name in self.models:
            return ModelRelease.within(self, self.models[name], name)
        design = released_design(self.design, name, self.domain)
        if not self.models:
            same = design.response_name == self.design.response_name
            return self if same else ModelRelease.within(self, name, None)
        held = [
            one
            for one in (ModelRelease.within(self, f, n) for n, f in self.models.items())
            if is_smaller(one.design, design)
        ]
        if held:
            return min(held, key=lambda one: len(one.column_names))
        return ModelRelease.within(self, name, None)

    @explains_arguments
    def synthesize(
        self,
        size: int | None = None,
        copies: int = 1,
        kind: SyntheticKind = "calibrated",
        bin_id: bool = False,
        rng: Seed = None,
        *,
        labels: bool = False,
        missing: bool = False,
    ) -> pd.DataFrame:
        """Synthetic records from the release, at no cost; see `DPResults.synthesize`.

        Returns
        -------
        DataFrame
        """
        if not self.models:
            return self.ols().synthesize(
                size, copies, kind, bin_id, rng, labels=labels, missing=missing
            )
        with warnings.catch_warnings():
            # The models' own tables say so.
            warnings.simplefilter("ignore", IdentificationWarning)
            declared = [self.ols(name) for name in calibrated_names(self)]
            whole = self._fit()
        made = synthesize(
            self,
            whole.estimate,
            size=size,
            copies=copies,
            kind=kind,
            bin_id=bin_id,
            rng=rng,
            steps=self.steps,
            declared=[(one.design, one.estimate) for one in declared],
            missing=missing,
        )
        return with_labels(made, self.design.domain) if labels else made

    @property
    def supports(self) -> pd.DataFrame:
        """What its synthetic records support: columns ``what``, ``support`` and ``how``.

        ``support`` is "exact" (the models that a "calibrated" table reproduces), "known noise"
        (what follows from counts and second moments, with errors from several copies), "as far as
        bins show", or "not at all".
        """
        return supports(self)

    @explains_arguments
    def describe(self, by: str | None = None, alpha: float = 0.05) -> Description:
        """Table 1: number of records, shares of missing values, means, spreads, quartiles, shares.

        Parameters
        ----------
        by : str, optional
            A category: means and shares within its levels.
        alpha : float
            The intervals cover with probability ``1 - alpha``.

        Returns
        -------
        Description
            Prints as text; `to_latex`, `to_html`, `to_markdown`, `to_word`, and `frame` with the
            numbers.
        """
        return table_one.describe(self, by, alpha)

    @explains_arguments
    def crosstab(self, one: str, other: str, alpha: float = 0.05) -> Description:
        """Numbers of records by the levels of two variables.

        Parameters
        ----------
        one, other : str
        alpha : float
            The intervals cover with probability ``1 - alpha``.

        Returns
        -------
        Description
        """
        return table_one.crosstab(self, one, other, alpha)

    @explains_arguments
    def corr(self, alpha: float = 0.05) -> Description:
        """Correlations of all numbers.

        Parameters
        ----------
        alpha : float
            The intervals cover with probability ``1 - alpha``.

        Returns
        -------
        Description
        """
        return table_one.corr(self, alpha)

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
        if self.models:
            from dpbinagg.report.study import Study

            return Study(self).save(folder, overwrite, **options)
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


@dataclass(frozen=True, eq=False, repr=False)
class ModelRelease(Release):
    """What a release says of one model of its columns; it has the verbs of a release of its own.

    Attributes
    ----------
    whole : Release
    name : str or None
        Of a declared model of a study; None for one that follows from moments alone.
    """

    whole: Release | None = None
    name: str | None = None

    @classmethod
    def within(cls, whole: Release, formula: str, name: str | None) -> ModelRelease:
        """A model of the columns and the response of `whole`."""
        design = released_design(whole.design, formula, whole.domain)
        return cls(
            design,
            whole.declared,
            Partition.grid(design.domain.subset(design.variables), 1),
            whole.allocation,
            whole.calibration,
            whole.privacy,
            whole.transcript.without(COUNTS, SUMS, RESPONSES),
            rules=whole.rules,
            whole=whole,
            name=name,
        )

    @cached_property
    def steps(self) -> Steps | None:
        """Where the shared moments and the rounds of this model lead."""
        assert self.whole is not None
        if self.name is not None:
            return self.whole.steps_of_models[self.name]
        return fold(self.whole, self.outer)

    @cached_property
    def _views(self) -> tuple[Statistics, Statistics]:
        assert self.whole is not None
        return model_statistics(self.whole, self.design, self.outer, self.name)

    def declares(self, design: Design) -> bool:
        """Whether a model is this one, and was declared."""
        return self.name is not None and design is self.design

    @property
    def origin(self) -> Release:
        """The release that tells of this model."""
        assert self.whole is not None
        return self.whole

    def save(self, folder: str | Path, overwrite: bool = False, **options: Any) -> Path:
        """Not here: the whole release is saved."""
        raise ReleaseError(
            "this model is part of a release of more; save that, by study.save(folder) or "
            "release.origin.save(folder)"
        )

    def told_of(self, formula: str | None) -> Release:
        """As the whole release tells it."""
        assert self.whole is not None
        if formula is None or formula == self.formula:
            return self
        return self.whole.told_of(formula)


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
