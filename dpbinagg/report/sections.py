"""The sections of the report page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from dpbinagg.analyst.synthesis.supports import find_tag
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.release.transcript import Released
from dpbinagg.report import charts, words
from dpbinagg.report.downloads import downloads
from dpbinagg.report.inference import CELL
from dpbinagg.report.markup import Child, Markup, el, section, table
from dpbinagg.report.notes import range_source
from dpbinagg.report.origin import Origin
from dpbinagg.report.tables import number, power, readable, significant, whole

if TYPE_CHECKING:
    from dpbinagg.report.compare import Comparison
    from dpbinagg.report.results import DPResults

EXPONENTS = [-k / 5.0 for k in range(5, 61)]
"""Powers of ten of delta on the curve, from 0.1 to 1e-12."""

TABLED = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


def top(results: DPResults, title: str | None, about: Origin) -> Markup:
    """Headline, promise, warnings, and what was found."""
    clear, more, rest = words.findings(results)
    parts: list[Child] = [
        el("h1", title or words.headline(results)),
        el("p", words.lead(results), class_="lead"),
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
        el("p", words.guess(promise), class_="lead"),
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
        el("p", words.citation(results), class_="quote"),
        el("p", "The method that it builds on:"),
        el("p", words.PAPER, class_="quote"),
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
