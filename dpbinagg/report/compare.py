"""Estimators of one release side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from dpbinagg.analyst.fit import NEEDS, without_noise
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.report import tables
from dpbinagg.report.inference import CELL, identified, masked, require_alpha

TITLE = "Estimators from the same release"

UNCORRECTED = {
    "naive": "The naive column ignores the privacy noise",
    "paper": "the published one (paper) hardly corrects for it",
}
"""Estimators whose standard errors are not honest, and what to say of them."""


def _noise(estimator: str) -> str:
    """Whether standard errors include the privacy noise."""
    return {"naive": "ignored", "paper": "hardly"}.get(estimator, "included")


def interval(estimate: Estimate, alpha: float) -> Array:
    """Interval of every coefficient, (p, 2): Student's t, or normal where df is infinite."""
    quantile = (
        stats.t.ppf(1 - alpha / 2, estimate.df_resid)
        if np.isfinite(estimate.df_resid)
        else stats.norm.ppf(1 - alpha / 2)
    )
    half = quantile * estimate.bse
    return np.column_stack([estimate.params - half, estimate.params + half])


@dataclass(frozen=True)
class Comparison:
    """Estimates from one release, side by side.

    Attributes
    ----------
    names : tuple of str
        Terms of the model.
    estimates : mapping
        Estimates by estimator.
    alpha : float
        The intervals cover with probability ``1 - alpha``.
    """

    names: tuple[str, ...]
    estimates: Mapping[str, Estimate]
    alpha: float = 0.05

    def __post_init__(self) -> None:
        require_alpha(self.alpha)

    @property
    def estimators(self) -> list[str]:
        """Names of the estimators, from the simplest on."""
        return [name for name in NEEDS if name in self.estimates]

    def shown(self, name: str) -> Estimate:
        """The estimate by this estimator, NaN where it is not identified."""
        return masked(self.estimates[name])

    @cached_property
    def bias_removed(self) -> Array | None:
        """Corrected minus naive estimate, (p,); None where the release lacks one of them."""
        if not {"naive", "corrected"} <= set(self.estimates):
            return None
        return np.asarray(self.shown("corrected").params - self.shown("naive").params)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row for each term and estimator.

        Columns: term, estimator, estimate, std_error, conf_low, conf_high, and
        bias_removed, the difference to the naive estimate.
        """
        naive = self.shown("naive").params if "naive" in self.estimates else np.nan
        parts = []
        for name in self.estimators:
            estimate = self.shown(name)
            bounds = interval(estimate, self.alpha)
            parts.append(
                pd.DataFrame(
                    {
                        "term": self.names,
                        "estimator": name,
                        "estimate": estimate.params,
                        "std_error": estimate.bse,
                        "conf_low": bounds[:, 0],
                        "conf_high": bounds[:, 1],
                        "bias_removed": estimate.params - naive,
                    }
                )
            )
        stacked = pd.concat(parts, ignore_index=True)
        place = np.argsort(np.tile(np.arange(len(self.names)), len(parts)), kind="stable")
        return stacked.iloc[place].reset_index(drop=True)

    def decimals(self, j: int) -> int:
        """Decimals of term j, after the smallest standard error that can be believed."""
        honest = [name for name in self.estimators if name not in UNCORRECTED]
        errors = [float(self.shown(name).bse[j]) for name in honest or self.estimators]
        return tables.decimals_for(min(filter(math.isfinite, errors), default=math.nan))

    def _header(self) -> list[str]:
        extra = [] if self.bias_removed is None else ["bias removed"]
        return ["", *self.estimators, *extra]

    def _rows(self) -> list[list[str]]:
        rows = []
        for j, term in enumerate(self.names):
            decimals = self.decimals(j)
            lines = [[term], [""], [""]]
            for name in self.estimators:
                estimate = self.shown(name)
                if not identified(estimate)[j]:
                    for line, text in zip(lines, (CELL, "", ""), strict=True):
                        line.append(text)
                    continue
                low, high = interval(estimate, self.alpha)[j]
                lines[0].append(tables.number(float(estimate.params[j]), decimals))
                lines[1].append(f"({tables.number(float(estimate.bse[j]), decimals)})")
                ends = (tables.number(float(end), decimals) for end in (low, high))
                lines[2].append(f"[{', '.join(ends)}]")
            if self.bias_removed is not None:
                lines[0].append(tables.number(float(self.bias_removed[j]), decimals))
                lines[1].append("")
                lines[2].append("")
            rows += [line for line in lines if any(line)]
        return rows + self._foot()

    def _foot(self) -> list[list[str]]:
        chosen = [self.estimates[name] for name in self.estimators]
        rows = [
            ["Observations (noisy)", *(tables.whole(e.nobs) for e in chosen)],
            ["Df residuals", *(tables.whole(e.df_resid) for e in chosen)],
            ["Covariance", *(without_noise(e.cov_type) for e in chosen)],
            ["Privacy noise in it", *(_noise(name) for name in self.estimators)],
        ]
        return [row if self.bias_removed is None else [*row, ""] for row in rows]

    @property
    def _notes(self) -> list[str]:
        warned = [text for name, text in UNCORRECTED.items() if name in self.estimates]
        notes = [
            f"Standard errors in ( ), {100 * (1 - self.alpha):g}% intervals in [ ]."
            + (f" {', '.join(warned)}; the others account for it." if warned else "")
        ]
        if self.bias_removed is not None:
            notes.append("Bias removed: corrected minus naive.")
        weak = [
            name
            for name in self.estimators
            if not self.estimates[name].identified or not identified(self.estimates[name]).all()
        ]
        if weak:
            notes.append(
                f"Not well determined by this release: {', '.join(weak)}; the notes of each say "
                f"why, as in results.{weak[0]}.notes."
            )
        return notes

    def __str__(self) -> str:
        table = tables.plain(self._header(), self._rows(), TITLE)
        width = max(len(table.splitlines()[1]), tables.WIDTH)
        notes = [line for note in self._notes for line in tables.wrapped(note, width)]
        return "\n".join([table, *notes])

    def __repr__(self) -> str:
        return str(self)

    def to_markdown(self) -> str:
        """The table as Markdown."""
        return "\n\n".join([tables.markdown(self._header(), self._rows()), *self._notes]) + "\n"

    def _repr_html_(self) -> str:
        notes = "".join(f"\n<p>{note}</p>" for note in self._notes)
        return tables.html_table(self._header(), self._rows(), TITLE) + notes
