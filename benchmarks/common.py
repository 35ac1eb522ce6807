"""Small helpers that the benchmarks share: replicates, seeds, tables, data."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

DATA_VARIABLE = "DPBINAGG_BENCH_DATA"
RESULTS = Path(__file__).parent / "results"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def arguments(description: str, parts: Sequence[str]) -> argparse.ArgumentParser:
    """The options that every benchmark takes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--only", choices=parts, action="append", help="may be repeated")
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE), help="folder of UCI sets")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--processes", type=int, default=2)
    return parser


def rng_for(*key: object) -> np.random.Generator:
    """An independent generator for each key, the same in every run and process."""
    words = [zlib.crc32(repr(part).encode()) for part in key]
    return np.random.default_rng(np.random.SeedSequence(words))


def replicate_map(
    function: Callable[[Any], list[dict[str, Any]]],
    tasks: Sequence[Any],
    label: str,
    processes: int = 2,
) -> pd.DataFrame:
    """Rows of ``function(task)`` over all tasks, in their order, with a progress line.

    Each process computes in one thread. One that dies ends the run with an error.
    """
    with _workers(processes) as pool:
        return _gather(pool.map(function, tasks), len(tasks), label)


def replicate_in_turn(
    function: Callable[[Any], list[dict[str, Any]]],
    turns: Sequence[Mapping[str, Any]],
    label: str,
) -> pd.DataFrame:
    """Rows of ``function(task)`` over the tasks of all turns, one at a time, to compare seconds.

    A turn has a task for each method. All tasks of a method run in one process of their own:
    what another one has loaded, compiled or left in memory does not slow it down.
    """
    with ExitStack() as stack:
        pools = {method: stack.enter_context(_workers(1)) for method in turns[0]}
        results = (
            pools[method].submit(function, task).result()
            for turn in turns
            for method, task in turn.items()
        )
        return _gather(results, len(turns) * len(pools), label)


def _workers(processes: int) -> ProcessPoolExecutor:
    """Fresh processes that compute in one thread each."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))


def _gather(results: Iterable[list[dict[str, Any]]], total: int, label: str) -> pd.DataFrame:
    start, rows = time.monotonic(), []
    for done, part in enumerate(results, start=1):
        rows.extend(part)
        _progress(label, done, total, time.monotonic() - start)
    return pd.DataFrame(rows)


def _progress(label: str, done: int, total: int, seconds: float) -> None:
    left = seconds / done * (total - done)
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        line = f"\r{label}: {done}/{total}, {seconds:.0f} s, {left:.0f} s left   "
        print(line, end=end, file=sys.stderr, flush=True)
    elif done == total or done % max(1, total // 10) == 0:
        print(f"{label}: {done}/{total}, {seconds:.0f} s, {left:.0f} s left", file=sys.stderr)


def median_error(values: Iterable[float]) -> float:
    """Monte Carlo error of a median: half the gap of the order statistics n/2 +- sqrt(n)/2."""
    ordered = np.sort(np.asarray(list(values), dtype=float))
    n = len(ordered)
    if n < 4:
        return float("nan")
    low = int(np.floor((n - np.sqrt(n)) / 2))
    return float(ordered[n - 1 - low] - ordered[low]) / 2


def mean_error(values: Iterable[float]) -> float:
    """Monte Carlo error of a mean."""
    sample = np.asarray(list(values), dtype=float)
    return float(sample.std(ddof=1) / np.sqrt(len(sample))) if len(sample) > 1 else float("nan")


def summarise(rows: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Median, mean, largest and their Monte Carlo errors of `value` in each group."""
    return (
        rows.groupby(list(by), sort=False)[value]
        .agg(
            median="median",
            median_error=median_error,
            mean="mean",
            mean_error=mean_error,
            largest="max",
            replicates="size",
        )
        .reset_index()
    )


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table, five significant digits, and say where."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False, float_format="%.5g")
    print(f"wrote {path}")


@dataclass(frozen=True, slots=True)
class UciSet:
    """One data set of the paper: response first, then covariates."""

    key: str
    frame: pd.DataFrame
    published: dict[str, float]

    @property
    def target(self) -> str:
        return str(self.frame.columns[0])

    @property
    def covariates(self) -> list[str]:
        return [str(name) for name in self.frame.columns[1:]]

    def bounds(self, widen: float = 1.0) -> dict[str, tuple[float, float]]:
        """Range of every column in the data, `widen` times as wide about its middle."""
        low, high = self.frame.min(), self.frame.max()
        middle, half = (low + high) / 2, (high - low) / 2 * widen
        return {
            name: (float(middle[name] - half[name]), float(middle[name] + half[name]))
            for name in map(str, self.frame.columns)
        }


def uci_keys(folder: str | None) -> list[str]:
    """Ids of the data sets in `folder`; empty, with a line that says so, where there are none."""
    if folder is None or not (Path(folder) / "index.json").is_file():
        print(f"no UCI data: pass --data FOLDER or set {DATA_VARIABLE}; this part is skipped")
        return []
    return sorted(json.loads((Path(folder) / "index.json").read_text()))


@cache
def uci_set(folder: str, key: str) -> UciSet:
    """Load one data set."""
    entry = json.loads((Path(folder) / "index.json").read_text())[key]
    frame = pd.read_csv(Path(folder) / entry["file"]).astype(float)
    return UciSet(key, frame, entry["paper"])
