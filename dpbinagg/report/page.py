"""The report: one HTML page that needs nothing from outside."""

from __future__ import annotations

import base64
import datetime
import hashlib
from collections.abc import Iterable, Mapping
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg import __version__
from dpbinagg.errors import ReleaseError
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.release.package import package_files
from dpbinagg.report import gallery, palette, sections, words
from dpbinagg.report.markup import Markup, el
from dpbinagg.report.origin import Origin
from dpbinagg.report.statsmodels_wrapper import DPResultsWrapper

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.report.results import DPResults

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
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        what = "is a folder" if target.is_dir() else "lies in a folder that does not exist"
        raise ReleaseError(f"path must name a file to write, but {str(target)!r} {what}")
    about = Origin.of(data, steward, date)
    page = render(results, title=title, about=about, size=size, synthetic=synthetic, rng=rng)
    target.write_text(page, encoding="utf-8")
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
        gallery.coefficients(results),
        gallery.bins(results, frame),
        gallery.synthetic_data(results, frame),
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
    return document(title or words.headline(results), [top, el("main", nav, parts)])


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
