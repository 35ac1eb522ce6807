"""Every released number is a whole number before it is rounded: low bits tell nothing.

A floating-point sum plus floating-point noise has low bits that depend on the
sum. Here sums and noise are whole numbers in units of a public grid, far below
the precision of doubles; what is released is a public function of their total,
and the set of numbers that can come out is the same for all tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg.audit.specification import Specification
from dpbinagg.audit.tables import ordinary_table
from dpbinagg.kernel.noise import (
    MARGIN,
    NOISE_BITS,
    SecureNoise,
    SeededNoise,
    gaussian_mechanism,
)

GRID_BITS = 40
BOUNDS: dict[str, Any] = {"x": (0, 0.3), "z": (-1e5, 7), "g": ["a", "b", "c"], "y": (-1, 1e3)}
FORMULA = "y ~ x + z + I(z**2) + C(g)"


def table(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "x": rng.random(n) / 3,
            "z": rng.normal(0, 1e4, n),
            "g": rng.choice(["a", "b", "c"], n),
            "y": rng.normal(5, 100, n),
        }
    )


@pytest.mark.parametrize("rng", [None, 4], ids=["secure", "seeded"])
def test_every_mechanism_gives_whole_numbers(rng: int | None) -> None:
    """All stages, ranges and rounds of scores included, in the units of the mechanism."""
    specification = Specification.of(FORMULA, 1.0, bounds=BOUNDS)
    generator = None if rng is None else np.random.default_rng(rng)
    transcript, made = specification.record(table(), generator)
    names = {made.privacy.mechanisms[call.entry].name for call in transcript.calls}
    assert {"one-way counts", "bin counts", "second moments", "residual scores"} <= names
    for call in transcript.calls:
        assert all(isinstance(value, int) for value in call.sums.ravel().tolist())
        assert (call.noisy == np.rint(call.noisy)).all()


@examples(60)
@given(
    sums=st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=5),
    shift=st.integers(-(2**45), 2**45),
    seed=st.integers(0, 2**32),
)
def test_noise_does_not_depend_on_the_sums(sums: list[int], shift: int, seed: int) -> None:
    """The same draws are added to any sums, exactly, before one rounding to double."""
    bits = 40
    noise = SeededNoise(np.random.default_rng(seed)).gaussian(len(sums), 2.0**NOISE_BITS)
    for exact in (sums, [value + shift for value in sums]):
        source = SeededNoise(np.random.default_rng(seed))
        noisy = gaussian_mechanism(np.array(exact, dtype=object), 2.0**bits / MARGIN, 1.0, source)
        expected = [
            float(value + (extra >> (NOISE_BITS - bits)))
            for value, extra in zip(exact, noise.tolist(), strict=True)
        ]
        assert noisy.tolist() == expected


def test_low_bits_of_neighbours_have_one_law() -> None:
    """The lowest 8 bits of noisy counts of c and c + 1: chi-square, seven standard deviations."""
    drawn = [
        gaussian_mechanism(
            np.full(20_000, count * 2**GRID_BITS, dtype=object),
            2.0**GRID_BITS,
            1.0,
            SecureNoise(),
        ).astype(np.int64)
        & 255
        for count in (7, 8)
    ]
    table_ = np.array([np.bincount(bits, minlength=256) for bits in drawn])
    expected = table_.sum(axis=0) / 2.0
    statistic = float(((table_ - expected) ** 2 / expected).sum())
    # 255 degrees of freedom: mean 255, standard deviation 22.6.
    assert statistic < 255 + 7 * 22.6


def test_ordinary_table_fits_the_specification() -> None:
    specification = Specification.of(FORMULA, 1.0, bounds=BOUNDS)
    frame = ordinary_table(
        specification.design.domain, specification.variables, 5, np.random.default_rng(0)
    )
    assert set(frame) == set(BOUNDS)
