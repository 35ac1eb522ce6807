"""Table 1: ours from a study, and one made with OpenDP for that purpose alone, at the same mu."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from study_settings import Setting

CANDIDATES = 256
"""Where OpenDP looks for a median, evenly within the bounds."""


def bounds_of(bound: Any) -> tuple[float, float]:
    """Ends of a number's bounds."""
    return (bound[0], bound[-1]) if isinstance(bound, tuple | range) else (math.nan, math.nan)


def is_factor(bound: Any) -> bool:
    """Whether a variable is described by the shares of its levels."""
    return isinstance(bound, list)


def exact(frame: pd.DataFrame, setting: Setting) -> dict[tuple[str, str, str], float]:
    """Means, standard deviations and medians of numbers, shares of levels."""
    found: dict[tuple[str, str, str], float] = {}
    for name, bound in setting.bounds.items():
        column = frame[name]
        if is_factor(bound):
            for level in bound:
                found[name, str(level), "share"] = float((column == level).mean())
            continue
        column = column.astype(float).clip(*bounds_of(bound))
        found[name, "", "mean"], found[name, "", "sd"] = column.mean(), column.std(ddof=0)
        found[name, "", "median"] = column.quantile(0.5, interpolation="lower")
    return found


def by_opendp(
    frame: pd.DataFrame, setting: Setting, mu: float
) -> dict[tuple[str, str, str], float]:
    """The same by OpenDP's Gaussian and noisy-max measurements; the number of records is public.

    Every statistic gets the same share of ``mu^2 / 2``, the zCDP parameter of mu-GDP: sums, centred
    sums of squares, histograms, and medians by noisy maximum of rank scores. OpenDP's noise has no
    seed.
    """
    import opendp.prelude as dp

    dp.enable_features("contrib")
    numbers = [name for name, bound in setting.bounds.items() if not is_factor(bound)]
    factors = [name for name in setting.bounds if name not in numbers]
    each = mu / math.sqrt(3 * len(numbers) + len(factors))
    n, found = len(frame), {}

    def noisy_sum(values: np.ndarray, low: float, high: float) -> float:
        reach = max(abs(low), abs(high))
        domain = dp.vector_domain(dp.atom_domain(bounds=(low, high), nan=False))
        made = (domain, dp.symmetric_distance()) >> dp.t.then_sum()
        measured = made >> dp.m.then_gaussian(reach / each)
        return float(measured(list(np.clip(values, low, high))))

    for name in numbers:
        low, high = map(float, bounds_of(setting.bounds[name]))
        half, middle = (high - low) / 2.0, (high + low) / 2.0
        x = frame[name].to_numpy(dtype=float) - middle
        mean = noisy_sum(x, -half, half) / n
        square = noisy_sum(x**2 - half**2 / 2.0, -(half**2) / 2.0, half**2 / 2.0) / n
        found[name, "", "mean"] = mean + middle
        found[name, "", "sd"] = math.sqrt(max(square + half**2 / 2.0 - mean**2, 0.0))
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
        places = np.unique(np.linspace(low, high, CANDIDATES))
        if isinstance(setting.bounds[name], range):
            places = np.arange(low, high + 1.0)
        score = dp.t.make_quantile_score_candidates(*space, candidates=list(places), alpha=0.5)
        law = dp.zero_concentrated_divergence()
        # The parameter falls with the square of the scale.
        unit = (score >> dp.m.then_noisy_max(law, scale=1.0, negate=True)).map(1)
        scale = math.sqrt(unit / (each**2 / 2.0))
        choose = score >> dp.m.then_noisy_max(law, scale=scale, negate=True)
        found[name, "", "median"] = float(places[choose(list(x + middle))])
    for name in factors:
        space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
        levels = [str(level) for level in setting.bounds[name]]
        count = dp.t.make_count_by_categories(*space, categories=levels, MO=dp.L2Distance[float])
        measured = count >> dp.m.then_gaussian(1.0 / each)
        counts = measured([str(value) for value in frame[name]])
        for level, value in zip(levels, counts, strict=False):
            found[name, level, "share"] = float(np.clip(value / n, 0.0, 1.0))
    return found
