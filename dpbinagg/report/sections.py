"""The sections of the report page: what was found and promised, in plain words and tables."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import ndtr

from dpbinagg import __version__
from dpbinagg.analyst.synthesis.supports import find_tag
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.release.readme import FILES, Origin
from dpbinagg.release.transcript import Released
from dpbinagg.report import charts
from dpbinagg.report.inference import CELL, identified
from dpbinagg.report.markup import Child, Markup, el, section, table
from dpbinagg.report.notes import range_source
from dpbinagg.report.tables import decimals_for, listed, number, power, readable, significant, whole

if TYPE_CHECKING:
    from dpbinagg.accounting.budget import Privacy
    from dpbinagg.report.compare import Comparison
    from dpbinagg.report.results import DPResults

MOST_BYTES = 8_000_000
"""Size beyond which a file stays beside the page: browsers open pages of some 20 MB slowly."""

OFFERED = (
    "synthetic.csv",
    "synthetic.parquet",
    "codebook.csv",
    "codebook.json",
    "coefficients.csv",
    "vcov.csv",
    "bins.csv",
    "moments.csv",
    "release.json",
    "transcript.json",
)
MEDIA = {".csv": "text/csv", ".json": "application/json"}


@dataclass(frozen=True, slots=True)
class Download:
    """A file: its name, what it is, its media type and content."""

    name: str
    about: str
    media: str
    content: bytes

    @property
    def uri(self) -> str:
        """The content as a data: address."""
        return f"data:{self.media};base64,{base64.b64encode(self.content).decode()}"

    @property
    def size(self) -> str:
        """The size in words."""
        size = len(self.content)
        if size < 1000:
            return f"{size} bytes"
        return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def downloads(files: Mapping[str, bytes]) -> tuple[list[Download], list[Download]]:
    """What a page offers of the files of a folder, and what is too large for it."""
    found = [_download(name, files[name]) for name in OFFERED if name in files]
    small = [file for file in found if len(file.content) <= MOST_BYTES]
    return small, [file for file in found if file not in small]


def _download(name: str, content: bytes) -> Download:
    about = f"{FILES[name][0].upper()}{FILES[name][1:]}."
    media = MEDIA.get(PurePath(name).suffix, "application/octet-stream")
    return Download(name, about, media, content)


MOST_FINDINGS = 6
MOST_NAMES = 12
SOME, LITTLE = 0.8, 0.95
"""A guess that is right more often than this: some privacy, hardly any."""

PAPER = (
    "Lin, Slavković and Bhoomireddy (2026). Differentially Private Linear Regression and "
    "Synthetic Data Generation with Statistical Guarantees. AISTATS. arXiv:2510.16974."
)


def headline(results: DPResults) -> str:
    """What the page is about."""
    return f"What goes with {readable(results.design.response_name)}: a private regression"


def lead(results: DPResults) -> str:
    """The model and the promise in two sentences."""
    covariates = listed(results.design.variables)
    on = f" with {covariates}" if covariates else ""
    return (
        f"This page reports how {readable(results.design.response_name)} goes{on} among about "
        f"{whole(results.nobs)} records. {_promise(results.privacy)}"
    )


def _promise(privacy: Privacy) -> str:
    """How far one can trust the noise, from the best guess that it allows."""
    added = "Random noise was added before any number left the data"
    if float(ndtr(privacy.mu / 2.0)) > LITTLE:
        return f"{added}, but so little of it (mu = {privacy.mu:.3g}) that it protects hardly."
    if float(ndtr(privacy.mu / 2.0)) > SOME:
        return f"{added}, which limits what they tell about any one person."
    if privacy.neighbours == "add-remove":
        return f"{added}, so that nobody can be sure whether a given person is among them."
    return f"{added}, so that nobody can be sure what a given person's record says."


def findings(
    results: DPResults, alpha: float = 0.05
) -> tuple[list[tuple[str, str, str, str]], int, str]:
    """Identified coefficients whose intervals leave out zero, the clearest first.

    Returns
    -------
    clear : list of (name, coefficient, low, high)
    more : int
        How many such coefficients are left out.
    rest : str
        Names of the others.
    """
    estimate, design = results.estimate, results.design
    ends = results.conf_int(alpha)
    told = np.flatnonzero(identified(estimate))
    order = sorted(told.tolist(), key=lambda j: -abs(float(results.tvalues[j])))
    clear, rest = [], []
    for j in order:
        name, low, high = (
            readable(design.column_names[j], design.domain),
            float(ends[j][0]),
            float(ends[j][1]),
        )
        if j == design.intercept:
            continue
        if not (low > 0.0 or high < 0.0):
            rest.append(name)
            continue
        places = decimals_for(float(estimate.bse[j]))
        middle = number(float(estimate.params[j]), places)
        sign = "+" if estimate.params[j] > 0 else ""
        clear.append((name, sign + middle, number(low, places), number(high, places)))
    more = max(len(clear) - MOST_FINDINGS, 0)
    others = listed(rest) if len(rest) <= MOST_NAMES else f"{len(rest)} coefficients"
    return clear[:MOST_FINDINGS], more, others


def guess(privacy: Privacy) -> str:
    """What mu means for somebody who tries to find out about one person.

    With even odds beforehand the best test between neighbouring tables is right with
    probability ``Phi(mu/2)`` at most.
    """
    right = f"{100 * float(ndtr(privacy.mu / 2.0)):.0f}%"
    if privacy.neighbours == "add-remove":
        what = "whether one given person is in the data"
    else:
        what = "which of two possible records one given person has"
    return (
        f"Suppose somebody tries to find out {what}, holds both answers equally likely, and knows "
        f"everything about everybody else. From all that was released they guess right at most "
        f"{right} of the time; tossing a coin gives 50%."
    )


def citation(results: DPResults) -> str:
    """How to cite the analysis."""
    return (
        f"The dpbinagg authors. dpbinagg: differentially private linear regression and synthetic "
        f"data, version {__version__} ({results.estimator} estimator, mu = "
        f"{results.release.mu:.4g})."
    )


EXPONENTS = [-k / 5.0 for k in range(5, 61)]
"""Powers of ten of delta on the curve, from 0.1 to 1e-12."""

TABLED = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


def top(results: DPResults, title: str | None, about: Origin) -> Markup:
    """Headline, promise, warnings, and what was found."""
    clear, more, rest = findings(results)
    parts: list[Child] = [
        el("h1", title or headline(results)),
        el("p", lead(results), class_="lead"),
        _origin(about),
        [_banner(text) for text in _warnings(results)],
        _facts(results),
    ]
    if clear:
        parts.append(el("p", "Clearly different from zero, with 95% intervals:"))
        parts.append(el("ul", [_finding(*one) for one in clear], class_="findings"))
    if more:
        parts.append(
            el("p", "One more is in the table." if more == 1 else f"{more} more are in the table.")
        )
    if rest:
        parts.append(el("p", f"Not to be told from zero with this release: {rest}."))
    return el("header", *parts)


def _origin(about: Origin) -> Markup:
    rows = [el("div", el("dt", name), el("dd", text)) for name, text in about.rows]
    return el("dl", rows, class_="about") if rows else Markup("")


def _finding(name: str, value: str, low: str, high: str) -> Markup:
    interval = el("span", f"({low} to {high})", class_="whole")
    return el("li", el("b", name), " ", el("span", value, class_="whole"), " ", interval)


def _banner(text: str) -> Markup:
    return el("p", text, " ", el("a", "All notes", href="#notes"), class_="banner", role="note")


def _warnings(results: DPResults) -> list[str]:
    return [note for note in results.summary().notes if note.startswith(("NOT FOR", "CAUTION"))]


def _facts(results: DPResults) -> Markup:
    fit = results.fit_statistics
    explained = fit.rsquared if fit else math.nan
    facts = [
        ("Records (noisy)", whole(results.nobs)),
        ("Variance explained", f"{explained:.0%}" if math.isfinite(explained) else "not released"),
        ("Privacy, mu", f"{results.release.mu:.3g}"),
        (f"Epsilon at delta {_unbroken(power(results.delta))}", f"{results.epsilon:.3g}"),
        ("Bins", whole(results.release.n_bins)),
    ]
    return el("dl", [el("div", el("dt", a), el("dd", b)) for a, b in facts], class_="facts")


def _unbroken(text: str) -> str:
    """`text` with hyphens at which a line does not end."""
    return text.replace("-", "\N{NON-BREAKING HYPHEN}")


def regression(results: DPResults) -> Markup:
    """The regression table."""
    printed = results.summary()
    heading, *rows = printed.coefficients
    names = ["", "coefficient", "std. error", heading[3], "p", "95% from", "to"]
    domain = results.design.domain
    facts = [row for row in [*printed.left, *printed.right] if row[1]]
    return section(
        "table",
        "Regression table",
        el("code", results.design.formula, class_="formula"),
        table(
            names,
            [[readable(row[0], domain), *row[1:4], _p_value(row[4]), *row[5:]] for row in rows],
            f"{printed.title}; {results.estimator} estimator, 95% intervals.",
        ),
        el(
            "details",
            el("summary", "More about the fit"),
            table(["", ""], [[a.rstrip(":"), b] for a, b in facts], "The model", "words"),
        ),
        el(
            "details",
            el("summary", "All estimates from this release, side by side"),
            _compared(results.compare(), domain),
        ),
    )


def _p_value(text: str) -> str:
    return "< 0.001" if text == "0.000" else text


def _compared(comparison: Comparison, domain: Domain) -> Markup:
    rows: list[list[Child]] = []
    for j, term in enumerate(comparison.names):
        cells: list[Child] = [readable(term, domain)]
        of_term = comparison.frame[comparison.frame["term"] == term]
        for row in of_term[["estimate", "conf_low", "conf_high"]].to_numpy(dtype=float):
            if math.isnan(row[0]):
                cells.append(CELL)
                continue
            value, low, high = (number(float(x), comparison.decimals(j)) for x in row)
            cells.append([value, " ", el("span", f"({low} to {high})", class_="whole")])
        rows.append(cells)
    caption = "Estimates with 95% intervals. The naive one ignores the privacy noise."
    return table(["", *comparison.estimators], rows, caption)


def privacy(results: DPResults) -> Markup:
    """The promise, the curve and the mechanisms."""
    promise = results.privacy
    points = [(exponent, promise.epsilon(10.0**exponent)) for exponent in EXPONENTS]
    points = [(exponent, value) for exponent, value in points if math.isfinite(value)]
    mechanisms = [[m.name, m.law, f"{m.mu:.3g}"] for m in promise.components]
    return section(
        "privacy",
        "Privacy",
        el("p", guess(promise), class_="lead"),
        _curve(results, points) if points else Markup(""),
        el("h3", "For the methods section"),
        el("p", promise.statement, class_="quote"),
        table(
            ["Mechanism", "noise", "mu"],
            [*mechanisms, ["All together", "", f"{promise.mu:.4g}"]],
            "Everything that looked at the records, and what it cost. Together they cost the root "
            "of the sum of squares.",
        ),
    )


def _curve(results: DPResults, points: Sequence[tuple[float, float]]) -> Markup:
    start = min(range(len(points)), key=lambda i: abs(points[i][0] - math.log10(results.delta)))
    chart, places = charts.curve_chart(points, points[start])
    data = [
        [_delta(exponent), _digits(value), number(x, 2), number(y, 2)]
        for (exponent, value), (x, y) in zip(points, places, strict=True)
    ]
    first = data[start]
    slider = el(
        "div",
        el("label", "Choose delta", for_="delta"),
        el(
            "input",
            type="range",
            id="delta",
            min="0",
            max=str(len(points) - 1),
            value=str(start),
            step="1",
        ),
        id="control",
        hidden=True,
    )
    rows = [[power(delta), _digits(results.privacy.epsilon(delta))] for delta in TABLED]
    reading = f"At delta = {first[0]}, epsilon = {first[1]}."
    return el(
        "div",
        el(
            "figure",
            chart,
            slider,
            el("p", reading, id="reading", role="status"),
            id="curve",
            data_points=json.dumps(data, separators=(",", ":")),
        ),
        el(
            "div",
            el(
                "p",
                "The same promise in the older terms: for every delta on the curve the release is "
                "(epsilon, delta)-differentially private. Smaller is more private.",
            ),
            table(["delta", "epsilon"], rows, "Points of the curve"),
        ),
        class_="two",
    )


def _delta(exponent: float) -> str:
    return f"{10.0**exponent:.1e}".replace("e-0", "e-").replace(".0e", "e")


def _digits(value: float) -> str:
    """Three digits, zeros kept."""
    return f"{value:#.3g}".rstrip(".")


def ranges(results: DPResults) -> Markup:
    """Ranges and levels, and the notes under the table."""
    release = results.release
    names = release.design.names
    rows = [[name, *_range(release, name)] for name in names]
    notes = [note for note in results.summary().notes if note not in _warnings(results)]
    return section(
        "notes",
        "Ranges and notes",
        table(
            ["Variable", "values", "source"],
            rows,
            "Values outside a range were moved to its nearest end.",
            "words",
        ),
        el("ol", [el("li", note) for note in notes]),
    )


def _range(release: Released, name: str) -> tuple[str, str]:
    variable = release.domain[name]
    if isinstance(variable, Categorical):
        return ", ".join(str(level) for level in variable.levels), "declared"
    assert isinstance(variable, Numeric)
    kind = ", whole numbers" if variable.integer else ""
    span = f"{significant(variable.lower)} to {significant(variable.upper)}{kind}"
    return span, range_source(release, name, variable)


def supported(results: DPResults, frame: pd.DataFrame) -> Markup:
    """What the synthetic records support, and how far."""
    tag = find_tag(frame)
    known = results.release.origin.supports if tag is None else tag.frame
    return section(
        "supports",
        "What the synthetic records support",
        table(list(known.columns), known.to_numpy().tolist(), "", "words"),
    )


def cite(results: DPResults, about: Origin) -> Markup:
    """How to cite."""
    data = [el("p", "The data:"), el("p", about.citation, class_="quote")]
    return section(
        "cite",
        "How to cite",
        data if about.citation else [],
        el("p", "The software:"),
        el("p", citation(results), class_="quote"),
        el("p", "The method that it builds on:"),
        el("p", PAPER, class_="quote"),
    )


def files(results: DPResults, frame: pd.DataFrame, held: Mapping[str, bytes]) -> Markup:
    """Links to the files within the page."""
    offered, beside = downloads(held)
    items = [
        el(
            "li",
            el(
                "a",
                el("strong", file.name),
                f" ({file.size})",
                el("span", file.about),
                href=file.uri,
                download=file.name,
            ),
        )
        for file in offered
    ]
    items += [
        el(
            "li",
            el("strong", file.name),
            f" ({file.size}) lies in the folder beside this page. ",
            el("span", file.about),
        )
        for file in beside
    ]
    return section(
        "downloads",
        "Downloads",
        el("p", "These files are inside this page; nothing is fetched from anywhere."),
        el("ul", items, class_="downloads"),
        el(
            "p",
            "Fit the synthetic records with ",
            el("code", results.formula_for(frame)),
            ". Take standard errors from the table above: those of a plain regression on synthetic "
            "records do not know of the noise.",
            class_="soft",
        ),
    )
