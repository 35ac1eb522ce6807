"""A GDP audit of the baselines: two neighbouring tables, told apart by likelihood ratio.

For noise of known scale the best test between neighbours is linear in the
released vector, and its power is that of N(0, 1) against N(m, 1); m must not
exceed mu. m is estimated from draws of the mechanism itself, so a fault in
either its sensitivity or its noise shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbinagg.baselines import sketch, sufficient
from dpbinagg.baselines.descent import descend
from dpbinagg.baselines.problem import Problem, prepare

Array = NDArray[np.float64]
Mechanism = Callable[[Problem, float, np.random.Generator], Array]
DRAWS = 4000
TOLERANCE = 4 * np.sqrt(2.5 / DRAWS)
"""Four standard errors of the estimated m near 1 (variance (2 + m^2/2)/DRAWS)."""


def neighbours(d: int = 5, n: int = 200) -> tuple[Problem, Problem]:
    """A table, and the same with one record in the corner of the domain."""
    rng = np.random.default_rng(0)
    model = rng.uniform(0, 1, (n, d)), rng.uniform(0, 1, n)
    without = prepare(model, None, ([(0, 1)] * d, (0, 1)))
    features = np.vstack([without.features, np.ones(d + 1)])
    return without, replace(without, features=features, target=np.append(without.target, 1.0))


def distinguishable(mechanism: Mechanism, mu: float) -> float:
    """The m of N(0, 1) against N(m, 1) that the best linear test reaches."""
    rng = np.random.default_rng(1)
    tables = neighbours()
    draws = [np.array([mechanism(t, mu, rng) for _ in range(2 * DRAWS)]) for t in tables]
    fitted, held_out = ([d[half] for d in draws] for half in (slice(DRAWS), slice(DRAWS, None)))
    pooled = sum(np.cov(d, rowvar=False) for d in fitted) / 2
    direction = np.linalg.solve(pooled, fitted[1].mean(axis=0) - fitted[0].mean(axis=0))
    absent, present = (d @ direction for d in held_out)
    spread = np.sqrt((absent.var() + present.var()) / 2)
    return float((present.mean() - absent.mean()) / spread)


def flat(noisy: sufficient.NoisyMoments) -> Array:
    distinct = np.triu_indices(len(noisy.gram))
    more = [x for x in (noisy.total_square, noisy.count) if x is not None]
    return np.concatenate([noisy.gram[distinct], noisy.cross, more or [noisy.smallest]])


def ssp(problem: Problem, mu: float, rng: np.random.Generator) -> Array:
    return flat(sufficient.ssp_moments(problem, mu, rng))


def adassp(problem: Problem, mu: float, rng: np.random.Generator) -> Array:
    return flat(sufficient.adassp_moments(problem, mu, rng))


def one_epoch(problem: Problem, mu: float, rng: np.random.Generator) -> Array:
    return descend(problem, mu, np.ones(1), np.full(1, 0.1), 1, rng)[0]


@pytest.mark.parametrize("mechanism", [ssp, adassp])
def test_mechanism_keeps_its_promise(mechanism: Mechanism) -> None:
    reached = distinguishable(mechanism, 1.0)
    assert reached < 1.0 + TOLERANCE
    assert reached > 0.7, "the audit should come near the bound in the corner"


@pytest.mark.parametrize("mechanism", [ssp, adassp])
def test_coordinatewise_calibration_is_caught(
    mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A faulty copy: every entry moves by at most 1, so noise 1/mu, as if they were one."""
    monkeypatch.setattr(sufficient, "gram_sensitivity", lambda limits: 1.0)
    monkeypatch.setattr(sufficient, "cross_sensitivity", lambda problem: 1.0)
    assert distinguishable(mechanism, 1.0) > 1.0 + TOLERANCE


def test_one_epoch_of_descent_keeps_its_promise() -> None:
    assert distinguishable(one_epoch, 1.0) < 1.0 + TOLERANCE


@pytest.mark.parametrize("faulty", [False, True])
def test_sketch_keeps_its_delta(faulty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate of the worst event in the sketch's own draws, on tables where it is worst.

    Neighbours are the empty table and one record of the largest norm; the
    statistic is the squared length of the sketch in its direction. The faulty
    copy allows a ratio twice too large.
    """
    epsilon, delta, rows, count = 1.0, 0.02, 20, 40_000
    _, full = neighbours()
    record = replace(full, features=full.features[-1:], target=full.target[-1:])
    empty = replace(full, features=full.features[:0], target=full.target[:0])
    allowed = sketch.largest_ratio(epsilon, delta, rows)
    ratio = allowed * (2 if faulty else 1)
    monkeypatch.setattr(sketch, "largest_ratio", lambda *_: ratio)
    direction = np.append(record.features[0], record.target[0])
    rng = np.random.default_rng(2)

    def lengths(problem: Problem) -> Array:
        drawn = sketch.sketch_rows(problem, epsilon, delta, rows * count, rng) @ direction
        squared: Array = (drawn.reshape(count, rows) ** 2).sum(axis=1)
        return squared

    absent, present = lengths(empty), lengths(record)
    threshold = absent.mean() / rows * 2 * (1 + ratio) / ratio
    threshold *= epsilon + rows * np.log1p(ratio) / 2
    excess = (present > threshold).mean() - np.exp(epsilon) * (absent > threshold).mean()
    error = 4 * np.sqrt((1 + np.exp(2 * epsilon)) * delta / count)
    assert (excess > delta + error) == faulty
