"""The combination of the estimates from bins and from moments."""

from dataclasses import replace

import numpy as np
import pytest

from dpbinagg.analyst.bins import at_least_model, combined
from dpbinagg.analyst.types import Estimate


def _estimate(params, cov, noise=None, identified=True):
    return Estimate(
        "x", np.array(params), np.array(cov), noise, 1.0, 10.0, 100.0, "model", (), identified
    )


def test_combined_is_the_closed_form():
    """With ten degrees of freedom the covariance from bins is taken 1.45 times as large."""
    sampling, noise, first = np.diag([1.0, 2.0]), np.diag([3.0, 1.0]), np.diag([2.0, 4.0])
    a = _estimate([1.0, 1.0], first)
    b = _estimate([0.0, 0.0], sampling + noise, noise)
    result = combined(a, b)
    first = (1 + np.sqrt(2 / 10)) * first
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


def test_where_moments_lean_on_their_start_bins_decide():
    """A start that may be off by a thousand; the other coefficient is as before."""
    sampling, noise, first = np.eye(2), np.eye(2), np.diag([9.0, 9.0])
    lean = replace(_estimate([5.0, 0.0], sampling + noise, noise), dependence=np.diag([1e6, 0.0]))
    result = combined(_estimate([1.0, 1.0], first), lean)
    assert result.params[0] == pytest.approx(1.0, abs=1e-3)
    assert result.params[1] < 0.2
    assert result.identified_terms.all()
    lost = replace(
        _estimate([1.0, 1.0], first, identified=False), identified_terms=np.array([1, 0]) > 0
    )
    assert list(combined(lost, lean).identified_terms) == [True, False]


def test_estimates_that_disagree_have_wide_intervals():
    noise = np.eye(2)
    b = _estimate([0.0, 0.0], 2 * noise, noise)
    near, far = (combined(_estimate([gap, gap], 2 * noise), b).cov for gap in (0.1, 30.0))
    assert near[0, 0] < 2.0
    assert far[0, 0] > 100.0


def test_few_bins_are_not_taken_for_more_precise_than_their_noise():
    """Two agree by chance, one does not: the first gets what the noise says, the second stays."""
    found, model = np.diag([0.1, 9.0]), np.diag([4.0, 4.0])
    raised = at_least_model(_estimate([0.0, 0.0], found), _estimate([1.0, 1.0], model))
    np.testing.assert_allclose(raised.cov, np.diag([4.0, 9.0]), rtol=1e-6)
    np.testing.assert_array_equal(raised.params, [0.0, 0.0])
