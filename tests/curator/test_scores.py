"""Sums of residual scores: what is asked for, within the sensitivity, whatever the blocks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from whole_factors import factors

from dpbinagg.curator import scores
from dpbinagg.curator.aggregates import with_constant
from dpbinagg.curator.blocks import BLOCK, CHUNK, step_rows
from dpbinagg.public.rounds import GroupWeights, ScoreRequest, on_grid
from dpbinagg.public.scaling import ColumnScaling

UNIT = 2.0**-40


def make_request(k, m, rng, clip=0.4, radius=1.3):
    return ScoreRequest(
        coefficients=rng.normal(0, 0.3, m),
        whitening=rng.normal(0, 1, (k, m)),
        radius=radius,
        clip=clip,
        spread_clip=clip / 2,
        thresholds=np.array([0.1, 0.3, 0.9]),
        norm_edges=np.array([0.5, 1.0, 4.0]),
        weights=GroupWeights(hessian=1.0, tails=0.8, norms=0.4),
    )


def make_scaling(p):
    return ColumnScaling(np.r_[1.0, np.full(p, 0.5)], np.r_[0.0, np.full(p, 0.5)], 0.0, 2.0)


def test_the_scores_are_the_sums_of_their_definition():
    rng = np.random.default_rng(0)
    n, p = 3000, 3
    columns = np.c_[np.ones(n), rng.random((n, p))]
    response = rng.normal(0, 0.5, n)
    scaling = make_scaling(p)
    request = make_request(4, p + 2, rng)
    found = scores.score_sums(factors(columns, response, scaling), scaling, request)
    f = np.c_[np.ones(n), (columns[:, 1:] - 0.5) / 0.5, np.clip(response / 2.0, -1, 1)]
    w = f @ request.whitening.T
    r = 2.0 * f[:, -1] - f @ request.coefficients
    omega = 1.0 / np.maximum((w**2).sum(axis=1) / request.radius**2, 1.0)
    inside = 1.0 - np.minimum((r / request.spread_clip) ** 2, 1.0)
    clipped = np.clip(r, -request.clip, request.clip)
    unit = request.radius * request.clip
    np.testing.assert_allclose(
        found.score.astype(float) * UNIT * unit, (w * (omega * clipped)[:, None]).sum(0), atol=0.02
    )
    square = request.radius**2
    np.testing.assert_allclose(
        found.hessian.astype(float) * UNIT * square, (w * omega[:, None]).T @ w, atol=0.02
    )
    np.testing.assert_allclose(
        found.spread.astype(float) * UNIT * square, (w * (omega * inside)[:, None]).T @ w, atol=0.02
    )
    assert float(found.inside[0]) * UNIT == pytest.approx(inside.sum(), abs=1e-3)
    assert found.tails.sum() == (np.abs(r) >= 0.1).sum()
    assert found.tails[1, 2] == (r >= 0.9).sum()
    assert found.norms.sum() == n


@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(0.01, 3.0), st.floats(0.05, 10.0))
@examples(80)
def test_no_record_contributes_more_than_the_sensitivity(seed, p, clip, radius):
    rng = np.random.default_rng(seed)
    n = 200
    columns = np.c_[np.ones(n), rng.choice([0.0, 0.5, 1.0, -3.0, 7.0], (n, p))]
    response = rng.choice([-9.0, -2.0, 0.0, 0.1, 2.0, 50.0], n)
    request = make_request(p + 1, p + 2, rng, clip, radius)
    scaling = make_scaling(p)
    f = factors(columns, response, scaling)
    (f,) = with_constant(f)
    part = scores.score_factors(f, scaling, request, scores.Workspace(request, f.shape[1]))
    a, b = part.direction.T, part.spread.T
    weights = request.weights
    one = scores.ONE
    score = (a**2).sum(1) * part.residual**2 / one**4
    hessian = ((a**2).sum(1) / one**2) ** 2
    spread = ((b**2).sum(1) / one**2) ** 2
    inside = (part.inside / one**2) ** 2
    total = (
        score
        + weights.hessian**2 * hessian
        + weights.spread**2 * spread
        + weights.inside**2 * inside
        + weights.tails**2
        + weights.norms**2
    )
    assert (total <= request.sensitivity**2 * (1.0 + 2.0**-36)).all()


def test_the_order_of_records_does_not_show():
    rng = np.random.default_rng(1)
    n, p = 5000, 2
    columns = np.c_[np.ones(n), rng.random((n, p))]
    response = rng.normal(0, 0.5, n)
    request = make_request(3, p + 2, rng)
    scaling = make_scaling(p)
    f = factors(columns, response, scaling)
    whole = scores.score_sums(f, scaling, request)
    shuffled = scores.score_sums(f[:, rng.permutation(n)], scaling, request)
    for name in ("score", "hessian", "spread", "inside", "tails", "norms"):
        assert (getattr(whole, name) == getattr(shuffled, name)).all(), name


def test_the_steps_do_not_show():
    rng = np.random.default_rng(3)
    n, p = 5000, 40
    scaling = make_scaling(p)
    request = make_request(p, p + 2, rng)
    f = factors(np.c_[np.ones(n), rng.random((n, p))], rng.normal(0, 0.5, n), scaling)

    def sums(chunk):
        return list(scores.score_parts(f, scaling, request, chunk))

    for chunk in (700, 4096):
        for one, other in zip(sums(chunk), sums(2**14), strict=True):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_array_equal(left, right)


@given(st.integers(1, 2**20), st.integers(1, 5000))
def test_steps_are_no_longer_than_memory_is_planned_for(n, columns):
    rows = step_rows(n, columns)
    assert CHUNK // 4 <= rows <= CHUNK
    assert rows == CHUNK or n <= BLOCK


@pytest.mark.parametrize("size", [3, 512, 513, 5000])
def test_projections_are_exact_whatever_the_number_of_columns(size):
    """Otherwise a record's contribution would depend on its place in a block."""
    row = on_grid(1.0 - np.random.default_rng(0).random(size) * 1e-3)
    f = np.full(size, scores.ONE - 1.0)
    step = 2.0**-30
    whole = sum(int(weight / step) * int(value) for weight, value in zip(row, f, strict=True))
    assert (row / step == np.rint(row / step)).all()
    assert float(row @ f) == whole * step == float(row[::-1] @ f)


@pytest.mark.parametrize(
    "wrong",
    [
        {"coefficients": np.array([0.0, np.nan, 0.0])},
        {"coefficients": np.array([1e308, -1e308, 1e308])},
        {"whitening": np.array([[np.inf, 0.0, 1.0]])},
        {"radius": 1e-170},
        {"radius": 1e170},
        {"radius": np.nan},
        {"clip": np.inf},
        {"spread_clip": 1e-310},
        {"thresholds": np.array([0.3, 0.1])},
        {"norm_edges": np.array([1.0, 4.0, 0.5])},
    ],
)
def test_requests_for_which_the_sensitivity_is_not_proven_are_refused(wrong):
    request = make_request(1, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="a request needs"):
        replace(request, **wrong)
