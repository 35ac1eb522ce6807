"""Studies: many models from one release, against as many releases and against no privacy.

    python benchmarks/study.py --data FOLDER --replicates 40
    python benchmarks/study.py --only models --settings cps --models 6 --replicates 10

`models`: m models from one `dp_study` at mu, from m `dp_ols` at ``mu/sqrt(m)`` each, and by least
squares with HC1; coverage of what is true of the population; models that were not declared.
`table1`: coverage and errors of Table 1, and of tables made for that purpose alone with OpenDP.
`time`, `memory`: one study against one `dp_ols`.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import arguments, replicate_map, rng_for, write_csv
from population_truth import Fit, least_squares, matrices
from study_settings import Setting, settings
from study_table import by_opendp, exact

from dpbinagg import dp_ols, dp_study
from dpbinagg.errors import DPBinAggError

PARTS = ("models", "table1", "time", "memory")
SIZES = (1, 3, 6, 10)


def fits(formulas: list[str], frame: pd.DataFrame, setting: Setting) -> list[tuple[Any, Fit]]:
    """Names of the columns and least squares of some models."""
    found = []
    for formula in formulas:
        data = matrices(formula, frame, setting.bounds)
        found.append((data.names, least_squares(data)))
    return found


def rows_of(kind: str, k: int, results: Any, truth: tuple[Any, Fit], own: Fit) -> list[dict]:
    """One row a slope: error, standard error and coverage beside those of least squares."""
    names, whole = truth
    found = []
    ends = np.asarray(results.conf_int())
    covered = own.covers(whole.params)
    for j, name in enumerate(names):
        if name == "Intercept":
            continue
        se, told = float(np.asarray(results.bse)[j]), bool(np.asarray(results.identified)[j])
        found.append(
            {
                "kind": kind,
                "model": k,
                "term": name,
                "identified": told,
                "se_ratio": se / own.bse[j],
                "error": float(np.asarray(results.params)[j]) - whole.params[j],
                "ols_error": own.params[j] - whole.params[j],
                "covers": bool(ends[j, 0] <= whole.params[j] <= ends[j, 1]),
                "ols_covers": bool(covered[j]),
            }
        )
    return found


def run_models(task: tuple[str, str | None, int, float, int, int]) -> list[dict[str, Any]]:
    """One draw: a study of m models, m releases, and least squares."""
    name, folder, n, mu, m, number = task
    setting = settings(folder)[name]
    population = _population(name, folder)
    rng = rng_for("study", name, n, mu, number)
    frame = population.take(rng.integers(0, len(population), n)).reset_index(drop=True)
    models, free = list(setting.study(m).values()), list(setting.free)
    truth, own = _truth(name, folder), fits(models + free, frame, setting)
    # Free models follow all ten declared ones in the list of truths.
    truths = [*truth[:m], *truth[len(setting.models) :]]
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = dp_study(
            setting.study(m),
            frame,
            mu,
            bounds=setting.bounds,
            variables=list(setting.bounds),
            rng=rng_for("noise", name, n, mu, m, number),
        )
        for k, results in enumerate(study.values()):
            rows += rows_of("joint", k + 1, results, truths[k], own[k][1])
        for k, formula in enumerate(free):
            try:
                results = study.ols(formula)
            except DPBinAggError:
                continue
            rows += rows_of("free", k + 1, results, truths[m + k], own[m + k][1])
        for k, formula in enumerate(models):
            results = dp_ols(
                formula,
                frame,
                mu / math.sqrt(m),
                bounds=setting.bounds,
                rng=rng_for("apart", name, n, mu, m, number, k),
            )
            rows += rows_of("separate", k + 1, results, truths[k], own[k][1])
    key = {"setting": name, "n": n, "mu": mu, "m": m, "replicate": number}
    return [key | row for row in rows]


_KEPT: dict[str, pd.DataFrame] = {}
_TRUTHS: dict[str, list[tuple[Any, Fit]]] = {}


def _population(name: str, folder: str | None) -> pd.DataFrame:
    if name not in _KEPT:
        _KEPT[name] = settings(folder)[name].population()
    return _KEPT[name]


def _truth(name: str, folder: str | None) -> list[tuple[Any, Fit]]:
    if name not in _TRUTHS:
        setting = settings(folder)[name]
        _TRUTHS[name] = fits([*setting.models, *setting.free], _population(name, folder), setting)
    return _TRUTHS[name]


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting, number of models and kind."""
    found = []
    for key, part in rows.groupby(["setting", "n", "mu", "m", "kind"], sort=False):
        told = part[part.identified]
        slopes = told.groupby(["model", "term"])
        ratio = slopes.se_ratio.median()
        rmse = np.sqrt(slopes.error.apply(lambda e: np.mean(e**2)))
        ols = np.sqrt(slopes.ols_error.apply(lambda e: np.mean(e**2)))
        cover = slopes.covers.mean()
        found.append(
            dict(zip(["setting", "n", "mu", "m", "kind"], key, strict=True))
            | {
                "slopes": part.groupby(["model", "term"]).ngroups,
                "identified": part.identified.mean(),
                "se_median": ratio.median(),
                "rmse_median": (rmse / ols).median(),
                "coverage": told.covers.mean(),
                "coverage_worst": cover.min(),
                "ols_coverage": told.ols_covers.mean(),
                "replicates": part.replicate.nunique(),
            }
        )
    return pd.DataFrame(found)


def run_table(task: tuple[str, str | None, int, float, int]) -> list[dict[str, Any]]:
    """One draw: Table 1 of a study of three models, and a table by OpenDP."""
    name, folder, n, mu, number = task
    setting, population = settings(folder)[name], _population(name, folder)
    rng = rng_for("table", name, n, mu, number)
    frame = population.take(rng.integers(0, len(population), n)).reset_index(drop=True)
    truth, own = exact(population, setting), exact(frame, setting)
    opendp = by_opendp(frame, setting, mu)
    study = dp_study(
        setting.study(3),
        frame,
        mu,
        bounds=setting.bounds,
        variables=list(setting.bounds),
        rng=rng_for("noise of the table", name, n, mu, number),
    )
    rows = []
    for one in study.describe().frame.to_dict("records"):
        key = (one["variable"], str(one["level"]), one["statistic"])
        if key not in truth:
            continue
        # Shares in percentage points, others in standard deviations of their variable.
        unit = 0.01 if key[2] == "share" else truth[key[0], "", "sd"]
        rows.append(
            {
                "setting": name,
                "n": n,
                "mu": mu,
                "replicate": number,
                "variable": key[0],
                "level": key[1],
                "statistic": key[2],
                "covers": bool(one["low"] <= truth[key] <= one["high"]),
                "width": (one["high"] - one["low"]) / unit,
                "error": (one["estimate"] - own[key]) / unit,
                "opendp": (opendp[key] - own[key]) / unit,
                "sampling": (own[key] - truth[key]) / unit,
            }
        )
    return rows


def summarise_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each setting and statistic."""
    found = []
    for key, part in rows.groupby(["setting", "n", "mu", "statistic"], sort=False):
        each = part.groupby(["variable", "level"])

        def size(column: str, each: Any = each) -> float:
            return float(np.median(each[column].apply(lambda e: math.sqrt(np.mean(e**2)))))

        found.append(
            dict(zip(["setting", "n", "mu", "statistic"], key, strict=True))
            | {
                "numbers": each.ngroups,
                "coverage": part.covers.mean(),
                "coverage_worst": each.covers.mean().min(),
                "worst": " ".join(each.covers.mean().idxmin()).strip(),
                "error": size("error"),
                "opendp": size("opendp"),
                "sampling": size("sampling"),
                "replicates": part.replicate.nunique(),
            }
        )
    return pd.DataFrame(found)


def wide_frame(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Fifteen variables: ten covariates, two factors among them, and five outcomes."""
    frame = pd.DataFrame({f"x{j}": rng.uniform(0, 1, n) for j in range(8)})
    frame["g"], frame["h"] = rng.integers(0, 4, n), rng.integers(0, 3, n)
    for k in range(5):
        frame[f"y{k}"] = np.clip(frame[f"x{k}"] - frame[f"x{k + 1}"] + rng.normal(0, 1, n), -9, 9)
    bounds: dict[str, Any] = {f"x{j}": (0, 1) for j in range(8)}
    bounds |= {"g": {"levels": [0, 1, 2, 3]}, "h": {"levels": [0, 1, 2]}}
    return frame, bounds | {f"y{k}": (-9, 9) for k in range(5)}


WIDE = "x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7 + C(g) + C(h)"
SIX = {f"m{k}": f"y{k} ~ {WIDE}" for k in range(5)} | {"m5": "y0 ~ x0 + C(g)"}


def run_time(n: int, replicates: int) -> pd.DataFrame:
    """Seconds of a study of six models and of one regression, in turns, secure noise."""
    frame, bounds = wide_frame(n, rng_for("time", n))
    seconds: dict[str, list[float]] = {"study": [], "one": []}
    for _ in range(replicates + 1):
        start = time.perf_counter()
        dp_study(SIX, frame, 1.0, bounds=bounds).results  # noqa: B018
        seconds["study"].append(time.perf_counter() - start)
        start = time.perf_counter()
        dp_ols(SIX["m0"], frame, 1.0, bounds=bounds)
        seconds["one"].append(time.perf_counter() - start)
    # The first turn loads and compiles.
    study, one = (float(np.median(seconds[name][1:])) for name in ("study", "one"))
    row = {"n": n, "models": len(SIX), "variables": len(bounds)}
    return pd.DataFrame([row | {"study_s": study, "dp_ols_s": one, "ratio": study / one}])


def run_memory(rows: int) -> pd.DataFrame:
    """Peak memory of a study and of one regression of the same Parquet files, a process each."""
    with tempfile.TemporaryDirectory() as folder:
        for part in range(max(rows // 1_000_000, 1)):
            frame, bounds = wide_frame(min(rows, 1_000_000), rng_for("memory", part))
            frame.to_parquet(f"{folder}/part-{part}.parquet")
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        found = {}
        for name, call in (
            ("one", f"dp_ols({SIX['m0']!r}, {folder!r}, 1.0, bounds={bounds!r})"),
            ("study", f"dp_study({SIX!r}, {folder!r}, 1.0, bounds={bounds!r}).results"),
        ):
            script = (
                "import resource, time\nfrom dpbinagg import dp_ols, dp_study\n"
                f"start = time.perf_counter()\n{call}\n"
                "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
                "print(peak, time.perf_counter() - start)"
            )
            command = [sys.executable, "-c", script]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name] = tuple(map(float, done.stdout.split()[-2:]))
    row = {"rows": rows, "folder_gb": size / 1e9}
    for name, (peak, seconds) in found.items():
        row |= {f"{name}_gb": peak / 1e6, f"{name}_s": seconds}
    row["ratio"] = row["study_gb"] / row["one_gb"]
    return pd.DataFrame([row])


def main() -> None:
    parser = arguments((__doc__ or "").partition("\n")[0], PARTS)
    parser.add_argument("--settings", action="append")
    parser.add_argument("--models", type=int, action="append")
    parser.add_argument("--n", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the Parquet files")
    parser.add_argument("--mu", type=float, default=1.0)
    chose = parser.parse_args()
    parts = chose.only or PARTS
    names = chose.settings or list(settings(chose.data))
    if "models" in parts:
        tasks = [
            (name, chose.data, chose.n, chose.mu, m, number)
            for name, m, number in itertools.product(
                names, chose.models or SIZES, range(chose.replicates)
            )
        ]
        found = summarise(replicate_map(run_models, tasks, "models", chose.processes))
        write_csv(found, chose.out / "study_models.csv")
        print(found.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
        joint = found.pivot(index=["setting", "m"], columns="kind", values="se_median")
        print(joint.assign(ratio=joint.joint / joint.separate).round(3).to_string())
    if "table1" in parts:
        table_tasks = [
            (name, chose.data, chose.n, chose.mu, number)
            for name, number in itertools.product(names, range(chose.replicates))
        ]
        rows = replicate_map(run_table, table_tasks, "table1", chose.processes)
        found = summarise_table(rows)
        write_csv(found, chose.out / "study_table1.csv")
        print(found.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    for part, measure in (
        ("time", lambda: run_time(100_000, min(chose.replicates, 7))),
        ("memory", lambda: run_memory(chose.rows)),
    ):
        if part in parts:
            found = measure()
            write_csv(found, chose.out / f"study_{part}.csv")
            print(found.to_string(index=False))


if __name__ == "__main__":
    main()
