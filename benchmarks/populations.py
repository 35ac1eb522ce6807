"""Resampling from populations: does the private table say what is true of the whole table?

    python benchmarks/populations.py --data FOLDER --replicates 200
    python benchmarks/populations.py --cells "anes96*" --replicates 50
    python benchmarks/populations.py --quick

A population is a table, real or simulated; its least squares coefficients are the truth, be the
linear model right or wrong. A cell draws n of its rows with replacement, fits `dp_ols` with the
bounds of a questionnaire, and least squares with HC1 on the same rows. Written: `populations.csv`
(a row for each cell and coefficient), `populations_cells.csv`, `populations_checks.csv` and
`populations.png`. A run of some cells replaces these among the rows of earlier runs.
"""

from __future__ import annotations

import argparse
import fnmatch
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import DATA_VARIABLE, RESULTS, replicate_map, rng_for, write_csv
from population_cells import Cell, cells
from population_checks import as_frame, checks, shown
from population_runs import reference, replicate
from population_summary import summarise_cell
from population_tables import CENSUS, census_file

QUICK_SIZE, QUICK_REPLICATES = 5000, 20
"""What --quick runs: cells of mu = 1 up to this size."""

LOWEST = 0.5
"""Coverage at which the picture ends."""

COLOURS = {0.25: "#CC79A7", 0.5: "#E69F00", 1.0: "#0072B2", 2.0: "#009E73"}


def run_cell(task: tuple[str, str | None, int, int]) -> list[dict[str, Any]]:
    """All replicates of one cell: the rows of its coefficients and its own."""
    name, folder, seed, replicates = task
    cell = cells(folder)[name]
    whole = reference(cell, cell.population())
    runs = []
    for number in range(replicates):
        try:
            runs.append(replicate(cell, whole, seed, number))
        except Exception as error:
            error.add_note(f"in cell {name}, seed {seed}, replicate {number}")
            raise
    coefficients, summary = summarise_cell(cell, whole, runs, seed)
    return [{"coefficients": coefficients, "cell": summary}]


def chosen(every: dict[str, Cell], patterns: Sequence[str], quick: bool) -> list[str]:
    """Names of the cells that match a pattern, the slowest first."""
    names = [
        cell.name
        for cell in every.values()
        if any(fnmatch.fnmatch(cell.name, pattern) for pattern in patterns)
        and not (quick and (cell.mu != 1.0 or cell.n > QUICK_SIZE))
    ]
    return sorted(names, key=lambda name: -every[name].n)


def merged(path: Path, fresh: pd.DataFrame, order: Sequence[str]) -> pd.DataFrame:
    """Cells of earlier runs, those of this run in place of the same ones, in the list's order."""
    if path.is_file():
        old = pd.read_csv(path)
        fresh = pd.concat([old[~old.cell.isin(fresh.cell)], fresh], ignore_index=True)
    place = {name: number for number, name in enumerate(order)}
    known = fresh[fresh.cell.isin(place)]
    return known.sort_values(
        "cell", key=lambda names: names.map(place), kind="stable", ignore_index=True
    )


def draw(coefficients: pd.DataFrame, path: Path) -> None:
    """Coverage of every identified coefficient against n, ours and HC1's side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    pairs = shown(coefficients)
    # Cells share their sizes: the points are moved apart by up to a fifth, the same in both.
    apart = pairs.n * np.exp(rng_for("picture").uniform(-0.2, 0.2, len(pairs)))
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
    for axis, column, title in zip(
        axes,
        ("coverage", "ols_coverage"),
        ("dpbinagg", "least squares with HC1, no privacy"),
        strict=True,
    ):
        axis.axhspan(0.90, 0.99, color="0.92")
        axis.axhline(0.95, color="0.4", lw=0.8)
        for mu in sorted(pairs.mu.unique()):
            part = pairs.mu == mu
            style: dict[str, Any] = {"color": COLOURS.get(mu, "0.3"), "alpha": 0.6, "mew": 0}
            high = part & (pairs[column] >= LOWEST)
            axis.plot(apart[high], pairs[column][high], "o", ms=3, label=f"mu = {mu:g}", **style)
            low = apart[part & ~high]
            if len(low):
                axis.plot(low, np.full(len(low), LOWEST), "v", ms=5, clip_on=False, **style)
        below = int((pairs[column] < LOWEST).sum())
        axis.set(xscale="log", xlabel="records", ylim=(LOWEST, 1.005))
        axis.set_title(f"{title}: mean {pairs[column].mean():.3f}, {below} below {LOWEST:g}")
    axes[0].set_ylabel("coverage of 95% intervals")
    axes[1].legend(loc="lower left", frameon=False)
    title = "A point for each cell and identified coefficient; grey: .90 to .99; triangles: below"
    figure.suptitle(f"{title} {LOWEST:g}")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"wrote {path}")


def report(out: Path, coefficients: pd.DataFrame, summary: pd.DataFrame) -> None:
    columns = ["cell", "n", "mu", "columns", "identified", "rmse_median", "rmse_worst"]
    columns += ["coverage", "coverage_worst", "ols_coverage_worst", "se_ratio", "joint_size"]
    columns += ["prediction_coverage", "small_coverage", "silent", "cut_runs", "seconds"]
    print(summary[columns].to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    found = as_frame(checks(coefficients, summary))
    for row in found.itertuples():
        print(f"{row.result:>4}  {row.check}: {row.found}")
    write_csv(found, out / "populations_checks.csv")
    draw(coefficients, out / "populations.png")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", action="append", metavar="PATTERN", help="may be repeated")
    parser.add_argument("--replicates", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="small cells, few replicates")
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE), help=f"has {CENSUS}")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def main() -> None:
    chose = options()
    if census_file(chose.data) is None:
        print(f"no {CENSUS}: pass --data FOLDER or set {DATA_VARIABLE}; cps cells are skipped")
    every = cells(chose.data)
    names = chosen(every, chose.cells or ["*"], chose.quick)
    if not names:
        raise SystemExit(f"no cell matches {chose.cells}; cells: {', '.join(every)}")
    replicates = chose.replicates or (QUICK_REPLICATES if chose.quick else 200)
    tasks = [(name, chose.data, chose.seed, replicates) for name in names]
    found = replicate_map(run_cell, tasks, "populations", chose.processes)
    coefficients = pd.DataFrame(list(itertools.chain.from_iterable(found["coefficients"])))
    summary = pd.DataFrame(found["cell"].tolist())
    coefficients = merged(chose.out / "populations.csv", coefficients, list(every))
    summary = merged(chose.out / "populations_cells.csv", summary, list(every))
    write_csv(coefficients, chose.out / "populations.csv")
    write_csv(summary, chose.out / "populations_cells.csv")
    report(chose.out, coefficients, summary)


if __name__ == "__main__":
    main()
