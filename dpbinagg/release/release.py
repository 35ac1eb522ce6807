"""The release: what leaves the curator, frozen, noisy or public in every part."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbinagg.accounting import Allocation
from dpbinagg.accounting.privacy import Privacy
from dpbinagg.errors import IdentificationWarning, ReleaseError
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.scaling import BinScaling, ColumnScaling, bin_scaling, column_scaling
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition
from dpbinagg.release.transcript import Transcript, statistics_of

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from dpbinagg.inputs import CovType, EstimatorName, Seed, SyntheticKind
    from dpbinagg.report.results import DPResults

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The estimate that stands for a release; None is the release's own, or the best.

    Attributes
    ----------
    formula : str, optional
        The released model or a smaller one.
    estimator, cov_type : str, optional
        As in `dp_ols`.
    """

    formula: str | None = None
    estimator: str | None = None
    cov_type: str | None = None


@dataclass(frozen=True, eq=False)
class Release:
    """Public record of one release.

    Made by `dp_release` or `dp_ols`. Every number in it is public, was chosen
    by the caller, or passed a mechanism of `privacy`.

    Attributes
    ----------
    design : Design
        The formula over the working domain.
    declared : Domain
        The bounds and levels as the caller declared them.
    partition : Partition
    allocation : Allocation
        The mu of each component, per record added or removed.
    calibration : str
        "joint" or "paper".
    privacy : Privacy
    transcript : Transcript
        Every question that was asked, its noisy answer, and its mu.
    statistics : mapping
        What was released, by component; a component without a share of the budget is absent.
        ``count`` (K,), ``dev_x`` (K, p), ``dev_y`` (K,) are arrays; so is ``products``, sums of
        products of blocks (see `dpbinagg.kernel.moments`), and ``moments`` (m, m), the second
        moments of scaled columns that follow from it. ``margins`` holds one-way counts by variable,
        ``total`` the number of records. ``scores`` is a list with one mapping for each round (see
        `dpbinagg.public.rounds.RoundAnswer`). ``plan`` and ``requests`` hold what was asked:
        computed from what was released before, not from records.
    noise_scales : mapping
        Standard deviations of the noise, same keys and shapes; a request has no noise of its own.
    choice : Choice
        What `ols()` gives without arguments and `save` writes: the estimate that `dp_ols` was
        asked for, or that was saved.

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

    design: Design
    declared: Domain
    partition: Partition
    allocation: Allocation
    calibration: str
    privacy: Privacy
    transcript: Transcript = field(repr=False)
    choice: Choice = Choice()

    @cached_property
    def _views(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return statistics_of(
            self.transcript, self.outer, self.design, self.partition, self.calibration
        )

    @property
    def statistics(self) -> Mapping[str, Any]:
        """What was released, by component: a view of the transcript."""
        return self._views[0]

    @property
    def noise_scales(self) -> Mapping[str, Any]:
        """Standard deviations of the noise of `statistics`."""
        return self._views[1]

    @property
    def formula(self) -> str:
        """The formula of the release."""
        return self.design.formula

    @property
    def domain(self) -> Domain:
        """The working domain: declared bounds, or ranges found privately."""
        return self.design.domain

    @property
    def mu(self) -> float:
        """True privacy of the release."""
        return self.privacy.mu

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return self.partition.n_bins

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the design columns."""
        return self.design.column_names

    @property
    def outer(self) -> Design:
        """The formula on the bounds that contributions to moments and rounds were held to."""
        design = build_design(self.formula, self.declared, dict(self.design.constants))
        return design.bounded_by(self.domain)

    @property
    def bin_scaling(self) -> BinScaling:
        """Public centres and half-widths of the columns in every bin."""
        return bin_scaling(self.design, self.partition, self.calibration)

    @property
    def column_scaling(self) -> ColumnScaling:
        """Public centre and scale of every column over the working domain."""
        return column_scaling(self.design)

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
        from dpbinagg.report.results import fit_release

        chosen = self.choice
        return fit_release(
            self,
            chosen.formula if formula is None else formula,
            chosen.estimator if estimator is None else estimator,
            chosen.cov_type if cov_type is None else cov_type,
        )

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
        from dpbinagg.release.saving import check_target, save_release

        check_target(folder, overwrite)
        try:
            with warnings.catch_warnings():
                # The folder's README says so.
                warnings.simplefilter("ignore", IdentificationWarning)
                results = self.ols()
        except ReleaseError:
            # Nothing can be estimated: the statistics alone are saved.
            return save_release(self, folder, overwrite=overwrite)
        saved: Path = results.save(folder, overwrite=overwrite, **options)
        return saved

    def __repr__(self) -> str:
        return (
            f"<Release of {self.formula!r}: {self.n_bins} bins, "
            f"{len(self.column_names)} columns, mu = {self.mu:.4g}>"
        )
