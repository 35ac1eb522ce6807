"""Axes, titles and legends as all matplotlib plots have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbinagg.report import palette, pictures
from dpbinagg.report.extras import require

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
