"""Plots in matplotlib, an extra that is imported when used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbinagg.errors import FormulaError, ReleaseError
from dpbinagg.release import Release
from dpbinagg.report import margins, palette, pictures

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.report.base import ReleaseResults

STYLES = (
    {"color": palette.PRIVATE, "marker": "o", "linestyle": "-"},
    {"color": palette.NAIVE, "marker": "s", "linestyle": "--", "mfc": "white"},
)
"""Of the private and the naive estimates; they differ in shape too."""

MOST_LETTERS = 30
"""Letters of all levels together that fit under a small picture."""


def plot_coefficients(
    results: ReleaseResults,
    ax: Any = None,
    *,
    standardise: bool | None = None,
    intercept: bool = False,
    alpha: float = 0.05,
    title: str | None = None,
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

    Returns
    -------
    matplotlib Axes
    """
    shown = pictures.coefficients(results, standardise, intercept, alpha)
    rows = len(shown.names)
    if ax is None:
        ax = _new_axes((7.0, 1.4 + 0.45 * rows))
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
    ax.set_yticks(place, [_plain(name) for name in shown.names])
    ax.set_ylim(-0.6, rows - 0.4)
    unit = "per standard deviation (categories: against the reference)"
    what = unit if shown.standardised else "coefficient"
    ax.set_xlabel(f"{what}, {100 * shown.level:g}% interval")
    _finish(ax, title or _plain(f"What goes with {shown.response}"), grid="x")
    _legend_below(ax)
    return ax


def plot_bins(
    results: ReleaseResults | Release,
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
    release = results if isinstance(results, Release) else results.release
    if x is None and y is not None:
        raise FormulaError("y needs x: pass both covariates, or x alone for means of the response")
    if x is None:
        pairs = pictures.pairs(release)
        x, y = pairs[0] if pairs else (_only_variable(release), None)
    if y is None:
        return _plot_means(pictures.means(results, x), ax, title)
    return _plot_density(pictures.density(release, x, y), ax, title)


def plot_synthetic(
    results: ReleaseResults,
    variables: str | Sequence[str] | None = None,
    axes: Any = None,
    *,
    synthetic: pd.DataFrame | None = None,
    kind: str = "calibrated",
    rng: Any = 0,
) -> Any:
    """Synthetic records against what was released of each variable.

    Bars are the synthetic records. The line is the share of records that the noisy
    bin counts give, its band an interval of 95% for the noise; of the response, the
    released mean.

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
        axes = _new_grid(len(shown))
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    if len(panels) < len(shown):
        raise ReleaseError(
            f"axes must hold {len(shown)} matplotlib axes, one for each variable, got {len(panels)}"
        )
    for panel, one in zip(panels, shown, strict=False):
        _plot_margin(panel, one)
    if new:
        _legend_of_all(panels)
    return panels[0] if isinstance(variables, str) else panels[: len(shown)]


def _plot_means(shown: pictures.Means, ax: Any, title: str | None) -> Any:
    ax = _new_axes((7.0, 4.4)) if ax is None else ax
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
    _mark_axis(ax.xaxis, shown.x)
    ax.set_xlim(shown.x.edges[0], shown.x.edges[-1])
    ax.set_ylabel(_plain(shown.response))
    _finish(ax, title or _plain(f"Mean of {shown.response} by {shown.x.name}"), grid="y")
    _legend_below(ax)
    return ax


def _plot_density(shown: pictures.Density, ax: Any, title: str | None) -> Any:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    ax = _new_axes((6.4, 4.8)) if ax is None else ax
    lines = max(shown.values.shape) <= 40
    mesh = ax.pcolormesh(
        shown.x.edges,
        shown.y.edges,
        shown.values.T,
        cmap=LinearSegmentedColormap.from_list("counts", palette.SEQUENTIAL),
        norm=PowerNorm(0.5, 0.0, max(float(shown.values.max()), 1e-300)),
        edgecolors="white" if lines else "none",
        linewidth=0.5 if lines else 0.0,
    )
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("noisy count per unit of area")
    for side, axis in ((ax.xaxis, shown.x), (ax.yaxis, shown.y)):
        _mark_axis(side, axis)
    _finish(ax, title or _plain(f"Bins over {shown.x.name} and {shown.y.name}"))
    return ax


def _plot_margin(ax: Any, shown: margins.Margin) -> None:
    widths = np.diff(shown.fine_edges)
    bars = 0.8 * widths if shown.labels else widths
    middles = shown.fine_edges[:-1] + widths / 2.0
    ax.bar(middles, shown.synthetic, bars, color=palette.SYNTHETIC, alpha=0.75, label="synthetic")
    if shown.released is not None and shown.half is not None:
        low, high = np.maximum(shown.released - shown.half, 0.0), shown.released + shown.half
        if shown.labels:
            ends = [np.maximum(shown.released, 0.0) - low, high - np.maximum(shown.released, 0.0)]
            ax.errorbar(
                middles, np.maximum(shown.released, 0.0), yerr=ends, fmt="o", markersize=4,
                color=palette.RELEASED, label="released, 95% of noise",
            )  # fmt: skip
        else:
            edges = np.repeat(shown.edges, 2)[1:-1]
            band = [np.repeat(side, 2) for side in (low, high)]
            ax.fill_between(edges, *band, color=palette.RELEASED, alpha=0.15, linewidth=0)
            ax.stairs(
                np.maximum(shown.released, 0.0), shown.edges, color=palette.RELEASED,
                linewidth=1.4, label="released, 95% of noise",
            )  # fmt: skip
    if shown.mean is not None:
        value, half = shown.mean
        ax.axvspan(value - half, value + half, color=palette.RELEASED, alpha=0.15, linewidth=0)
        ax.axvline(value, color=palette.RELEASED, linewidth=1.4, label="released mean")
    if shown.labels:
        ax.set_xticks(middles, [_plain(label) for label in shown.labels])
        _turn(ax.xaxis, shown.labels)
    ax.set_yticks([])
    ax.set_ylim(bottom=0.0)
    _finish(ax, _plain(shown.name))
    ax.spines["left"].set_visible(False)


def _series_label(name: str) -> str:
    return "naive: noise ignored" if name == "naive" else f"private ({name})"


def _mark_axis(side: Any, axis: pictures.Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    side.set_label_text(_plain(axis.name))
    if axis.labels is not None:
        side.set_ticks(axis.centres, [_plain(label) for label in axis.labels])
        _turn(side, axis.labels)
    elif axis.integer:
        side.set_major_locator(MaxNLocator(integer=True))


def _turn(side: Any, labels: Sequence[str]) -> None:
    """Slant the levels of an x axis where they would overlap."""
    if side.axis_name == "x" and sum(map(len, labels)) > MOST_LETTERS:
        for label in side.get_ticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")


def _finish(ax: Any, title: str, grid: str = "") -> None:
    ax.set_title(title, loc="left", fontsize="large")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if grid:
        ax.grid(axis=grid, color=palette.GRID, linewidth=0.7)
        ax.set_axisbelow(True)


def _legend_below(ax: Any) -> None:
    ax.legend(
        loc="upper left", bbox_to_anchor=(0.0, -0.16), ncols=2, frameon=False, borderaxespad=0.0
    )


def _legend_of_all(panels: Any) -> None:
    """One legend under the figure for what the panels show."""
    entries: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    panels[0].figure.legend(
        entries.values(), entries.keys(), loc="outside lower left", ncols=3, frameon=False
    )


def _plain(text: str) -> str:
    """`text` as it is: a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def _only_variable(release: Release) -> str:
    if not release.partition.variables:
        raise FormulaError("the model has no covariates, so there are no bins to plot")
    return release.partition.variables[0]


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(
            'plots need matplotlib, which is not installed; run: pip install "dpbinagg[plot]". '
            "report(path) draws its pictures without it."
        ) from None
    return plt


def _new_axes(size: tuple[float, float]) -> Any:
    return _pyplot().subplots(figsize=size, layout="constrained")[1]


def _new_grid(panels: int) -> Any:
    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure, axes = _pyplot().subplots(
        rows, columns, figsize=(3.3 * columns, 2.5 * rows), layout="constrained", squeeze=False
    )
    for unused in axes.ravel()[panels:]:
        figure.delaxes(unused)
    return axes.ravel()[:panels]
