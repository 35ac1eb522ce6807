"""The results object: what the release says, siblings, printed forms, synthetic data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbinagg.accounting.budget import Privacy
from dpbinagg.analyst.fit import NAMES, NEEDS
from dpbinagg.analyst.ols.finish import CLIPPED
from dpbinagg.analyst.synthesis.tables import formula_for, synthesize
from dpbinagg.analyst.types import Estimate
from dpbinagg.errors import IdentificationWarning, ReleaseError
from dpbinagg.formula import Design
from dpbinagg.formula.union import smaller
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.release.transcript import counted
from dpbinagg.report import summary as printed
from dpbinagg.report import tables
from dpbinagg.report.compare import Comparison
from dpbinagg.report.inference import (
    DPOLS,
    MOST_TERMS,
    Inference,
    callers_level,
    identified,
    masked,
)
from dpbinagg.report.notes import omissions, references, remedy
from dpbinagg.report.statsmodels_wrapper import DPResultsWrapper
from dpbinagg.report.unavailable import REASONS, nearest, no_estimate, not_released

if TYPE_CHECKING:
    from pathlib import Path

    from dpbinagg.inputs import Seed, SyntheticKind
    from dpbinagg.report.verbs import Release


MANY = 1e9
"""Degrees of freedom at which the F distribution is the chi-square one; at more, scipy's loses
digits."""

MOST_ROWS = 1000
"""Rows of the synthetic table that stands in for the data in statsmodels' model."""


def shown_delta(nobs: float) -> float:
    """The delta at which tables show epsilon: 1e-6, or ``n^-1.1`` where there are many records."""
    return min(1e-6, 10.0 ** math.floor(-1.1 * math.log10(max(nobs, 1.0))))


class DPResults(Inference):
    """Results of a differentially private linear regression.

    A statsmodels results object: tests, intervals and predictions use the covariance that includes
    the privacy noise. It holds the public release and nothing else; the other estimates from the
    same release, tables, plots and synthetic data follow from it.

    Parameters
    ----------
    release : Release
    estimate : Estimate
        The estimate that is shown.
    family : mapping
        All estimates of the same model from this release, by estimator.
    design : Design, optional
        The model; the release's own by default.
    notes : tuple of str
        Notes besides those of the estimate.

    Attributes
    ----------
    estimator : str
        Name of the estimator.
    identified : Series of bool
        Whether the release tells each coefficient, by term. What is not identified is NaN in
        `params`, `bse` and all that follows from them, tests of it are refused, and a note says
        why. Predictions and synthetic records still use the numbers behind it.
    sigma : float
        Residual standard error, the root of `scale`.
    delta : float
        The delta at which epsilon is shown: 1e-6, or the power of ten below ``nobs^-1.1``.

    Examples
    --------
    >>> from dpbinagg import dp_ols
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> res = dp_ols("score ~ treatment + pretest", school.frame, mu=1, bounds=school.codebook)
    >>> res.conf_int().shape
    (3, 2)
    >>> res.tidy().columns.to_list()
    ['term', 'estimate', 'std_error', 'statistic', 'p_value', 'conf_low', 'conf_high']
    >>> res.compare().frame.empty
    False
    >>> res.synthesize(size=100).shape
    (100, 3)
    """

    def __init__(
        self,
        release: Release,
        estimate: Estimate,
        family: Mapping[str, Estimate],
        design: Design | None = None,
        notes: tuple[str, ...] = (),
        model: DPOLS | None = None,
    ) -> None:
        self.release = release
        self.estimate = estimate
        self.design = release.design if design is None else design
        self._family = family
        self._extra_notes = tuple(notes)
        if model is None:
            model = DPOLS(self.design, partial(_public_frame, release, estimate, self.design))
        # Fit statistics are from scores, else from moments: bins tell little of the errors.
        found = (family[name] for name in ("refined", "combined") if name in family)
        self._best = next(found, estimate)
        self._of_scale = self._best if estimate.name == "corrected" else estimate
        scale = self._of_scale.scale
        unit = scale if scale > 0.0 else 1.0
        told = masked(estimate)
        # statsmodels keeps what it computed here, and asks for it before it is there.
        self._cache: dict[str, Any] = {}
        super().__init__(model, np.array(told.params), np.asarray(told.cov) / unit, scale)
        self.cov_params_default = np.array(told.cov)
        self.cov_type = NAMES[estimate.cov_type]
        self.cov_kwds: dict[str, Any] = {}
        self.use_t = math.isfinite(estimate.df_resid)
        self.df_resid = float(estimate.df_resid)
        # scipy's F distribution knows no infinite degrees of freedom.
        self.df_resid_inference = self.df_resid if self.use_t else MANY
        self.df_model = model.df_model
        self.sigma = math.sqrt(max(scale, 0.0))
        # Whole, since other packages cut the fraction off where we round.
        self.nobs = float(round(estimate.nobs))
        self.delta = shown_delta(self.nobs)
        self.estimator = estimate.name
        self.identified: pd.Series[bool] = pd.Series(
            identified(estimate), index=list(self.design.column_names), name="identified"
        )

    def __getattr__(self, name: str) -> Any:
        # Other packages probe attributes with getattr; our own code asks `fit_statistics`.
        if hasattr(type(self), name):
            # Python also comes here when a property raised an AttributeError: raise that one.
            return object.__getattribute__(self, name)
        if name in REASONS:
            raise not_released(name)
        if name in NEEDS:
            raise no_estimate(name, list(self._family))
        known = [known for known in dir(self) if not known.startswith("_")]
        hint = "" if name.startswith("_") else nearest(name, known)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return (
            f"<DP-OLS results of {self.design.formula!r}: {self.estimator}, "
            f"{self.release.n_bins} bins, mu = {self.release.mu:.4g}>"
        )

    # What the release says.

    def _told_together(self) -> int:
        """Identified coefficients of all declared models, which joint intervals are about."""
        if not self.release.declares(self.design):
            raise ReleaseError(
                "joint intervals are about the models that were declared before anything was "
                "released, and this is not one of them; leave joint out, or use those"
            )
        if self.release.origin.models:
            return self.release.origin.declared_terms
        return super()._told_together()

    @property
    def privacy(self) -> Privacy:
        """What the release promises; `privacy.statement` is a paragraph for a methods section."""
        return replace(self.release.privacy, shown_delta=self.delta)

    @property
    def determined(self) -> bool:
        """Whether every coefficient is identified, none leaning on a guard or prior."""
        return self.estimate.identified and bool(self.identified.all())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on this estimate, and on records that it did without, in plain words."""
        known, declared = counted(self.release.transcript), self.release.declared
        said = omissions(known, declared, self.design.names, self.nobs)
        return (*said, *self._extra_notes, *self.estimate.notes)

    @property
    def references(self) -> dict[str, Any]:
        """The reference category of each factor, by its name in plain words."""
        return references(self.design)

    @property
    def epsilon(self) -> float:
        """The epsilon of the (epsilon, delta) guarantee that mu implies."""
        return self.release.privacy.epsilon(self.delta)

    @property
    def default_model_infos(self) -> dict[str, Any]:
        """Rows that statsmodels' `summary_col` adds under the coefficients."""
        return printed.MODEL_INFOS

    def __reduce__(self) -> tuple[Any, ...]:
        formula = None if self.design is self.release.design else self.design.formula
        return _restore, (
            self.release,
            formula,
            self.estimator,
            dict(self._family),
            self._extra_notes,
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    # Siblings.

    def _sibling(self, name: str) -> DPResultsWrapper:
        if name not in self._family:
            raise no_estimate(name, list(self._family))
        estimate = self._family[name]
        warn_if_not_identified(estimate, self.design)
        sibling = DPResults(self.release, estimate, self._family, self.design, model=self.model)
        return DPResultsWrapper(sibling)

    @property
    def naive(self) -> DPResultsWrapper:
        """Least squares on the noisy bins, the noise ignored."""
        return self._sibling("naive")

    @property
    def corrected(self) -> DPResultsWrapper:
        """From the bins, corrected for the noise."""
        return self._sibling("corrected")

    @property
    def combined(self) -> DPResultsWrapper:
        """From bins and moments together."""
        return self._sibling("combined")

    @property
    def refined(self) -> DPResultsWrapper:
        """The combined estimate improved by released residual scores."""
        return self._sibling("refined")

    def compare(self, alpha: float = 0.05) -> Comparison:
        """All estimates of this model from the release, side by side.

        Parameters
        ----------
        alpha : float
            The intervals cover with probability ``1 - alpha``.

        Returns
        -------
        Comparison
            Prints as a table; `frame` is a DataFrame.
        """
        family = {name: e for name, e in self._family.items() if name != "moments"}
        return Comparison(self.design.column_names, family or self._family, alpha)

    # Printed forms.

    @explains_arguments
    def summary(
        self,
        yname: str | None = None,
        xname: list[str] | None = None,
        title: str | None = None,
        alpha: float = 0.05,
        slim: bool = False,
    ) -> printed.DPSummary:
        """The regression table, with notes in plain words.

        Parameters
        ----------
        yname, xname : str and list of str, optional
            Other names for the response and the columns.
        title : str, optional
        alpha : float
            The intervals cover with probability ``1 - alpha``.
        slim : bool
            Fewer lines above the coefficients, and no notes on the noise of fit statistics and on
            bounds; values outside bounds are still cautioned of.

        Returns
        -------
        DPSummary
            Prints as text; `as_html`, `as_latex` and `as_csv` give other forms.
        """
        return printed.summarise(self, yname, xname, title, alpha, slim)

    @explains_arguments
    def to_markdown(self, alpha: float = 0.05) -> str:
        """The regression table with its notes as Markdown.

        Parameters
        ----------
        alpha : float
            The intervals cover with probability ``1 - alpha``.

        Returns
        -------
        str
        """
        return self.summary(alpha=alpha).as_markdown()

    @explains_arguments
    def to_html(self, *, alpha: float = 0.05) -> str:
        """The regression table with its notes as HTML.

        Parameters
        ----------
        alpha : float
            The intervals cover with probability ``1 - alpha``.

        Returns
        -------
        str
        """
        return self.summary(alpha=alpha).as_html()

    @explains_arguments
    def to_latex(self, *, alpha: float = 0.05, label: str = "", notes: bool = True) -> str:
        """The regression table as LaTeX, for the packages booktabs and graphicx.

        Several models, other names and a choice of terms: `dpbinagg.summary_table`.

        Parameters
        ----------
        alpha : float
            The intervals cover with probability ``1 - alpha``.
        label : str
            To refer to the table by.
        notes : bool
            Whether the notes are below the table.

        Returns
        -------
        str
        """
        return self.summary(alpha=alpha).as_latex(label, notes)

    @explains_arguments
    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row for each coefficient.

        Columns: term, estimate, std_error, statistic, p_value, conf_low, conf_high.

        Parameters
        ----------
        alpha : float
            The intervals cover with probability ``1 - alpha``.

        Returns
        -------
        DataFrame
        """
        return printed.tidy(self, alpha)

    def glance(self) -> pd.DataFrame:
        """One row for the model: size, fit, privacy and estimator.

        Columns: nobs, df_resid, df_model, sigma, r_squared, adj_r_squared, statistic and p_value
        (of F), aic, bic, and more; ``sigma_se``, ``r_squared_se``, ``aic_se`` and ``bic_se`` are
        standard deviations of the privacy noise in them.

        Returns
        -------
        DataFrame
        """
        return printed.glance(self)

    def plot_coefficients(self, *args: Any, **options: Any) -> Any:
        """Coefficients with intervals, as matplotlib axes; see `plots.plot_coefficients`."""
        from dpbinagg.report import plots

        return plots.plot_coefficients(self, *args, **options)

    def plot_bins(self, *args: Any, **options: Any) -> Any:
        """The noisy bins of one or two covariates; see `plots.plot_bins`."""
        from dpbinagg.report import plots

        return plots.plot_bins(self, *args, **options)

    def plot_synthetic(self, *args: Any, **options: Any) -> Any:
        """Synthetic records beside what was released; see `plots.plot_synthetic`."""
        from dpbinagg.report import plots

        return plots.plot_synthetic(self, *args, **options)

    def report(self, path: str | Path, **options: Any) -> Path:
        """Write one self-contained HTML page; see `page.report`."""
        from dpbinagg.report import page

        return page.report(self, path, **options)

    def save(self, folder: str | Path, overwrite: bool = False, **options: Any) -> Path:
        """Write the release with this estimate, and all that a replicator needs, to a folder.

        The folder holds the released statistics, the coefficients and their covariance,
        calibrated synthetic records, a codebook, the privacy statement, a report, readers for
        R and Stata, and scripts for R, Stata and Python that reproduce the coefficients; its
        README says what is what. `load_release` reads it back, and `ols()` on that gives this
        estimate.

        Parameters
        ----------
        folder : path
            Made if it does not exist; what is there and is not a release is left alone.
        overwrite : bool
            Whether a release that is there is replaced, in one step.
        copies : int
            With more than one, so many further synthetic tables, in one file.
        formats : sequence of {"parquet", "dta"}
            Further forms of the synthetic table.
        report : bool
            Whether the folder holds the HTML page.
        synthetic : DataFrame, optional
            A calibrated table of this estimate that was made before; drawn here by default.
        rng : None, seed or Generator
            For the synthetic records.
        title, unit_of_observation, description, provenance, steward, contact, licence, date : str
            For the README; what is not given stands there as not stated.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        ReleaseError
            If the folder cannot be written or must not be replaced.
        """
        from dpbinagg.report import publish

        return publish.save_results(self, folder, overwrite, **options)

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
        """Synthetic records from the release, at no cost.

        ================================  =====================================================
        I want to                         use
        ================================  =====================================================
        replicate the regression          the default; least squares gives `params` back
        ask other linear questions        ``copies=20``, and `combine_copies` for the errors
        look at data, try out code        ``missing=True``: rows that lack values are there too
        train a model to predict          ``kind="predictive"``; it has no errors to tell
        keep every value in its bin       ``kind="bounded"``
        compute as published              ``kind="binagg", bin_id=True``, and `refit`
        ================================  =====================================================

        What they support beyond, and what not, is in `Release.supports`.

        Parameters
        ----------
        size : int, optional
            Number of records; the noisy total by default.
        copies : int
            Number of tables; with more than one, a column `copy` numbers them.
        kind : {"calibrated", "predictive", "bounded", "binagg"}
            "calibrated": plain least squares on it gives `params` back;
            "predictive": the same covariates, and a response inside its bounds with half
            the scatter, for machine learning;
            "bounded": every value inside its bin; "binagg": the published law.
        bin_id : bool
            Whether a column tells the bin of each record.
        rng : None, seed or Generator
        labels : bool
            Whether categories have the labels of the codebook in place of codes. The same
            regression follows; terms are then named by labels.
        missing : bool
            Whether rows that lack values are added, each variable lacking in its released share:
            for a table that is looked at, or on which code is tried out. Least squares leaves
            them out, and gives the same as without them.

        Returns
        -------
        DataFrame
            Raw variables, which `formula_for` fits ("binagg": the design columns).
        """
        made = synthesize(
            self.release,
            self.estimate,
            size=size,
            copies=copies,
            kind=kind,
            bin_id=bin_id,
            rng=rng,
            design=self.design,
            steps=self.release.steps,
            missing=missing,
        )
        return tables.with_labels(made, self.design.domain) if labels else made

    def formula_for(self, table: pd.DataFrame) -> str:
        """The formula that fits a table that `synthesize` made.

        Parameters
        ----------
        table : DataFrame

        Returns
        -------
        str
            This model's formula, with another left side where the table holds the
            transformed response: ``np.sqrt(y)`` as a column ``sqrt_y``.
        """
        return formula_for(table, self.release.design, self.design)


def _public_frame(release: Release, estimate: Estimate, design: Design) -> pd.DataFrame:
    """A few synthetic records, the same each time."""
    size = int(min(max(estimate.nobs, 2.0), MOST_ROWS))
    return synthesize(release, estimate, size=size, kind="bounded", rng=0, design=design)


def warn_if_not_identified(estimate: Estimate, design: Design) -> None:
    """Say which coefficients a release does not tell."""
    known = identified(estimate)
    if estimate.identified and known.all():
        return
    names = [name for name, flag in zip(design.column_names, known, strict=True) if not flag]
    what = f"the coefficients of {tables.listed(names, MOST_TERMS)}" if names else "this model well"
    parts = [
        f"the release does not determine {what} ({estimate.name} estimate).",
        *(note for note in estimate.notes if not note.startswith(CLIPPED)),
        *remedy(estimate.notes),
    ]
    warnings.warn(" ".join(parts), IdentificationWarning, stacklevel=callers_level())


def _restore(
    release: Release,
    formula: str | None,
    estimator: str,
    family: Mapping[str, Estimate],
    notes: tuple[str, ...],
) -> DPResults:
    design = release.design if formula is None else smaller(release.design, formula)
    return DPResults(release, family[estimator], family, design, notes)
