"""Accuracy at equal true privacy: Figures 1 and 2 and Table 2 of the paper, and the reach table.

    python benchmarks/accuracy.py --replicates 100 --only figure1 --only table2 --data FOLDER
    python benchmarks/accuracy.py --only reach --methods ols,refined    # others keep their rows

All private methods are mu-GDP with mu = 1 for adding or removing a record
(the sketch `jlt` has the (epsilon, delta) of that at delta = n^-1.1; the grid of `dpgd_grid` is
chosen on the records, as in the paper, and is not private).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy_report import draw, reach_checks, report, table2_checks
from common import (
    arguments,
    mean_error,
    replicate_map,
    rng_for,
    summarise,
    uci_keys,
    uci_set,
    write_csv,
)
from numpy.typing import NDArray

import dpbinagg
from dpbinagg import baselines

Array = NDArray[np.float64]
Bounds = dict[str, tuple[float, float]]
MU = 1.0
HAS_DP_OLS = hasattr(dpbinagg, "dp_ols")


@dataclass(frozen=True)
class Fit:
    """Coefficients (intercept first, if any) and 95% intervals where there are some."""

    params: Array
    lower: Array | None = None
    upper: Array | None = None


Method = Callable[[pd.DataFrame, Bounds, bool, np.random.Generator], Fit]


# --- methods ---------------------------------------------------------------------------------


def _baseline(name: str, **options: Any) -> Method:
    def fit(frame: pd.DataFrame, bounds: Bounds, intercept: bool, rng: np.random.Generator) -> Fit:
        columns = list(frame.columns)
        pairs = ([bounds[c] for c in columns[1:]], bounds[columns[0]]) if bounds else None
        model = frame[columns[1:]].to_numpy(), frame[columns[0]].to_numpy()
        result = getattr(baselines, name)(
            model, mu=MU, bounds=pairs, rng=rng, intercept=intercept, **options
        )
        if result.cov is None:
            return Fit(result.params)
        half = 1.959964 * np.sqrt(np.diag(result.cov))
        return Fit(result.params, result.params - half, result.params + half)

    return fit


def _formula(frame: pd.DataFrame, intercept: bool) -> str:
    target, *covariates = frame.columns
    return f"{target} ~ {'' if intercept else '0 + '}{' + '.join(covariates)}"


def _ours(**options: Any) -> Method:
    def fit(frame: pd.DataFrame, bounds: Bounds, intercept: bool, rng: np.random.Generator) -> Fit:
        arguments = {"mu": MU, **options}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = dpbinagg.dp_ols(
                _formula(frame, intercept), frame, bounds=bounds or None, rng=rng, **arguments
            )
        if result.privacy.mu > MU * (1 + 1e-9):
            raise RuntimeError(f"true mu is {result.privacy.mu:g}, more than {MU:g}")
        interval = np.asarray(result.conf_int())
        # Coefficients that are not identified are NaN in the table, and numbers in predictions.
        return Fit(np.asarray(result.estimate.params), interval[:, 0], interval[:, 1])

    return fit


def _published(
    frame: pd.DataFrame, bounds: Bounds, intercept: bool, rng: np.random.Generator
) -> Fit:
    """The paper's algorithm with its claimed mu reduced until its true mu is 1.

    With shares 1:3:3:3 and d coordinates at mu_s each, the true mu is
    ``claimed * sqrt((19 + 9 d)/28)``.
    """
    d = frame.shape[1] - 1
    fit = _ours(
        mu=MU * np.sqrt(28 / (19 + 9 * d)),
        calibration="paper",
        estimator="paper",
        budget=dpbinagg.Budget.paper(),
    )
    return fit(frame, bounds, intercept, rng)


METHODS: dict[str, Method] = {
    "ols": _baseline("ols"),
    "ssp": _baseline("ssp"),
    "adassp": _baseline("adassp"),
    "jlt": _baseline("jlt"),
    "dpgd": _baseline("dpgd"),
    "dpgd_grid": _baseline("dpgd", paper_grid=True),
}
if HAS_DP_OLS:
    METHODS |= {
        "binagg": _published,
        "refined": _ours(),
        "combined": _ours(estimator="combined"),
        "corrected": _ours(estimator="corrected"),
    }
FIGURES = tuple(name for name in METHODS if name not in ("combined", "corrected"))
QUICK = tuple(name for name in METHODS if name != "dpgd_grid")
OURS = ("refined", "combined", "corrected")
GRID_REPLICATES = 10
"""Of the paper's grid of descents, which takes longer than everything else together."""
# --- simulated tables ------------------------------------------------------------------------


@dataclass(frozen=True)
class Setting:
    """A simulation: X uniform, slopes uniform on (1, 2), and public bounds."""

    name: str
    n: int
    d: int
    errors: str = "normal"
    sd: float = 0.5
    intercept: bool = True
    y_bounds: tuple[float, float] | None = None
    widen_x: float = 1.0
    widen_y: float = 1.0
    bounded: bool = True
    target: float = np.nan

    def draw(self, rng: np.random.Generator) -> tuple[pd.DataFrame, Array]:
        """A table and its true slopes."""
        x = rng.uniform(size=(self.n, self.d))
        slopes = rng.uniform(1, 2, self.d)
        y = x @ slopes + float(self.intercept) + self.noise(x, rng)
        return pd.DataFrame({"y": y, **{f"x{j + 1}": x[:, j] for j in range(self.d)}}), slopes

    def noise(self, x: Array, rng: np.random.Generator) -> Array:
        """Errors of mean zero; skewed ones have scale .1 + 1.2 x1."""
        if self.errors == "exponential":
            return (0.1 + 1.2 * x[:, 0]) * (rng.exponential(size=self.n) - 1)
        if self.errors == "lognormal":
            mean, variance = np.exp(0.5), (np.e - 1) * np.e
            draws = (rng.lognormal(size=self.n) - mean) / np.sqrt(variance)
            return (0.1 + 1.2 * x[:, 0]) * draws
        if self.errors == "t3":
            return self.sd * rng.standard_t(3, size=self.n)
        return self.sd * rng.normal(size=self.n)

    def bounds(self) -> Bounds:
        """Public bounds; the response's default is 4 standard deviations about its mean."""
        if not self.bounded:
            return {}
        half = 0.5 * self.widen_x
        spread = 4 * np.sqrt(self.d * (7 / 3) / 12 + self.sd**2)
        middle = 0.75 * self.d + float(self.intercept)
        low, high = self.y_bounds or (middle - spread, middle + spread)
        centre, half_y = (low + high) / 2, (high - low) / 2 * self.widen_y
        pairs = {f"x{j + 1}": (0.5 - half, 0.5 + half) for j in range(self.d)}
        return {"y": (centre - half_y, centre + half_y), **pairs}


def simulate(task: tuple[Setting, int, tuple[str, ...]]) -> list[dict[str, Any]]:
    """One replicate of a setting: every method on the same table."""
    setting, replicate, methods = task
    frame, slopes = setting.draw(rng_for("data", setting.name, replicate))
    rows = []
    for name in methods:
        if not setting.bounded and name not in (*OURS, "ols"):
            continue
        if name == "dpgd_grid" and replicate >= GRID_REPLICATES:
            continue
        rng = rng_for(name, setting.name, replicate)
        fit = METHODS[name](frame, setting.bounds(), setting.intercept, rng)
        error = np.linalg.norm(fit.params[-setting.d :] - slopes) / np.linalg.norm(slopes)
        row = {"setting": setting.name, "n": setting.n, "d": setting.d, "widen": setting.widen_x,
               "method": name, "replicate": replicate, "error": float(error)}  # fmt: skip
        if fit.lower is not None and fit.upper is not None:
            low, high = fit.lower[-setting.d :], fit.upper[-setting.d :]
            row |= {
                f"covered{j + 1}": float(c)
                for j, c in enumerate((low <= slopes) & (slopes <= high))
            }
            row["width"] = float(np.mean(high - low))
        rows.append(row)
    return rows


def run(
    settings: list[Setting], methods: tuple[str, ...], label: str, options: Any
) -> pd.DataFrame:
    tasks = [(s, r, methods) for s in settings for r in range(options.replicates)]
    return replicate_map(simulate, tasks, label, options.processes)


def with_earlier(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table with the rows that an earlier run has of methods that this one leaves out."""
    if not path.is_file():
        return table
    old = pd.read_csv(path)
    both = pd.concat([table, old[~old["method"].isin(table["method"])]], ignore_index=True)
    place = {name: index for index, name in enumerate(METHODS)}
    keys = [name for name in ("setting", "set", "widen", "d", "n") if name in both]
    first = both.groupby(keys, sort=False).ngroup()
    order = np.lexsort((both["method"].map(place), first))
    return both.iloc[order].reset_index(drop=True)


# --- the four parts --------------------------------------------------------------------------

Y_BOUNDS = {1: (0.0, 2.0), 5: (0.0, 7.0), 10: (0.0, 15.0)}


def figure1(options: Any) -> None:
    """Relative l2 error over n for d = 1, 5, 10 in the paper's simulation."""
    sizes = (500, 1000, 2000, 5000, 10000)
    settings = [
        Setting(f"figure1 n={n} d={d}", n, d, sd=1.0, intercept=False, y_bounds=Y_BOUNDS[d])
        for d in (1, 5, 10)
        for n in sizes
    ]
    rows = run(settings, options.methods or FIGURES, "figure 1", options)
    table = with_earlier(
        summarise(rows, ["d", "n", "method"], "error"), options.out / "figure1.csv"
    )
    write_csv(table, options.out / "figure1.csv")
    panels = [(f"d = {d}", part, "n", "records") for d, part in table.groupby("d")]
    draw(panels, options.out / "figure1.png")


def figure2(options: Any) -> None:
    """Relative l2 error over ever looser bounds of x, d = 5."""
    settings = [
        Setting(f"figure2 n={n} widen={w}", n, 5, sd=1.0, intercept=False,
                y_bounds=Y_BOUNDS[5], widen_x=w)
        for n in (1000, 5000)
        for w in (1.0, 2.0, 4.0, 8.0, 16.0)
    ]  # fmt: skip
    rows = run(settings, options.methods or FIGURES, "figure 2", options)
    table = with_earlier(
        summarise(rows, ["n", "widen", "method"], "error"), options.out / "figure2.csv"
    )
    write_csv(table, options.out / "figure2.csv")
    panels = [
        (f"d = 5, n = {n}", part, "widen", "bounds of x, times too wide")
        for n, part in table.groupby("n")
    ]
    draw(panels, options.out / "figure2.png")


LOOSE_Y = (-30.0, 60.0)
REACH = [
    Setting("n=1000 d=5 tight", 1000, 5, target=0.042),
    Setting("n=5000 d=5 tight", 5000, 5, target=0.018),
    Setting("n=5000 d=5 x 5, y 10 times wide", 5000, 5, widen_x=5, widen_y=10, target=0.020),
    Setting("n=5000 d=10 tight", 5000, 10, target=0.020),
    Setting("n=1000 d=10 tight", 1000, 10, target=0.055),
    Setting("n=5000 d=2 tight", 5000, 2),
    Setting("n=5000 d=2 no bounds", 5000, 2, bounded=False),
    *(
        Setting(f"n={n} d=3 {errors}", n, 3, errors, y_bounds=LOOSE_Y)
        for errors in ("exponential", "lognormal", "t3")
        for n in (2000, 5000)
    ),
]  # fmt: skip


def reach(options: Any) -> None:
    """Error and coverage against targets, next to OLS and the baselines.

    Errors are those of the first `replicates` tables; coverage of OLS and of the default method
    comes from `coverage_replicates` of them, for its Monte Carlo error is larger.
    """
    methods = options.methods or QUICK
    rows = run(REACH, methods, "reach", options)
    table = summarise(rows, ["setting", "method"], "error")
    few = tuple(name for name in ("ols", "refined") if name in methods)
    more = range(options.replicates, options.coverage_replicates)
    if few and len(more):
        tasks = [(setting, replicate, few) for setting in REACH for replicate in more]
        extra = replicate_map(simulate, tasks, "reach, coverage", options.processes)
        rows = pd.concat([rows, extra], ignore_index=True)
    covered = [c for c in rows.columns if c.startswith("covered")]
    shares = rows.groupby(["setting", "method"], sort=False)[covered].mean()
    pooled = rows.assign(all=rows[covered].mean(axis=1)).groupby(["setting", "method"], sort=False)
    table["coverage"] = pooled["all"].mean().to_numpy()
    table["coverage_error"] = pooled["all"].agg(mean_error).to_numpy()
    table["coverage_lowest"] = shares.min(axis=1).to_numpy()
    table["coverage_highest"] = shares.max(axis=1).to_numpy()
    table["coverage_replicates"] = pooled["all"].size().to_numpy()
    table["width"] = pooled["width"].mean().to_numpy()
    table = with_earlier(table, options.out / "reach.csv")
    ols = table[table.method == "ols"].set_index("setting")["median"]
    table["over_ols"] = table["median"] / table["setting"].map(ols)
    table["target"] = table["setting"].map({s.name: s.target for s in REACH})
    write_csv(table, options.out / "reach.csv")
    report(reach_checks(table, REACH), options.out / "reach_checks.csv")
    shown = "setting method median over_ols target coverage coverage_lowest coverage_highest width"
    print(table[shown.split()].to_string(index=False, float_format="{:.4f}".format, na_rep=""))


def predict_uci(task: tuple[str, str, float, int, tuple[str, ...]]) -> list[dict[str, Any]]:
    """One replicate on one data set: relative squared error of prediction, intercept fitted."""
    folder, key, widen, replicate, methods = task
    data = uci_set(folder, key)
    x = data.frame[data.covariates].to_numpy()
    y = data.frame[data.target].to_numpy()
    rows = []
    for name in methods:
        if name == "ols" and (replicate or widen != 1):
            continue
        fit = METHODS[name](
            data.frame, data.bounds(widen), True, rng_for(name, key, widen, replicate)
        )
        error = np.sum((fit.params[0] + x @ fit.params[1:] - y) ** 2) / np.sum(y**2)
        rows.append({"set": key, "widen": widen, "method": name, "error": float(error)})
    return rows


def table2(options: Any) -> None:
    """Table 2: prediction error with bounds from the data, and with bounds 4 times too wide."""
    keys = uci_keys(options.data)
    if not keys:
        return
    methods = options.methods or QUICK
    tasks = [
        (options.data, key, widen, r, methods)
        for key in keys
        for widen in (1.0, 4.0)
        for r in range(options.replicates)
    ]
    rows = replicate_map(predict_uci, tasks, "table 2", options.processes)
    table = summarise(rows, ["set", "widen", "method"], "error")
    table = with_earlier(table, options.out / "table2.csv")
    exact = table[table.method == "ols"].set_index("set")["median"]
    table["over_ols"] = table["median"] / table["set"].map(exact)
    middle, published = {}, {}
    for key in keys:
        data = uci_set(options.data, key)
        y = data.frame[data.target].to_numpy()
        middle[key] = float(np.sum((sum(data.bounds()[data.target]) / 2 - y) ** 2) / np.sum(y**2))
        published[key] = data.published
    table["middle_of_range"] = table["set"].map(middle)
    for method in ("ols", "binagg", "adassp", "dpgd"):
        table[f"paper_{method}"] = table["set"].map({k: v[method] for k, v in published.items()})
    write_csv(table, options.out / "table2.csv")
    report(table2_checks(table), options.out / "table2_checks.csv")
    for statistic in ("median", "mean", "largest"):
        columns = table["method"] + table["widen"].map({1.0: "", 4.0: " 4x"})
        wide = table.assign(column=columns).pivot(index="set", columns="column", values=statistic)
        wide = wide[columns.unique()]
        wide["BinAgg (paper)"] = [published[k]["binagg"] for k in wide.index]
        wide["middle"] = pd.Series(middle)
        print(f"\n{statistic}\n{wide.to_string(float_format='{:.4f}'.format)}")


PARTS = {"figure1": figure1, "figure2": figure2, "reach": reach, "table2": table2}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0], tuple(PARTS))
    parser.add_argument("--coverage-replicates", type=int, default=1000, help="of reach")
    parser.add_argument("--methods", help="comma-separated, from " + ", ".join(METHODS))
    options = parser.parse_args()
    options.methods = tuple(options.methods.split(",")) if options.methods else ()
    if not HAS_DP_OLS:
        print("dpbinagg.dp_ols is not there: baselines only")
    for part in options.only or PARTS:
        PARTS[part](options)


if __name__ == "__main__":
    main()
