"""Seconds for partition, aggregation and release, next to plain numpy and a mask per bin.

    python benchmarks/engine.py [--largest 1e7]

Times are the best of a few runs and are only compared within one run.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from dpbinagg import Budget, dp_release
from dpbinagg.accounting.gdp import pure_from_mu

RESULTS = Path(__file__).parent / "results"


def make_table(n: int, d: int, rng: np.random.Generator) -> pd.DataFrame:
    x = rng.random((n, d))
    y = x.sum(axis=1) + rng.normal(size=n)
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(d)], copy=False)
    frame["y"] = y
    return frame


def best(function: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def mask_per_bin(x: np.ndarray, y: np.ndarray, theta: float, rng: np.random.Generator) -> int:
    """PrivTree as it is usually written: every node looks at all records through a mask."""
    scale = 3.0 / pure_from_mu(0.134)
    decay = scale * np.log(2.0)
    d = x.shape[1]
    todo = [(np.zeros(d), np.ones(d), 0)]
    leaves = []
    while todo:
        low, high, depth = todo.pop()
        count = np.all((x >= low) & (x < high), axis=1).sum()
        score = max(count - depth * decay, theta - decay) + rng.laplace(0.0, scale)
        if score > theta and depth < 32:
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


def measure(n: int, d: int) -> dict[str, float]:
    rng = np.random.default_rng([n, d])
    frame = make_table(n, d, rng)
    x = frame.drop(columns="y").to_numpy()
    formula = "y ~ " + " + ".join(frame.columns[:d])
    bounds = {**dict.fromkeys(frame.columns[:d], (0, 1)), "y": (-5, d + 5)}
    bins_only = Budget(ranges=0, partition=1, count=3, sum_x=3, sum_y=3, moments=0, scores=0)
    runs = 5 if n <= 100_000 else 2

    def release() -> object:
        return dp_release(formula, frame, mu=1, bounds=bounds, budget=bins_only, rng=0)

    release()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = best(release, runs)
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    integers = rng.integers(0, 2**62, n)
    row = {
        "n": n,
        "d": d,
        "bins": dp_release(formula, frame, mu=1, bounds=bounds, budget=bins_only, rng=0).n_bins,
        "release_s": seconds,
        "gram_s": best(lambda: x.T @ x, runs),
        "sort_s": best(lambda: np.sort(integers), runs),
        "mask_s": np.nan,
        "peak_over_input": extra / frame.memory_usage().sum(),
    }
    if n <= 100_000:
        theta = max(2 / 0.567, np.sqrt(n) / 2.0)
        y = frame["y"].to_numpy()
        row["mask_s"] = best(lambda: mask_per_bin(x, y, theta, np.random.default_rng(0)), 1)
    row["times_sort"] = row["release_s"] / row["sort_s"]
    row["times_faster_than_mask"] = row["mask_s"] / row["release_s"]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=float, default=1e7)
    sizes = (10_000, 100_000, 1_000_000, 10_000_000)
    largest = parser.parse_args().largest
    rows = []
    for d in (5, 20):
        for n in sizes:
            if n <= largest and n * d <= 1e8 + 1:
                rows.append(measure(n, d))
                print(pd.DataFrame(rows[-1:]).to_string(index=False), flush=True)
    RESULTS.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(RESULTS / "engine.csv", index=False)


if __name__ == "__main__":
    main()
