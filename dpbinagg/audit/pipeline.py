"""Tests between neighbours on complete releases.

Here the release is a black box: `dp_release` is run many times on each of two
tables, and the test works on the numbers that came out. A first part of the
runs teaches it which combination of numbers tells the tables apart; its
threshold is then fixed, and the other part is judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpbinagg.audit.bounds import Errors
from dpbinagg.report.verbs import Release

Floats = NDArray[np.float64]
Numbers = dict[str, float]

RIDGE = 1e-6
"""Relative variance below which a combination of numbers counts as exact."""


def released_numbers(release: Release) -> Numbers:
    """The numbers of a release by name: statistics, bounds, and the shape of everything."""
    numbers: Numbers = {}
    held = {f"answer {i}": entry.answer.values for i, entry in enumerate(release.transcript)}
    for key, value in {**release.statistics, **held}.items():
        for name, array in _arrays(key, value):
            numbers[f"{name}.size"] = float(array.size)
            for place, number in enumerate(array.ravel().tolist()):
                if math.isfinite(number):
                    numbers[f"{name}[{place}]"] = number
                else:
                    # Not a number, as the total without a share of the budget: it tells by itself.
                    numbers[f"{name}[{place}] is {number}"] = 1.0
    for place, column in enumerate(release.column_names):
        numbers[f"column {place} {column}"] = 1.0
    for name, variable in release.domain.items():
        for side in ("lower", "upper"):
            if hasattr(variable, side):
                numbers[f"{name}.{side}"] = getattr(variable, side)
    return numbers


def _arrays(key: str, value: object) -> list[tuple[str, Floats]]:
    if isinstance(value, dict):
        return [pair for name, part in value.items() for pair in _arrays(f"{key}.{name}", part)]
    if isinstance(value, list | tuple):
        return [pair for i, part in enumerate(value) for pair in _arrays(f"{key}.{i}", part)]
    return [(key, np.asarray(value, dtype=np.float64))]


def as_matrix(runs: list[Numbers], names: list[str]) -> Floats:
    """One row for each run; a number that a run lacks is 0."""
    return np.array([[numbers.get(name, 0.0) for name in names] for numbers in runs])


def discriminant(without: Floats, present: Floats) -> tuple[Floats, float]:
    """Direction and threshold that tell two samples apart.

    Fisher's linear discriminant ``C^-1 (m1 - m0)`` on standardised numbers,
    C their pooled correlation with a small ridge; the threshold is half-way.
    """
    pooled = np.sqrt((without.var(axis=0) + present.var(axis=0)) / 2.0)
    mean = (without.mean(axis=0) + present.mean(axis=0)) / 2.0
    scale = np.where(pooled > RIDGE * np.maximum(np.abs(mean), 1.0), pooled, RIDGE)
    first, second = (without - mean) / scale, (present - mean) / scale
    covariance = (np.cov(first, rowvar=False) + np.cov(second, rowvar=False)) / 2.0
    covariance = np.atleast_2d(covariance) + RIDGE * np.eye(first.shape[1])
    direction = np.linalg.solve(covariance, second.mean(axis=0) - first.mean(axis=0)) / scale
    threshold = float((without.mean(axis=0) + present.mean(axis=0)) @ direction / 2.0)
    return direction, threshold


def learned_test(
    without: Callable[[], Release], present: Callable[[], Release], runs: int, lessons: int
) -> Errors:
    """Errors of a learned test on `runs` complete releases of each table.

    Parameters
    ----------
    without, present : callable
        Give a new release of either table.
    lessons : int
        Further releases of each table from which the test is learned first.
    """
    samples = [
        [released_numbers(make()) for _ in range(runs + lessons)] for make in (without, present)
    ]
    names = list(dict.fromkeys(name for sample in samples for run in sample for name in run))
    first, second = (as_matrix(sample, names) for sample in samples)
    direction, threshold = discriminant(first[:lessons], second[:lessons])
    return Errors.from_scores(first[lessons:] @ direction, second[lessons:] @ direction, threshold)
