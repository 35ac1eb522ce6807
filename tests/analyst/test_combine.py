"""The combination of the estimates from bins and from moments."""

import numpy as np
import pytest

from dpbinagg.analyst.combine import combined
from dpbinagg.analyst.types import Estimate


def _estimate(params, cov, noise=None, identified=True):
    return Estimate(
        "x", np.array(params), np.array(cov), noise, 1.0, 10.0, 100.0, "model", (), identified
    )


def test_combined_is_the_closed_form():
    sampling, noise, first = np.diag([1.0, 2.0]), np.diag([3.0, 1.0]), np.diag([2.0, 4.0])
    a = _estimate([1.0, 1.0], first)
    b = _estimate([0.0, 0.0], sampling + noise, noise)
    result = combined(a, b)
    gain = noise @ np.linalg.inv(first + sampling + noise - 2 * sampling)
    np.testing.assert_allclose(result.params, gain @ [1.0, 1.0], rtol=1e-9)
    np.testing.assert_allclose(result.cov, sampling + noise - gain @ noise, rtol=1e-9)


def test_combined_leaves_out_unidentified_bins():
    noise = np.eye(2)
    b = _estimate([0.5, 0.5], 2 * noise, noise)
    result = combined(_estimate([9.0, 9.0], noise, identified=False), b)
    np.testing.assert_array_equal(result.params, b.params)
    with pytest.raises(ValueError, match="noise_cov"):
        combined(b, _estimate([1.0, 1.0], noise))
