"""A cell of the populations benchmark: a formula, public bounds, a sample size, a privacy level."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from common import rng_for

Bounds = Mapping[str, Any]
Source = Callable[[], pd.DataFrame]

ROWS = 200_000
"""Rows of a simulated population: many times n, so that a draw repeats few of them."""

KEPT = 6
"""Tables that a process keeps: cells of one population follow each other."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting of the benchmark."""

    name: str
    formula: str
    bounds: Bounds = field(repr=False, hash=False)
    n: int
    source: Source = field(repr=False, compare=False)
    mu: float = 1.0
    note: str = ""
    rare: tuple[str, ...] = ()
    """Coefficients of rare levels that do nothing: significant, they are false findings."""

    def population(self) -> pd.DataFrame:
        """The complete rows of the whole table, with the columns that the formula needs."""
        table = _table(self.source)
        used = [name for name in table if name in re.findall(r"\w+", self.formula)]
        return table[used].dropna().reset_index(drop=True)

    def draw(self, rng: np.random.Generator) -> pd.DataFrame:
        """`n` rows with replacement."""
        population = self.population()
        rows = rng.integers(0, len(population), self.n)
        return population.take(rows).reset_index(drop=True)


@lru_cache(maxsize=KEPT)
def _table(source: Source) -> pd.DataFrame:
    return source()


def simulated(law: Callable[..., pd.DataFrame], **options: Any) -> Source:
    """A population of a law: the same rows in every run and process."""
    key = (law.__name__, sorted(options.items()))
    return lambda: law(ROWS, rng_for("population", *key), **options)


def wide(bounds: Bounds, factor: float) -> dict[str, Any]:
    """Numeric bounds `factor` times as wide about their middle; levels stay."""
    widened = dict(bounds)
    for name, bound in bounds.items():
        if isinstance(bound, tuple):
            middle, half = (bound[0] + bound[1]) / 2, (bound[1] - bound[0]) / 2
            widened[name] = (middle - factor * half, middle + factor * half)
    return widened


def without(bounds: Bounds, *names: str) -> dict[str, Any]:
    """Bounds without those of these variables: their ranges are found privately."""
    return {name: bound for name, bound in bounds.items() if name not in names}
