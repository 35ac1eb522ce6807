"""Working ranges: public edges, sensitivity, and generous ranges from noisy counts.

Every statistical test fixes its seeds; the tolerances are the aims of the design (share cut at
most 1e-3 from a thousand records on, width at most 1.5 times the data's at five thousand), with
room for the number of replicates.
"""

import math

import numpy as np
import pytest
from histograms import bin_index
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg.protocol.ranges import (
    detect,
    histogram_edges,
    needs_range,
    second_range,
    tail_end,
    too_coarse,
    working_range,
)
from dpbinagg.public.domain import Numeric

SD = math.sqrt(6) / math.sqrt(0.1)
"""Noise of six variables at a tenth of mu = 1 squared."""

VARIABLES = [
    Numeric(),
    Numeric(integer=True),
    Numeric(0, 1),
    Numeric(-3, 1e6),
    Numeric(18),
    Numeric(upper=-5),
    Numeric(0, 1, integer=True),
    Numeric(-7, 10**6, integer=True),
    Numeric(0, integer=True),
    Numeric(upper=12, integer=True),
    Numeric(1e15, 1e15 + 4),
    Numeric(0, 5e-324),
    Numeric(-8e307, 8e307),
]


def histogram(x, edges):
    return np.bincount(bin_index(edges, x), minlength=edges.size - 1)


def find(x, variable, rng, sd=SD):
    edges = histogram_edges(variable)
    noisy = histogram(x, edges) + rng.normal(0.0, sd, edges.size - 1)
    return working_range(edges, noisy, sd, variable)


def measure(draw, variable, n, reps=15, sd=SD, seed=1):
    """Ratio of the range's width to the data's, and share cut, by replicate."""
    rng = np.random.default_rng(seed)
    ratio, cut = [], []
    for _ in range(reps):
        x = draw(rng, n)
        lower, upper = find(x, variable, rng, sd)
        ratio.append((upper - lower) / np.ptp(x))
        cut.append(np.mean((x < lower) | (x > upper)))
    return np.array(ratio), np.array(cut)


@pytest.mark.parametrize("variable", VARIABLES)
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


@given(st.lists(st.floats(allow_nan=False), min_size=len(VARIABLES), max_size=len(VARIABLES)))
def test_a_record_moves_the_joint_counts_by_the_root_of_their_number(values):
    table = np.random.default_rng(0).normal(size=(20, len(VARIABLES)))
    square = 0
    for variable, column, value in zip(VARIABLES, table.T, values, strict=True):
        edges = histogram_edges(variable)
        change = histogram(np.append(column, value), edges) - histogram(column, edges)
        assert change.sum() == 1
        square += int(np.sum(change**2))
    assert math.sqrt(square) == math.sqrt(len(VARIABLES))


@examples(60)
@given(
    st.sampled_from(VARIABLES),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-3, 1.0, 50.0]),
    st.sampled_from([None, -10.0, 300.0, 1e6]),
)
def test_any_counts_give_a_finite_range_within_the_bounds(variable, seed, sd, total):
    rng = np.random.default_rng(seed)
    edges = histogram_edges(variable)
    spikes = rng.random(edges.size - 1) < 3.0 / edges.size
    counts = rng.normal(0.0, sd, edges.size - 1) + spikes * rng.exponential(1e3, edges.size - 1)
    lower, upper = working_range(edges, counts, sd, variable, total)
    assert variable.lower <= lower < upper <= variable.upper
    assert math.isfinite(upper - lower)
    assert (lower, upper) == working_range(edges, counts, sd, variable, total)
    if variable.integer:
        assert lower == math.floor(lower)
        assert upper == math.floor(upper)


LIGHT = {
    "uniform": (lambda rng, n: rng.uniform(0, 1, n), Numeric(0, 5)),
    "normal": (lambda rng, n: rng.normal(0, 1, n), Numeric(-20, 20)),
    "offset normal": (lambda rng, n: rng.normal(50, 5, n), Numeric(-50, 150)),
    "exponential": (lambda rng, n: rng.exponential(1, n), Numeric(0, 60)),
    "count": (lambda rng, n: rng.poisson(3, n).astype(float), Numeric(0, 75, integer=True)),
}
HEAVY = {
    "lognormal": (lambda rng, n: rng.lognormal(7, 1, n), Numeric(0, 300000)),
    "t(3)": (lambda rng, n: rng.standard_t(3, n), Numeric(-200, 200)),
    "Pareto(3)": (lambda rng, n: 1 + rng.pareto(3, n), Numeric(0, 250)),
    "mostly zero": (
        lambda rng, n: (rng.random(n) < 0.4) * rng.lognormal(7, 0.8, n),
        Numeric(0, 150000),
    ),
}


@pytest.mark.parametrize("loose", [True, False], ids=["loose", "unbounded"])
@pytest.mark.parametrize("name", LIGHT)
def test_light_tails_are_kept_whole(name, loose):
    draw, variable = LIGHT[name]
    variable = variable if loose else Numeric(integer=variable.integer)
    ratio, cut = measure(draw, variable, 5000)
    assert np.median(ratio) <= 1.7
    assert ratio.max() <= 3.5
    assert cut.mean() <= 2e-4
    ratio, cut = measure(draw, variable, 1000)
    assert np.median(ratio) <= 3.0
    assert cut.mean() <= 1e-3


@pytest.mark.parametrize("loose", [True, False], ids=["loose", "unbounded"])
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_lose_a_negligible_share(name, loose):
    draw, variable = HEAVY[name]
    ratio, cut = measure(draw, variable if loose else Numeric(), 5000)
    assert np.median(ratio) <= 1.7
    assert cut.mean() <= 1.2e-3
    assert cut.max() <= 1e-2


def test_tight_bounds_are_kept():
    ratio, cut = measure(lambda rng, n: rng.uniform(0, 1, n), Numeric(0, 1), 1000)
    assert ratio.max() < 1.02
    assert cut.max() == 0.0


def test_the_ends_are_round_numbers():
    rng = np.random.default_rng(4)
    lower, upper = find(rng.uniform(0, 1, 5000), Numeric(0, 5), rng)
    assert lower == 0.0
    assert upper == round(upper, 2)


def find_twice(x, rng, sd=SD):
    """Range without bounds, with the second look if the first one is coarse."""
    first = find(x, Numeric(), rng, sd)
    edges = histogram_edges(Numeric())
    if not too_coarse(edges, first, Numeric()):
        return first
    edges = histogram_edges(Numeric(*first))
    noisy = histogram(x, edges) + rng.normal(0.0, 2.0 * sd, edges.size - 1)
    return second_range(edges, noisy, 2.0 * sd, Numeric(*first))


@pytest.mark.parametrize("value", [0.0, 7.3, -1e-4, 2.5e9, -3e12])
def test_a_constant_gets_a_positive_width_around_it(value):
    rng = np.random.default_rng(5)
    lower, upper = find_twice(np.full(2000, value), rng)
    assert lower <= value <= upper
    assert 0.0 < upper - lower <= 4.0 * max(abs(value), 2.0**-30)


@pytest.mark.parametrize("scale", [2.0**-12, 0.03, 1.0, 2e5, 7e6, 1e9, 1e13])
def test_every_magnitude_is_found_in_two_looks(scale):
    """Shares, wages, populations: no records lost, the width at most three times the data's."""
    rng = np.random.default_rng(9)
    for _ in range(10):
        x = scale * rng.uniform(0.0, 1.0, 5000)
        lower, upper = find_twice(x, rng)
        assert np.mean((x < lower) | (x > upper)) <= 1e-3
        assert upper - lower <= 3.0 * np.ptp(x)


def test_a_binary_variable_without_bounds_gets_about_zero_to_one():
    rng = np.random.default_rng(6)
    lower, upper = find((rng.random(2000) < 0.3).astype(float), Numeric(), rng)
    assert -0.1 <= lower <= 0.0
    assert 1.0 <= upper <= 1.6


@pytest.mark.parametrize(
    ("variable", "sign"), [(Numeric(18), 1.0), (Numeric(upper=-18), -1.0)], ids=["lower", "upper"]
)
def test_one_bound_is_kept_and_the_other_found(variable, sign):
    rng = np.random.default_rng(7)
    x = sign * (18.0 + rng.gamma(4.0, 6.0, 5000))
    lower, upper = sorted(sign * end for end in find(x, variable, rng))
    assert 18.0 <= lower <= 20.0
    assert np.mean(sign * x > upper) <= 1e-3
    assert upper <= 250.0


def test_values_beside_the_bounds_count_at_the_nearest():
    rng = np.random.default_rng(8)
    lower, upper = find(rng.uniform(10, 20, 2000), Numeric(0, 5), rng)
    assert upper == 5.0
    assert lower >= 4.0


def test_noise_alone_leaves_the_bounds():
    rng = np.random.default_rng(9)
    found = [find(np.empty(0), Numeric(-2, 7), rng) for _ in range(200)]
    assert all(ends == (-2.0, 7.0) for ends in found)
    unbounded = [find(np.empty(0), Numeric(), rng) for _ in range(100)]
    assert np.median([upper for _, upper in unbounded]) == 1000.0


def test_few_records_leave_the_bounds():
    rng = np.random.default_rng(10)
    found = [find(rng.uniform(0, 1, 100), Numeric(0, 3), rng) for _ in range(50)]
    assert all(ends == (0.0, 3.0) for ends in found)


def test_noise_far_away_is_not_taken_for_records():
    """Six variables of a thousand records: fewer than one range in a hundred goes astray."""
    ratio, _ = measure(lambda rng, n: rng.normal(0, 1, n), Numeric(), 1000, reps=200, seed=11)
    assert np.mean(ratio > 10.0) <= 0.01


def test_a_total_tells_that_records_are_overlooked():
    edges = histogram_edges(Numeric(0, 64))
    counts = histogram(np.zeros(1000), edges).astype(float)
    counts[-20:] += 15.0
    narrow = working_range(edges, counts, 30.0, Numeric(0, 64))
    assert narrow[1] < 32.0
    assert working_range(edges, counts, 30.0, Numeric(0, 64), total=3000.0) == (0.0, 64.0)


def test_a_second_look_resolves_years():
    rng = np.random.default_rng(12)
    year = rng.integers(1990, 2021, 5000).astype(float)
    variable = Numeric(integer=True)
    first = find(year, variable, rng)
    assert too_coarse(histogram_edges(variable), first, variable)
    narrowed = Numeric(*first, integer=True)
    edges = histogram_edges(narrowed)
    noisy = histogram(year, edges) + rng.normal(0.0, 2.0 * SD, edges.size - 1)
    lower, upper = second_range(edges, noisy, 2.0 * SD, narrowed)
    assert first[0] <= lower <= 1990.0
    assert 2020.0 <= upper <= first[1]
    assert upper - lower <= 150.0


def test_a_second_look_that_gains_little_changes_nothing():
    rng = np.random.default_rng(14)
    first = Numeric(-4, 4.5)
    edges = histogram_edges(first)
    noisy = histogram(rng.normal(size=5000), edges) + rng.normal(0.0, SD, edges.size - 1)
    assert second_range(edges, noisy, SD, first) == (-4.0, 4.5)


def test_records_missing_on_one_side_of_zero_are_sought_on_the_other():
    counts = np.zeros(201)
    counts[150:154] = 30.0
    counts[47:51] = 8.0
    assert detect(counts, 5.0, None, symmetric=True) == (150, 153)
    assert detect(counts, 5.0, 170.0, symmetric=False) == (150, 153)
    assert detect(counts, 5.0, 170.0, symmetric=True) == (47, 153)


def test_no_second_look_at_what_is_resolved():
    rng = np.random.default_rng(13)
    variable = Numeric(-20, 20)
    assert not too_coarse(
        histogram_edges(variable), find(rng.normal(size=5000), variable, rng), variable
    )
    dummy = Numeric(integer=True)
    assert not too_coarse(histogram_edges(dummy), (0.0, 1.0), dummy)


def test_the_uniform_tail_ends_where_it_ends_and_the_exponential_goes_on():
    edges = np.linspace(0.0, 4.0, 401)
    uniform = np.where(edges[:-1] < 0.999, 50.0, 0.0)
    exponential = -5000.0 * np.diff(np.exp(-4.0 * edges))
    # Records are seen up to 1.
    ends = [tail_end(edges, counts, 8.0, (0, 99), 5000.0) for counts in (uniform, exponential)]
    assert ends[0] <= 1.15
    assert ends[1] >= math.log(5000.0) / 4.0


def test_whole_numbers_of_few_values_need_no_range():
    assert not needs_range(Numeric(0, 1, integer=True))
    assert needs_range(Numeric(0, 1))
    assert needs_range(Numeric(0, 60, integer=True))
    assert needs_range(Numeric(0, integer=True))
