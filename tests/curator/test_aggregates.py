"""Contributions stay within the sensitivity whatever the values, and sums are exact."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from whole_factors import factors

from dpbinagg.curator.aggregates import (
    Accumulator,
    PackedFactors,
    put_contributions,
    whole_square,
)
from dpbinagg.curator.privatise import FACTOR_BITS, GRID_BITS
from dpbinagg.public.scaling import BinScaling, ColumnScaling

ODD = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -0.0, 5e-324, 1.0, -1.0])
CENTRES = (0.0, 1.0, np.inf, np.nan)
UNITS = (1.0, 5e-324, 1e-309, 1e308, np.inf, np.nan)


@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("unit", UNITS)
def test_no_value_contributes_more_than_one(centre: float, unit: float) -> None:
    """Not even one that is not a number, nor one scaled by what is none."""
    n = len(ODD)
    columns = np.stack([ODD, ODD[::-1]], axis=1)
    width = np.full((1, 2), unit)
    bins = np.zeros(n, dtype=np.int64)
    joint = BinScaling(np.full((1, 2), centre), width, width, centre, unit, 1.0)
    whole = np.empty((n, 3), dtype=np.int64)
    scaling = ColumnScaling(np.full(2, centre), np.full(2, unit), centre, unit)
    with warnings.catch_warnings(action="error"):
        # The inverse of a unit is public, and may be infinite.
        warnings.filterwarnings("ignore", message="overflow encountered in.* divide")
        put_contributions(columns, ODD, bins, joint, whole)
        f = factors(columns, ODD, scaling)
    length = np.linalg.norm(whole[:, :2] / 2.0**GRID_BITS, axis=1)
    assert (length <= 1.0 + 2.0**-36).all()
    assert (np.abs(whole[:, 2] / 2.0**GRID_BITS) <= 1.0).all()
    assert (np.abs(f) <= 2.0**FACTOR_BITS).all()


def test_sums_beyond_64_bits() -> None:
    sums = Accumulator((1,))
    n = 2**22
    for _ in range(20):
        sums.add(np.array([n * 2**GRID_BITS]), n)
    assert sums.total().tolist() == [20 * n * 2**GRID_BITS]


@given(st.lists(st.integers(-(2**FACTOR_BITS), 2**FACTOR_BITS), min_size=1, max_size=40))
def test_packed_factors_are_the_same_numbers(values: list[int]) -> None:
    whole = np.array([values, values[::-1]], dtype=np.int32)
    packed = PackedFactors.of(whole)
    assert packed.shape == whole.shape
    assert np.array_equal(np.asarray(packed), whole)
    assert np.array_equal(np.asarray(packed[:, 1:]), whole[:, 1:])
    part = np.empty(whole.shape)
    part[:] = packed
    assert np.array_equal(part, whole)


@pytest.mark.parametrize("rows", [1, 2, 42, 43, 85])
@pytest.mark.parametrize("records", [1, 63, 5000, 20_001])
def test_squares_of_factors_are_exact(rows: int, records: int) -> None:
    """Also where all factors are as large as they can be and odd.

    20,001 of their products add up to more than 2^53, and to far less than 2^63.
    """
    rng = np.random.default_rng(rows)
    largest = 2**FACTOR_BITS - 1
    for low in (-largest, largest - 999, largest):
        f = rng.integers(low, largest, (rows, records), endpoint=True)
        exact = f @ f.T
        assert (whole_square(f.astype(np.float64)) == exact).all()
