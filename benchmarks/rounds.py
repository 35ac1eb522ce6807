"""One round of residual scores against two, where there are many records.

    python benchmarks/rounds.py --replicates 250

With tens of millions of records `dp_ols` asks for a single round, whose clip of 50 standard
deviations hides next to nothing. Here both ways are taken on the same tables, with 200,000 records
and mu = 10: noise against sampling error is then as with 20 million records and mu = 1. Errors
follow four laws; their scale grows with the first covariate, except for normal ones. Reported, for
each of three slopes: coverage of the 95% interval, standard deviation over that of OLS, standard
error over standard deviation, with Monte Carlo errors.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from common import arguments, mean_error, replicate_map, rng_for, write_csv
from dpbinagg.analyst.refinement import planning

from dpbinagg import dp_ols

N, MU = 200_000, 10.0
SLOPES = np.array([1.0, 2.0, 1.5])
LAWS = ("normal", "exponential", "lognormal", "t3")
BLOCK = 25


def errors(law: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    scale = 0.1 + 1.2 * x[:, 0]
    if law == "normal":
        return 0.5 * rng.normal(size=len(x))
    if law == "exponential":
        return scale * (rng.exponential(size=len(x)) - 1.0)
    if law == "lognormal":
        return scale / 2.0 * (np.exp(rng.normal(size=len(x))) - np.exp(0.5))
    return scale / 2.0 * rng.standard_t(3, size=len(x))


def run(task: tuple[str, int]) -> list[dict[str, Any]]:
    """Some tables of one law, both ways."""
    law, start = task
    rows = []
    for replicate in range(start, start + BLOCK):
        rng = rng_for("rounds", law, replicate)
        x = rng.random((N, len(SLOPES)))
        frame = pd.DataFrame(x, columns=["a", "b", "c"])
        frame["y"] = 1.0 + x @ SLOPES + errors(law, x, rng)
        ones = np.column_stack([np.ones(N), x])
        ols = np.linalg.solve(ones.T @ ones, ones.T @ frame["y"])[1:]
        for ample in (planning.AMPLE, np.inf):
            with mock.patch.object(planning, "AMPLE", ample):
                fitted = dp_ols("y ~ a + b + c", frame, mu=MU, rng=rng_for("noise", law, replicate))
            low, high = fitted.conf_int().to_numpy()[1:].T
            for j, slope in enumerate(SLOPES):
                rows.append(
                    {
                        "errors": law,
                        "rounds": len(fitted.release.statistics["requests"]),
                        "slope": j + 1,
                        "error": fitted.params.iloc[j + 1] - slope,
                        "ols": ols[j] - slope,
                        "se": fitted.bse.iloc[j + 1],
                        "covered": float(low[j] <= slope <= high[j]),
                    }
                )
    return rows


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    table = rows.groupby(["errors", "rounds", "slope"], sort=False).agg(
        coverage=("covered", "mean"),
        coverage_error=("covered", mean_error),
        sd=("error", "std"),
        ols_sd=("ols", "std"),
        se=("se", "mean"),
        replicates=("covered", "size"),
    )
    table["sd_over_ols"] = table["sd"] / table["ols_sd"]
    table["se_over_sd"] = table["se"] / table["sd"]
    return table.reset_index()


def main() -> None:
    options = arguments(__doc__ or "", ()).parse_args()
    tasks = [(law, start) for law in LAWS for start in range(0, options.replicates, BLOCK)]
    table = summarise(replicate_map(run, tasks, "rounds", options.processes))
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    write_csv(table, options.out / "rounds.csv")


if __name__ == "__main__":
    main()
