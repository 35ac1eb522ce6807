"""How long a design takes, next to patsy on records.

    python benchmarks/formula.py

Prints the median of several runs, in milliseconds, and writes it to
``results/formula.csv``. Times are only compared within one run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import patsy

from dpbinagg.formula import build_design, design
from dpbinagg.formula.bounds import Bounds
from dpbinagg.formula.scaling import radius2
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Boxes

RESULTS = Path(__file__).parent / "results"
REGIONS = ["north", "south", "east", "west"]
DOMAIN = Domain(
    {
        "wage": (1, 200),
        "educ": range(21),
        "exper": (0, 50),
        "age": (18, 90),
        "hours": (1, 80),
        "temp": (-10, 40),
        "region": REGIONS,
        "union": [False, True],
    }
)
TERMS = [
    "educ",
    "exper",
    "age",
    "hours",
    "temp",
    "I(exper**2)",
    "I(age**2)",
    "I(exper**3)",
    "np.log(hours)",
    "np.sqrt(exper)",
    "region",
    "union",
    "I(age > 65)",
    "educ:exper",
    "educ:union",
    "region:exper",
    "np.minimum(age, 65)",
    "I(educ / (age + 1))",
    "np.exp(temp / 20)",
    "region:union",
]
FORMULA = "np.log(wage) ~ " + " + ".join(TERMS)
N_BINS = 50


def median_ms(run: Callable[[], object], repeat: int) -> float:
    """Median wall time of `run`, in milliseconds."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return float(1000 * np.median(times))


def random_boxes(variables: tuple[str, ...], rng: np.random.Generator) -> Boxes:
    """Boxes with random edges; timing does not ask for a partition."""
    lower, upper, members = {}, {}, {}
    for name in variables:
        variable = DOMAIN[name]
        if hasattr(variable, "levels"):
            members[name] = rng.random((N_BINS, len(variable.levels))) < 0.7
            members[name][:, 0] = True
        else:
            ends = rng.uniform(variable.lower, variable.upper, (2, N_BINS))
            lower[name], upper[name] = ends.min(axis=0), ends.max(axis=0)
    return Boxes(lower, upper, members)


def random_table(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """Records as a frame and as arrays."""
    records = {
        "wage": rng.uniform(1, 200, n),
        "educ": rng.integers(21, size=n).astype(float),
        "exper": rng.uniform(0, 50, n),
        "age": rng.uniform(18, 90, n),
        "hours": rng.uniform(1, 80, n),
        "temp": rng.uniform(-10, 40, n),
        "region": rng.integers(4, size=n),
        "union": rng.integers(2, size=n),
    }
    frame = pd.DataFrame(records)
    frame["region"] = pd.Categorical.from_codes(records["region"], REGIONS)
    frame["union"] = frame["union"].astype(bool)
    return frame, records


def fresh_build() -> object:
    """A design built without the cache."""
    design._CACHE.clear()
    return build_design(FORMULA, DOMAIN)


def main() -> None:
    """Time each step and print a table."""
    rng = np.random.default_rng(0)
    built = build_design(FORMULA, DOMAIN)
    boxes = random_boxes(built.variables, rng)
    bounds = Bounds(built.domain, boxes)
    lower, upper = built.column_bounds(boxes, bounds)
    middle = (lower + upper) / 2
    frame, records = random_table(10_000, rng)
    _, million = random_table(1_000_000, rng)
    print(f"{len(TERMS)} terms, {len(built.column_names)} columns, {N_BINS} bins")
    rows: list[tuple[str, Callable[[], object], int]] = [
        ("build_design, first time", fresh_build, 20),
        ("build_design, again", lambda: build_design(FORMULA, DOMAIN), 50),
        ("with_domain", lambda: built.with_domain(DOMAIN), 50),
        ("column_bounds", lambda: built.column_bounds(boxes), 50),
        ("radius2", lambda: radius2(built.subterms, bounds, lower, upper, middle), 20),
        ("columns, 10,000 records", lambda: built.columns(records), 20),
        ("patsy.dmatrices, 10,000 records", lambda: patsy.dmatrices(FORMULA, frame), 10),
        ("columns, 1,000,000 records", lambda: built.columns(million), 3),
    ]
    times = []
    for name, run, repeat in rows:
        run()
        times.append((name, round(median_ms(run, repeat), 2)))
        print(f"{name:<34}{times[-1][1]:10.2f} ms")
    RESULTS.mkdir(exist_ok=True)
    table = pd.DataFrame(times, columns=["step", "milliseconds"])
    table.to_csv(RESULTS / "formula.csv", index=False)


if __name__ == "__main__":
    main()
