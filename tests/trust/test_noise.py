"""Noise: the right law, the right scale, never the same twice, nothing global touched.

Every test of scale is one that must also reject: at 30% too little and at 30%
too much it has to fail. With n draws the sample variance of a Gaussian has a
relative standard error of sqrt(2/n), of a Laplace sqrt(5/n): at n = 4,000 and
at n = 8,000 about 2.2% and 2.5%. The tolerance of 12% in variance is more than
four standard errors, and 30% in scale is 69% or -51% in variance.
"""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import pickle
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from properties import examples
from scipy import stats

from dpbinagg import Budget, dp_release
from dpbinagg.errors import BudgetError
from dpbinagg.kernel import noise
from dpbinagg.kernel.noise import (
    MARGIN,
    MAX_SCALE,
    NOISE_BITS,
    Noise,
    SecureNoise,
    SeededNoise,
    gaussian_mechanism,
    in_noise_units,
    noise_source,
)

SCALE = 2.0**40
GRID_BITS = 40
DRAWS = {"gaussian": 4_000, "laplace": 8_000}
TOLERANCE = 0.15
"""Six standard deviations of a mean square of that many draws: 1 in 100 million by chance."""
BY_CHANCE = 1e-9
"""The secure source has no seed: right draws must pass but for one run in 100 million."""
Law = Callable[[int, float], NDArray[np.int64]]


def sources() -> dict[str, Noise]:
    return {"secure": SecureNoise(), "seeded": SeededNoise(np.random.default_rng(8))}


def variance_fits(drawn: NDArray[np.int64], scale: float, law: str) -> bool:
    """Whether draws have the variance of the law at `scale`, to `TOLERANCE`."""
    expected = scale**2 * (2.0 if law == "laplace" else 1.0)
    return abs(float(np.mean(drawn.astype(np.float64) ** 2)) / expected - 1.0) < TOLERANCE


def shape_fits(drawn: NDArray[np.int64], scale: float, law: str) -> bool:
    """Kolmogorov's test of the law at `scale`, at the level `BY_CHANCE`."""
    name = "norm" if law == "gaussian" else "laplace"
    return bool(stats.kstest(drawn / scale, name).pvalue > BY_CHANCE)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("source", ["secure", "seeded"])
def test_scale_and_law(source: str, law: str) -> None:
    drawn = getattr(sources()[source], law)(DRAWS[law], SCALE)
    assert drawn.dtype == np.int64
    assert variance_fits(drawn, SCALE, law)
    assert shape_fits(drawn, SCALE, law)
    assert abs(drawn.mean()) < 6.5 * drawn.std() / math.sqrt(len(drawn))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("source", ["secure", "seeded"])
@pytest.mark.parametrize("wrong", [0.7, 1.3])
def test_wrong_scale_is_rejected(source: str, law: str, wrong: float) -> None:
    drawn = getattr(sources()[source], law)(DRAWS[law], wrong * SCALE)
    assert not variance_fits(drawn, SCALE, law)
    assert not shape_fits(drawn, SCALE, law)


def released(mu: float, count: int = 4_000) -> NDArray[np.float64]:
    """Noise of the mechanism as it is used, in units of the sensitivity."""
    sums = np.zeros(count, dtype=object)
    noisy = gaussian_mechanism(sums, 2.0**GRID_BITS, mu, SecureNoise())
    return noisy * 2.0**-GRID_BITS


@pytest.mark.parametrize("mu", [0.01, 1.0, 50.0, 1e6])
def test_mechanism_has_the_scale_it_promises(mu: float) -> None:
    noise = released(mu) * mu
    assert abs(float(np.mean(noise**2)) - 1.0) < TOLERANCE
    assert stats.kstest(noise, "norm").pvalue > BY_CHANCE


@pytest.mark.parametrize("wrong", [0.7, 1.3])
def test_mechanism_of_another_mu_is_rejected(wrong: float) -> None:
    noise = released(1.0 / wrong)
    assert abs(float(np.mean(noise**2)) - 1.0) > TOLERANCE
    assert stats.kstest(noise, "norm").pvalue < 1e-5


def test_margin_covers_the_discrete_law() -> None:
    """The discrete law on a grid g exceeds mu by a factor of about 1 + (g/sd)^2/24."""
    assert MARGIN - 1.0 > 2.0 ** (-2 * NOISE_BITS) / 24.0


@examples(200)
@given(
    sums=st.lists(st.integers(-(2**75), 2**75), min_size=4, max_size=4),
    direction=st.lists(st.integers(-100, 100), min_size=4, max_size=4),
    bits=st.integers(0, 45),
    mu=st.floats(2.0**-17, 2.0**24),
)
def test_neighbours_are_no_farther_apart_than_mu_says(
    sums: list[int], direction: list[int], bits: int, mu: float
) -> None:
    """In units of the noise, cut to whole numbers: exact, so it holds to the last unit."""
    step = np.array(direction, dtype=object) * 2**bits
    length2 = int((step * step).sum())
    sensitivity = math.nextafter(math.sqrt(max(length2, 1)), math.inf)
    one = np.array(sums, dtype=object)
    apart = in_noise_units(one + step, sensitivity, mu) - in_noise_units(one, sensitivity, mu)
    assert int((apart * apart).sum()) <= (Fraction(mu) * 2**NOISE_BITS) ** 2


def test_without_the_margin_neighbours_are_too_far_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same comparison catches a mechanism that forgets that sums are cut."""
    monkeypatch.setattr("dpbinagg.kernel.noise.MARGIN", 1.0)
    mu, far = 2.0**-17, 0
    for start in range(20):
        one = np.full(9, start, dtype=object)
        apart = in_noise_units(one + 1, 3.0, mu) - in_noise_units(one, 3.0, mu)
        far += int((apart * apart).sum()) > (Fraction(mu) * 2**NOISE_BITS) ** 2
    assert far > 0


def test_mu_too_small_for_so_many_sums_is_refused() -> None:
    with pytest.raises(BudgetError, match="mu is too small"):
        gaussian_mechanism(np.zeros(2**13, dtype=object), 1.0, 2.0**-21, SecureNoise())


@pytest.mark.parametrize("scale", [0.0, 0.5, -1.0, math.nan, math.inf, 2.0**60])
@pytest.mark.parametrize("source", ["secure", "seeded"])
def test_scale_beyond_the_grid_is_refused(source: str, scale: float) -> None:
    with pytest.raises(ValueError, match="noise scale"):
        sources()[source].gaussian(3, scale)


def test_ten_thousand_values_in_about_a_third_of_a_second() -> None:
    """Processor time, so that other work on the machine does not count."""
    source = SecureNoise()
    source.gaussian(10, SCALE)
    start = time.process_time()
    source.gaussian(10_000, SCALE)
    assert time.process_time() - start < 0.5


def table(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.random(n), "y": rng.random(n)})


def release(rng: Any = None) -> NDArray[np.float64]:
    made = dp_release(
        "y ~ x",
        table(),
        1.0,
        bounds={"x": (0, 1), "y": (0, 1)},
        partition="grid",
        budget=Budget(ranges=0, scores=0),
        rng=rng,
    )
    return np.concatenate([np.ravel(value) for value in made.statistics.values()])


def noise_of(numbers: NDArray[np.float64]) -> set[float]:
    """Released numbers but the public zeros; equal noise would make equal numbers."""
    return set(numbers[numbers != 0.0].tolist())


def assert_all_different(releases: list[NDArray[np.float64]]) -> None:
    seen: set[float] = set()
    for numbers in releases:
        assert not seen & noise_of(numbers)
        seen |= noise_of(numbers)


def test_secure_releases_never_repeat() -> None:
    assert_all_different([release() for _ in range(5)])


def _child(queue: Any) -> None:
    queue.put(release())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_never_repeat() -> None:
    """Children that share the parent's memory at the moment of the fork draw on their own."""
    before = release()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_child, args=(queue,)) for _ in range(4)]
    for child in children:
        child.start()
    drawn = [queue.get(timeout=60) for _ in children]
    for child in children:
        child.join(60)
    assert_all_different([before, *drawn, release()])


def wait_for_the_stock(source: SecureNoise) -> None:
    """Until all that was begun is drawn, by whoever."""
    for _, future in source._begun:
        future.result()


def _drawn_ahead(source: SecureNoise, queue: Any) -> None:
    queue.put(source.gaussian(400, MAX_SCALE))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_in_the_middle_of_a_release_shares_nothing() -> None:
    """What was drawn ahead stays with the parent."""
    source = SecureNoise()
    source.gaussian(300, MAX_SCALE)
    wait_for_the_stock(source)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_drawn_ahead, args=(source, queue))
    child.start()
    theirs = queue.get(timeout=60)
    child.join(60)
    assert not set(theirs.tolist()) & set(source.gaussian(3_000, MAX_SCALE).tolist())


def test_threads_never_repeat() -> None:
    drawn: list[NDArray[np.float64]] = []
    threads = [threading.Thread(target=lambda: drawn.append(release())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(drawn) == 6
    assert_all_different(drawn)


def test_many_values_at_once_never_repeat() -> None:
    """Values are drawn by several threads; each has randomness of its own."""
    drawn = SecureNoise().gaussian(5_000, 2.0**55)  # two are equal by chance once in 10^10
    assert len(set(drawn.tolist())) == 5_000


@pytest.mark.parametrize("rng", [None, 3])
def test_global_state_is_not_touched(rng: int | None) -> None:
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    legacy, plain = np.random.get_state(), random.getstate()  # noqa: NPY002
    release(rng)
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(one, two) for one, two in zip(legacy, after, strict=True))
    assert plain == random.getstate()


def test_global_seed_has_no_influence() -> None:
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    first = release()
    np.random.seed(7)  # noqa: NPY002
    random.seed(7)
    assert_all_different([first, release()])


def test_seed_repeats_and_is_marked() -> None:
    assert np.array_equal(release(3), release(3))
    assert_all_different([release(3), release(4)])
    made = dp_release("y ~ x", table(), 1.0, bounds={"x": (0, 1), "y": (0, 1)}, rng=3)
    assert not made.privacy.secure
    assert "not for publication" in made.privacy.statement


def test_generator_goes_on() -> None:
    generator = np.random.default_rng(3)
    assert_all_different([release(generator), release(generator)])


def test_stages_of_a_release_do_not_share_noise() -> None:
    """On an empty table all numbers are noise; none is a multiple of another."""
    made = dp_release(
        "y ~ x",
        table(0),
        1.0,
        bounds={"x": (0, 1), "y": (0, 1)},
        partition="grid",
        budget=Budget(ranges=0, scores=0),
        rng=5,
    )
    units = []
    for key, scale in made.noise_scales.items():
        if key in ("products", "count", "dev_x", "dev_y"):
            # Of a symmetric matrix, one half.
            drawn = np.triu(scale) > 0 if key == "products" else scale > 0
            units.append(made.statistics[key][drawn] / scale[drawn])
    assert len(units) == 4
    standard = np.concatenate(units)
    gaps = np.abs(standard[:, None] - standard[None, :])[np.triu_indices(len(standard), 1)]
    assert gaps.min() > 1e-9


def test_values_drawn_ahead_follow_the_law() -> None:
    source, n = SecureNoise(), DRAWS["gaussian"]
    source.gaussian(n, MAX_SCALE)
    wait_for_the_stock(source)
    drawn = source.gaussian(n, MAX_SCALE)
    assert len(drawn) == n
    assert variance_fits(drawn, MAX_SCALE, "gaussian")
    assert shape_fits(drawn, MAX_SCALE, "gaussian")


def test_values_drawn_ahead_are_used_once() -> None:
    source = SecureNoise()
    sizes = (0, 70, 50, 400, 0, 3_000, 1)
    taken = [source.gaussian(size, MAX_SCALE) for size in sizes]
    taken += [source.gaussian(20, SCALE), source.laplace(90, SCALE)]
    assert [len(part) for part in taken] == [*sizes, 20, 90]
    assert len(np.unique(np.concatenate(taken))) == sum(len(part) for part in taken)


def test_the_stock_is_bounded() -> None:
    source = SecureNoise()
    for size in (1, 100, 5_000):
        source.gaussian(size, MAX_SCALE)
        held = len(source._drawn) + sum(n for n, _ in source._begun)
        assert held <= max(noise.FIRST, min(size, noise.MOST)) + noise.DRAWS


def test_nothing_is_drawn_for_a_release_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []
    monkeypatch.setattr(noise, "_sample", lambda *kind: drawn.append(kind[-1]))
    waiting: list[Callable[[], NDArray[np.int64]]] = []

    class Later:
        """Threads that have not begun yet."""

        def submit(self, *work: Any) -> Future[NDArray[np.int64]]:
            waiting.append(partial(*work))
            return Future()

    monkeypatch.setattr(noise, "single_thread", lambda: False)
    monkeypatch.setattr(noise, "pool", lambda *_: Later())
    source = SecureNoise()
    assert waiting
    del source
    for work in waiting:
        work()
    assert not any(drawn)


@pytest.mark.parametrize("lonely", [True, False])
def test_what_nobody_has_begun_is_drawn_by_who_asks(
    lonely: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Never:
        """Threads that are busy with something else."""

        def submit(self, *work: Any) -> Future[NDArray[np.int64]]:
            return Future()

    monkeypatch.setattr(noise, "single_thread", lambda: lonely)
    monkeypatch.setattr(noise, "pool", lambda *_: Never())
    source = SecureNoise()
    taken = np.concatenate([source.gaussian(size, MAX_SCALE) for size in (3, 700, 90, 2_000)])
    assert len(np.unique(taken)) == len(taken) == 2_793


def test_a_release_asks_for_what_it_draws_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values of a law and scale that nobody asks for would double the work unnoticed."""
    drawn: dict[tuple[str, float], int] = {}
    asked: dict[tuple[str, float], int] = {}
    sample = noise._sample

    def note_sample(law: Any, scale: float, size: int) -> NDArray[np.int64]:
        drawn[law, scale] = drawn.get((law, scale), 0) + size
        return sample(law, scale, size)

    def noting(law: str) -> Any:
        draw = getattr(SecureNoise, law)

        def note(self: SecureNoise, size: int, scale: float) -> NDArray[np.int64]:
            asked[law, scale] = asked.get((law, scale), 0) + size
            return draw(self, size, scale)

        return note

    monkeypatch.setattr(noise, "_sample", note_sample)
    for law in ("gaussian", "laplace"):
        monkeypatch.setattr(SecureNoise, law, noting(law))
    rng = np.random.default_rng(5)
    x = rng.uniform(size=(3_000, 2))
    frame = pd.DataFrame({"y": x.sum(axis=1), "a": x[:, 0], "b": x[:, 1]})
    dp_release("y ~ a + b", frame, mu=1)
    (gaussian,) = [kind for kind in asked if kind[0] == "gaussian"]
    (laplace,) = [kind for kind in asked if kind[0] == "laplace"]
    assert set(drawn) == {gaussian, laplace}
    for kind in drawn:
        assert asked[kind] <= drawn[kind] <= 2 * asked[kind] + noise.FIRST


def test_noise_drawn_ahead_is_not_copied() -> None:
    with pytest.raises(TypeError, match="not be used twice"):
        pickle.dumps(SecureNoise())
    with pytest.raises(TypeError, match="not be used twice"):
        copy.deepcopy(SecureNoise())


def test_failing_source_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: SecureNoise, size: int, sd: float) -> NDArray[np.int64]:
        raise OSError("no randomness")

    monkeypatch.setattr(SecureNoise, "gaussian", broken)
    with pytest.raises(OSError, match="no randomness"):
        release()


def test_source_of_noise() -> None:
    assert noise_source(None).secure
    assert not noise_source(1).secure
    assert not noise_source(np.random.default_rng(1)).secure
