"""Largest remainders: exact totals, quotas kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbinagg.analyst.synthesis.apportion import largest_remainder
from dpbinagg.errors import ReleaseError

weights = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-300, 1e300), st.floats(0, 1e6)), min_size=1, max_size=40
)


@given(weights, st.integers(0, 10_000_000))
def test_rows_sum_exactly_and_stay_within_one_of_their_quota(w, size):
    rows = largest_remainder(w, size)
    assert rows.sum() == size
    assert (rows >= 0).all()
    w = np.asarray(w) if max(w) > 0 else np.ones(len(w))
    quota = (w / w.max()) / (w / w.max()).sum() * size
    assert (np.abs(rows - quota) <= 1 + 1e-9 * size).all()


@given(weights, st.integers(0, 100_000))
def test_a_bin_without_weight_gets_no_row(w, size):
    rows = largest_remainder(w, size)
    if max(w) > 0:
        assert not rows[np.asarray(w) == 0.0].any()


def test_hamilton_example():
    # Quotas 4.2, 3.5, 2.3: the one seat left goes to the remainder .5.
    assert largest_remainder([42.0, 35.0, 23.0], 10).tolist() == [4, 4, 2]


@pytest.mark.parametrize("size", [-1, 2.5, True, None])
def test_size_must_be_whole(size):
    with pytest.raises(ReleaseError, match="size"):
        largest_remainder([1.0], size)


@pytest.mark.parametrize("w", [[-1.0], [np.nan], [], [[1.0]]])
def test_weights_must_be_usable(w):
    with pytest.raises(ReleaseError, match="weights"):
        largest_remainder(w, 3)
