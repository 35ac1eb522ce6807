"""A study: Table 1, several models and synthetic data from one release."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbinagg.errors import IdentificationWarning, ReleaseError
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.release.readme import Origin
from dpbinagg.report import publish
from dpbinagg.report.side_by_side import summary_table
from dpbinagg.report.verbs import Release

if TYPE_CHECKING:
    from pathlib import Path

    from dpbinagg.accounting.budget import Privacy
    from dpbinagg.report.results import DPResults
    from dpbinagg.report.side_by_side import RegressionTable
    from dpbinagg.report.table_one import Description


class Study(Mapping[str, "DPResults"]):
    """All that one release of `dp_study` says.

    A mapping from the names of the declared models to their results. What else there is to say
    (Table 1, further models, synthetic records) follows from the same release at no cost.

    Parameters
    ----------
    release : Release
        Of `dp_study`, or loaded from where a study was saved.
    """

    def __init__(self, release: Release) -> None:
        if not release.models:
            raise ReleaseError(
                "the release is of one model, not of a study; use release.ols(), and its verbs"
            )
        self.release = release

    def __getitem__(self, name: str) -> DPResults:
        if name not in self.release.models:
            raise KeyError(f"no model is called {name!r}; the models are {', '.join(self)}")
        return self.results[name]

    def __getattr__(self, name: str) -> Any:
        models = self.__dict__["release"].models if "release" in self.__dict__ else {}
        if name in models:
            raise AttributeError(f"a model is had by its name, study[{name!r}]")
        first = next(iter(models), "name")
        raise AttributeError(
            f"a study has no {name!r}; what belongs to one model is had as study[{first!r}].{name}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.release.models)

    def __len__(self) -> int:
        return len(self.release.models)

    def __repr__(self) -> str:
        return f"<Study of {', '.join(self)}: mu = {self.release.mu:.4g}>"

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary().to_html()

    @cached_property
    def results(self) -> dict[str, DPResults]:
        """Results of the declared models by name, each as `dp_ols` returns it."""
        with warnings.catch_warnings():
            # Tables say which terms are not identified.
            warnings.simplefilter("ignore", IdentificationWarning)
            return {name: self.release.ols(name) for name in self.release.models}

    @property
    def privacy(self) -> Privacy:
        """What all of it costs together."""
        return self.release.privacy

    @explains_arguments
    def summary(self, **options: Any) -> RegressionTable:
        """The declared models side by side, as journals print them.

        Parameters
        ----------
        **options
            As in `dpbinagg.summary_table`.

        Returns
        -------
        RegressionTable
        """
        return summary_table(self.results, **options)

    def conf_int(self, alpha: float = 0.05, *, joint: bool = False) -> pd.DataFrame:
        """Intervals of all coefficients of all declared models.

        Parameters
        ----------
        alpha : float
        joint : bool
            Whether they cover all at once with probability ``1 - alpha``, by Sidak's inequality
            over the identified coefficients of all declared models. Otherwise each covers by
            itself, and of twenty one misses.

        Returns
        -------
        DataFrame
            By model and term: ``estimate``, ``low``, ``high``; NaN for what is not identified.
        """
        parts = {
            name: pd.DataFrame(
                np.column_stack([one.params, one.conf_int(alpha, joint=joint)]),
                index=one.params.index,
                columns=["estimate", "low", "high"],
            )
            for name, one in self.items()
        }
        return pd.concat(parts, names=["model", "term"])

    def ols(self, formula: str, **options: Any) -> DPResults:
        """Any model of released variables, with any of them as response; see `Release.ols`."""
        return self.release.ols(formula, **options)

    @explains_arguments
    def describe(self, by: str | None = None, alpha: float = 0.05) -> Description:
        """Table 1, by groups if asked; see `Release.describe`."""
        return self.release.describe(by, alpha)

    @explains_arguments
    def crosstab(self, one: str, other: str, alpha: float = 0.05) -> Description:
        """Numbers of records by two variables; see `Release.crosstab`."""
        return self.release.crosstab(one, other, alpha)

    @explains_arguments
    def corr(self, alpha: float = 0.05) -> Description:
        """Correlations of all numbers; see `Release.corr`."""
        return self.release.corr(alpha)

    def synthesize(self, *arguments: Any, **options: Any) -> pd.DataFrame:
        """Synthetic records of all variables; see `Release.synthesize`."""
        return self.release.synthesize(*arguments, **options)

    @property
    def supports(self) -> pd.DataFrame:
        """What the synthetic records support, and how far; see `Release.supports`."""
        return self.release.supports

    def save(self, folder: str | Path, overwrite: bool = False, **options: Any) -> Path:
        """Write the study and all that follows from it to a folder.

        `load_release` reads it back; ``Study(load_release(folder))`` is this study again.

        Parameters
        ----------
        folder : path
            Made if it does not exist; what is there and is not a release is left alone.
        overwrite : bool
            Whether a release that is there is replaced, in one step.
        title, steward, date : str, optional
            For the README and the page.
        rng : None, seed or Generator
            For the synthetic records.

        Returns
        -------
        Path
            The folder.
        """
        return publish.save_study(self, folder, overwrite, **options)

    @explains_arguments
    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        data: str | None = None,
        steward: str | None = None,
        date: str | None = None,
    ) -> Path:
        """Write one self-contained HTML page with all tables.

        Parameters
        ----------
        path : path
            Where to write; the folder must exist.
        title : str, optional
            The headline.
        data, steward, date : str, optional
            The name of the data, who answers for them, and when.

        Returns
        -------
        Path
            Where the page is.
        """
        return publish.report_study(self, path, title, Origin.of(data, steward, date))
