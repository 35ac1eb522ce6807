"""Epistemic parity: which conclusions from records survive in a synthetic table.

    python benchmarks/parity.py --replicates 10 --data FOLDER
    python benchmarks/parity.py --replicates 10 --mu 0.5 --mu 2 --only wages --only visits

Each replicate draws a survey from a development population (see `analyses.py`), releases one model
of it, and makes 20 synthetic copies. A reader then runs twelve analyses: the released model and
eleven that nobody declared. Methods, by how a reader gets at an estimate and its error:

- records: least squares on the survey itself, what the others are compared with;
- bootstrap: the same on a survey drawn anew from the records, the ceiling of any table;
- table: on one synthetic table, with the errors that the software prints;
- copies: on all copies, by `combine_copies`, which says how far they support the analysis;
- whatever else `TABLES` makes: a function ``(frame, domain, mu, seed) -> frame``, read as a table.

`parity_cells.csv` (large, not kept) has a row for each coefficient, `parity_margins.csv` one for
each table: total
variation of one- and of two-way counts, and the mean absolute error of correlations, each against
the survey. `parity.csv` sums up, and `parity_margins_summary.csv`, with Monte Carlo errors over
releases.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from analyses import KINDS, Analysis, Population, populations, truth
from common import arguments, mean_error, replicate_map, rng_for, write_csv
from scipy import stats

from dpbinagg import Domain, SupportWarning, combine_copies, dp_ols

COPIES = 20
LEVEL = 0.05
CELLS_ONE, CELLS_TWO = 16, 8
"""Cells of a number with more values, in one- and in two-way tables; as many records in each."""

TableMaker = Callable[[pd.DataFrame, Domain, float, int], pd.DataFrame]
Task = tuple[str | None, str, float, int]
"""Folder of the census, population, mu, replicate."""


def bootstrap(frame: pd.DataFrame, _domain: Domain, _mu: float, seed: int) -> pd.DataFrame:
    """Records drawn anew; not private."""
    rows = np.random.default_rng(seed).integers(0, len(frame), len(frame))
    return frame.take(rows).reset_index(drop=True)


TABLES: dict[str, TableMaker] = {"bootstrap": bootstrap}
"""Other ways to make a table from a survey; peers are added here."""

METHODS = ("records", "bootstrap", "table", "copies")


# --- distributions -----------------------------------------------------------------------------


def coded(records: pd.DataFrame, table: pd.DataFrame, cells: int) -> dict[str, tuple[Any, Any]]:
    """Both tables with numbers in cells: one for each value, or as many records in each.

    Cells end midway between two values of the records, so that no heap is cut.
    """
    found = {}
    for name in records:
        real, made = records[name], table[name]
        if real.dtype.kind in "if":
            values = np.unique(real.to_numpy(float))
            last = np.arange(len(values) - 1)
            if len(values) > cells:
                places = np.quantile(real, np.arange(1, cells) / cells)
                last = np.unique(np.searchsorted(values, places).clip(0, len(values) - 2))
            edges = (values[last] + values[last + 1]) / 2
            found[name] = tuple(np.searchsorted(edges, one.astype(float)) for one in (real, made))
        else:
            found[name] = real.astype(str).to_numpy(), made.astype(str).to_numpy()
    return found


def total_variation(real: Any, made: Any) -> float:
    """Half the sum of absolute differences of shares."""
    shares = [pd.Series(one).value_counts(normalize=True) for one in (real, made)]
    return float(shares[0].sub(shares[1], fill_value=0.0).abs().sum() / 2)


def distances(records: pd.DataFrame, table: pd.DataFrame, numbers: list[str]) -> dict[str, float]:
    """Total variation of one- and two-way counts, mean absolute error of correlations."""
    one, two = (coded(records, table, cells) for cells in (CELLS_ONE, CELLS_TWO))
    pairs = [
        total_variation(*(list(zip(two[a][side], two[b][side], strict=True)) for side in (0, 1)))
        for a, b in itertools.combinations(two, 2)
    ]
    real, made = (frame[numbers].astype(float).corr().to_numpy() for frame in (records, table))
    upper = np.triu_indices(len(numbers), 1)
    return {
        "one_way": float(np.mean([total_variation(*pair) for pair in one.values()])),
        "two_way": float(np.mean(pairs)),
        "correlation": float(np.nanmean(np.abs(real - made)[upper])),
    }


# --- conclusions -------------------------------------------------------------------------------


def read_off(analysis: Analysis, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates, errors and degrees of freedom that software prints."""
    fit: Any = analysis.fit(table)
    params = np.asarray(fit.params, dtype=float)
    return params, np.asarray(fit.bse, dtype=float), np.full(len(params), math.inf)


def combined(
    analysis: Analysis, copies: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray, np.ndarray, str]:
    """The same from all copies, and how far they support the analysis."""
    fits = [analysis.fit(copy) for _, copy in copies.groupby("copy")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        found = combine_copies(fits, copies, unsupported="warn")
    df = np.broadcast_to(np.asarray(found.df_resid, dtype=float), len(found.params))
    return np.asarray(found.params), np.asarray(found.bse), df, found.support


def survey(folder: str | None, name: str, mu: float, replicate: int) -> tuple[Population, Any, Any]:
    """A population, a survey of it, and its release."""
    population = populations(folder)[name]
    frame = population.cell.draw(rng_for("draw", name, replicate))
    noise = rng_for("noise", name, mu, replicate)
    result = dp_ols(population.cell.formula, frame, mu=mu, bounds=population.bounds, rng=noise)
    return population, frame, result


def single_tables(task: Task, survey: Any) -> dict[str, pd.DataFrame]:
    """One synthetic table of ours, and those that `TABLES` makes."""
    _, name, mu, replicate = task
    population, frame, result = survey
    tables = {"table": result.synthesize(rng=rng_for("table", name, mu, replicate))}
    seed = int(rng_for("seed", name, replicate).integers(2**31))
    domain = Domain(population.bounds)
    return tables | {key: make(frame, domain, mu, seed) for key, make in TABLES.items()}


def run_distances(task: Task) -> list[dict[str, Any]]:
    """A row for each table of one release."""
    folder, name, mu, replicate = task
    warnings.simplefilter("ignore")
    drawn = survey(folder, name, mu, replicate)
    population, frame, _ = drawn
    where = {"population": name, "mu": mu, "replicate": replicate}
    return [
        {**where, "method": method, **distances(frame, made, list(population.numbers))}
        for method, table in single_tables(task, drawn).items()
        for made in [table[list(frame.columns)]]
    ]


def run(task: Task) -> list[dict[str, Any]]:
    """A row for each coefficient of one release."""
    folder, name, mu, replicate = task
    warnings.simplefilter("ignore")
    drawn = survey(folder, name, mu, replicate)
    population, frame, result = drawn
    copies = result.synthesize(copies=COPIES, rng=rng_for("copies", name, mu, replicate))
    tables = single_tables(task, drawn)
    where = {"population": name, "mu": mu, "replicate": replicate}
    rows: list[dict[str, Any]] = []
    whole = population.cell.population()
    for place, analysis in enumerate(population.analyses()):
        about = {**where, "kind": analysis.kind, "analysis": place}
        true = np.asarray(truth(analysis, whole))
        real = read_off(analysis, frame)
        looks = {"records": (*real, "")}
        for method, table in tables.items():
            with np.errstate(all="ignore"):
                looks[method] = (*_or_nan(read_off, analysis, table, len(true)), "")
        looks["copies"] = combined(analysis, copies)
        for method, (params, bse, df, support) in looks.items():
            for term in range(1, len(true)):
                rows.append(
                    {
                        **about,
                        "method": method,
                        "term": term,
                        "support": support,
                        "truth": true[term],
                        "real": real[0][term],
                        "real_se": real[1][term],
                        "estimate": params[term],
                        "se": bse[term],
                        "df": df[term],
                    }
                )
    return rows


def _or_nan(look: Any, analysis: Analysis, table: pd.DataFrame, size: int) -> Any:
    """What a table gives; NaN where it has not the levels or the variation that it takes."""
    try:
        found = look(analysis, table)
    except (ValueError, np.linalg.LinAlgError, ArithmeticError):
        found = (np.full(size, np.nan),) * 3
    return found if len(found[0]) == size else (np.full(size, np.nan),) * 3


# --- summaries ---------------------------------------------------------------------------------


def judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Coefficients with what a reader concludes, and whether it is right."""
    found = rows.copy()
    df = found["df"].replace(math.inf, 1e9).fillna(1e9)
    reach = stats.t.ppf(1 - LEVEL / 2, df) * found["se"]
    gap = (found["estimate"] - found["truth"]).abs()
    found["covered"] = (gap <= reach).astype(float)
    found["real_covered"] = ((found["estimate"] - found["real"]).abs() <= reach).astype(float)
    told = np.sign(found["estimate"]) * (found["estimate"].abs() > reach)
    real_reach = stats.norm.ppf(1 - LEVEL / 2) * found["real_se"]
    real = np.sign(found["real"]) * (found["real"].abs() > real_reach)
    found["kept"] = (told == real).astype(float)
    found["invented"] = np.where(real == 0, (told != 0).astype(float), np.nan)
    found["reversed"] = (told * real < 0).astype(float)
    found["error"] = found["se"] / found["real_se"]
    return found


MEASURES = ("covered", "real_covered", "kept", "invented", "reversed", "error")


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Means by method and kind, over releases, with Monte Carlo errors."""
    each = judged(rows)
    by = ["mu", "method", "kind"]
    releases = each.groupby([*by, "population", "replicate"])[list(MEASURES)].mean()
    grouped = releases.groupby(by)
    means = grouped.mean()
    errors = grouped.agg(mean_error).add_suffix("_error")
    size = each.groupby(by).size().rename("coefficients")
    table = means.join(errors).join(size).join(grouped.size().rename("releases")).reset_index()
    order = {kind: place for place, kind in enumerate(KINDS)}
    return table.sort_values(by, key=lambda c: c.map(order) if c.name == "kind" else c)


def margins(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean distances by method."""
    measures = ["one_way", "two_way", "correlation"]
    grouped = rows.groupby(["mu", "method"])[measures]
    return grouped.mean().join(grouped.agg(mean_error).add_suffix("_error")).reset_index()


def picture(table: pd.DataFrame, path: Path) -> None:
    """Coverage by kind of analysis: one table as software reads it, and copies combined."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.subplots()
    known = table[table["mu"] == 1.0]
    kinds = [kind for kind in KINDS if kind in set(known["kind"])]
    looks = {"records": ("D", "#555555"), "table": ("o", "#c44e52"), "copies": ("s", "#1f5fa8")}
    names = {
        "records": "the records",
        "table": "one table, errors as printed",
        "copies": "20 copies combined",
    }
    for place, (method, (marker, colour)) in enumerate(looks.items()):
        part = known[known["method"] == method].set_index("kind").reindex(kinds)
        axes.errorbar(
            part["covered"],
            np.arange(len(kinds)) + 0.18 * (place - 1),
            xerr=1.96 * part["covered_error"],
            fmt=marker,
            color=colour,
            label=names[method],
            markersize=5,
        )
    axes.axvline(0.95, color="#999999", linewidth=0.8)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.invert_yaxis()
    axes.set_xlabel("share of 95% intervals that hold the population's coefficient")
    axes.legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3)
    figure.savefig(path, dpi=150)
    print(f"wrote {path}")


def checks(table: pd.DataFrame, distance: pd.DataFrame) -> list[str]:
    """The targets at mu = 1, and what was found."""
    lines = []
    ours = distance[(distance["method"] == "table") & (distance["mu"] == 1.0)]
    for name, limit in (("one_way", 0.02), ("two_way", 0.08), ("correlation", 0.03)):
        for value, error in zip(ours[name], ours[f"{name}_error"], strict=True):
            lines.append(
                f"{name}: {value:.3f} ({error:.3f}), target {limit}: {_met(value <= limit)}"
            )
    copies = table[(table["method"] == "copies") & (table["mu"] == 1.0)].set_index("kind")
    least = {"declared": 0.95, "smaller": 0.93, "subgroup": 0.93}
    for kind in copies.index:
        value, error, limit = *copies.loc[kind, ["covered", "covered_error"]], least.get(kind, 0.85)
        lines.append(f"{kind}: {value:.3f} ({error:.3f}), target {limit}: {_met(value >= limit)}")
    if "declared" in copies.index:
        kept, invented = copies.loc["declared", ["kept", "invented"]]
        lines.append(f"verdicts kept: {kept:.3f}, target 0.92: {_met(kept >= 0.92)}")
        lines.append(f"called significant: {invented:.3f}, target 0.10: {_met(invented <= 0.1)}")
    return lines


def _met(met: bool) -> str:
    return "met" if met else "missed"


def main() -> None:
    """Run the benchmark and write the tables."""
    names = list(populations(None)) + ["earners"]
    parser = arguments(__doc__ or "", names)
    parser.add_argument("--distances", action="store_true", help="measure distances alone")
    parser.add_argument("--mu", type=float, action="append", help="may be repeated; 1 by default")
    options = parser.parse_args()
    there = populations(options.data)
    names = [name for name in options.only or there if name in there]
    tasks: list[Task] = [
        (options.data, name, mu, replicate)
        for mu in options.mu or [1.0]
        for name in names
        for replicate in range(options.replicates)
    ]
    out, processes = options.out, options.processes
    made = replicate_map(run_distances, tasks, "distances", processes)
    made = _merged(out / "parity_margins.csv", made)
    distance = margins(made)
    write_csv(distance, out / "parity_margins_summary.csv")
    if not options.distances:
        _merged(out / "parity_cells.csv", replicate_map(run, tasks, "parity", processes))
    if (out / "parity_cells.csv").is_file():
        table = summary(pd.read_csv(out / "parity_cells.csv"))
        write_csv(table, out / "parity.csv")
        picture(table, out / "parity.png")
        print("\n".join(checks(table, distance)))


def _merged(path: Path, new: pd.DataFrame) -> pd.DataFrame:
    """Rows of earlier runs of other populations and mu, and those of this one, written."""
    if path.is_file():
        old = pd.read_csv(path)
        done = set(zip(new["population"], new["mu"], strict=True))
        again = [pair in done for pair in zip(old["population"], old["mu"], strict=True)]
        new = pd.concat([old[~np.array(again, dtype=bool)], new], ignore_index=True)
    write_csv(new, path)
    return new


if __name__ == "__main__":
    main()
