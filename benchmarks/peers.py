"""Peers at equal true privacy on real populations: ours, AdaSSP, DP-GD, SSP, least squares.

    python benchmarks/peers.py --replicates 100 --data FOLDER

Cells of the populations benchmark (`population_cells.py`): samples with replacement from a whole
table, whose least squares coefficients are the truth. All methods see the same samples, the same
public bounds and levels, and are mu-GDP for adding or removing a record, mu that of the cell. SSP
is noise in the second moments, which any regression then follows from. The error of a coefficient
is its root mean squared error over that of least squares on the same samples; a cell's is the
median over its slopes, and "predicted" the same for the fitted values of the population's records.
Coefficients that our release calls not identified count with the number that it still has, for
the peers always give one; coverage is of those that it identifies.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from common import DATA_VARIABLE, arguments, replicate_map, rng_for, write_csv
from population_cells import Cell, cells
from population_runs import covered, identified
from population_truth import Matrices, least_squares, matrices

from dpbinagg import baselines, dp_ols

PEERS = ("adassp", "dpgd", "ssp")
CELLS = (
    "normal_1_200",
    "school_200",
    "ccard_200",
    "star98_303",
    "diabetes_442",
    "wages_500",
    "anes96_scale",
    "cps_mincer_1000",
    "smokers",
    "randhie_2000",
    "diabetes_3000",
    "wages_5000",
    "fair_6366",
    "cps_mincer_20000",
)
"""Small and large, surveys and textbook data; of simulated ones only what has one covariate."""

NORMAL = 1.959964


def run(task: tuple[str | None, str, int]) -> list[dict[str, Any]]:
    """One sample of a cell: every method's squared errors, and which coefficients it covers."""
    folder, name, number = task
    cell = cells(folder)[name]
    population, truth = _truth(cell)
    sample = population.take(rng_for("peers", name, number).integers(0, len(population), cell.n))
    frame = sample.reset_index(drop=True)
    data = matrices(cell.formula, frame, cell.bounds)
    ols = least_squares(data)
    found = {"ols": (ols.params, ols.covers(truth.params), 1.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = dp_ols(
            cell.formula, frame, mu=cell.mu, bounds=cell.bounds, rng=rng_for("ours", name, number)
        )
        params = np.asarray(ours.estimate.params)
        found["ours"] = params, covered(ours, truth.params), float(identified(ours).mean())
        for peer in PEERS:
            fit = getattr(baselines, peer)(
                cell.formula, frame, mu=cell.mu, bounds=cell.bounds, rng=rng_for(peer, name, number)
            )
            held = np.full(len(truth.params), np.nan)
            if fit.cov is not None:
                held = np.abs(fit.params - truth.params) <= NORMAL * np.sqrt(np.diag(fit.cov))
            found[peer] = fit.params, held, 1.0
    whole = _matrices(cell).x
    rows = []
    for method, (params, held, share) in found.items():
        gap = whole @ (params - truth.params)
        rows.append(
            {
                "cell": name,
                "n": cell.n,
                "mu": cell.mu,
                "method": method,
                "replicate": number,
                "predicted": float(np.mean(gap**2)),
                "identified": share,
                "coverage": _mean(np.asarray(held, dtype=float)),
                "squares": (params - truth.params) ** 2,
                "slopes": _slopes(truth, cell),
            }
        )
    return rows


_KNOWN: dict[str, Any] = {}
"""Of one cell at a time: its population, matrices and truth."""


def _known(cell: Cell) -> dict[str, Any]:
    if _KNOWN.get("name") != cell.name:
        frame = cell.population()
        data = matrices(cell.formula, frame, cell.bounds)
        _KNOWN.update(name=cell.name, frame=frame, data=data, fit=least_squares(data))
    return _KNOWN


def _truth(cell: Cell) -> tuple[pd.DataFrame, Any]:
    known = _known(cell)
    return known["frame"], known["fit"]


def _matrices(cell: Cell) -> Matrices:
    data: Matrices = _known(cell)["data"]
    return data


def _slopes(truth: Any, cell: Cell) -> np.ndarray:
    named = np.array([name != "Intercept" for name in _matrices(cell).names])
    return named & truth.determined


def _mean(values: np.ndarray) -> float:
    there = values[~np.isnan(values)]
    return float(there.mean()) if len(there) else float("nan")


def summarised(rows: pd.DataFrame) -> pd.DataFrame:
    """Errors over least squares' for each cell and method, with bootstrap standard errors."""
    out = []
    for (name, method), part in rows.groupby(["cell", "method"], sort=False):
        exact = rows[(rows.cell == name) & (rows.method == "ols")]
        slopes = part["slopes"].iloc[0]
        ours, base = (np.stack(list(p["squares"]))[:, slopes] for p in (part, exact))
        again = rng_for("bootstrap", name).integers(0, len(part), (200, len(part)))
        picks = [_ratio(ours[rows_], base[rows_]) for rows_ in again]
        predicted = np.sqrt(part["predicted"].mean() / exact["predicted"].mean())
        out.append(
            {
                "cell": name,
                "n": part["n"].iloc[0],
                "mu": part["mu"].iloc[0],
                "slopes": int(slopes.sum()),
                "method": method,
                "error": _ratio(ours, base),
                "error_se": float(np.std(picks)),
                "predicted": float(predicted),
                "identified": part["identified"].mean(),
                "coverage": part["coverage"].mean(),
                "replicates": len(part),
            }
        )
    return pd.DataFrame(out)


def _ratio(squares: np.ndarray, base: np.ndarray) -> float:
    """Median over slopes of the root mean squared error over that of least squares."""
    return float(np.median(np.sqrt(squares.mean(axis=0) / base.mean(axis=0))))


def main() -> None:
    """Run all cells, those of the census where its file is."""
    import os

    parser = arguments(__doc__ or "", CELLS)
    parser.set_defaults(data=os.environ.get(DATA_VARIABLE))
    options = parser.parse_args()
    there = cells(options.data)
    names = [name for name in options.only or CELLS if name in there]
    for name in set(options.only or CELLS) - set(names):
        print(f"{name}: no data for it: pass --data FOLDER; it is skipped")
    tasks = [(options.data, name, number) for name in names for number in range(options.replicates)]
    table = summarised(replicate_map(run, tasks, "peers", options.processes))
    write_csv(table, options.out / "peers.csv")
    wide = table.pivot_table(index=["cell", "n"], columns="method", values="error", sort=False)
    print(wide.to_string(float_format="{:.2f}".format))


if __name__ == "__main__":
    main()
