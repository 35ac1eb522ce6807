"""The regression table: printed as text, HTML, LaTeX and Markdown, and as data frames."""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from dpbinagg.errors import ReleaseError
from dpbinagg.release.transcript import counted
from dpbinagg.report import tables
from dpbinagg.report.inference import CELL
from dpbinagg.report.notes import explain, first_line

if TYPE_CHECKING:
    from dpbinagg.report.results import DPResults

TITLE = "Differentially Private OLS Regression Results"
MOST_WIDTH = 100
"""Widest line of a note."""

MODEL_INFOS: dict[str, Callable[[Any], str]] = {
    "N (noisy)": lambda results: tables.whole(results.nobs),
    "Bins": lambda results: tables.whole(results.release.n_bins),
    "Privacy (mu)": lambda results: f"{results.release.mu:.4g}",
    "Estimator": lambda results: str(results.estimator),
}
"""Rows under the coefficients in statsmodels' `summary_col`."""


@dataclass(eq=False, repr=False)
class DPSummary(Summary):  # type: ignore[misc]
    """statsmodels' `Summary` with numbered notes that every output format shows.

    Attributes
    ----------
    title : str
    left, right : list of [label, value]
        The lines above the coefficients.
    coefficients : list of rows
        The heading, then one row for each column of the design.
    notes : list of str
        One paragraph each, in plain words.
    first : str
        What stands above all else; usually nothing.
    """

    title: str
    left: list[list[str]]
    right: list[list[str]]
    coefficients: list[list[str]]
    notes: list[str]
    first: str = ""
    extra_txt: ClassVar[None] = None

    @cached_property
    def tables(self) -> list[SimpleTable]:
        """statsmodels' own tables of the facts and of the coefficients."""
        facts, (heading, *rows) = self._facts(), self.coefficients
        cells, terms = [row[1:] for row in rows], [row[0] for row in rows]
        return [
            SimpleTable(
                [row[1:] for row in facts],
                stubs=[row[0] for row in facts],
                title=self.title,
                txt_fmt=fmt_2cols,
            ),
            SimpleTable(cells, heading[1:], terms, txt_fmt=fmt_params),
        ]

    def _facts(self) -> list[list[str]]:
        empty = ["", ""]
        return [[*a, *b] for a, b in zip_longest(self.left, self.right, fillvalue=empty)]

    def as_text(self) -> str:
        """The table and the notes as text."""
        table = tables.aligned(self.coefficients, tables.WIDTH)
        facts = tables.pairs(self.left, self.right, len(table[0]))
        width = max(len(line) for line in [*table, *facts])
        table = [line.rstrip() for line in tables.aligned(self.coefficients, width)]
        double, single = "=" * width, "-" * width
        lines = [self.title.center(width).rstrip(), double]
        if self.first:
            lines += [*tables.wrapped(self.first, width), single]
        lines += facts
        lines += [double, table[0], single, *table[1:], double, "", "Notes:"]
        for place, note in enumerate(self.notes, start=1):
            lines += tables.wrapped(note, min(width, MOST_WIDTH), f"[{place}] ")
        return "\n".join(lines)

    def as_html(self) -> str:
        """The table and the notes as HTML."""
        heading, *rows = self.coefficients
        items = "\n".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return "\n".join(
            [
                *([f"<p><strong>{html.escape(self.first)}</strong></p>"] if self.first else []),
                tables.html_table(None, self._facts(), self.title),
                tables.html_table(heading, rows),
                f"<p>Notes:</p>\n<ol>\n{items}\n</ol>",
            ]
        )

    def as_latex(self, label: str = "", notes: bool = True) -> str:
        """The table and the notes as LaTeX, for the packages booktabs and graphicx."""
        heading, *rows = self.coefficients
        shown = tables.booktabs([[heading], rows], "l" + "r" * (len(heading) - 1))
        facts = tables.booktabs([self._facts()], "lrlr")
        first = f"\\textbf{{{tables.latex(self.first)}}}\n\n\\medskip\n" if self.first else ""
        parts = f"{first}{shown}\n\n\\medskip\n{facts}"
        return tables.latex_float(parts, self.title, label, self.notes if notes else [])

    def as_csv(self) -> str:
        """The table and the notes as comma-separated values."""
        text = io.StringIO()
        head = [[line] for line in (self.title, self.first) if line]
        rows = [*head, *self._facts(), *self.coefficients, ["Notes"]]
        csv.writer(text, lineterminator="\n").writerows([*rows, *([note] for note in self.notes)])
        return text.getvalue()

    def as_markdown(self) -> str:
        """The table and the notes as Markdown."""
        heading, *rows = self.coefficients
        escaped = tables.markdown_text
        facts = [f"- {label} {escaped(value)}" for label, value in [*self.left, *self.right]]
        notes = [f"{place}. {escaped(note)}" for place, note in enumerate(self.notes, start=1)]
        table = tables.markdown(heading, rows)
        first = [f"**{escaped(self.first)}**", ""] if self.first else []
        lines = [f"### {self.title}", "", *first, table, "", *facts, "", "Notes:", "", *notes, ""]
        return "\n".join(lines)


def summarise(
    results: DPResults,
    yname: str | None = None,
    xname: list[str] | None = None,
    title: str | None = None,
    alpha: float = 0.05,
    slim: bool = False,
) -> DPSummary:
    """Build the printed table; see `DPResults.summary`."""
    names = list(results.design.column_names) if xname is None else list(xname)
    rows = coefficient_rows(results, alpha)
    if len(names) != len(rows):
        raise ReleaseError(
            f"xname must have {len(rows)} names, one for each column of the design; "
            f"got {len(names)}"
        )
    left, right = _facts(results, yname or results.design.response_name, slim)
    letter = "t" if results.use_t else "z"
    ends = f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"
    coefficients = [
        ["", "coef", "std err", letter, f"P>|{letter}|", *ends],
        *([name, *row] for name, row in zip(names, rows, strict=True)),
    ]
    first = first_line(counted(results.release.transcript), results.nobs)
    return DPSummary(title or TITLE, left, right, coefficients, explain(results, slim), first)


def _facts(results: DPResults, yname: str, slim: bool) -> tuple[list[list[str]], list[list[str]]]:
    """Label and value of the lines above the coefficients, left and right."""
    left = [
        ["Dep. Variable:", yname],
        ["Model:", "DP-OLS"],
        ["Method:", f"BinAgg, {results.estimator}"],
        ["No. Observations:", f"{tables.whole(results.nobs)} (noisy)"],
        ["No. Bins:", tables.whole(results.release.partition.n_bins)],
        ["Df Residuals:", tables.whole(results.df_resid)],
        ["Df Model:", tables.whole(results.df_model)],
        ["Covariance Type:", results.cov_type],
    ]
    fit = results.fit_statistics
    right = [
        ["R-squared:", _statistic(results, fit.rsquared if fit else None, "z.3f")],
        ["Adj. R-squared:", _statistic(results, fit.rsquared_adj if fit else None, "z.3f")],
        ["F-statistic:", _statistic(results, results.fvalue, "#.4g")],
        ["Prob (F-statistic):", _statistic(results, results.f_pvalue, "#.3g")],
        ["AIC:", _statistic(results, fit.aic if fit else None, ".1f")],
        ["BIC:", _statistic(results, fit.bic if fit else None, ".1f")],
        ["Privacy (mu-GDP):", f"{results.release.privacy.mu:.4g}"],
        [f"Epsilon (delta={tables.power(results.delta)}):", f"{results.epsilon:.3g}"],
    ]
    if slim:
        left = [left[i] for i in (0, 2, 3, 7)]
        right = [right[i] for i in (0, 2, 6, 7)]
    return left, right


def _statistic(results: DPResults, value: float | None, form: str) -> str:
    """A statistic as text, or why there is none."""
    if value is not None and math.isnan(value) and not results.identified.all():
        return CELL
    return "not released" if value is None else format(value, form).rstrip(".")


def coefficient_rows(results: DPResults, alpha: float) -> list[list[str]]:
    """Coefficient, standard error, t, p and interval of every column, as text."""
    rows = []
    interval = results.conf_int(alpha)
    known = results.identified.to_numpy()
    for j in range(len(results.params)):
        if not known[j]:
            rows.append([CELL, "", "", "", "", ""])
            continue
        error = float(results.bse[j])
        decimals = tables.decimals_for(error)
        rows.append(
            [
                tables.number(float(results.params[j]), decimals),
                tables.number(error, decimals),
                tables.number(float(results.tvalues[j]), 3),
                tables.number(float(results.pvalues[j]), 3),
                tables.number(float(interval[j, 0]), decimals),
                tables.number(float(interval[j, 1]), decimals),
            ]
        )
    return rows


def tidy(results: DPResults, alpha: float) -> pd.DataFrame:
    """One row for each coefficient; see `DPResults.tidy`."""
    interval = results.conf_int(alpha)
    return pd.DataFrame(
        {
            "term": list(results.design.column_names),
            "estimate": np.asarray(results.params),
            "std_error": np.asarray(results.bse),
            "statistic": np.asarray(results.tvalues),
            "p_value": np.asarray(results.pvalues),
            "conf_low": interval[:, 0],
            "conf_high": interval[:, 1],
        }
    )


def glance(results: DPResults) -> pd.DataFrame:
    """One row for the model; NaN where a statistic was not released.

    Columns ending in ``_se`` are standard deviations of the privacy noise.
    """
    fit, sigma_se = results.fit_statistics, results.sigma_noise
    released = {
        "sigma_se": np.nan if sigma_se is None else sigma_se,
        "r_squared": fit.rsquared if fit else np.nan,
        "r_squared_se": fit.rsquared_se if fit else np.nan,
        "adj_r_squared": fit.rsquared_adj if fit else np.nan,
        "statistic": results.fvalue,
        "p_value": results.f_pvalue,
        "aic": fit.aic if fit else np.nan,
        "aic_se": fit.information_se if fit else np.nan,
        "bic": fit.bic if fit else np.nan,
        "bic_se": fit.information_se if fit else np.nan,
    }
    return pd.DataFrame(
        [
            {
                "nobs": results.nobs,
                "df_resid": results.df_resid,
                "df_model": results.df_model,
                "sigma": results.sigma,
                **released,
                "n_bins": results.release.n_bins,
                "mu": results.release.mu,
                "epsilon": results.epsilon,
                "delta": results.delta,
                "neighbours": results.privacy.neighbours,
                "estimator": results.estimator,
                "cov_type": results.cov_type,
                "identified": results.determined,
            }
        ]
    )
