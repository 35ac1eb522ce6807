"""What `plan` foresees beside what releases then say, on the development populations.

    python benchmarks/planning.py --data FOLDER --replicates 9
    python benchmarks/planning.py --cells "anes96*"

For each cell: the plan from the formula, n, mu, the codebook, the standard deviation of the
population's residuals and a public example (an earlier survey: so many rows of the population,
drawn apart), once with its covariates alone and once with its response; and as many releases of
draws of n rows. Written: `planning.csv`, a row for each coefficient.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import DATA_VARIABLE, RESULTS, replicate_map, rng_for, write_csv
from population_cells import Cell, cells
from population_runs import identified
from population_truth import least_squares, matrices

from dpbinagg import dp_ols, plan
from dpbinagg.errors import DPBinAggWarning

SURVEY = 2000
"""Rows of the example."""

WITHIN = 1.3
"""Ratio of planned and actual standard errors that is asked for."""

CELLS = (
    "cps_mincer_1000",
    "cps_mincer_20000",
    "cps_mincer_54875@0.25",
    "cps_interaction",
    "cps_degree",
    "cps_levels",
    "cps_binary",
    "randhie_2000",
    "fair_6366",
    "fair_rating",
    "anes96_5000",
    "anes96_20000",
    "anes96_80000",
    "anes96_scale",
    "ccard_2000",
    "star98_3000",
    "star98_product",
    "diabetes_442",
    "diabetes_3000",
    "diabetes_20000",
    "wages_500",
    "wages_5000",
    "school_3000",
    "school_200",
    "register_20000",
    "two_line",
    "states50_5000",
    "rare_levels",
    "group_slopes",
    "smokers",
    "earnings",
    "wealth",
    "prices_1000",
    "salaries",
    "squares",
)
"""What is run by default: each kind of cell whose bounds are declared."""


def compare(task: tuple[str, str | None, int]) -> list[dict[str, Any]]:
    """Plans and releases of one cell."""
    name, folder, replicates = task
    cell = cells(folder)[name]
    population = cell.population()
    warnings.simplefilter("ignore", DPBinAggWarning)
    data = matrices(cell.formula, population, cell.bounds)
    fit = least_squares(data)
    sd = float(np.std(data.y - data.x @ fit.params))
    rows = rng_for("example", name).integers(0, len(population), SURVEY)
    whole = population.take(rows).reset_index(drop=True)
    response = responses(cell)
    planned = {}
    for kind, example in (("covariates", whole.drop(columns=response)), ("whole", whole)):
        start = time.process_time()
        found = plan(cell.formula, cell.n, cell.mu, cell.bounds, sd=sd, example=example).frame
        planned[kind] = found, time.process_time() - start
    fits = [
        dp_ols(
            cell.formula,
            cell.draw(rng_for("draw", name, number)),
            mu=cell.mu,
            bounds=cell.bounds,
            rng=rng_for("noise", name, number),
        )
        for number in range(replicates)
    ]
    known = pd.DataFrame([identified(one) for one in fits], columns=fits[0].bse.index)
    errors = pd.DataFrame([one.bse for one in fits]).where(known)
    return [
        {
            "cell": name,
            "n": cell.n,
            "mu": cell.mu,
            "term": term,
            "example": kind,
            "rows": SURVEY,
            "replicates": replicates,
            "planned_se": frame["se"][term],
            "median_se": errors[term].median(),
            "ratio": frame["se"][term] / errors[term].median(),
            "planned_identified": frame["identified"][term],
            "identified": known[term].mean(),
            "plan_seconds": seconds,
        }
        for kind, (frame, seconds) in planned.items()
        for term in frame.index
    ]


def responses(cell: Cell) -> list[str]:
    """Variables of the left side."""
    left = cell.formula.split("~")[0]
    return [
        name for name in cell.bounds if name in left.replace("(", " ").replace(")", " ").split()
    ]


def report(table: pd.DataFrame) -> None:
    """How often the plan is right."""
    for kind, part in table.groupby("example"):
        both = part[(part.planned_identified >= 0.5) & (part.identified >= 0.5)]
        near = both.ratio.between(1 / WITHIN, WITHIN)
        agree = (part.planned_identified >= 0.5) == (part.identified >= 0.5)
        print(
            f"{kind}: {near.mean():.1%} of {len(both)} standard errors within {WITHIN - 1:.0%}; "
            f"identified or not foreseen for {agree.mean():.1%} of {len(part)} terms"
        )
        print(both[~near].to_string(index=False, float_format="{:.4g}".format))
        print(part[~agree].to_string(index=False, float_format="{:.4g}".format))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", action="append", metavar="PATTERN", help="may be repeated")
    parser.add_argument("--replicates", type=int, default=9)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--out", type=Path, default=RESULTS)
    chose = parser.parse_args()
    every = cells(chose.data)
    patterns = chose.cells or CELLS
    names = [name for name in every if any(fnmatch.fnmatch(name, p) for p in patterns)]
    tasks = [(name, chose.data, chose.replicates) for name in names]
    table = replicate_map(compare, tasks, "planning", chose.processes)
    write_csv(table, chose.out / "planning.csv")
    report(table)


if __name__ == "__main__":
    main()
