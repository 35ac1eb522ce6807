"""Coverage of 95% intervals over a grid of settings, and Table 1 of the paper three ways.

    python benchmarks/coverage.py --replicates 500
    python benchmarks/coverage.py --only table1 --replicates 2000

Grid: n, d, mu, law of the covariates, errors with constant variance or not,
bounds tight or 4 times too wide. A cell's coverage is the share of slopes
covered, over all slopes and replicates; its Monte Carlo error is that of the
mean over replicates. A replicate whose release says that it does not identify
the model is counted apart ("identified").
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, mean_error, replicate_map, rng_for, write_csv
from scipy import stats

from dpbinagg import Budget, dp_release
from dpbinagg.analyst.bins import corrected
from dpbinagg.analyst.fit import released_bins

SIZES = (500, 2000, 10_000)
DIMENSIONS = (1, 2, 5)
MUS = (0.5, 1.0, 2.0)
LAWS = ("uniform", "normal", "skewed", "integer", "binary")
ERRORS = ("constant", "varying")
WIDTHS = (1, 4)
LOWEST = 0.6
"""Coverage at which the picture ends."""


def covariates(law: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Covariates on [0, 1] (integers 0 to 10 divided by 10 are declared as such below)."""
    if law == "uniform":
        return rng.random((n, d))
    if law == "normal":
        return stats.truncnorm.rvs(-2.5, 2.5, 0.5, 0.2, size=(n, d), random_state=rng)
    if law == "skewed":
        return rng.beta(1.2, 4.0, (n, d))
    if law == "integer":
        return rng.binomial(10, 0.4, (n, d)).astype(float)
    return rng.integers(0, 2, (n, d)).astype(float)


def declared(law: str, width: int) -> Any:
    """Public bounds of one covariate, `width` times too wide."""
    if law == "binary":
        return range(2)
    top = 10 if law == "integer" else 1
    low, high = top / 2 - width * top / 2, top / 2 + width * top / 2
    return range(int(low), int(high) + 1) if law == "integer" else (low, high)


def make_cell(
    n: int, d: int, law: str, errors: str, width: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, dict[str, Any], np.ndarray]:
    x = covariates(law, n, d, rng)
    unit = x / (10.0 if law == "integer" else 1.0)
    slopes = rng.uniform(1.0, 2.0, d) / (10.0 if law == "integer" else 1.0)
    sd = 0.5 if errors == "constant" else 0.2 + 0.6 * unit[:, 0]
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(d)])
    # The response's bounds hold 4.5 standard deviations of the error on either side.
    signal = x @ slopes
    frame["y"] = 1.0 + signal + np.clip(sd * rng.normal(size=n), -4.5 * sd, 4.5 * sd)
    low, high = 1.0 - 4.5 * 0.5, 1.0 + 2.0 * d + 4.5 * 0.8
    middle, half = (low + high) / 2, (high - low) / 2 * width
    bounds = dict.fromkeys(frame.columns[:d], declared(law, width))
    bounds["y"] = (middle - half, middle + half)
    return frame, bounds, slopes


def covered(estimate: Any, slopes: np.ndarray, normal: bool = False) -> np.ndarray:
    quantile = stats.norm.ppf(0.975) if normal else stats.t.ppf(0.975, estimate.df_resid)
    return (
        np.abs(estimate.params[-len(slopes) :] - slopes) <= quantile * estimate.bse[-len(slopes) :]
    )


def run_cell(task: tuple[Any, ...]) -> list[dict[str, Any]]:
    n, d, mu, law, errors, width, first, last = task
    rows = []
    for replicate in range(first, last):
        rng = rng_for("coverage", n, d, mu, law, errors, width, replicate)
        frame, bounds, slopes = make_cell(n, d, law, errors, width, rng)
        formula = "y ~ " + " + ".join(frame.columns[:d])
        release = dp_release(formula, frame, mu=mu, bounds=bounds, rng=rng)
        estimates = release.estimates()
        best, simple = estimates["refined"], estimates["naive"]
        rows.append(
            {
                "n": n,
                "d": d,
                "mu": mu,
                "law": law,
                "errors": errors,
                "width": width,
                "replicate": replicate,
                "identified": best.identified,
                "covered": covered(best, slopes).mean(),
                "naive_covered": covered(simple, slopes).mean(),
                "se": best.bse[-d:].mean(),
                "error": np.linalg.norm(best.params[-d:] - slopes) / np.linalg.norm(slopes),
            }
        )
    return rows


def summarise_cells(rows: pd.DataFrame) -> pd.DataFrame:
    keys = ["n", "d", "mu", "law", "errors", "width"]
    cells = rows.groupby(keys, sort=False).agg(
        coverage=("covered", "mean"),
        coverage_error=("covered", mean_error),
        naive_coverage=("naive_covered", "mean"),
        identified=("identified", "mean"),
        se=("se", "median"),
        error=("error", "median"),
        replicates=("covered", "size"),
    )
    return cells.reset_index()


def report_grid(cells: pd.DataFrame, out: Path) -> None:
    known = cells[cells.identified >= 0.5]
    inside = known.coverage.between(0.93, 0.97)
    print(cells.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    print(
        f"{len(known)} of {len(cells)} cells identified; coverage between .93 and .97 in "
        f"{inside.mean():.1%} of them, lowest {known.coverage.min():.3f}, highest "
        f"{known.coverage.max():.3f}; naive: median {known.naive_coverage.median():.3f}, "
        f"lowest {known.naive_coverage.min():.3f}"
    )
    draw(cells, out / "coverage.png")


def draw(cells: pd.DataFrame, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True, layout="constrained")
    for axis, n in zip(axes, SIZES, strict=True):
        part = cells[cells.n == n].reset_index(drop=True)
        axis.axhspan(0.93, 0.97, color="0.9")
        axis.axhline(0.95, color="0.4", lw=0.8)
        axis.plot(part.index, part.naive_coverage, "x", ms=3, color="#D55E00", label="naive")
        axis.errorbar(
            part.index,
            part.coverage,
            2 * part.coverage_error,
            fmt="o",
            ms=3,
            lw=0.6,
            color="#0072B2",
            label="dpbinagg",
        )
        none = part.index[part.naive_coverage < LOWEST]
        axis.plot(none, np.full(len(none), LOWEST), "v", ms=4, color="#D55E00", clip_on=False)
        starts = part.groupby("d").apply(lambda group: group.index[0], include_groups=False)
        axis.set_xticks([*starts], [f"d = {d}" for d in starts.index])
        for start in starts[1:]:
            axis.axvline(start - 0.5, color="0.8", lw=0.8)
        axis.set(title=f"n = {n:,}", ylim=(LOWEST, 1.005))
    axes[0].set_ylabel("coverage of 95% intervals")
    axes[0].legend(loc="lower left", frameon=False)
    figure.suptitle("A point for each cell; grey: .93 to .97; triangles: naive coverage below .6")
    figure.savefig(path, dpi=150)
    print(f"wrote {path}")


# --- Table 1: d = 5, n = 1000, mu = 1 ----------------------------------------------------------


def run_table1(task: tuple[int, int]) -> list[dict[str, Any]]:
    """The paper's simulation (no intercept, sd 1, y cut to (0, 7)), one row a coefficient."""
    rows = []
    n, d = 1000, 5
    slopes = rng_for("table 1").uniform(1.0, 2.0, d)
    for replicate in range(*task):
        rng = rng_for("table 1", replicate)
        x = rng.random((n, d))
        frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(d)])
        frame["y"] = x @ slopes + rng.normal(size=n)
        bounds = {**dict.fromkeys(frame.columns[:d], (0, 1)), "y": (0, 7)}
        formula = "y ~ 0 + " + " + ".join(frame.columns[:d])
        published = dp_release(
            formula,
            frame,
            mu=1,
            bounds=bounds,
            budget=Budget.paper(),
            calibration="paper",
            rng=rng,
        )
        bins = released_bins(published)
        ours = dp_release(formula, frame, mu=1, bounds=bounds, rng=rng).estimates()
        fits = {
            "published": published.estimates()["paper"],
            "published calibration, consistent": corrected(bins, weights="count"),
            "dpbinagg": ours.get("refined") or ours["combined"],
            "naive": published.estimates()["naive"],
        }
        for name, fit in fits.items():
            hit = covered(fit, slopes, normal=name == "published")
            rows += [
                {
                    "method": name,
                    "true_mu": 1.0 if name == "dpbinagg" else published.mu,
                    "coefficient": j,
                    "bias": fit.params[j] - slopes[j],
                    "estimate": fit.params[j],
                    "se": fit.bse[j],
                    "covered": hit[j],
                }
                for j in range(d)
            ]
    return rows


def report_table1(rows: pd.DataFrame) -> pd.DataFrame:
    table = rows.groupby(["method", "true_mu", "coefficient"], sort=False).agg(
        bias=("bias", "mean"),
        empirical_sd=("estimate", "std"),
        theoretical_sd=("se", "mean"),
        median_se=("se", "median"),
        coverage=("covered", "mean"),
        coverage_error=("covered", mean_error),
        replicates=("covered", "size"),
    )
    print(table.to_string(float_format=lambda value: f"{value:.3f}"))
    return table.reset_index()


def merged(path: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """Cells of earlier runs, those of this run in place of the same ones."""
    if not path.is_file():
        return cells
    keys = ["n", "d", "mu", "law", "errors", "width"]
    old = pd.read_csv(path).set_index(keys)
    again = old.index.isin(cells.set_index(keys).index)
    both = pd.concat([old[~again].reset_index(), cells])
    return both.sort_values(["n", "d", "mu"], kind="stable", ignore_index=True)


def blocks(replicates: int, size: int) -> list[tuple[int, int]]:
    return [(low, min(low + size, replicates)) for low in range(0, replicates, size)]


def main() -> None:
    parser = arguments(__doc__ or "", ("grid", "table1"))
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=SIZES, help="cells to run; others stay as they are"
    )
    parser.add_argument(
        "--mus", type=float, nargs="*", default=MUS, help="cells to run; others stay as they are"
    )
    options = parser.parse_args()
    parts = options.only or ["grid", "table1"]
    options.out.mkdir(parents=True, exist_ok=True)
    if "table1" in parts:
        rows = replicate_map(
            run_table1, blocks(options.replicates, 25), "table 1", options.processes
        )
        write_csv(report_table1(rows), options.out / "table1.csv")
    if "grid" in parts:
        cells = itertools.product(options.sizes, DIMENSIONS, options.mus, LAWS, ERRORS, WIDTHS)
        # Bounds of a binary covariate cannot be too wide; the response's can.
        tasks = [(*cell, *block) for cell in cells for block in blocks(options.replicates, 100)]
        rows = replicate_map(run_cell, tasks, "coverage", options.processes)
        table = merged(options.out / "coverage.csv", summarise_cells(rows))
        write_csv(table, options.out / "coverage.csv")
        report_grid(table, options.out)


if __name__ == "__main__":
    main()
