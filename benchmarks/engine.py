"""Seconds for partition, aggregation and release, next to plain numpy and a mask per bin.

    python benchmarks/engine.py [--largest 1e7]

Times are the best of a few runs and are only compared within one run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg import Budget, dp_release
from dpbinagg.accounting.gdp import pure_from_mu

RESULTS = Path(__file__).parent / "results"
BINS_ONLY = Budget(ranges=0, partition=1, count=3, sum_x=3, sum_y=3, moments=0, scores=0)


def make_table(n: int, d: int, rng: np.random.Generator) -> pd.DataFrame:
    x = rng.random((d, n))
    frame = pd.DataFrame({f"x{j}": x[j] for j in range(d)}, copy=False)
    frame["y"] = x.sum(axis=0) + rng.normal(size=n)
    return frame


def best(function: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def mask_per_bin(x: np.ndarray, y: np.ndarray, mu: float, rng: np.random.Generator) -> int:
    """PrivTree as it is usually written: every node looks at all records through a mask.

    With the published threshold of 0.

    Timed on a matrix of records in rows (`mask_s`), as simulations make it, and
    on one of columns (`mask_columns_s`), which numpy compares much faster.
    """
    scale = 3.0 / pure_from_mu(mu)
    decay = scale * np.log(2.0)
    d = x.shape[1]
    todo = [(np.zeros(d), np.ones(d), 0)]
    leaves = []
    while todo:
        low, high, depth = todo.pop()
        count = np.all((x >= low) & (x < high), axis=1).sum()
        score = max(count - depth * decay, -decay) + rng.laplace(0.0, scale)
        if score > 0.0 and depth < 32:
            j = depth % d
            middle = (low[j] + high[j]) / 2.0
            left, right = high.copy(), low.copy()
            left[j] = right[j] = middle
            todo += [(low, left, depth + 1), (right, high, depth + 1)]
        else:
            leaves.append((low, high))
    for low, high in leaves:
        mask = np.all((x >= low) & (x < high), axis=1)
        mask.sum(), x[mask].sum(axis=0), y[mask].sum()
    return len(leaves)


def request(frame: pd.DataFrame, calibration: str = "joint") -> Callable[[pd.DataFrame], object]:
    """Partition, aggregation and release of bins, as a function of the table."""
    names = list(frame.columns[:-1])
    formula = "y ~ " + " + ".join(names)
    bounds = {**dict.fromkeys(names, (0, 1)), "y": (-5, len(names) + 5)}

    def release(table: pd.DataFrame) -> object:
        return dp_release(
            formula,
            table,
            mu=1,
            bounds=bounds,
            budget=BINS_ONLY,
            calibration=calibration,
            rng=0,
        )

    return release


def peak_of_release(n: int, d: int) -> None:
    """Print the peak of a first release beyond the input, over the input; for a fresh process."""
    frame = make_table(n, d, np.random.default_rng([n, d]))
    release = request(frame)
    # Imports and small constant work are not memory for the table.
    release(frame.iloc[:1000])
    size = int(frame.memory_usage(index=False).sum())
    with open("/proc/self/clear_refs", "w") as reset:
        # Forgets the peak so far, that of making the table.
        reset.write("5")
    before = memory("VmRSS")
    release(frame)
    print((memory("VmHWM") - before) / size)


def memory(field: str) -> int:
    """Bytes resident now (VmRSS) or at the peak (VmHWM)."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(field))
    return int(line.split()[1]) * 1024


def peak_over_input(n: int, d: int) -> float:
    program = [sys.executable, __file__, "--peak", str(n), str(d)]
    return float(subprocess.check_output(program))


def measure(n: int, d: int) -> dict[str, float]:
    rng = np.random.default_rng([n, d])
    frame = make_table(n, d, rng)
    x = frame.drop(columns="y").to_numpy()
    release = request(frame)
    runs = 5 if n <= 1_000_000 else 2
    first: Any = release(frame)
    integers = rng.integers(0, 2**62, n)
    row = {
        "n": n,
        "d": d,
        "bins": first.n_bins,
        "release_s": best(lambda: release(frame), runs),
        "gram_s": best(lambda: x.T @ x, runs),
        "sort_s": best(lambda: np.sort(integers), runs),
        "published_bins": np.nan,
        "published_s": np.nan,
        "mask_s": np.nan,
        "mask_columns_s": np.nan,
        "peak_over_input": peak_over_input(n, d),
    }
    if n <= 100_000:
        # The published partition, into many more bins, is what others compute with masks.
        published = request(frame, "paper")
        made: Any = published(frame)
        row["published_bins"] = made.n_bins
        row["published_s"] = best(lambda: published(frame), runs)
        mu = BINS_ONLY.split(1.0).partition
        y = frame["y"].to_numpy()
        for name, order in (("mask_s", "C"), ("mask_columns_s", "F")):
            laid = np.array(x, order=order)
            row[name] = best(
                lambda: mask_per_bin(laid, y, mu, np.random.default_rng(0)),  # noqa: B023
                1,
            )
    row["times_sort"] = row["release_s"] / row["sort_s"]
    row["times_faster_than_mask"] = row["mask_s"] / row["published_s"]
    row["times_faster_than_mask_columns"] = row["mask_columns_s"] / row["published_s"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--largest", type=float, default=1e7)
    parser.add_argument("--peak", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        peak_of_release(*arguments.peak)
        return
    sizes = (10_000, 100_000, 1_000_000, 10_000_000)
    rows = []
    for d in (5, 20):
        for n in sizes:
            if n <= arguments.largest and n * d <= 1e8 + 1:
                rows.append(measure(n, d))
                print(pd.DataFrame(rows[-1:]).to_string(index=False), flush=True)
    RESULTS.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(RESULTS / "engine.csv", index=False)


if __name__ == "__main__":
    main()
