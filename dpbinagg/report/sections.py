"""The sections of the report page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from dpbinagg.domain import Categorical, Numeric
from dpbinagg.release import Release
from dpbinagg.report import charts, margins, pictures, words
from dpbinagg.report.downloads import downloads
from dpbinagg.report.labels import readable
from dpbinagg.report.markup import Child, Markup, el, table
from dpbinagg.report.tables import number, power, significant, whole

if TYPE_CHECKING:
    from dpbinagg.report.results import DPResults

MOST_PANELS = 6
MOST_MARGINS = 12
EXPONENTS = [-k / 5.0 for k in range(5, 61)]
"""Powers of ten of delta on the curve, from 0.1 to 1e-12."""

TABLED = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)


def section(name: str, title: str, *children: Child) -> Markup:
    """A section with a heading."""
    heading = el("h2", title, id=f"{name}-title")
    return el("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def top(results: DPResults, title: str | None) -> Markup:
    """Headline, promise, warnings, and what was found."""
    clear, rest = words.findings(results)
    parts: list[Child] = [
        el("h1", title or words.headline(results)),
        el("p", words.lead(results), class_="lead"),
        [el("p", text, class_="banner", role="note") for text in _warnings(results)],
        _facts(results),
    ]
    if clear:
        parts.append(el("p", "Clearly different from zero, with 95% intervals:"))
        parts.append(el("ul", [el("li", text) for text in clear], class_="findings"))
    if rest:
        parts.append(el("p", f"Not to be told from zero with this release: {rest}."))
    return el("header", *parts)


def _warnings(results: DPResults) -> list[str]:
    return [note for note in results.summary().notes if note.startswith(("NOT FOR", "CAUTION"))]


def _facts(results: DPResults) -> Markup:
    explained = getattr(results, "rsquared", math.nan)
    facts = [
        ("Records (noisy)", whole(results.nobs)),
        ("Variance explained", f"{explained:.0%}" if math.isfinite(explained) else "not released"),
        ("Privacy, mu", f"{results.release.mu:.3g}"),
        (f"Epsilon at delta {power(results.delta)}", f"{results.epsilon:.3g}"),
        ("Bins", whole(results.release.n_bins)),
    ]
    return el("dl", [el("div", el("dt", a), el("dd", b)) for a, b in facts], class_="facts")


def regression(results: DPResults) -> Markup:
    """The regression table."""
    printed = results.summary()
    heading, *rows = printed.coefficients
    names = ["", *heading[1:]]
    facts = [row for row in [*printed.left, *printed.right] if row[1]]
    compared = results.compare()
    return section(
        "table",
        "Regression table",
        el("code", results.design.formula, class_="formula"),
        table(
            names,
            [[readable(row[0]), *row[1:]] for row in rows],
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
            _compared(compared.frame),
        ),
    )


def _compared(frame: pd.DataFrame) -> Markup:
    estimators = list(dict.fromkeys(frame["estimator"]))
    rows = []
    for term, group in frame.groupby("term", sort=False):
        cells = []
        for _, row in group.iterrows():
            ends = (significant(float(row[key]), 3) for key in ("conf_low", "conf_high"))
            cells.append(f"{significant(float(row['estimate']), 3)} ({' to '.join(ends)})")
        rows.append([readable(str(term)), *cells])
    caption = "Estimates with 95% intervals. The naive one ignores the privacy noise."
    return table(["", *estimators], rows, caption)


def coefficients(results: DPResults) -> Markup:
    """The coefficient plot."""
    shown = pictures.coefficients(results)
    naive = any(series.name == "naive" for series in shown.series)
    unit = (
        "Numeric columns are shown per standard deviation, so that all fit on one scale; "
        "categories are compared with their reference."
        if shown.standardised
        else "Coefficients as in the table."
    )
    entries = [(_sample("private"), f"private: noise accounted for ({results.estimator})")]
    if naive:
        entries.append((_sample("naive"), "naive: noise ignored"))
    text: list[Child] = [el("p", unit)]
    if naive:
        text.append(
            el(
                "p",
                "The naive estimate treats the noisy numbers as if they were exact. Its intervals "
                "do not have the coverage that they claim; it is shown to make the difference "
                "visible, not to be reported.",
            )
        )
    text.append(_legend(entries))
    return section(
        "coefficients",
        "Coefficients",
        el(
            "div",
            el("figure", charts.coefficient_chart(shown)),
            el("div", *text),
            class_="two",
        ),
    )


def _sample(kind: str) -> Markup:
    scale = charts.Scale(0.0, 1.0, 2.0, 38.0)
    mark = charts.interval_mark(scale, 8.0, 0.5, 0.0, 1.0, kind)
    return el("svg", mark, viewBox="0 0 40 16", aria_hidden="true")


def _swatch(class_: str, line: bool = False) -> Markup:
    if line:
        inner = el("line", x1=2, y1=8, x2=38, y2=8, class_=class_)
    else:
        inner = el("rect", x=4, y=2, width=32, height=12, class_=class_)
    return el("svg", inner, viewBox="0 0 40 16", aria_hidden="true")


def _legend(entries: Sequence[tuple[Markup, str]]) -> Markup:
    return el("ul", [el("li", sample, text) for sample, text in entries], class_="legend")


def bins(results: DPResults) -> Markup:
    """Bins over pairs of covariates and means of the response."""
    release = results.release
    if "count" not in release.statistics or not release.partition.variables:
        return Markup("")
    pairs = pictures.pairs(release)
    shown = [charts.density_chart(pictures.density(release, *pair)) for pair in pairs[:MOST_PANELS]]
    names = release.partition.variables
    means = [charts.means_chart(pictures.means(results, name)) for name in names[:MOST_PANELS]]
    left = len(pairs) - len(shown)
    more = f" {left} more pairs: plot_bins(x, y)." if left > 0 else ""
    parts: list[Child] = [
        el(
            "p",
            f"The records were sorted into {whole(release.n_bins)} bins, which depend on the data "
            "only through noise. Of each bin a noisy count and noisy sums were released.",
        )
    ]
    if shown:
        parts += [
            el("h3", "Where the records are"),
            el("p", f"Shaded by the noisy count per unit of area.{more}", class_="soft"),
            _panels(shown),
        ]
    entries = [
        (_sample("private"), "noisy mean, with 95% interval for the noise"),
        (_diamond(), "fitted mean"),
    ]
    parts += [
        el("h3", f"Means of {readable(release.design.response_name)} by bin"),
        _legend(entries),
        _panels(means),
    ]
    return section("bins", "Bins", *parts)


def _diamond() -> Markup:
    mark = el("g", el("path", d="M20 2l6 6l-6 6l-6 -6Z", class_="mark"), class_="naive")
    return el("svg", mark, viewBox="0 0 40 16", aria_hidden="true")


def _panels(shown: Sequence[Markup]) -> Markup:
    return el("div", [el("figure", chart) for chart in shown], class_="panels")


def synthetic_data(results: DPResults, frame: pd.DataFrame) -> Markup:
    """Synthetic against released margins."""
    release = results.release
    if "count" not in release.statistics:
        return Markup("")
    names = (release.design.response_name, *release.partition.variables)[:MOST_MARGINS]
    shown = [charts.margin_chart(one) for one in margins.margins(results, names, frame)]
    entries = [
        (_swatch("synthetic"), "synthetic records"),
        (_swatch("released", line=True), "released (response: its mean)"),
        (_swatch("band"), "95% interval for the noise"),
    ]
    return section(
        "synthetic",
        "Synthetic records against what was released",
        el(
            "p",
            f"The {len(frame):,} synthetic records follow from the release alone and describe "
            "nobody. The black line is the share of records that the noisy bin counts give, each "
            "count spread evenly over its bin.",
        ),
        _legend(entries),
        _panels(shown),
    )


def privacy(results: DPResults) -> Markup:
    """The promise, the curve and the mechanisms."""
    promise = results.privacy
    points = [(exponent, promise.epsilon(10.0**exponent)) for exponent in EXPONENTS]
    points = [(exponent, value) for exponent, value in points if math.isfinite(value)]
    mechanisms = [[m.name, m.law, f"{m.mu:.3g}"] for m in promise.mechanisms]
    return section(
        "privacy",
        "Privacy",
        el("p", words.guess(promise), class_="lead"),
        _curve(results, points) if points else Markup(""),
        el("h3", "For the methods section"),
        el("p", promise.statement, class_="quote"),
        table(
            ["Mechanism", "noise", "mu"],
            [*mechanisms, ["Together (root of the sum of squares)", "", f"{promise.mu:.4g}"]],
            "Everything that looked at the records, and what it cost.",
        ),
    )


def _curve(results: DPResults, points: Sequence[tuple[float, float]]) -> Markup:
    start = min(range(len(points)), key=lambda i: abs(points[i][0] - math.log10(results.delta)))
    chart, places = charts.curve_chart(points, points[start])
    data = [
        [_delta(exponent), f"{value:.3g}", number(x, 2), number(y, 2)]
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
    rows = [[power(delta), f"{results.privacy.epsilon(delta):.3g}"] for delta in TABLED]
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


def ranges(results: DPResults) -> Markup:
    """Ranges and levels, and the notes under the table."""
    release = results.release
    names = dict.fromkeys([*release.design.response_variables, *release.design.variables])
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


def _range(release: Release, name: str) -> tuple[str, str]:
    variable = release.domain[name]
    if isinstance(variable, Categorical):
        return ", ".join(str(level) for level in variable.levels), "declared"
    assert isinstance(variable, Numeric)
    kind = ", whole numbers" if variable.integer else ""
    given = release.declared[name] if name in release.declared else Numeric()
    source = "declared" if given == variable else "found privately"
    return f"{significant(variable.lower)} to {significant(variable.upper)}{kind}", source


def cite(results: DPResults) -> Markup:
    """How to cite."""
    return section(
        "cite",
        "How to cite",
        el("p", "The software:"),
        el("p", words.citation(results), class_="quote"),
        el("p", "The method that it builds on:"),
        el("p", words.PAPER, class_="quote"),
    )


def files(results: DPResults, frame: pd.DataFrame) -> Markup:
    """Links to the files within the page."""
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
        for file in downloads(results.release, frame)
    ]
    return section(
        "downloads",
        "Downloads",
        el("p", "All files are inside this page; nothing is fetched from anywhere."),
        el("ul", items, class_="downloads"),
        el(
            "p",
            "Fit the synthetic records with ",
            el("code", str(frame.attrs.get("formula", results.design.formula))),
            ". Take standard errors from the table above: those of a plain regression on synthetic "
            "records do not know of the noise.",
            class_="soft",
        ),
    )
