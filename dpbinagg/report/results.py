"""The results object: siblings, printed forms, synthetic data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpbinagg.analyst.ols.finish import CLIPPED
from dpbinagg.analyst.synthesis.tables import formula_for, synthesize
from dpbinagg.analyst.types import Estimate
from dpbinagg.errors import IdentificationWarning
from dpbinagg.formula import Design
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.report import summary as printed
from dpbinagg.report import tables
from dpbinagg.report.base import ReleaseResults
from dpbinagg.report.choice import smaller
from dpbinagg.report.compare import Comparison
from dpbinagg.report.inference import MOST_TERMS, callers_level, identified
from dpbinagg.report.notes import remedy
from dpbinagg.report.statsmodels_wrapper import DPResultsWrapper
from dpbinagg.report.unavailable import no_estimate

if TYPE_CHECKING:
    from pathlib import Path

    from dpbinagg.inputs import Seed, SyntheticKind
    from dpbinagg.report.verbs import Release


class DPResults(ReleaseResults):
    """Results of a differentially private linear regression.

    What statsmodels' results have, `ReleaseResults` has; this adds the other
    estimates from the same release, tables, plots and synthetic data.

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
