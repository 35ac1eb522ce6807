"""Working ranges: edges, sensitivity, and generous ranges from noisy counts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbinagg.curator.ranges import bin_index, histogram_edges, working_range
from dpbinagg.domain import Numeric

SD = math.sqrt(6) / math.sqrt(0.1)


def find(x, variable, sd=SD, seed=0):
    rng = np.random.default_rng(seed)
    edges = histogram_edges(variable)
    counts = np.bincount(bin_index(edges, x), minlength=edges.size - 1)
    return working_range(edges, counts + rng.normal(0.0, sd, counts.size), sd, variable)


@pytest.mark.parametrize(
    "variable",
    [
        Numeric(),
        Numeric(integer=True),
        Numeric(0, 1),
        Numeric(-3, 1e6),
        Numeric(18),
        Numeric(upper=-5),
        Numeric(0, 1, integer=True),
        Numeric(-7, 10**6, integer=True),
        Numeric(0, integer=True),
        Numeric(1e15, 1e15 + 4),
        Numeric(0, 5e-324),
        Numeric(-8e307, 8e307),
    ],
)
def test_edges_increase_and_stay_within_the_bounds(variable):
    edges = histogram_edges(variable)
    assert edges.size >= 2
    assert np.all(np.diff(edges) > 0)
    margin = 0.5 if variable.integer else 0.0
    assert edges[0] >= variable.lower - margin
    assert edges[-1] <= variable.upper + margin
    if variable.bounded:
        assert edges[0] == variable.lower - margin
        assert edges[-1] == variable.upper + margin
    if variable.integer:
        np.testing.assert_array_equal(edges % 1.0, 0.5)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_a_record_falls_in_exactly_one_bin(values):
    edges = histogram_edges(Numeric())
    index = bin_index(edges, np.array(values))
    assert np.all((index >= 0) & (index < edges.size - 1))
    inside = np.clip(values, np.nextafter(edges[0], np.inf), edges[-1])
    assert np.all((edges[index] < inside) & (inside <= edges[index + 1]))
