"""Speed and scale: ordinary least squares next to private, and a table larger than memory.

    python benchmarks/scale.py ratios            # dp_ols / smf.ols(...).fit(), n = 1e3 to 1e6
    python benchmarks/scale.py growth            # seconds at n = 1e5, 1e6, 1e7
    python benchmarks/scale.py imports           # import time next to statsmodels
    python benchmarks/scale.py files [--rows 1e8]  # a Parquet folder under a cap of 4 GiB

Times are only compared within one run: calls alternate, and the median of each
is taken. All noise is secure. OpenDP is imported before the first timed call;
how long that takes, once a process, is printed by ``imports``.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

RESULTS = Path(__file__).parent / "results"
REACH = {1_000: None, 10_000: 3.0, 100_000: 2.0, 1_000_000: 1.5}
"""Largest ratio at d = 5; at most 1.3 times that at d = 20; 60 ms more at n = 1000."""
CAP = 4 * 2**30
FILE_COLUMNS = ("x1", "x2", "x3", "x4", "x5", "y")
ROWS_PER_FILE = 5_000_000


def make_table(n: int, d: int) -> pd.DataFrame:
    rng = np.random.default_rng([n, d])
    x = rng.random((d, n))
    frame = pd.DataFrame({f"x{j}": x[j] for j in range(d)}, copy=False)
    frame["y"] = x.sum(axis=0) + rng.normal(size=n)
    return frame


PAUSE = 0.1
"""Seconds before a call: threads of BLAS spin for a while after the last one, on a core that the
next call needs."""


def alternate(functions: list[Callable[[], object]], runs: int) -> list[float]:
    """Median seconds of each function, called in turn."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(runs):
        for own, function in zip(times, functions, strict=True):
            time.sleep(PAUSE)
            start = time.perf_counter()
            function()
            own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def ratios() -> None:
    import statsmodels.formula.api as smf

    from dpbinagg import dp_ols

    rows = []
    for d in (5, 20):
        for n, reach in REACH.items():
            frame = make_table(n, d)
            names = list(frame.columns[:d])
            formula = "y ~ " + " + ".join(names)
            bounds = {**dict.fromkeys(names, (0, 1)), "y": (-5, d + 5)}
            calls: list[Callable[[], object]] = [
                lambda: smf.ols(formula, frame).fit(),  # noqa: B023
                lambda: dp_ols(formula, frame, mu=1),  # noqa: B023
                lambda: dp_ols(formula, frame, mu=1, bounds=bounds),  # noqa: B023
            ]
            for call in calls:
                call()
            ols, found, declared = alternate(calls, 9 if n <= 100_000 else 3)
            rows.append(
                {
                    "n": n,
                    "d": d,
                    "ols_s": ols,
                    "dp_ols_s": found,
                    "dp_ols_bounds_s": declared,
                    "ratio": found / ols,
                    "ratio_bounds": declared / ols,
                    "reach": reach and reach * (1.0 if d == 5 else 1.3),
                    "more_ms": 1e3 * (found - ols),
                }
            )
            print(pd.DataFrame(rows[-1:]).round(4).to_string(index=False), flush=True)
    save("scale_ratios", rows)


def growth() -> None:
    from dpbinagg import dp_ols

    rows: list[dict[str, Any]] = []
    for n in (100_000, 1_000_000, 10_000_000):
        frame = make_table(n, 5)
        formula = "y ~ " + " + ".join(frame.columns[:5])
        dp_ols(formula, frame.iloc[:1000], mu=1)
        seconds = alternate([lambda: dp_ols(formula, frame, mu=1)], 3)[0]  # noqa: B023
        row = {"n": n, "seconds": seconds, "per_n_log_n": seconds / (n * np.log(n))}
        row["of_first"] = row["per_n_log_n"] / rows[0]["per_n_log_n"] if rows else 1.0
        rows.append(row)
        print(pd.DataFrame(rows[-1:]).to_string(index=False), flush=True)
    save("scale_growth", rows)


def imports() -> None:
    codes = {
        "statsmodels": "import statsmodels.formula.api",
        "dpbinagg": "import dpbinagg; dpbinagg.dp_ols",
        "opendp": "import opendp.prelude",
    }

    def timed(code: str) -> float:
        program = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        return float(subprocess.check_output([sys.executable, "-c", program]))

    for code in codes.values():
        timed(code)
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(7):
        for name, code in codes.items():
            times[name].append(timed(code))
    row = {f"{name}_s": statistics.median(own) for name, own in times.items()}
    row["ratio"] = row["dpbinagg_s"] / row["statsmodels_s"]
    print(pd.DataFrame([row]).round(3).to_string(index=False))
    save("scale_imports", [row])


def write_folder(folder: Path, rows: int) -> None:
    """A register in several Parquet files: two whole numbers, four real ones."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for part, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        n = min(ROWS_PER_FILE, rows - start)
        rng = np.random.default_rng([part, 11])
        columns = {
            "x1": rng.normal(size=n),
            "x2": rng.random(n),
            "x3": rng.integers(18, 80, n).astype(np.int16),
            "x4": rng.integers(0, 21, n).astype(np.int16),
            "x5": rng.exponential(size=n),
        }
        weights = dict(zip(columns, (1.0, -0.5, 0.02, 0.1, 0.3), strict=True))
        columns["y"] = 1.0 + rng.normal(size=n)
        for name, weight in weights.items():
            columns["y"] += weight * columns[name]
        pq.write_table(pa.table(columns), folder / f"part-{part:03d}.parquet", compression="none")


def moments_query(folder: Path) -> str:
    """All second moments in SQL: what a regression needs of these columns."""
    pairs = [f"sum({a} * {b})" for i, a in enumerate(FILE_COLUMNS) for b in FILE_COLUMNS[i:]]
    sums = [f"sum({name})" for name in FILE_COLUMNS]
    return f"SELECT count(*), {', '.join(sums + pairs)} FROM read_parquet('{folder}/*.parquet')"


def child(kind: str, folder: Path) -> None:
    """One measurement in a process of its own, under the cap."""
    resource.setrlimit(resource.RLIMIT_AS, (CAP, CAP))
    warnings.simplefilter("ignore")
    if kind == "duckdb":
        import duckdb

        made = duckdb.connect()
        made.execute("SET memory_limit = '3GiB'")
        start = time.perf_counter()
        made.sql(moments_query(folder)).fetchall()
    else:
        from dpbinagg import dp_ols
        from dpbinagg.kernel.noise import SecureNoise

        SecureNoise().gaussian(1, 100.0)
        start = time.perf_counter()
        dp_ols("y ~ x1 + x2 + x3 + x4 + x5", folder, mu=1)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


def files(rows: int) -> None:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < 60 * rows:
        raise SystemExit(f"{60 * rows / 2**30:.0f} GiB of free disk are needed for temporary files")
    folder = Path(tempfile.mkdtemp(prefix="dpbinagg-scale-"))
    try:
        write_folder(folder, rows)
        size = sum(path.stat().st_size for path in folder.iterdir())
        result: dict[str, Any] = {"rows": rows, "folder_gb": size / 1e9}
        # The first query warms the page cache for both.
        for kind in ("duckdb", "duckdb", "dpbinagg", "duckdb"):
            program = [sys.executable, __file__, "child", "--kind", kind, "--folder", str(folder)]
            found = json.loads(subprocess.check_output(program))
            times = result.setdefault(f"{kind}_all_s", [])
            times.append(round(found["seconds"], 2))
            result[f"{kind}_peak_gib"] = found["peak_bytes"] / 2**30
        result["duckdb_s"] = statistics.mean(result["duckdb_all_s"][1:])
        result["dpbinagg_s"] = result["dpbinagg_all_s"][0]
        result["ratio"] = result["dpbinagg_s"] / result["duckdb_s"]
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result, indent=1))
    save("scale_files", [result])


def save(name: str, rows: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(RESULTS / f"{name}.csv", index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=["ratios", "growth", "imports", "files", "child"])
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--kind", default="dpbinagg", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part == "child":
        child(arguments.kind, arguments.folder)
    elif arguments.part == "files":
        files(int(arguments.rows))
    else:
        {"ratios": ratios, "growth": growth, "imports": imports}[arguments.part]()


if __name__ == "__main__":
    main()
