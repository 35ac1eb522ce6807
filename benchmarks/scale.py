"""Speed and scale: ordinary least squares next to private, and a table larger than memory.

    python benchmarks/scale.py ratios            # dp_ols / smf.ols(...).fit(), n = 1e3 to 1e6
    python benchmarks/scale.py growth            # seconds at n = 1e5, 1e6, 1e7
    python benchmarks/scale.py imports           # import time next to statsmodels
    python benchmarks/scale.py files [--rows 1e8]  # a Parquet folder under a cap of 4 GiB
    python benchmarks/scale.py before PYTHON     # this tree and another one, in turn

Times are only compared within one run: calls alternate, and the median of each
is taken. All noise is secure. OpenDP is imported before the first timed call;
how long that takes, once a process, is printed by ``imports``. ``before`` takes the interpreter of
an environment that holds another version of the package; both answer the same calls in processes of
their own. On a machine that has other work, the least of the seconds and those of the processor say
more than the median.
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


class Other:
    """A process of an interpreter, that times calls of its own version of the package."""

    def __init__(self, python: str) -> None:
        # Not in the folder of this tree, whose package it would import.
        self._process = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "answer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tempfile.gettempdir(),
        )

    def timed(self, call: dict[str, Any]) -> tuple[float, float]:
        """Seconds of one call: of the clock, and of all processors."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(call), file=self._process.stdin, flush=True)
        wall, processor = json.loads(self._process.stdout.readline())
        return wall, processor

    def close(self) -> None:
        """End the process."""
        self._process.communicate("")


def answer() -> None:
    """Time the calls that are asked for on the standard input."""
    from dpbinagg import dp_ols

    warnings.simplefilter("ignore")
    table, formula, bounds, spark = None, "", {}, None
    for line in sys.stdin:
        call = json.loads(line)
        if call["new"]:
            table = make_table(call["n"], call["d"])
            names = list(table.columns[: call["d"]])
            formula = "y ~ " + " + ".join(names)
            bounds = {**dict.fromkeys(names, (0, 1)), "y": (-5, call["d"] + 5)}
            if call["engine"] == "spark":
                spark = spark or local_spark()
                table = spark.createDataFrame(table).repartition(2).cache()
                table.count()
        start, used = time.perf_counter(), time.process_time()
        dp_ols(formula, table, mu=1, bounds=bounds if call["declared"] else None)
        print(json.dumps([time.perf_counter() - start, time.process_time() - used]), flush=True)


def local_spark() -> Any:
    """Spark with two cores of this machine."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "OFF",
    }
    made = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        made = made.config(key, value)
    return made.getOrCreate()


def before(python: str, largest: int, engine: str) -> None:
    """This tree and another version of the package, call by call in turn."""
    rows: list[dict[str, Any]] = []
    versions = {"before": Other(python), "now": Other(sys.executable)}
    sizes = [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= largest]
    for d in (5, 20):
        for n in sizes if engine == "memory" else sizes[-1:]:
            for declared in (False, True):
                call = {"n": n, "d": d, "declared": declared, "engine": engine, "new": True}
                for one in versions.values():
                    one.timed(call)
                call["new"] = False
                runs = 3 if engine == "spark" else 21 if n <= 10_000 else 11 if n <= 100_000 else 5
                times = {name: [] for name in versions}  # type: ignore[var-annotated]
                for _ in range(runs):
                    for name, one in versions.items():
                        time.sleep(PAUSE)
                        times[name].append(one.timed(call))
                row = {"n": n, "d": d, "declared": declared, "runs": runs}
                for name, own in times.items():
                    wall, processor = zip(*own, strict=True)
                    row |= {f"{name}_s": statistics.median(wall), f"{name}_least_s": min(wall)}
                    row |= {f"{name}_cpu_s": statistics.median(processor)}
                for kind in ("s", "least_s", "cpu_s"):
                    row[f"ratio_{kind}"] = row[f"now_{kind}"] / row[f"before_{kind}"]
                rows.append(row)
                print(pd.DataFrame([row]).round(3).to_string(index=False), flush=True)
                save("scale_before" if engine == "memory" else f"scale_before_{engine}", rows)
    for one in versions.values():
        one.close()


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
    parser.add_argument(
        "part", choices=["ratios", "growth", "imports", "files", "before", "child", "answer"]
    )
    parser.add_argument("python", nargs="?", help="of the environment with the other version")
    parser.add_argument("--engine", choices=["memory", "spark"], default="memory")
    parser.add_argument("--largest", type=float, default=1e6, help="records of the largest table")
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--kind", default="dpbinagg", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part == "child":
        child(arguments.kind, arguments.folder)
    elif arguments.part == "files":
        files(int(arguments.rows))
    elif arguments.part == "before":
        before(arguments.python or sys.executable, int(arguments.largest), arguments.engine)
    else:
        {"ratios": ratios, "growth": growth, "imports": imports, "answer": answer}[arguments.part]()


if __name__ == "__main__":
    main()
