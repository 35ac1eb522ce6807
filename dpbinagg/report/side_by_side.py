"""Several models side by side, as a table to hand in."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg.accounting import gdp
from dpbinagg.errors import NotReleasedError, ReleaseError
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.report import tables
from dpbinagg.report.extras import require
from dpbinagg.report.inference import CELL, identified
from dpbinagg.report.notes import SEEDED, reference_notes
from dpbinagg.report.results import DPResults
from dpbinagg.report.tables import readable

TITLE = "Differentially private regressions"


@dataclass(frozen=True)
class RegressionTable:
    """Models side by side; prints as text, and has `to_latex`, `to_html`, `to_markdown`, `to_word`.

    Attributes
    ----------
    title : str
    labels : tuple of str
        Headings of the models.
    body : list of rows
        Of each term its estimates, and below them standard errors or intervals.
    foot : list of rows
        Facts about the models.
    notes : list of str
        One paragraph each, in plain words.
    """

    title: str
    labels: tuple[str, ...]
    body: list[list[str]] = field(repr=False)
    foot: list[list[str]] = field(repr=False)
    notes: list[str] = field(repr=False)

    @property
    def header(self) -> list[str]:
        """The heading of every column."""
        return ["", *self.labels]

    @property
    def frame(self) -> pd.DataFrame:
        """The table as a DataFrame of text."""
        rows = [*self.body, *self.foot]
        index = pd.Index([row[0] for row in rows])
        return pd.DataFrame([row[1:] for row in rows], index=index, columns=list(self.labels))

    def __str__(self) -> str:
        lines = tables.aligned([self.header, *self.body, *self.foot], tables.WIDTH)
        width = max(map(len, lines))
        lines = [line.rstrip() for line in lines]
        first, body, foot = lines[0], lines[1 : 1 + len(self.body)], lines[1 + len(self.body) :]
        double, single = "=" * width, "-" * width
        notes = [line for note in self.notes for line in tables.wrapped(note, width)]
        title = self.title.center(width).rstrip()
        return "\n".join([title, double, first, single, *body, single, *foot, double, *notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_markdown(self) -> str:
        """The table as Markdown."""
        notes = [tables.markdown_text(note) for note in self.notes]
        rows = [*self.body, *self.foot]
        return "\n\n".join([tables.markdown(self.header, rows), *notes]) + "\n"

    def to_html(self) -> str:
        """The table as HTML, which word processors take when it is pasted."""
        notes = "".join(f"\n<p>{html.escape(note)}</p>" for note in self.notes)
        rows = [*self.body, *self.foot]
        return tables.html_table(self.header, rows, self.title) + notes

    def to_latex(self, label: str = "", notes: bool = True) -> str:
        """The table as LaTeX, for the packages booktabs and graphicx.

        Parameters
        ----------
        label : str
            To refer to the table by.
        notes : bool
            Whether the notes are below the table.
        """
        columns = "l" + "c" * len(self.labels)
        tabular = tables.booktabs([[self.header], self.body, self.foot], columns)
        shown = self.notes if notes else []
        return tables.latex_float(tabular, self.title, label, shown)

    def to_maketables(self) -> Any:
        """The table for the package maketables, which makes Word, Typst and great_tables of it."""
        maketables = require(
            "maketables", "tables", "Word tables", "to_html() and to_latex() do not"
        )
        return maketables.MTable(self.frame, notes=" ".join(self.notes), caption=self.title)

    def to_word(self, path: str | Path) -> Path:
        """Write the table as a Word document; needs the extra ``dpbinagg[tables]``."""
        target = Path(path)
        self.to_maketables().make(type="docx").save(str(target))
        return target


def choose_terms(
    terms: Sequence[str],
    keep: str | Iterable[str] | None,
    drop: str | Iterable[str] | None,
    names: Mapping[str, str],
) -> list[str]:
    """Terms to show, in the order of `keep` where it is given.

    A term goes by its name in ``params`` or by the one that is shown.
    """
    known = {**{shown: term for term, shown in names.items()}, **{term: term for term in terms}}
    wanted = list(terms) if keep is None else [_term(one, known) for one in _listed(keep)]
    unwanted = [] if drop is None else [_term(one, known) for one in _listed(drop)]
    return [term for term in dict.fromkeys(wanted) if term not in unwanted]


def _listed(chosen: str | Iterable[str]) -> list[str]:
    return [chosen] if isinstance(chosen, str) else list(chosen)


def _term(name: str, known: Mapping[str, str]) -> str:
    if name in known:
        return known[name]
    near = get_close_matches(str(name), list(known), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"the terms are {', '.join(known.values())}"
    raise ReleaseError(f"{name!r} is not a term of the models; {hint}")


LEAST_DECIMALS = 3
"""As journals print; small standard errors get more."""

BELOW = ("error", "interval", "p", "none")

STARS = ((0.01, "***"), (0.05, "**"), (0.1, "*"))
"""p-values below which an estimate gets stars, as economists use them."""

STATISTICS: dict[str, tuple[str, Callable[[DPResults], str]]] = {
    "response": ("Response", lambda r: readable(r.design.response_name)),
    "nobs": ("Observations (noisy)", lambda r: tables.whole(r.nobs)),
    "rsquared": ("R-squared", lambda r: f"{r.rsquared:z.3f}"),
    "rsquared_adj": ("Adj. R-squared", lambda r: f"{r.rsquared_adj:z.3f}"),
    "sigma": ("Residual std. error", lambda r: f"{r.sigma:.4g}"),
    "fvalue": ("F-statistic", lambda r: f"{r.fvalue:.4g}"),
    "aic": ("AIC", lambda r: f"{r.aic:.1f}"),
    "bic": ("BIC", lambda r: f"{r.bic:.1f}"),
    "n_bins": ("Bins", lambda r: tables.whole(r.release.n_bins)),
    "estimator": ("Estimator", lambda r: r.estimator),
    "cov_type": ("Covariance", lambda r: r.cov_type),
    "mu": ("Privacy (mu)", lambda r: f"{r.release.mu:.4g}"),
    "epsilon": ("Epsilon", lambda r: f"{r.epsilon:.3g} ({tables.power(r.delta)})"),
}
"""Rows under the coefficients: heading, and text for a model."""

SHOWN = ("response", "nobs", "rsquared", "estimator", "cov_type", "mu", "epsilon")


@explains_arguments
def summary_table(
    results: Any,
    labels: Sequence[str] | None = None,
    *,
    keep: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    names: Mapping[str, str] | None = None,
    below: str = "error",
    stars: bool = False,
    alpha: float = 0.05,
    joint: bool = False,
    statistics: Sequence[str] = SHOWN,
    title: str = TITLE,
) -> RegressionTable:
    """Models side by side, as a table to hand in.

    Parameters
    ----------
    results : results object, list or mapping of them
        What `dp_ols` or ``release.ols`` returned; the keys of a mapping are labels.
    labels : list of str, optional
        Headings; (1), (2), ... by default.
    keep, drop : str or list of str, optional
        Terms to show, in this order, and terms to leave out.
    names : mapping, optional
        Other names for terms, as in ``{"educ": "Education (years)"}``.
    below : {"error", "interval", "p", "none"}
        What is under each estimate.
    stars : bool
        Whether p-values below 0.1, 0.05 and 0.01 are marked.
    alpha : float
        The intervals cover with probability ``1 - alpha``.
    joint : bool
        Whether the intervals of all declared models cover at once.
    statistics : list of str
        Rows under the coefficients, from: response, nobs, rsquared, rsquared_adj, sigma,
        fvalue, aic, bic, n_bins, estimator, cov_type, mu, epsilon.
    title : str

    Returns
    -------
    RegressionTable
        Prints as text; `to_latex` (booktabs), `to_html`, `to_markdown`, `to_word` and `frame`.

    Examples
    --------
    >>> from dpbinagg import dp_ols, summary_table
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> res = dp_ols("score ~ treatment + pretest", school.frame, mu=1, bounds=school.codebook)
    >>> table = summary_table([res.release.ols("score ~ treatment"), res], drop="Intercept")
    >>> list(table.frame.columns)
    ['(1)', '(2)']
    """
    models, headings = _models(results, labels)
    if below not in BELOW:
        raise ReleaseError(f"below must be one of {', '.join(map(repr, BELOW))}, got {below!r}")
    terms = list(dict.fromkeys(name for model in models for name in model.design.column_names))
    domains = {term: model.design.domain for model in models for term in model.design.column_names}
    shown = {term: readable(term, domains.get(term)) for term in terms} | dict(names or {})
    _require_known("names", shown, terms)
    _require_known("statistics", statistics, list(STATISTICS))
    body = []
    for term in choose_terms(terms, keep, drop, shown):
        body += _term_rows(models, term, shown[term], below, stars, alpha, joint)
    foot = [[STATISTICS[name][0], *_facts(models, name)] for name in statistics]
    notes = _notes(models, headings, below, stars, alpha, joint)
    return RegressionTable(title, headings, body, foot, notes)


def _models(results: Any, labels: Sequence[str] | None) -> tuple[list[DPResults], tuple[str, ...]]:
    if isinstance(results, Mapping):
        labels = list(results) if labels is None else labels
        results = list(results.values())
    elif not isinstance(results, list | tuple):
        results = [results]
    models = [getattr(one, "_results", one) for one in results]
    for one in models:
        if not isinstance(one, DPResults):
            raise ReleaseError(
                f"summary_table takes results of dp_ols, got {type(one).__name__}; for others "
                "beside them use statsmodels' summary_col, which takes both"
            )
    if not models:
        raise ReleaseError("summary_table needs at least one results object")
    found = [f"({k})" for k in range(1, len(models) + 1)] if labels is None else list(labels)
    if len(found) != len(models):
        raise ReleaseError(f"labels must have {len(models)} headings, got {len(found)}")
    return models, tuple(str(label) for label in found)


def _require_known(argument: str, given: Iterable[str], known: list[str]) -> None:
    for name in given:
        if name not in known:
            raise ReleaseError(f"{argument}: {name!r} is not known; choose from {', '.join(known)}")


def _term_rows(
    models: list[DPResults],
    term: str,
    name: str,
    below: str,
    stars: bool,
    alpha: float,
    joint: bool,
) -> list[list[str]]:
    """The estimates of a term and what is under them; empty cells where a model lacks it."""
    first, second = [name], [""]
    errors = [
        float(model.bse[model.design.column_names.index(term)])
        for model in models
        if term in model.design.column_names
    ]
    finite = [error for error in errors if np.isfinite(error)]
    decimals = tables.decimals_for(min(finite, default=np.nan), LEAST_DECIMALS)
    for model in models:
        estimate, under = "", ""
        if term in model.design.column_names:
            j = model.design.column_names.index(term)
            estimate, under = _cell(model, j, decimals, below, stars, alpha, joint)
        first.append(estimate)
        second.append(under)
    return [first] if below == "none" else [first, second]


def _cell(
    model: DPResults,
    j: int,
    decimals: int,
    below: str,
    stars: bool,
    alpha: float,
    joint: bool,
) -> tuple[str, str]:
    if not identified(model.estimate)[j]:
        return CELL, ""
    p = float(model.pvalues[j])
    marks = next((mark for limit, mark in STARS if p < limit), "") if stars else ""
    estimate = tables.number(float(model.params[j]), decimals) + marks
    if below == "interval":
        ends = (
            tables.number(float(end), decimals) for end in model.conf_int(alpha, joint=joint)[j]
        )
        return estimate, f"[{', '.join(ends)}]"
    if below == "p":
        return estimate, f"p = {tables.number(p, 3)}" if p >= 5e-4 else "p < 0.001"
    return estimate, f"({tables.number(float(model.bse[j]), decimals)})"


def _facts(models: list[DPResults], name: str) -> list[str]:
    cells = []
    for model in models:
        try:
            cells.append(STATISTICS[name][1](model))
        except NotReleasedError:
            cells.append("not released")
    return cells


def _notes(
    models: list[DPResults],
    labels: tuple[str, ...],
    below: str,
    stars: bool,
    alpha: float,
    joint: bool,
) -> list[str]:
    notes: list[str] = []
    for label, model in zip(labels, models, strict=True):
        urgent = [one for one in model.summary().notes if one.startswith("CAUTION")]
        notes += [f"{label}: {one}" for one in urgent]
    if any(not model.release.privacy.secure for model in models):
        notes.insert(0, SEEDED)
    under = {
        "error": "Standard errors in parentheses.",
        "interval": (
            f"{100 * (1 - alpha):g}% intervals in brackets"
            + (", which cover all coefficients of all declared models at once." if joint else ".")
        ),
        "p": "p-values below the estimates.",
        "none": "",
    }[below]
    ignoring = [x for x, m in zip(labels, models, strict=True) if m.estimator == "naive"]
    truth = (
        f"They include the privacy noise, except in {tables.listed(ignoring)}."
        if ignoring
        else "They include the privacy noise."
    )
    marks = "* p < 0.1, ** p < 0.05, *** p < 0.01." if stars else ""
    counts = "Numbers of observations are noisy."
    notes.append(" ".join(filter(None, [under, truth if under else "", marks, counts])))
    notes += reference_notes(*(model.design for model in models))
    return [*notes, _privacy(models)]


def _privacy(models: list[DPResults]) -> str:
    """What all columns together cost, if they are about the same records."""
    releases = {id(one): one for one in (model.release.origin for model in models)}
    mus = [release.mu for release in releases.values()]
    if len(mus) == 1:
        shared = "All columns are from one release" if len(models) > 1 else "Privacy"
        return f"{shared}: mu = {mus[0]:.4g} (Gaussian differential privacy)."
    return (
        f"The columns are from {len(mus)} releases. If these are about the same records, together "
        f"they are mu = {gdp.compose(*mus):.4g} (Gaussian differential privacy)."
    )
