"""Exact arithmetic: sums of whole numbers, cuts that never lengthen, scaling of any input."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbinagg.kernel.maps import Deviations
from dpbinagg.kernel.view import (
    FACTOR_BITS,
    LINEAR_BITS,
    LONGEST_RUN,
    MOST_RECORDS,
    ONE,
    Part,
    Rows,
    View,
    add_up,
    cut,
    norms,
    on_grid,
    put_combinations,
    row_sums,
    whole_square,
)
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition

ODD = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -0.0, 5e-324, 1.0, -1.0])
CENTRES = (0.0, 1.0, np.inf, np.nan)
UNITS = (1.0, 5e-324, 1e-309, 1e308, np.inf, np.nan)

assert LONGEST_RUN * 2 ** (2 * FACTOR_BITS) < 2**53
assert MOST_RECORDS * 2 ** (2 * FACTOR_BITS) < 2**63


def as_they_are(records: Any) -> tuple[Any, Any, Any]:
    columns = np.stack([records["x"], records["z"]], axis=1)
    return columns, records["y"], np.empty((0, len(columns)), dtype=np.int64)


@pytest.mark.parametrize("centre", CENTRES)
@pytest.mark.parametrize("unit", UNITS)
def test_no_value_contributes_more_than_one(centre: float, unit: float) -> None:
    """Not even one that is not a number, nor one scaled by what is none."""
    partition = Partition.grid(Domain({"g": (0, 1)}), 1)
    pair = np.full((1, 2), centre), np.full((1, 2), unit)
    deviations = Deviations(partition, (0, 1), *pair, 1.0)
    response = Deviations(partition, (-1,), pair[0][:, :1], pair[1][:, :1], 1.0)
    rows = Rows(as_they_are, np.full(2, centre), np.full(2, unit), centre, unit)
    known = ~np.isnan(ODD)
    records = {"x": ODD[known], "z": ODD[::-1][known], "y": ODD[known], "g": ODD[known]}
    with warnings.catch_warnings(action="error"):
        # The inverse of a unit is public, and may be infinite.
        warnings.filterwarnings("ignore", message="overflow encountered in.* divide")
        view = View(Part(records), rows, {})
        for map_ in (deviations, response):
            whole = map_.vectors(view)
            assert (whole == np.rint(whole)).all()
            assert ((whole**2).sum(axis=0) <= 4.0**LINEAR_BITS).all()
        out = np.empty((3, known.sum()))
        rows.put_factors(*view.mapped[:2], out)
    assert (np.abs(out) <= ONE).all()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.integers(1, 40),
    st.integers(0, 2**32),
    st.sampled_from([FACTOR_BITS, LINEAR_BITS]),
    st.floats(-150, 150),
)
def test_a_cut_vector_is_no_longer_than_one(k: int, seed: int, bits: int, power: float) -> None:
    """In whole numbers: rounding to the nearest would be longer in a third of all cases."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(k, 50)) * 10.0**power
    vectors[:, ::7] = 0.0
    vectors[0, ::7] = 10.0**power
    vectors[:, 1] = [np.nan] * k
    vectors[-1, 2] = np.inf
    whole, halves = np.empty_like(vectors), np.full(50, 0.5)
    norm = norms(vectors, whole)
    parts = [(vectors[:1] * 2.0, halves), (vectors[1:], np.ones(50))]
    squares = cut(parts, norm, 10.0**power, bits, whole)
    exact = [sum(int(entry) ** 2 for entry in column) for column in whole.T]
    assert max(exact) <= 4**bits
    assert squares.tolist() == exact
    assert not whole[:, 1].any()
    # Where squares neither overflow nor vanish, no more is lost than the cut toward zero takes.
    for place in range(3, 50) if abs(power) < 145.0 else ():
        length = np.linalg.norm(vectors[:, place] / 10.0**power)
        expected = vectors[:, place] / 10.0**power / max(length, 1.0)
        np.testing.assert_allclose(whole[:, place] * 2.0**-bits, expected, atol=2.0**-bits)


def test_lengths_do_not_depend_on_the_number_of_vectors() -> None:
    vectors = np.random.default_rng(0).normal(size=(33, 400))
    room = np.empty_like(vectors)
    alone = [norms(vectors[:, [i]], room[:, :1])[0] for i in range(400)]
    assert norms(vectors, room).tolist() == alone
    assert norms(vectors[:, ::-1], room)[::-1].tolist() == alone


def test_sums_beyond_64_bits() -> None:
    one = (MOST_RECORDS, [np.array([MOST_RECORDS << 40])])
    (total,) = add_up([np.zeros(1, dtype=np.int64)], [one] * 20)
    assert total.tolist() == [20 * MOST_RECORDS << 40]
    few = (5, [np.array([7])])
    (total,) = add_up([np.zeros(1, dtype=np.int64)], [few] * 20)
    assert total.dtype == np.int64
    assert total.tolist() == [140]


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


def test_sums_of_rows_are_exact() -> None:
    whole = np.full((2, 2**16), 2.0**LINEAR_BITS - 1.0)
    assert row_sums(whole).tolist() == [(2**LINEAR_BITS - 1) << 16] * 2


@pytest.mark.parametrize("size", [3, 512, 513, 5000])
def test_projections_are_exact_whatever_the_number_of_columns(size: int) -> None:
    """Otherwise a record's contribution would depend on its place in a block."""
    row = on_grid(1.0 - np.random.default_rng(0).random(size) * 1e-3)
    f = np.full(size, ONE - 1.0)
    step = 2.0**-30
    whole = sum(int(weight / step) * int(value) for weight, value in zip(row, f, strict=True))
    assert (row / step == np.rint(row / step)).all()
    assert float(row @ f) == whole * step == float(row[::-1] @ f)
    out = np.empty((1, 700))
    put_combinations(row[None, :], np.tile(f[:, None], 700), out)
    assert (out == whole * step).all()
