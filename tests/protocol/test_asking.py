"""The questions of a release ask what they say."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from dpbinagg.formula import build_design
from dpbinagg.kernel.maps import UNIT_BITS
from dpbinagg.kernel.questions import Answer, Question, Sum, scales_of
from dpbinagg.kernel.view import Part
from dpbinagg.protocol.conduct import rows_of
from dpbinagg.public.domain import Domain
from dpbinagg.public.rounds import MomentRequest, RoundAnswer, RoundRequest, norm, weights
from dpbinagg.release.questions import moment_question, round_answer, round_question

LEVELS = 3
DESIGN = build_design("y ~ a + b + C(g)", Domain({"a": (0, 1), "b": (0, 1), "g": list("uvw"),
                                                  "y": (-2, 2)}))  # fmt: skip
ROWS = rows_of(DESIGN, coded=True)
MU = 0.7


def round_request(last: bool, **changes: Any) -> RoundRequest:
    rng = np.random.default_rng(0)
    request = RoundRequest(
        coefficients=rng.normal(0, 0.3, ROWS.size),
        whitening=rng.normal(0, 1, (4, ROWS.size)),
        clip=0.6,
        edges=np.array([0.1, 0.3, 0.9]),
        radius=None if last else 1.3,
        far_edges=np.empty(0) if last else np.array([1.3, 2.0]),
        meat_clip=0.4 if last else 0.6,
        last=last,
    )
    return replace(request, **changes)


def moment_request(**changes: Any) -> MomentRequest:
    rng = np.random.default_rng(1)
    whitening = rng.normal(size=(2, ROWS.size))
    request = MomentRequest(whitening, 1.5, rng.normal(0, 0.3, ROWS.size), 1.2, (LEVELS,))
    return replace(request, **changes)


def table(n: int) -> tuple[dict[str, Any], Any, Any]:
    """Records; f = (1, a*, b*, levels, y*), and the response."""
    rng = np.random.default_rng(2)
    records = {"a": rng.random(n), "b": rng.random(n), "g": rng.integers(0, LEVELS, n)}
    records["y"] = rng.normal(0, 0.5, n).clip(-2, 2)
    numbers = np.column_stack([2 * records["a"] - 1, 2 * records["b"] - 1])
    hot = np.eye(LEVELS)[records["g"]]
    return (
        records,
        np.column_stack([np.ones(n), numbers, hot, records["y"] / 2.0]),
        records["y"],
    )


def answer_to(question: Question, records: Any) -> Answer:
    """The exact answer, and the noise that it would have."""
    sums = Sum((question,), ROWS).run([Part(records)])
    values = tuple(
        map_.answer(
            np.asarray(map_.whole(one.astype(object)), dtype=float) * 2.0**-UNIT_BITS, question.k
        )
        for (_, map_), one in zip(question.groups, sums, strict=True)
    )
    return Answer(values, scales_of(question, MU))


def cut(vectors: Any, limit: float) -> Any:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True) / limit, 1.0)


def long(vectors: Any, limit: float) -> Any:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(length > limit, vectors / length, 0.0)


def by_cell(edges: Any, vectors: Any) -> Any:
    length = np.linalg.norm(vectors, axis=1)
    return np.histogram(length, [*edges, np.inf])[0]


@pytest.mark.parametrize("last", [False, True])
def test_a_round_is_the_sums_of_its_definition(last: bool) -> None:
    request, (records, f, y) = round_request(last), table(3000)
    found, noise = round_answer(request, answer_to(round_question(request, ROWS), records))
    w = f @ request.whitening.T
    u = w * (y - f @ request.coefficients)[:, None]
    held = cut(u, request.clip)
    expected = {
        "score": held.sum(0),
        "inside": np.sum(1.0 - (np.linalg.norm(held, axis=1) / request.clip) ** 2),
        "counts": by_cell(request.edges, u),
    }
    if last:
        shorter = cut(u, request.meat_clip)
        expected |= {"direction": long(u, request.clip).sum(0), "meat": shorter.T @ shorter}
    else:
        shorter, far = cut(w, 1.3), long(w, 1.3)
        expected |= {"gram": shorter.T @ shorter, "beyond": far.T @ far}
        expected |= {"far": by_cell(request.far_edges, w)}
    for field in fields(RoundAnswer):
        value, sd = getattr(found, field.name), getattr(noise, field.name)
        assert (value is None) == (sd is None) == (field.name not in expected), field.name
        if value is not None:
            np.testing.assert_allclose(value, expected[field.name], atol=0.05, err_msg=field.name)
            assert np.shape(value) == np.shape(sd)


@pytest.mark.parametrize("last", [False, True])
def test_noise_is_that_of_the_stated_weights(last: bool) -> None:
    request = round_request(last)
    _, noise = round_answer(request, answer_to(round_question(request, ROWS), table(3)[0]))
    unit = {name: norm(request) / (MU * weight) for name, weight in weights(request).items()}
    expected = {
        "score": unit["score"] * request.clip,
        "inside": unit["score"],
        "counts": unit["counts"],
    }
    for name, square in (("gram", 1.3**2), ("beyond", 1.0), ("meat", request.meat_clip**2)):
        if name in unit:
            matrix = getattr(noise, name)
            np.testing.assert_allclose(matrix[0, 0], unit[name] * square, rtol=1e-5)
            np.testing.assert_allclose(matrix[0, 1], unit[name] * square / np.sqrt(2), rtol=1e-5)
    expected |= {name: unit[name] for name in ("direction", "far") if name in unit}
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(noise, name), value, rtol=1e-5, err_msg=name)


def test_a_round_without_a_matrix() -> None:
    request = round_request(last=False, radius=None)
    found, _ = round_answer(request, answer_to(round_question(request, ROWS), table(50)[0]))
    assert found.gram is found.beyond is found.far is None


@pytest.mark.parametrize("numbers", [0, 2])
def test_moments_are_second_moments_of_blocks(numbers: int) -> None:
    request = moment_request()
    request = replace(request, whitening=request.whitening[:numbers])
    records, f, y = table(2000)
    answer = answer_to(moment_question(request, ROWS), records)
    nu = cut(f @ request.whitening.T / request.radius, 1.0)
    rho = np.clip((y - f @ request.coefficients) / request.reach, -1.0, 1.0)
    g = np.column_stack([f[:, 0], nu, f[:, 3:6], rho])
    expected = g.T @ g
    expected[-1, -1] -= len(y)
    code = slice(1 + numbers, 1 + numbers + LEVELS)
    expected[code, code] = 0.0
    np.testing.assert_allclose(answer.values[0], expected, atol=0.02)
    # The count, three or two blocks, their pairs, and squares of nu.
    norm2 = 1 + 3 + 3 + 1 if numbers else 1 + 2 + 1
    sd = answer.scales[0]
    np.testing.assert_allclose(sd[0, 0], np.sqrt(norm2) / MU, rtol=1e-6)
    assert not sd[code, code].any()


@pytest.mark.parametrize("last", [False, True])
def test_requests_go_to_plain_values_and_back(last: bool) -> None:
    for request in (round_request(last), moment_request()):
        held = {field.name: getattr(request, field.name) for field in fields(request)}
        again = type(request).from_dict(held)
        for name, value in held.items():
            np.testing.assert_array_equal(getattr(again, name), value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"coefficients": np.full(ROWS.size, np.nan)},
        {"coefficients": np.array([1e308, -1e308, *np.ones(ROWS.size - 2)])},
        {"whitening": np.full((1, ROWS.size), np.inf)},
        {"radius": 1e-170},
        {"radius": 1e170},
        {"radius": np.nan},
        {"clip": np.inf},
        {"clip": 0.0},
        {"edges": np.array([0.3, 0.1])},
        {"edges": np.array([0.1, np.nan])},
        {"far_edges": np.array([1.0, 4.0, 0.5])},
    ],
)
def test_rounds_for_which_the_norm_is_not_proven_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="need"):
        round_question(round_request(last=False, **wrong), ROWS)


@pytest.mark.parametrize("limit", [0.0, np.nan, np.inf])
def test_squares_are_cut_at_a_positive_length(limit: float) -> None:
    with pytest.raises(ValueError, match="need"):
        round_question(round_request(last=True, meat_clip=limit), ROWS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"radius": np.nan},
        {"reach": 0.0},
        {"levels": (0,)},
        {"whitening": np.full((1, ROWS.size), np.nan)},
    ],
)
def test_moments_for_which_the_norm_is_not_proven_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match="need"):
        moment_question(moment_request(**wrong), ROWS)
