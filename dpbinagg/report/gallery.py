"""The sections of the report page that show pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from dpbinagg.report import charts, margins, pictures
from dpbinagg.report.markup import Child, Markup, el, section
from dpbinagg.report.svg import Scale
from dpbinagg.report.tables import readable, whole

if TYPE_CHECKING:
    from dpbinagg.report.results import DPResults

MOST_PANELS = 6
MOST_MARGINS = 12


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
    scale = Scale(0.0, 1.0, 2.0, 38.0)
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


def bins(results: DPResults, frame: pd.DataFrame) -> Markup:
    """Bins over pairs of covariates and means of the response."""
    release = results.release
    if "count" not in release.statistics or not release.partition.variables:
        return Markup("")
    pairs = pictures.pairs(release)
    shown = [charts.density_chart(pictures.density(release, *pair)) for pair in pairs[:MOST_PANELS]]
    names = release.partition.variables
    means = [
        charts.means_chart(pictures.means(results, name, frame)) for name in names[:MOST_PANELS]
    ]
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
        shaded = f"Shaded by the noisy count per unit of area.{more}"
        head = el("h3", "Where the records are")
        parts.append(_kept(head, el("p", shaded, class_="soft"), _panels(shown)))
    entries = [
        (_sample("private"), "noisy mean, with 95% interval for the noise"),
        (_diamond(), "mean of the fit over the synthetic records"),
    ]
    head = el("h3", f"Means of {readable(release.design.response_name)} by bin")
    parts.append(_kept(head, _legend(entries), _panels(means)))
    return section("bins", "Bins", *parts)


def _diamond() -> Markup:
    mark = el("g", el("path", d="M20 2l6 6l-6 6l-6 -6Z", class_="mark"), class_="naive")
    return el("svg", mark, viewBox="0 0 40 16", aria_hidden="true")


def _kept(*children: Child) -> Markup:
    """What stays on one sheet of paper where it can, so that a legend is next to its pictures."""
    return el("div", *children, class_="keep")


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
        (_swatch("released", line=True), "released counts, spread evenly over their bins"),
        (_swatch("band"), "what the noisy counts allow (95%)"),
    ]
    return section(
        "synthetic",
        "Synthetic records against what was released",
        el(
            "p",
            f"The {len(frame):,} synthetic records follow from the release alone and describe "
            "nobody. Where bins are wide, the counts leave open how records lie within them; the "
            "synthetic records then follow the other released numbers. Of the response, the line "
            "is the released mean.",
        ),
        _kept(_legend(entries), _panels(shown)),
    )
