"""Plots with matplotlib: coefficients, bins, synthetic records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbinagg.errors import FormulaError, ReleaseError
from dpbinagg.public.arguments import explains_arguments
from dpbinagg.release.transcript import Released
from dpbinagg.report import margins, palette, pictures
from dpbinagg.report.extras import require

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.inputs import SyntheticKind
    from dpbinagg.report.results import DPResults

MOST_LETTERS = 30
"""Letters of all levels together that fit under a small picture."""


def mark_axis(side: Any, axis: pictures.Axis) -> None:
    """Name an axis and its values."""
    side.set_label_text(plain(axis.name))
    if axis.labels is not None:
        mark_levels(side, axis.centres, axis.labels)
    elif axis.integer:
        whole_numbers(side)


def whole_numbers(side: Any) -> None:
    """Mark whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    side.set_major_locator(MaxNLocator(integer=True))


def mark_levels(side: Any, places: Any, labels: Sequence[str]) -> None:
    """Name the levels of an axis, slanted on an x axis where they would overlap."""
    short = [plain(shorten(label)) for label in labels]
    side.set_ticks(places, short)
    if side.axis_name == "x" and sum(map(len, short)) > MOST_LETTERS:
        for label in side.get_ticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")


def shorten(words: str, most: int = 16) -> str:
    """`words`, cut with an ellipsis after so many letters."""
    return words if len(words) <= most else words[: most - 1] + "…"


def finish(ax: Any, title: str, grid: str = "") -> None:
    """Title, frame and grid."""
    ax.set_title(title, loc="left", fontsize="large")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(axis=grid, color=palette.GRID, linewidth=0.7)
        ax.set_axisbelow(True)


def legend(ax: Any, new: bool) -> None:
    """A legend under a figure of its own, or within the axes that were given."""
    if new:
        ax.figure.legend(loc="outside lower left", ncols=2, frameon=False)
    else:
        ax.legend(fontsize="small", frameon=False)


def legend_of_all(panels: Any, order: Sequence[str]) -> None:
    """One legend under the figure for what the panels show."""
    entries: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    names = [name for name in order if name in entries]
    panels[0].figure.legend(
        [entries[name] for name in names], names, loc="outside lower left", ncols=2, frameon=False
    )


def plain(text: str) -> str:
    """`text` as it is: a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def pyplot() -> Any:
    """matplotlib, or what to do where it is missing."""
    return require("matplotlib.pyplot", "plot", "plots", "report(path) draws its own pictures")


def new_axes(size: tuple[float, float]) -> Any:
    """Axes in a figure of their own."""
    return pyplot().subplots(figsize=size, layout="constrained")[1]


def new_grid(panels: int, labels: Sequence[Sequence[str]]) -> Any:
    """Axes in a figure, up to three in a row, with room for the names of levels."""
    columns = min(panels, 3)
    rows = -(-panels // columns)
    slanted = any(sum(len(shorten(name)) for name in names) > MOST_LETTERS for names in labels)
    size = (max(3.3 * columns, 5.0), (3.3 if slanted else 2.5) * rows)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False
    )
    for unused in axes.ravel()[panels:]:
        figure.delaxes(unused)
    return axes.ravel()[:panels]


STYLES = (
    {"color": palette.PRIVATE, "marker": "o", "linestyle": "-"},
    {"color": palette.NAIVE, "marker": "s", "linestyle": "--", "mfc": "white"},
)
"""Of the private and the naive estimates; they differ in shape too."""


SYNTHETIC, SPREAD = "synthetic records", "released counts, spread evenly over bins"
ALLOWED, MEAN = "what the noisy counts allow (95%)", "released mean"


@explains_arguments
def plot_coefficients(
    results: DPResults,
    ax: Any = None,
    *,
    standardise: bool | None = None,
    intercept: bool = False,
    alpha: float = 0.05,
    title: str | None = None,
    naive: bool = True,
    keep: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Any:
    """Coefficients with private and naive intervals side by side.

    Parameters
    ----------
    results : DPResults
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    standardise : bool, optional
        Whether a coefficient is shown per standard deviation of its column (in
        synthetic records; dummies stay as they are). By default where the
        coefficients would not be readable on one scale.
    intercept : bool
        Whether the intercept is shown.
    alpha : float
        The intervals cover with probability ``1 - alpha``.
    title : str, optional
    naive : bool
        Whether the naive estimates, which ignore the noise, are beside them.
    keep, drop : str or list of str, optional
        Terms to show, in this order, and terms to leave out.
    names : mapping, optional
        Other names for terms, as in ``{"educ": "Education (years)"}``.

    Returns
    -------
    matplotlib Axes
    """
    shown = pictures.coefficients(
        results, standardise, intercept, alpha, naive=naive, keep=keep, drop=drop, names=names
    )
    if not shown.names:
        raise ReleaseError("drop leaves no term to show; leave one")
    rows = len(shown.names)
    new = ax is None
    if new:
        ax = new_axes((7.0, 1.4 + 0.45 * rows))
    place = np.arange(rows)[::-1]
    ax.axvline(0.0, color=palette.INK, linewidth=1.0, zorder=1)
    gap = 0.14 if len(shown.series) > 1 else 0.0
    for series, style, shift in zip(shown.series, STYLES, (gap, -gap), strict=False):
        ends = [series.estimate - series.low, series.high - series.estimate]
        line, _, bars = ax.errorbar(
            series.estimate,
            place + shift,
            xerr=ends,
            fmt=style["marker"],
            color=style["color"],
            mfc=style.get("mfc", style["color"]),
            markersize=5,
            linewidth=1.8,
            label=_series_label(series.name),
            zorder=3,
        )
        bars[0].set_linestyle(style["linestyle"])
        line.set_markeredgewidth(1.4)
    ax.set_yticks(place, [plain(shorten(name, 36)) for name in shown.names])
    ax.set_ylim(-0.6, rows - 0.4)
    what = "per standard deviation" if shown.standardised else "coefficient"
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel(f"{what}, {100 * shown.level:g}% interval")
    finish(ax, title or plain(f"What goes with {shown.response}"), grid="x")
    if len(shown.series) > 1:
        legend(ax, new)
    return ax


@explains_arguments
def plot_bins(
    results: DPResults | Released,
    x: str | None = None,
    y: str | None = None,
    ax: Any = None,
    *,
    title: str | None = None,
) -> Any:
    """The bins of a release.

    With two covariates their bins, shaded by the noisy count per area; with one the
    noisy means of the response over its bins, with intervals of 95% for the noise, and
    the fit.

    Parameters
    ----------
    results : DPResults or Release
    x, y : str, optional
        Covariates. By default the first two, numeric ones before others; with `x`
        alone, means of the response over `x`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    title : str, optional

    Returns
    -------
    matplotlib Axes
    """
    release = results if isinstance(results, Released) else results.release
    if x is None and y is not None:
        raise FormulaError("y needs x: pass both covariates, or x alone for means of the response")
    if x is None:
        pairs = pictures.pairs(release)
        x, y = pairs[0] if pairs else (_only_variable(release), None)
    if y is None:
        return _plot_means(pictures.means(results, x), ax, title)
    return _plot_density(pictures.density(release, x, y), ax, title)


@explains_arguments
def plot_synthetic(
    results: DPResults,
    variables: str | Sequence[str] | None = None,
    axes: Any = None,
    *,
    synthetic: pd.DataFrame | None = None,
    kind: SyntheticKind = "calibrated",
    rng: Any = 0,
) -> Any:
    """Synthetic records against what was released of each variable.

    Bars are the synthetic records. The line is the share of records that the noisy
    bin counts give if each is spread evenly over its bin, the band what the counts allow
    however records lie within the bins, with 95% probability. Of the response, the line
    is the released mean.

    Parameters
    ----------
    results : DPResults
    variables : str or list of str, optional
        Covariates, or the name of the response; all by default.
    axes : matplotlib Axes or sequence of them, optional
        Where to draw, one for each variable; a new figure by default.
    synthetic : DataFrame, optional
        A table from `synthesize`; one of `kind` is made by default.
    kind : {"calibrated", "bounded"}
    rng : None, seed or Generator
        For the table; a fixed seed by default, which costs nothing: synthetic records
        follow from the release alone.

    Returns
    -------
    matplotlib Axes, or an array of them where several variables are shown
    """
    shown = margins.margins(results, variables, synthetic, kind, rng)
    new = axes is None
    if new:
        axes = new_grid(len(shown), [one.labels or () for one in shown])
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(panels) < len(shown):
        raise ReleaseError(
            f"axes must hold {len(shown)} matplotlib axes, one for each variable, got {len(panels)}"
        )
    for panel, one in zip(panels, shown, strict=False):
        _plot_margin(panel, one)
    if new:
        legend_of_all(panels, (SYNTHETIC, SPREAD, ALLOWED, MEAN))
    return panels[0] if isinstance(variables, str) else panels[: len(shown)]


def _plot_means(shown: pictures.Means, ax: Any, title: str | None) -> Any:
    new = ax is None
    ax = new_axes((7.0, 4.4)) if new else ax
    ax.errorbar(
        shown.x.centres,
        shown.mean,
        yerr=shown.half,
        xerr=None if shown.x.categorical else shown.x.widths / 2.0,
        fmt="o",
        color=palette.PRIVATE,
        markersize=5,
        linewidth=1.4,
        label="noisy mean, 95% interval for the noise",
        zorder=3,
    )
    if shown.fitted is not None:
        ax.plot(
            shown.x.centres,
            shown.fitted,
            "D",
            color=palette.NAIVE,
            mfc="white",
            markersize=6,
            label="mean of the fit",
            zorder=4,
        )
    mark_axis(ax.xaxis, shown.x)
    ax.set_xlim(shown.x.edges[0], shown.x.edges[-1])
    ax.set_ylabel(plain(shown.response))
    finish(ax, title or plain(f"Mean of {shown.response} by {shown.x.name}"), grid="y")
    legend(ax, new)
    return ax


def _plot_density(shown: pictures.Density, ax: Any, title: str | None) -> Any:
    ax = new_axes((6.4, 4.8)) if ax is None else ax
    # Only now: without matplotlib the line above says what to install.
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    lines = max(shown.values.shape) <= 40
    mesh = ax.pcolormesh(
        shown.x.edges,
        shown.y.edges,
        shown.values.T,
        cmap=LinearSegmentedColormap.from_list("counts", palette.SEQUENTIAL),
        norm=PowerNorm(shown.power, 0.0, shown.top),
        edgecolors="white" if lines else "none",
        linewidth=0.5 if lines else 0.0,
    )
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("noisy count per unit of area")
    for side, axis in ((ax.xaxis, shown.x), (ax.yaxis, shown.y)):
        mark_axis(side, axis)
    finish(ax, title or plain(f"Bins over {shown.x.name} and {shown.y.name}"))
    return ax


def _plot_margin(ax: Any, shown: margins.Margin) -> None:
    widths = np.diff(shown.edges)
    bars = 0.8 * widths if shown.labels else widths
    middles = shown.edges[:-1] + widths / 2.0
    ax.bar(middles, shown.synthetic, bars, color=palette.SYNTHETIC, alpha=0.75, label=SYNTHETIC)
    if shown.counts is not None:
        _plot_counts(ax, shown.counts, shown.labels is not None)
    if shown.mean is not None:
        value, half = shown.mean
        ax.axvspan(value - half, value + half, color=palette.RELEASED, alpha=0.15, linewidth=0)
        ax.axvline(value, color=palette.RELEASED, linewidth=1.4, label=MEAN)
    if shown.labels:
        mark_levels(ax.xaxis, middles, shown.labels)
    elif shown.integer:
        whole_numbers(ax.xaxis)
    ax.set_yticks([])
    ax.set_ylim(0.0, shown.top)
    finish(ax, plain(shown.name))
    ax.spines["left"].set_visible(False)


def _plot_counts(ax: Any, shown: margins.Counts, categorical: bool) -> None:
    """Counts spread evenly over their bins as a line, what they allow as a band."""
    values = np.maximum(shown.spread, 0.0)
    band = {"color": palette.RELEASED, "alpha": 0.12, "linewidth": 0, "label": ALLOWED}
    line = {"color": palette.RELEASED, "linewidth": 1.4, "label": SPREAD}
    if categorical:
        place = np.arange(len(values)) + 0.5
        ax.bar(place, shown.high - shown.low, 0.3, shown.low, **band)
        ax.hlines(values, place - 0.15, place + 0.15, **line)
    else:
        edges = np.repeat(shown.edges, 2)[1:-1]
        ax.fill_between(edges, np.repeat(shown.low, 2), np.repeat(shown.high, 2), **band)
        ax.stairs(values, shown.edges, **line)


def _series_label(name: str) -> str:
    return "naive: noise ignored" if name == "naive" else f"private ({name})"


def _only_variable(release: Released) -> str:
    if not release.partition.variables:
        raise FormulaError("the model has no covariates, so there are no bins to plot")
    return release.partition.variables[0]
