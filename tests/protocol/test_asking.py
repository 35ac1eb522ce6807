"""The questions of a release ask what they say."""

from __future__ import annotations

from dataclasses import asdict, astuple, replace
from typing import Any

import numpy as np
import pytest

from dpbinagg.formula import build_design
from dpbinagg.kernel.maps import UNIT_BITS
from dpbinagg.kernel.questions import Answer, scales_of
from dpbinagg.kernel.sums import Sum
from dpbinagg.kernel.view import Part
from dpbinagg.protocol.rows import rows_of
from dpbinagg.public.domain import Domain
from dpbinagg.public.rounds import GroupWeights, ScoreRequest
from dpbinagg.release.questions import noisy_scores, request_of, score_question

DESIGN = build_design(
    "y ~ a + b + c", Domain({"a": (0, 1), "b": (0, 1), "c": (0, 1), "y": (-2, 2)})
)
WEIGHTS = GroupWeights(hessian=1.0, tails=0.8, norms=0.4)


def make_request(**changes: Any) -> ScoreRequest:
    rng = np.random.default_rng(0)
    request = ScoreRequest(
        coefficients=rng.normal(0, 0.3, 5),
        whitening=rng.normal(0, 1, (4, 5)),
        radius=1.3,
        clip=0.4,
        spread_clip=0.2,
        thresholds=np.array([0.1, 0.3, 0.9]),
        norm_edges=np.array([0.5, 1.0, 4.0]),
        weights=WEIGHTS,
    )
    return replace(request, **changes)


def answer_to(request: ScoreRequest, records: Any) -> Answer:
    """The exact answer, and the noise that it would have."""
    question = score_question(DESIGN, request)
    sums = Sum((question,), rows_of(DESIGN)).run([Part(records)])
    values = tuple(
        map_.answer(map_.whole(one.astype(object)).astype(float) * 2.0**-UNIT_BITS, question.k)
        for (_, map_), one in zip(question.groups, sums, strict=True)
    )
    return Answer(values, scales_of(question, 0.7))


def statistics_of(request: ScoreRequest, records: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The groups of the answer and of its noise, by name."""
    answer = answer_to(request, records)
    found = noisy_scores(request, answer.values, 0.0)
    return asdict(found), asdict(noisy_scores(request, answer.scales, np.inf))


@pytest.mark.parametrize("weights", [WEIGHTS, GroupWeights(), GroupWeights(tails=0.3)])
def test_a_question_tells_its_request(weights: GroupWeights) -> None:
    request = make_request(weights=weights)
    again = request_of(score_question(DESIGN, request))
    for name in ("coefficients", "whitening", "radius", "clip", "spread_clip"):
        assert np.array_equal(getattr(again, name), getattr(request, name)), name
    np.testing.assert_allclose(astuple(again.weights), astuple(weights), atol=1e-3)
    if weights.tails:
        assert np.array_equal(again.thresholds, request.thresholds)
    if weights.norms:
        np.testing.assert_allclose(again.norm_edges, request.norm_edges)
    once_more = request_of(score_question(DESIGN, again))
    np.testing.assert_allclose(astuple(once_more.weights), astuple(again.weights), atol=1e-3)


def test_the_scores_are_the_sums_of_their_definition() -> None:
    rng = np.random.default_rng(0)
    n, request = 3000, make_request()
    records = {name: rng.random(n) for name in "abc"} | {"y": rng.normal(0, 0.5, n)}
    found, noise = statistics_of(request, records)
    columns = np.c_[records["a"], records["b"], records["c"]]
    f = np.c_[np.ones(n), (columns - 0.5) / 0.5, np.clip(records["y"] / 2.0, -1, 1)]
    w = f @ request.whitening.T
    r = 2.0 * f[:, -1] - f @ request.coefficients
    omega = 1.0 / np.maximum((w**2).sum(axis=1) / request.radius**2, 1.0)
    inside = 1.0 - np.minimum((r / request.spread_clip) ** 2, 1.0)
    clipped = np.clip(r, -request.clip, request.clip)
    expected = {
        "score": (w * (omega * clipped)[:, None]).sum(0),
        "hessian": (w * omega[:, None]).T @ w,
        "spread": (w * (omega * inside)[:, None]).T @ w,
        "inside": inside.sum(),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=0.03, err_msg=name)
    assert found["tails"].sum() == (np.abs(r) >= 0.1).sum()
    assert found["tails"][1, 2] == (r >= 0.9).sum()
    assert found["norms"].sum() == n
    assert found["norms"][0] == ((w**2).sum(axis=1) < 0.5).sum()
    stated = request.noise_scales(0.7)
    for name in ("score", "hessian", "spread", "inside", "tails", "norms"):
        np.testing.assert_allclose(noise[name], getattr(stated, name), rtol=1e-3, err_msg=name)


def test_groups_that_are_left_out_are_zero_with_infinite_noise() -> None:
    request = make_request(weights=GroupWeights())
    records = {name: np.full(3, 0.5) for name in "abcy"}
    found, noise = statistics_of(request, records)
    for name in ("hessian", "tails", "norms"):
        assert not np.any(found[name])
        assert np.isinf(noise[name]).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"coefficients": np.array([0.0, np.nan, 0.0, 0.0, 0.0])},
        {"coefficients": np.array([1e308, -1e308, 1e308, 0.0, 0.0])},
        {"whitening": np.array([[np.inf, 0.0, 1.0, 0.0, 0.0]])},
        {"radius": 1e-170},
        {"radius": 1e170},
        {"radius": np.nan},
        {"clip": np.inf},
        {"spread_clip": 1e-310},
        {"spread_clip": 0.5},
        {"thresholds": np.array([0.3, 0.1])},
        {"thresholds": np.array([0.1, np.nan])},
        {"norm_edges": np.array([1.0, 4.0, 0.5])},
        {"norm_edges": np.array([1.0, np.nan])},
    ],
)
def test_requests_for_which_the_norm_is_not_proven_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="need"):
        score_question(DESIGN, make_request(**wrong))
