"""Draw the picture of the README: how a release comes about, and what it gives.

python vignettes/overview.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
import statsmodels.formula.api as smf
from matplotlib import pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from dpbinagg import dp_ols
from dpbinagg.datasets import load_wages

TARGET = Path(__file__).parent / "figures" / "overview.png"
BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#8a8a8a", "#222222"
TERMS = {
    "educ": "year of schooling",
    "exper": "year of experience",
    "C(sex)[T.female]": "woman",
    "C(union)[T.yes]": "union member",
    "C(region)[T.south]": "south (vs north)",
    "C(region)[T.east]": "east (vs north)",
    "C(region)[T.west]": "west (vs north)",
}


def box(axes: Any, x: float, y: float, title: str, text: str, colour: str) -> None:
    """A labelled box, 2.6 wide and 1.5 high, about (x, y)."""
    shape = FancyBboxPatch(
        (x - 1.3, y - 0.75), 2.6, 1.5, boxstyle="round,pad=0.08", fc="white", ec=colour, lw=1.6
    )
    axes.add_patch(shape)
    axes.text(x, y + 0.38, title, ha="center", va="center", weight="bold", color=colour, size=10)
    axes.text(x, y - 0.25, text, ha="center", va="center", color=INK, size=8.5, linespacing=1.3)


def arrow(axes: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    style = "-|>,head_length=5,head_width=3"
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle=style, color=INK, lw=1.2))


def scheme(axes: Any) -> None:
    """Records, curator, release, and what follows from the release."""
    axes.set(xlim=(-0.2, 12.2), ylim=(0, 6.2))
    axes.axis("off")
    axes.axvspan(-0.2, 6.75, color="#f3f3f3", zorder=0)
    axes.axvline(6.75, color=INK, lw=1.2, ls=(0, (4, 3)))
    axes.text(3.2, 5.85, "stays with the data steward", ha="center", color=INK, size=9)
    axes.text(9.5, 5.85, "may be published", ha="center", color=INK, size=9)
    box(axes, 1.4, 3.1, "records", "one per person,\nsecret", GREY)
    box(axes, 5.0, 3.1, "curator", "adds noise,\ncounts up mu", ORANGE)
    box(axes, 8.5, 3.1, "release", "noisy sums,\nits mu stated", BLUE)
    axes.text(10.45, 5.0, "regression table", color=BLUE, weight="bold", size=9.5, ha="center")
    axes.text(10.45, 1.2, "synthetic data", color=BLUE, weight="bold", size=9.5, ha="center")
    axes.text(10.45, 4.55, "intervals that know the noise", size=8, ha="center", color=INK)
    axes.text(10.45, 0.75, "free, again and again", size=8, ha="center", color=INK)
    arrow(axes, (2.8, 3.1), (3.6, 3.1))
    arrow(axes, (6.4, 3.1), (7.1, 3.1))
    arrow(axes, (9.3, 3.95), (10.0, 4.4))
    arrow(axes, (9.3, 2.25), (10.0, 1.6))


def coefficients(axes: Any) -> None:
    """Ordinary and private intervals of the wage equation, side by side."""
    wages = load_wages()
    private = dp_ols(wages.formula, wages.frame, mu=1, bounds=wages.codebook, rng=1)
    ordinary = smf.ols(wages.formula, wages.frame).fit()
    rows = np.arange(len(TERMS))[::-1]
    for shift, colour, marker, label, fit in (
        (0.17, GREY, "s", "ordinary regression (stays secret)", ordinary),
        (-0.17, BLUE, "o", "private regression, mu = 1", private),
    ):
        middle = fit.params[list(TERMS)].to_numpy()
        ends = fit.conf_int().loc[list(TERMS)].to_numpy()
        error = np.abs(ends.T - middle)
        axes.errorbar(middle, rows + shift, xerr=error, fmt=marker, color=colour, ms=5, lw=1.6,
                      capsize=2.5, label=label)  # fmt: skip
    axes.axvline(0, color=INK, lw=0.8)
    axes.set_yticks(rows, list(TERMS.values()))
    axes.set_title("Log wage of 5,000 invented employees", loc="left", size=10.5)
    axes.set_xlabel("coefficient with 95% interval")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    axes.grid(axis="x", alpha=0.25)
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.42, -0.17), frameon=False, ncols=2, fontsize=8.5
    )


def main() -> None:
    """Write the picture."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 4), width_ratios=(1.25, 1), layout="constrained"
    )
    scheme(left)
    coefficients(right)
    figure.savefig(TARGET, dpi=100, metadata={"Software": None})
    print(f"wrote {TARGET.name}, {TARGET.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
