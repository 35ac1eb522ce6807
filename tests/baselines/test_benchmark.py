"""The accuracy benchmark's parts, on tables small enough for a test."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = pytest.importorskip("accuracy")
    yield module
    for name in ("accuracy", "common"):
        sys.modules.pop(name, None)


def test_seeds_are_reproducible_and_distinct(accuracy) -> None:  # type: ignore[no-untyped-def]
    one, same, other = (accuracy.rng_for("a", k).normal() for k in (1, 1, 2))
    assert one == same != other


def test_median_error_is_that_of_a_normal_sample(accuracy) -> None:  # type: ignore[no-untyped-def]
    import common

    sample = np.random.default_rng(0).normal(size=10_000)
    # sqrt(pi/2)/sqrt(n); the spread of the estimate is about 10% at n = 10,000.
    assert common.median_error(sample) == pytest.approx(np.sqrt(np.pi / 2) / 100, rel=0.4)


def test_a_replicate_knows_the_truth(accuracy) -> None:  # type: ignore[no-untyped-def]
    setting = accuracy.Setting("test", 2000, 2)
    rows = accuracy.simulate((setting, 0, ("ols", "ssp", "dpgd")))
    assert [row["method"] for row in rows] == ["ols", "ssp", "dpgd"]
    assert rows[0]["error"] < 0.1
    assert rows == accuracy.simulate((setting, 0, ("ols", "ssp", "dpgd")))
    frame, _ = setting.draw(accuracy.rng_for("data"))
    for name, (low, high) in setting.bounds().items():
        assert frame[name].between(low, high).mean() > 0.999


def test_loose_bounds_are_that_much_wider(accuracy) -> None:  # type: ignore[no-untyped-def]
    tight = accuracy.Setting("t", 10, 2).bounds()
    loose = accuracy.Setting("t", 10, 2, widen_x=5, widen_y=10).bounds()
    for name, factor in (("x1", 5), ("y", 10)):
        assert np.diff(loose[name])[0] == pytest.approx(factor * np.diff(tight[name])[0])


@pytest.mark.parametrize("errors", ["exponential", "lognormal", "t3", "normal"])
def test_errors_have_mean_zero(accuracy, errors: str) -> None:  # type: ignore[no-untyped-def]
    setting = accuracy.Setting("t", 200_000, 1, errors)
    rng = np.random.default_rng(0)
    drawn = setting.noise(rng.uniform(size=(200_000, 1)), rng)
    assert abs(drawn.mean()) < 5 * drawn.std() / np.sqrt(200_000)


def test_absent_data_are_skipped_with_a_line(accuracy, capsys) -> None:  # type: ignore[no-untyped-def]
    assert accuracy.uci_keys(None) == []
    assert "--data" in capsys.readouterr().out
