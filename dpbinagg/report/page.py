"""The report: one HTML page that needs nothing from outside, and its sections with pictures."""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpbinagg import __version__
from dpbinagg.errors import ReleaseError
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.release.readme import Origin
from dpbinagg.release.replication import package_files
from dpbinagg.report import charts, margins, palette, pictures, sections
from dpbinagg.report.markup import Child, Markup, Scale, el, section
from dpbinagg.report.statsmodels_wrapper import DPResultsWrapper
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


MOST_ROWS = 20_000
"""Synthetic records that a page carries, unless more are asked for."""

CONTENTS = (
    ("table", "Table"),
    ("coefficients", "Coefficients"),
    ("bins", "Bins"),
    ("synthetic", "Synthetic records"),
    ("supports", "What they support"),
    ("privacy", "Privacy"),
    ("notes", "Ranges and notes"),
    ("cite", "Cite"),
    ("downloads", "Downloads"),
)


@explains_arguments
def report(
    results: DPResults,
    path: str | Path,
    *,
    title: str | None = None,
    data: str | None = None,
    steward: str | None = None,
    date: str | datetime.date | None = None,
    size: int | None = None,
    synthetic: pd.DataFrame | None = None,
    rng: Any = None,
) -> Path:
    """Write one self-contained HTML page.

    The page holds the table, the pictures, the privacy statement and the synthetic
    records for download. It asks nothing of the network, and its own policy forbids
    it to. It needs no matplotlib.

    Parameters
    ----------
    results : DPResults
    path : path
        Where to write; the folder must exist.
    title : str, optional
        The headline.
    data, steward : str, optional
        The name of the data, and who answers for them: both are published.
    date : str or date, optional
        When the release was made; none is shown by default.
    size : int, optional
        Number of synthetic records; the noisy number of records by default, at most
        20,000.
    synthetic : DataFrame, optional
        A table that `synthesize` made, to show and offer instead of a new one.
    rng : None, seed or Generator
        For the synthetic records.

    Returns
    -------
    Path
        Where the page is.
    """
    target = page_target(path)
    about = Origin.of(data, steward, date)
    page = render(results, title=title, about=about, size=size, synthetic=synthetic, rng=rng)
    target.write_text(page, encoding="utf-8")
    return target


def page_target(path: str | Path) -> Path:
    """Where a page goes; refuse what cannot be written before the page is made."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        what = "is a folder" if target.is_dir() else "lies in a folder that does not exist"
        raise ReleaseError(f"path must name a file to write, but {str(target)!r} {what}")
    return target


def render(
    results: DPResults,
    *,
    title: str | None = None,
    about: Origin | None = None,
    size: int | None = None,
    synthetic: pd.DataFrame | None = None,
    rng: Any = None,
    files: Mapping[str, bytes] | None = None,
) -> str:
    """The page as text.

    `files` are those of the folder that the page goes to, which it then offers; alone, it
    offers what such a folder would hold.
    """
    about = Origin() if about is None else about
    if isinstance(results, DPResultsWrapper):
        results = results._results
    if size is None:
        least = len(results.design.column_names) + 2
        size = int(min(max(round(results.nobs), least), MOST_ROWS))
    frame = results.synthesize(size=size, rng=rng) if synthetic is None else synthetic
    if files is None:
        files = package_files(results.release, results, frame)
    parts = [
        sections.regression(results),
        coefficients(results),
        bins(results, frame),
        synthetic_data(results, frame),
        sections.supported(results, frame),
        sections.privacy(results),
        sections.ranges(results),
        sections.cite(results, about),
        sections.files(results, frame, files),
    ]
    shown = [entry for entry, part in zip(CONTENTS, parts, strict=True) if part]
    links = [el("li", el("a", name, href=f"#{key}")) for key, name in shown]
    nav = el("nav", el("ul", links), aria_label="Contents")
    top = sections.top(results, title, about)
    return document(title or sections.headline(results), [top, el("main", nav, parts)])


def document(title: str, parts: Iterable[Markup]) -> str:
    """A whole page of parts."""
    footer = el("footer", el("p", f"Made with dpbinagg {__version__}.", class_="soft"))
    body = el("body", parts, footer, _inline("script", _asset("page.js")))
    return f"<!doctype html>\n{el('html', _head(title), body, lang='en')}\n"


def _head(title: str) -> Markup:
    style, script = _asset("page.css") + _shades(), _asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="generator", content=f"dpbinagg {__version__}"),
        el("link", rel="icon", href="data:,"),
        el("title", title),
        _inline("style", style),
    )


def _asset(name: str) -> str:
    return resources("dpbinagg.report").joinpath(name).read_text(encoding="utf-8")


def _inline(tag: str, text: str) -> Markup:
    return Markup(f"<{tag}>{text}</{tag}>")


def _digest(text: str) -> str:
    """The hash by which the page's policy allows its own style and script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _shades() -> str:
    """Style of the densities, on light and dark ground."""

    def rules(colours: tuple[str, ...]) -> str:
        return "".join(f".q{k}{{fill:{colour}}}" for k, colour in enumerate(colours))

    dark = f"@media screen and (prefers-color-scheme: dark){{{rules(palette.SEQUENTIAL_DARK)}}}"
    return f"{rules(palette.SEQUENTIAL)}\n{dark}\n"
