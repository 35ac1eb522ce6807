"""Checks against the stated targets and pictures, for the accuracy benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import write_csv

LABELS = {
    "ols": "OLS (not private)", "ssp": "SSP", "adassp": "AdaSSP", "jlt": "JLT",
    "dpgd": "DP-GD", "dpgd_grid": "DP-GD, grid (not private)", "binagg": "BinAgg at its true mu",
    "refined": "dpbinagg", "combined": "dpbinagg, combined", "corrected": "dpbinagg, bins only",
}  # fmt: skip
COLOURS = {
    "ols": "black", "refined": "#0072B2", "combined": "#56B4E9", "corrected": "#999999",
    "binagg": "#D55E00", "ssp": "#009E73", "adassp": "#E69F00", "jlt": "#CC79A7",
    "dpgd": "#7A4FBF", "dpgd_grid": "#B79BE0",
}  # fmt: skip


def draw(panels: list[tuple[str, pd.DataFrame, str, str]], path: Path) -> None:
    """One panel per table, a line per method, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(panels), figsize=(4 * len(panels) + 1.8, 3.8), sharey=True, squeeze=False
    )
    for axis, (title, table, column, label) in zip(axes[0], panels, strict=True):
        for method, part in table.groupby("method", sort=False):
            name = str(method)
            style = "--" if name in ("ols", "dpgd_grid") else "-"
            axis.plot(part[column], part["median"], style, color=COLOURS[name], marker="o", ms=3,
                      lw=2.2 if name == "refined" else 1.2, label=LABELS[name])  # fmt: skip
        axis.set(title=title, xlabel=label, xscale="log", yscale="log", ylim=(0.005, 5))
        ticks = sorted(table[column].unique())
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
    axes[0, 0].set_ylabel("median relative l2 error, mu = 1")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
    print(f"wrote {path}")


Check = tuple[str, float, float, bool]


def reach_checks(table: pd.DataFrame, settings: Sequence[Any]) -> list[Check]:
    """(what, value, limit, met) for the default method."""
    rows = table[table.method == "refined"].set_index("setting")
    checks: list[Check] = []
    for setting in settings:
        if setting.name not in rows.index:
            continue
        row = rows.loc[setting.name]
        if np.isfinite(setting.target):
            checks.append(_at_most(f"{setting.name}: error", row["median"], setting.target))
            checks.append(_at_least(f"{setting.name}: coverage", row["coverage"], 0.93))
            checks.append(_at_most(f"{setting.name}: coverage", row["coverage"], 0.97))
        if setting.errors != "normal":
            low, high = row["coverage_lowest"], row["coverage_highest"]
            checks.append(_at_least(f"{setting.name}: lowest coverage of a slope", low, 0.92))
            checks.append(_at_most(f"{setting.name}: highest coverage of a slope", high, 0.98))
    tight, free = "n=5000 d=2 tight", "n=5000 d=2 no bounds"
    if tight in rows.index and free in rows.index:
        ratio = rows.loc[free, "median"] / rows.loc[tight, "median"]
        checks.append(_at_most("no bounds over tight bounds, n=5000 d=2", ratio, 1.3))
    return checks


def table2_checks(table: pd.DataFrame) -> list[Check]:
    """(what, value, limit, met) for the default method."""
    checks: list[Check] = []
    exact = table[table.method == "ols"].set_index("set")["median"]
    for (key, widen), part in table.groupby(["set", "widen"], sort=False):
        rows = part.set_index("method")
        if "refined" not in rows.index:
            continue
        ours, name = rows.loc["refined"], f"{key}, bounds {widen:g}x"
        if key in ("D3", "D4", "D5", "D6", "D7", "D8"):
            limit = 1.08 if widen == 1 else 1.12
            for statistic in ("median", "mean"):
                ratio = ours[statistic] / exact[key]
                checks.append(_at_most(f"{name}: {statistic} over OLS", ratio, limit))
        rivals = rows.loc[rows.index.intersection(["ssp", "adassp", "jlt", "dpgd"])]
        for statistic in ("median", "mean"):
            value = ours[statistic]
            checks.append(_at_most(f"{name}: {statistic}, paper", value, ours["paper_binagg"]))
            if len(rivals):
                limit = 1.02 * rivals[statistic].min()
                who = f"1.02 times {rivals[statistic].idxmin()}"
                checks.append(_at_most(f"{name}: {statistic}, {who}", value, limit))
        checks.append(_at_most(f"{name}: worst, middle", ours["largest"], ours["middle_of_range"]))
    return checks


def _at_most(what: str, value: float, limit: float) -> Check:
    return f"{what} at most", float(value), float(limit), bool(value <= limit)


def _at_least(what: str, value: float, limit: float) -> Check:
    return f"{what} at least", float(value), float(limit), bool(value >= limit)


def report(checks: list[Check], path: Path) -> None:
    """Print and write what was asked for and whether it is met."""
    if not checks:
        return
    frame = pd.DataFrame(checks, columns=["what", "value", "limit", "met"])
    write_csv(frame, path)
    print(frame.to_string(index=False, float_format="{:.4f}".format))
    print(f"{frame.met.sum()} of {len(frame)} met")
