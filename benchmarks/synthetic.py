"""Train on synthetic, test on real: Table 3 of the paper at true epsilon = 1, delta = n^-1.1.

    python benchmarks/synthetic.py --replicates 10 --data FOLDER
    python benchmarks/synthetic.py --replicates 3 --first 7 --only "aim 16" --sets D3 --data FOLDER
    python benchmarks/synthetic.py --replicates 3 --only predictive --only "mst 16" --seconds
    DPBINAGG_DEEP_PYTHON=ENVIRONMENT/bin/python benchmarks/synthetic.py --only dpgan --data FOLDER

Each replicate splits a data set into 80% from which a synthetic table is made and 20% on which
models trained on it are tested; the error is that of prediction over the variance of the response,
mean over models. Bounds are those of the data, as in the paper. Methods:

- the records themselves ("original") and trees on them as synthpop grows them ("cart"): ceilings;
- this package's "predictive" rows, whose responses scatter half as much as records do, and
  "calibrated" rows from one release each;
- the published law at noise that is honest about epsilon ("binagg");
- AIM and MST from mbi 2.0 or later, with columns cut evenly or at quantiles (`marginals.py`). In
  the table each has, on each set, the cells that gave it the lowest mean error there;
- DP-CTGAN, PATE-CTGAN, DP-GAN and PATE-GAN in an environment of their own (`deep.py`).

All but the PATE methods are for neighbours that differ by adding or removing a record; those are
for replacing one, and have the epsilon that the others have for that.

The release spends nothing on ranges (bounds are given) and, of mu^2, 6% on the partition, 6% on
counts, 15% on sums of covariates, 10% on sums of the response, 22% on moments and 41% on scores.
Models: gradient boosting, random forest, support vectors, a neural network (not under 500 records),
scikit-learn's defaults on standardised columns. They train on at most 5,000 rows, 4,000 for sets
with more than 20 covariates, whatever the method. Seconds are those of the processor. To compare
them, ``--seconds`` makes the same tables again without training on them, one at a time, methods
in turn and each in a process of its own.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marginals
import numpy as np
import pandas as pd
from common import (
    arguments,
    mean_error,
    replicate_in_turn,
    replicate_map,
    rng_for,
    uci_keys,
    uci_set,
    write_csv,
)
from numpy.typing import NDArray

from dpbinagg import Budget, Domain, dp_ols, dp_release, gdp

Array = NDArray[np.float64]
EPSILON = 1.0
SHARES = {
    "ranges": 0.0, "partition": 0.06, "count": 0.06, "sum_x": 0.15, "sum_y": 0.10,
    "moments": 0.22, "scores": 0.41,
}  # fmt: skip
PUBLISHED = {
    "D1": (0.286, 1.400, 0.939, 1.091, 1.344, 2.398, math.nan),
    "D2": (1.073, 1.326, 1.015, 1.126, 1.054, 1.984, math.nan),
    "D3": (0.875, 1.169, 2.208, 17.298, 4.325, 12.619, 8.789),
    "D4": (0.487, 0.898, 0.731, 1.289, 1.001, 3.522, 7.775),
    "D5": (0.033, 1.058, 0.677, 1.139, 1.000, 2.527, 2.241),
    "D6": (0.628, 0.908, 1.195, 1.381, 1.120, 2.008, 2.307),
    "D7": (0.489, 0.614, 0.584, 1.231, 1.039, 1.488, 1.753),
    "D8": (0.683, 1.079, 1.490, 1.727, 1.087, 2.395, 3.256),
    "D9": (0.240, math.nan, 0.910, 39.621, 2.538, 8.024, 2.460),
}
"""Table 3: original, AIM, BinAgg, whose true epsilon is above 1, and the deep-learning peers."""

TARGETS = {"D4": 0.68, "D6": 0.78, "D7": 0.52}


DEEP = "DPBINAGG_DEEP_PYTHON"
"""Variable that names the Python of an environment with smartnoise-synth; see `deep.py`."""

DEEP_PEERS = ("dpctgan", "patectgan", "dpgan", "pategan")
SCHEMES = (
    marginals.Scheme(16, even=True),
    marginals.Scheme(8),
    marginals.Scheme(16),
    marginals.Scheme(32),
)
"""Ways to cut columns into cells: a peer has, on each set, the one that served it best."""


@dataclass(frozen=True)
class Problem:
    """Records to synthesise from, and what is public about them."""

    frame: pd.DataFrame
    domain: Domain
    rng: np.random.Generator

    @property
    def delta(self) -> float:
        return len(self.frame) ** -1.1

    @property
    def covariates(self) -> str:
        return " + ".join(self.frame.columns[1:])


Method = Callable[[Problem], pd.DataFrame]
Task = tuple[str, str, str, int]
"""Folder, data set, method, replicate."""


# --- methods ---------------------------------------------------------------------------------


def original(problem: Problem) -> pd.DataFrame:
    """The records themselves; not private."""
    return problem.frame


def _ours(kind: str) -> Method:
    def synthesise(problem: Problem) -> pd.DataFrame:
        budget = Budget(**{name: math.sqrt(share) for name, share in SHARES.items()})
        results = dp_ols(
            f"{problem.frame.columns[0]} ~ {problem.covariates}",
            problem.frame,
            epsilon=EPSILON,
            delta=problem.delta,
            bounds=problem.domain,
            budget=budget,
            rng=problem.rng,
        )
        table: pd.DataFrame = results.synthesize(kind=kind, rng=problem.rng)
        return table

    return synthesise


def binagg(problem: Problem) -> pd.DataFrame:
    """The published release and rows, its claimed mu lowered until the true one is right."""
    d = problem.frame.shape[1] - 1
    excess = math.sqrt((1 + 9 + 9 * d + 9) / 28)
    release = dp_release(
        f"{problem.frame.columns[0]} ~ 0 + {problem.covariates}",
        problem.frame,
        gdp.mu(EPSILON, problem.delta) / excess,
        bounds=problem.domain,
        calibration="paper",
        rng=problem.rng,
    )
    table = release.ols(estimator="naive").synthesize(kind="binagg", bin_id=True, rng=problem.rng)
    kept = np.rint(release.statistics["count"]) >= 2
    rows: pd.DataFrame = table[kept[table["bin_id"]]].drop(columns="bin_id")
    return rows if len(rows) else table.drop(columns="bin_id")


def cart(problem: Problem) -> pd.DataFrame:
    """One tree after the other on the records, as synthpop draws them; not private.

    The first covariate is a bootstrap sample. Each further column, the response last, is that of
    a random record in the leaf that the columns so far lead to; leaves hold five records or more.
    """
    from sklearn.tree import DecisionTreeRegressor

    target, *covariates = problem.frame.columns
    rng, n = problem.rng, len(problem.frame)
    first = covariates[0]
    made = {first: rng.choice(problem.frame[first].to_numpy(float), n)}
    for name in (*covariates[1:], target):
        seen = list(made)
        tree = DecisionTreeRegressor(min_samples_leaf=5, random_state=int(rng.integers(2**31)))
        tree.fit(problem.frame[seen].to_numpy(float), problem.frame[name].to_numpy(float))
        homes = tree.apply(problem.frame[seen].to_numpy(float))
        order = np.argsort(homes, kind="stable")
        leaves, starts, sizes = np.unique(homes[order], return_index=True, return_counts=True)
        reached = np.searchsorted(leaves, tree.apply(np.column_stack([made[c] for c in seen])))
        chosen = starts[reached] + (rng.random(n) * sizes[reached]).astype(int)
        made[name] = problem.frame[name].to_numpy(float)[order[chosen]]
    return pd.DataFrame(made)[list(problem.frame.columns)]


def _deep(name: str) -> Method:
    """A deep-learning peer, made by the environment of `DEEP`; an empty table where it refuses."""

    def synthesise(problem: Problem) -> pd.DataFrame:
        epsilon = EPSILON
        if name.startswith("pate"):
            # Replacing a record is removing one and adding another.
            epsilon = gdp.epsilon(2 * gdp.mu(EPSILON, problem.delta), problem.delta)
        bounds = [problem.domain[c] for c in problem.frame.columns]
        job = {
            "method": name,
            "bounds": [(float(v.lower), float(v.upper)) for v in bounds],
            "epsilon": epsilon,
            "delta": problem.delta,
            "seed": int(problem.rng.integers(2**31)),
        }
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            problem.frame.to_csv(home / "records.csv", index=False)
            (home / "job.json").write_text(json.dumps(job))
            worker = Path(__file__).with_name("deep.py")
            subprocess.run([os.environ[DEEP], str(worker), folder], check=True)
            told = json.loads((home / "made.json").read_text())
            if "refused" in told:
                return problem.frame.iloc[:0]
            table = pd.read_csv(home / "synthetic.csv")
        for column, variable in zip(table, bounds, strict=True):
            table[column] = table[column].clip(float(variable.lower), float(variable.upper))
            if variable.integer:
                table[column] = table[column].round()
        table.attrs["seconds"] = told["seconds"]
        return table

    return synthesise


def _marginal(name: str, scheme: marginals.Scheme) -> Method:
    def synthesise(problem: Problem) -> pd.DataFrame:
        variables = dict(problem.domain)
        bounds = {column: (v.lower, v.upper) for column, v in variables.items()}
        whole = {column for column, v in variables.items() if v.integer}
        method = getattr(marginals, name)
        table: pd.DataFrame = method(
            problem.frame, bounds, whole, scheme, EPSILON, problem.delta, problem.rng
        )
        return table

    return synthesise


METHODS: dict[str, Method] = {
    "original": original,
    "predictive": _ours("predictive"),
    "calibrated": _ours("calibrated"),
    "binagg": binagg,
    **{
        f"{name} {'even ' * scheme.even}{scheme.cells}": _marginal(name, scheme)
        for name in ("mst", "aim")
        for scheme in SCHEMES
    },
    **{name: _deep(name) for name in DEEP_PEERS},
    "cart": cart,
}


COLUMNS = (
    "original", "cart", "predictive", "calibrated", "binagg", "mst", "aim", *DEEP_PEERS
)  # fmt: skip
"""Of the table: a peer's ways to cut columns are one."""


# --- models ----------------------------------------------------------------------------------


def models(n_records: int) -> dict[str, Any]:
    """The models of Table 3."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.svm import SVR

    found: dict[str, Any] = {
        "boosting": HistGradientBoostingRegressor(random_state=0),
        "forest": RandomForestRegressor(random_state=0),
        "svr": SVR(),
    }
    if n_records >= 500:
        found["mlp"] = MLPRegressor(random_state=0)
    return found


def errors(train: pd.DataFrame, test: pd.DataFrame, n_records: int) -> dict[str, float]:
    """Test error over the variance of the response, for every model."""
    target, *covariates = test.columns
    limit = 5_000 if len(covariates) <= 20 else 4_000
    if len(train) > limit:
        train = train.sample(limit, random_state=0)
    x, y = train[covariates].to_numpy(float), train[target].to_numpy(float)
    centre, scale = x.mean(axis=0), np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    middle, size = y.mean(), y.std() or 1.0
    truth = test[target].to_numpy(float)
    found = {}
    for name, model in models(n_records).items():
        model.fit((x - centre) / scale, (y - middle) / size)
        predicted = middle + size * model.predict(
            (test[covariates].to_numpy(float) - centre) / scale
        )
        found[name] = float(np.mean((predicted - truth) ** 2) / np.var(truth))
    return found


# --- runs ------------------------------------------------------------------------------------


def domain_of(frame: pd.DataFrame) -> Domain:
    """Bounds of the data, whole numbers declared as such; public by the paper's convention."""
    spec: dict[str, object] = {}
    for name, column in frame.items():
        low, high = float(column.min()), float(column.max())
        whole = bool((column == column.round()).all())
        spec[str(name)] = range(int(low), int(high) + 1) if whole else (low, high)
    return Domain(spec)


def timed(task: Task) -> list[dict[str, Any]]:
    """The seconds that one synthetic table of one method takes."""
    return [_made(task)[0]]


def run(task: Task) -> list[dict[str, Any]]:
    """The seconds of one synthetic table, and the errors of models trained on it."""
    row, table, test, n_records = _made(task)
    if not len(table):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = errors(table, test, n_records)
    return [{**row, **found, "mean": float(np.mean(list(found.values())))}]


def _made(task: Task) -> tuple[dict[str, Any], pd.DataFrame, pd.DataFrame, int]:
    """One synthetic table of one method for one data set, and the records to test on."""
    folder, key, method, replicate = task
    frame = uci_set(folder, key).frame
    order = rng_for("split", key, replicate).permutation(len(frame))
    cut = int(0.8 * len(frame))
    problem = Problem(
        frame.iloc[order[:cut]], domain_of(frame), rng_for("synthesis", key, method, replicate)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        table = METHODS[method](problem)
        seconds = table.attrs.get("seconds", time.process_time() - start)
    row = {"set": key, "method": method, "replicate": replicate, "seconds": seconds}
    return row, table, frame.iloc[order[cut:]], len(frame)


def in_their_best(rows: pd.DataFrame) -> pd.DataFrame:
    """AIM and MST with the cells that gave the lowest mean error on each set, as "aim", "mst"."""
    means = rows.groupby(["set", "method"], sort=False)["mean"].mean()
    kept = []
    for (key, method), part in rows.groupby(["set", "method"], sort=False):
        name = str(method).partition(" ")[0]
        if name in ("mst", "aim"):
            rivals = means[key][means[key].index.str.startswith(f"{name} ")]
            if rivals.idxmin() != method:
                continue
            part = part.assign(method=name, cells=str(method).partition(" ")[2])
        kept.append(part)
    return pd.concat(kept, ignore_index=True)


def table3(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each data set, the mean error of each method, and the published ones."""
    rows = in_their_best(rows)
    means = rows.pivot_table(index="set", columns="method", values="mean", sort=False)
    half = rows.pivot_table(index="set", columns="method", values="mean", aggfunc=mean_error)
    seconds = rows.pivot_table(index="set", columns="method", values="seconds", aggfunc="median")
    tables = rows.pivot_table(index="set", columns="method", values="mean", aggfunc="size")
    columns = [name for name in COLUMNS if name in means]
    table = means[columns].copy()
    for name in columns:
        table[f"{name}_error"] = half.get(name, math.nan)
        table[f"{name}_seconds"] = seconds[name]
        table[f"{name}_tables"] = tables[name]
    for name in ("mst", "aim"):
        if name in columns:
            cells = rows[rows.method == name].groupby("set")["cells"].first()
            table[f"{name}_cells"] = cells
    published = pd.DataFrame(PUBLISHED, index=["original", "aim", "binagg", *DEEP_PEERS]).T
    return table.join(published.add_prefix("published_")).reset_index()


def checks(table: pd.DataFrame) -> list[str]:
    """What the targets say of the "predictive" rows."""
    rows = table.set_index("set")
    lines = []
    for key, limit in TARGETS.items():
        if key in rows.index and "predictive" in rows:
            value = rows.loc[key, "predictive"]
            lines.append(f"{key}: {value:.3f}, target {limit}: {_met(value <= limit)}")
    for peer in ("published_binagg", "published_aim", "aim", "mst"):
        if peer in rows and "predictive" in rows:
            both = rows[[peer, "predictive"]].dropna()
            wins = int((both["predictive"] < both[peer]).sum())
            lines.append(f"lower than {peer} on {wins} of {len(both)} sets")
    for peer in ("aim_seconds", "mst_seconds"):
        if peer in rows and "predictive_seconds" in rows:
            ratio = (rows[peer] / rows["predictive_seconds"]).min()
            lines.append(f"{peer.split('_')[0]} takes at least {ratio:.0f} times as long")
    return lines


def _met(met: bool) -> str:
    return "met" if met else "missed"


def merged(path: Path, rows: pd.DataFrame, first: int = 0) -> pd.DataFrame:
    """Rows of earlier runs, those of this run in place of the same sets and methods.

    Replicates before `first` are kept.
    """
    if not path.is_file():
        return rows
    old = pd.read_csv(path)
    done = set(zip(rows["set"], rows["method"], strict=True))
    again = [pair in done for pair in zip(old["set"], old["method"], strict=True)]
    kept = ~np.array(again, dtype=bool) | (old["replicate"] < first)
    return pd.concat([old[kept], rows], ignore_index=True)


def with_seconds(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of earlier runs, their seconds those of this run where it has them."""
    table = pd.read_csv(path).set_index(["set", "method", "replicate"])
    table.update(rows.set_index(["set", "method", "replicate"]))
    return table.reset_index()


def available(methods: list[str]) -> list[str]:
    """Those of the methods that can run here, with a line about the others."""
    peers = [m for m in methods if m.startswith(("mst ", "aim "))]
    if peers and not marginals.installed():
        print('AIM and MST need mbi 2.0 or later: pip install "mbi>=2"; they are skipped')
        methods = [m for m in methods if m not in peers]
    if set(DEEP_PEERS) & set(methods) and not os.path.isfile(os.environ.get(DEEP, "")):
        print(f"the deep-learning peers need an environment: see deep.py and set {DEEP};"
              " they are skipped")  # fmt: skip
        methods = [m for m in methods if m not in DEEP_PEERS]
    return methods


def main() -> None:
    """Run the benchmark, merge it with earlier runs and write the tables."""
    parser = arguments(__doc__ or "", list(METHODS))
    parser.add_argument("--sets", nargs="*", help="ids of data sets; all by default")
    parser.add_argument("--first", type=int, default=0, help="number of the first replicate")
    parser.add_argument("--seconds", action="store_true", help="only compare seconds")
    options = parser.parse_args()
    methods = available(options.only or [m for m in METHODS if not m.startswith("aim ")])
    keys = [key for key in uci_keys(options.data) if not options.sets or key in options.sets]
    path = options.out / "synthetic_runs.csv"
    if options.seconds and not path.is_file():
        parser.error(f"--seconds adds to an earlier run, and there is no {path}")
    replicates = range(options.first, options.first + options.replicates)
    # One set after the other, each written when it is done and in processes of its own: MST and
    # AIM compile for every table, and the system lets one process map only so much code.
    for key in keys:
        turns = [
            {m: (options.data, key, m, replicate) for m in methods} for replicate in replicates
        ]
        label = f"synthetic, {key}"
        if options.seconds:
            rows = with_seconds(path, replicate_in_turn(timed, turns, label))
        else:
            tasks = [task for turn in turns for task in turn.values()]
            rows = replicate_map(run, tasks, label, options.processes)
            if rows.empty:
                continue
            rows = merged(path, rows, options.first)
        rows = rows.sort_values(["set", "method", "replicate"], ignore_index=True)
        write_csv(rows, path)
        table = table3(rows)
        write_csv(table, options.out / "synthetic.csv")
    if keys:
        print("\n".join(checks(table)))


if __name__ == "__main__":
    main()
