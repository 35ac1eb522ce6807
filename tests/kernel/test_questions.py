"""What holds for every question: its norm, that it is row-local, that it is data."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from asked import (
    GRID,
    LEVELS,
    ODD,
    joined,
    joint_projection,
    odd_record,
    projection,
    questions,
    rows,
    table,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from properties import examples

from dpbinagg.kernel import maps, view
from dpbinagg.kernel.maps import UNIT_BITS, Moments
from dpbinagg.kernel.questions import (
    WEIGHT_BITS,
    Question,
    Sum,
    alone,
    weigh,
)
from dpbinagg.kernel.view import Part, Projection, parted
from dpbinagg.release.questions import from_plain, to_plain
from dpbinagg.release.saving import tree_from_plain, tree_to_plain

ALL = questions()
ROWS = rows()
ANY = st.one_of(
    st.floats(-3, 3),
    st.sampled_from([0.0, 0.5, 1.0, -1.0, 2.0, -2.0, 3.5, 1e300, -1e300, 5e-324]),
    st.floats(allow_nan=True, allow_infinity=True),
)
RECORD = st.fixed_dictionaries({"x": ANY, "z": ANY, "y": ANY, "g": st.integers(-2, LEVELS + 1)})


def sums_of(question: Question, *chunks: dict[str, Any]) -> list[Any]:
    """Exact sums over records that come in chunks."""
    parts = [Part(one if question.records == "all" else parted(one)[0]) for one in chunks]
    return Sum((question,), ROWS).run(parts)


def vector_of(question: Question, *chunks: dict[str, Any]) -> list[int]:
    """The weighted vector that the mechanism is given, in its whole units."""
    sums = sums_of(question, *chunks)
    return [
        int(value)
        for (weight, map_), one in zip(question.groups, sums, strict=True)
        for value in map_.whole(one.astype(object)) * int(weight * 2**WEIGHT_BITS)
    ]


def assert_same(one: list[Any], other: list[Any]) -> None:
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


def pick(records: dict[str, Any], rows_: Any) -> dict[str, Any]:
    return {name: column[rows_] for name, column in records.items()}


@pytest.mark.parametrize("name", ALL)
def test_no_record_contributes_more_than_one(name: str) -> None:
    """In whole numbers: the units of the mechanism, where 1 is ``2^(UNIT_BITS + WEIGHT_BITS)``."""
    limit = 4 ** (UNIT_BITS + WEIGHT_BITS)

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(RECORD, st.integers(0, 5))
    def check(record: dict[str, Any], seed: int) -> None:
        question = questions(seed)[name]
        one = {
            key: np.array([value], dtype=np.int64 if key == "g" else np.float64)
            for key, value in record.items()
        }
        assert sum(value**2 for value in vector_of(question, one)) <= limit

    check()


@pytest.mark.parametrize("name", ALL)
def test_many_records_contribute_at_most_one_each(name: str) -> None:
    """Corners of all kinds, by the thousand, one by one where a sum is not a bound."""
    rng = np.random.default_rng(4)
    n = 400
    corners = {
        "x": rng.choice([0.0, 0.5, 1.0], n),
        "z": rng.choice([-2.0, 0.0, 2.0], n),
        "y": rng.choice([-2.5, 0.5, 3.5], n),
        "g": rng.integers(0, LEVELS, n),
    }
    limit = 4 ** (UNIT_BITS + WEIGHT_BITS)
    for i in range(n):
        contribution = vector_of(ALL[name], pick(corners, [i]))
        assert sum(value**2 for value in contribution) <= limit


@pytest.mark.parametrize("name", ALL)
def test_something_is_contributed(name: str) -> None:
    assert any(np.any(part != 0) for part in sums_of(ALL[name], table(300)))


@pytest.mark.parametrize("name", ALL)
def test_neither_order_nor_chunks_nor_strides_show(name: str) -> None:
    question, records = ALL[name], table(300)
    expected = sums_of(question, records)
    order = np.random.default_rng(0).permutation(300)
    assert_same(sums_of(question, pick(records, order)), expected)
    for cuts in ([1], [299], [7, 8, 9, 150], list(range(1, 300))):
        chunks = [pick(records, part) for part in np.split(np.arange(300), cuts)]
        assert_same(sums_of(question, *chunks), expected)
    wide = {key: np.repeat(column, 2)[::2] for key, column in records.items()}
    backward = {key: column[::-1].copy()[::-1] for key, column in records.items()}
    assert_same(sums_of(question, wide), expected)
    assert_same(sums_of(question, backward), expected)


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ALL)
def test_an_odd_record_adds_its_own_contribution_wherever_it_stands(name: str, odd: str) -> None:
    question, records, one = ALL[name], table(), odd_record(odd)
    own = vector_of(question, one)
    without = vector_of(question, records)
    expected = [a + b for a, b in zip(without, own, strict=True)]
    for place in (0, 17, 40):
        first, second = (pick(records, part) for part in np.split(np.arange(40), [place]))
        assert vector_of(question, joined(first, one, second)) == expected
        assert vector_of(question, first, one, second) == expected
    twice = vector_of(question, joined(one, records, one))
    assert twice == [a + b for a, b in zip(expected, own, strict=True)]


@pytest.mark.parametrize("name", ALL)
def test_a_question_is_data(name: str) -> None:
    """To JSON and back: the same sums, units and noise."""
    question = ALL[name]
    text = json.dumps(tree_to_plain(to_plain(question)))
    again = from_plain(tree_from_plain(json.loads(text)), GRID)
    assert isinstance(again, Question)
    assert (again.name, again.records) == (question.name, question.records)
    assert_same(sums_of(again, table()), sums_of(question, table()))
    for (weight, one), (other_weight, other) in zip(again.groups, question.groups, strict=True):
        assert weight == other_weight
        assert_same([one.scales(2.0, 4)], [other.scales(2.0, 4)])


@pytest.mark.parametrize("name", ALL)
def test_answers_have_the_shape_of_their_scales(name: str) -> None:
    question = ALL[name]
    for (_, map_), sums in zip(question.groups, sums_of(question, table()), strict=True):
        flat = map_.whole(sums.astype(object))
        answer = map_.answer(np.asarray(flat, dtype=float) * 2.0**-UNIT_BITS, question.k)
        assert answer.shape == map_.scales(1.0, question.k).shape


def exact(name: str, records: dict[str, Any]) -> Any:
    """The answer to the first group of a question, without noise."""
    question = ALL[name]
    map_, sums = question.groups[0][1], sums_of(question, records)[0]
    flat = map_.whole(sums.astype(object))
    return map_.answer(np.asarray(flat, dtype=float) * 2.0**-UNIT_BITS, question.k)


def f_of(records: dict[str, Any]) -> tuple[Any, Any]:
    """f = (1, z*, one-hot, y*) of complete records in floating point, and the codes."""
    kept = parted(records)[0]
    columns, response, (code,) = ROWS.row_map(kept)
    z = np.clip((columns[:, 1:] - ROWS.centre[1:]) / ROWS.scale[1:], -1, 1)
    y = np.clip((response - ROWS.centre_y) / ROWS.scale_y, -1, 1)
    one_hot = np.eye(LEVELS)[code]
    return np.c_[np.ones(len(y)), z, one_hot, y], code


def test_answers_are_the_sums_of_their_definitions() -> None:
    records = table(2000)
    f, _ = f_of(records)
    at = projection()
    w = f @ at.whitening.T
    r = 0.5 + 3.0 * f[:, -1] - f @ at.coefficients
    u = w * r[:, None]

    def cut(v: Any, limit: float) -> Any:
        return v / np.maximum(np.linalg.norm(v, axis=1) / limit, 1.0)[:, None]

    def far(v: Any, limit: float) -> Any:
        length = np.linalg.norm(v, axis=1, keepdims=True)
        return np.where(length > limit, v / length, 0.0)

    expected = {
        "direction of w r": far(u, 1.5).sum(0),
        "outer of w": cut(w, 1.5).T @ cut(w, 1.5),
        "outer of w r": cut(u, 2.5).T @ cut(u, 2.5),
        "outer beyond": far(w, 2.0).T @ far(w, 2.0),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(exact(name, records), value, atol=0.02, err_msg=name)
    both = exact("unit and inside of w r", records)
    np.testing.assert_allclose(both[:-1], cut(u, 2.0).sum(0), atol=0.02)
    inside = 1.0 - np.minimum(np.linalg.norm(u, axis=1) / 2.0, 1.0) ** 2
    assert both[-1] == pytest.approx(inside.sum(), abs=0.01)


@pytest.mark.parametrize(
    ("name", "limit", "reach"), [("moments", 3.0, 2.0), ("moments, all cut", 0.01, 0.01)]
)
def test_moments_are_second_moments_of_blocks(name: str, limit: float, reach: float) -> None:
    """Within a code nothing is released; the square of the residual is less the count."""
    records = table(3000)
    f, code = f_of(records)
    at = projection()
    nu = f @ at.whitening.T / limit
    nu /= np.maximum(np.linalg.norm(nu, axis=1), 1.0)[:, None]
    rho = np.clip((0.5 + 3.0 * f[:, -1] - f @ at.coefficients) / reach, -1.0, 1.0)
    g = np.column_stack([np.ones(len(f)), nu, np.eye(LEVELS)[code], rho])
    expected = g.T @ g
    expected[-1, -1] -= len(f)
    expected[5:8, 5:8] = 0.0
    np.testing.assert_allclose(exact(name, records), expected, atol=0.05)
    map_ = ALL[name].groups[0][1]
    # The count; nu, the code and the residual; three pairs of them; and nu nu'.
    assert map_.norm2 == 1 + 3 + 3 + 1
    assert ALL["moments of codes"].groups[0][1].norm2 == 1 + 2 + 1
    within = map_.scales(1.0, 4)[5:8, 5:8]
    assert not within.any()


@examples(300)
@given(st.lists(st.floats(-4, 4), min_size=5, max_size=5), st.integers(0, LEVELS - 1))
def test_the_norm_of_a_unit_with_its_inside_is_reached_and_not_passed(
    values: list[float], level: int
) -> None:
    """``t + (1 - t)^2`` is 1 at both ends: a record of no length, and one that was cut."""
    x, z, y, *_ = values
    one = {"x": np.array([x]), "z": np.array([z]), "y": np.array([y]), "g": np.array([level])}
    for limit in (1e-3, 0.5, 1e3):
        question = Question("q", alone(maps.UnitInside("wr", limit)), projection())
        square = sum(value**2 for value in vector_of(question, one))
        assert 0.7 < square / 4 ** (UNIT_BITS + WEIGHT_BITS) <= 1.0
        assert sums_of(question, one)[0][-1] >= 0


def test_counts_are_counts() -> None:
    records = table(500)
    kept = parted(records)[0]
    x, g = kept["x"], kept["g"]
    edges = [(-np.inf, 0.0), (0.0, 0.25), (0.25, 0.5), (0.5, np.inf)]
    by_x = [int(((low < x) & (x <= high)).sum()) for low, high in edges]
    assert exact("number, complete", records).tolist() == by_x
    assert exact("number, missing, all", records)[-1] == np.isnan(records["x"]).sum()
    assert exact("level, missing, all", records)[-1] == (records["g"] < 0).sum()
    assert exact("everyone, all", records).tolist() == [500]
    assert exact("everyone, complete", records).tolist() == [len(x)]
    by_level = np.bincount(g, minlength=LEVELS)
    assert exact("level, complete", records).tolist() == by_level.tolist()


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=9))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_weights_have_norm_one_at_most(weights: list[float]) -> None:
    groups = weigh([(weight, maps.OneHot(maps.Everyone())) for weight in weights])
    assert sum(weight**2 for weight, _ in groups) <= 1
    assert float(sum(weight**2 for weight, _ in groups)) > 1.0 - 1e-6


ONE_CELL = maps.OneHot(maps.Everyone())


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (((Fraction(1), ONE_CELL), (Fraction(1, 2), ONE_CELL)), "norm above 1"),
        (((Fraction(2), ONE_CELL),), "norm above 1"),
        (((Fraction(-1, 2), ONE_CELL),), "above 0"),
        (((0.5, ONE_CELL),), "must be a Fraction"),
        (((Fraction(1, 3), ONE_CELL),), "must be a Fraction"),
        (((Fraction(1), Moments(0, 1.0, (2,), 1.0)),), "needs? a projection"),
        ((), "needs groups"),
    ],
)
def test_weights_without_a_proof_are_refused(groups: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Question("q", groups)


NONE = float("nan")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: maps.Direction("w", 0.0),
        lambda: maps.Direction("w", np.inf),
        lambda: maps.Direction("w", 1e-170),
        lambda: maps.Direction("w", -1.0),
        lambda: maps.Direction("f", 1.0),
        lambda: maps.Outer("w", 1e170),
        lambda: maps.Outer("wr", NONE),
        lambda: maps.OuterBeyond("w", NONE),
        lambda: maps.Direction("w", NONE),
        lambda: maps.UnitInside("w", NONE),
        lambda: maps.UnitInside("w", 0.0),
        lambda: maps.UnitInside("f", 1.0),
        lambda: maps.OneHot(maps.NormCells("w", np.array([1.0, NONE]))),
        lambda: maps.OneHot(maps.NormCells("w", np.array([2.0, 1.0]))),
        lambda: maps.OneHot(maps.NormCells("q", np.array([1.0, 2.0]))),
        lambda: maps.OneHot(maps.NumberCells("x", np.array([1.0]))),
        lambda: maps.OneHot(maps.NumberCells("x", np.array([NONE, 1.0]))),
        lambda: Moments(3, 1.0, (LEVELS,), 1.0),
        lambda: Moments(4, 1.0, (LEVELS, 0), 1.0),
        lambda: Moments(4, NONE, (LEVELS,), 1.0),
        lambda: Moments(4, 1.0, (LEVELS,), 0.0),
        lambda: Moments(4, 1.0, (LEVELS,), np.inf),
    ],
)
def test_maps_without_a_proof_are_refused(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"needs?|must|sign"):
        Question("q", weigh([(1.0, wrong())]), projection())


@pytest.mark.parametrize(
    "wrong",
    [
        {"coefficients": np.array([0.0, np.nan, 0.0])},
        {"coefficients": np.array([1e308, -1e308, 1e308])},
        {"whitening": np.array([[np.inf, 0.0, 1.0]])},
        {"coefficients": np.zeros(2)},
        {"scale_y": np.nan},
        {"centre_y": np.inf},
    ],
)
def test_projections_that_are_no_numbers_are_refused(wrong: Any) -> None:
    right = {"whitening": np.ones((1, 3)), "coefficients": np.zeros(3), "centre_y": 0.0}
    with pytest.raises(ValueError, match="needs"):
        Projection(**{**right, "scale_y": 1.0, **wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"coefficients": np.zeros(3)},
        {"coefficients": np.zeros((3, 3))},
        {"blocks": (1, 2)},
        {"blocks": (2, 0)},
        {"units": (1.0,)},
        {"units": (1.0, np.nan)},
    ],
)
def test_blocks_must_be_the_rows_and_have_a_residual_each(wrong: Any) -> None:
    right: dict[str, Any] = {"whitening": np.ones((2, 3)), "coefficients": np.zeros((2, 3))}
    Projection(**right, centre_y=0.0, scale_y=1.0, blocks=(1, 1))
    with pytest.raises(ValueError, match=r"needs as many|must be all rows|a unit for"):
        Projection(**{**right, "blocks": (1, 1), **wrong}, centre_y=0.0, scale_y=1.0)


@pytest.mark.parametrize(
    "map_",
    [
        maps.Outer("w", 1.0),
        maps.OneHot(maps.NormCells("r", np.array([1.0]))),
        maps.Moments(4, 3.0, (LEVELS,), 2.0),
        maps.Shares("wr", 1.0, (1, 2)),
    ],
)
def test_with_blocks_only_w_r_as_a_whole_may_be_asked_for(map_: Any) -> None:
    with pytest.raises(ValueError):
        Question("q", alone(map_), joint_projection())


def test_blocks_are_the_contributions_of_each_model() -> None:
    """Scores of blocks under a clip that nobody reaches are those of one question a block."""
    at, records, limit, start = joint_projection(), table(300), 1e4, 0
    whole = Question("q", alone(maps.UnitInside("wr", limit)), at)
    scores = sums_of(whole, records)[0][:-1]
    shares = sums_of(Question("q", alone(maps.Shares("wr", limit, at.blocks)), at), records)[0]
    n = int(sums_of(Question("n", alone(maps.OneHot(maps.Everyone()))), records)[0][0])
    for b, size in enumerate(at.blocks):
        rows_ = slice(start, start + size)
        start += size
        one = Projection(at.whitening[rows_], at.coefficients[b], at.centre_y, at.scale_y)
        clip = maps.UnitInside("wr", limit * at.units[b])
        own = sums_of(Question("q", alone(clip), one), records)[0]
        np.testing.assert_array_equal(scores[rows_], own[:-1])
        # Both are cut toward zero, record by record.
        assert abs(shares[b] - (n * 2**maps.LINEAR_BITS - own[-1])) <= 2 * n


@pytest.mark.parametrize("name", [name for name in ALL if ALL[name].projection is not None])
def test_codes_give_the_same_written_out_and_looked_up(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = sums_of(ALL[name], table(300))
    monkeypatch.setattr(view, "FEW_LEVELS", LEVELS - 1)
    other = rows()
    assert other.looked_up
    assert not ROWS.looked_up
    found = Sum((ALL[name],), other).run([Part(parted(table(300))[0])])
    groups = ALL[name].groups
    assert_same(
        *([m.whole(a) for (_, m), a in zip(groups, s, strict=True)] for s in (found, expected))
    )


def test_models_that_are_asked_for_alone_too_are_computed_once() -> None:
    """A projection that is alike is the same one: here all three are in the joint one."""
    at, records = joint_projection(), parted(table(50))[0]
    one = Projection(at.whitening[1:3], at.coefficients[1], at.centre_y, at.scale_y)
    assert one.keys == at.parts[1].keys
    both = view.View(Part(records), ROWS, {})
    both.lengths(at, "wr")
    assert both.projected(one).w is both.projected(at.parts[1]).w


def test_a_projection_of_another_length_is_refused() -> None:
    other = Projection(np.ones((1, 3)), np.zeros(3), 0.0, 1.0)
    question = Question("q", alone(maps.Direction("w", 1.0)), other)
    with pytest.raises(ValueError, match="a column for every entry"):
        sums_of(question, table())


def test_questions_of_one_pass_do_not_disturb_each_other() -> None:
    """Not even with the same maps over different projections, asked in turns."""
    names = (
        "direction of w r",
        "outer of w",
        "unit and inside of w",
        "outer of w r",
        "norm of w r",
    )
    several = [questions(seed)[name] for name in names for seed in (0, 1, 0)]
    several += [ALL["bins"], ALL["deviations"], ALL["moments"], ALL["moments of codes"]]
    parts = [Part(parted(table(300))[0])]
    together = Sum(tuple(several), ROWS).run(parts)
    alone_ = [one for question in several for one in sums_of(question, table(300))]
    assert_same(together, alone_)
