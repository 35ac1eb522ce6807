"""The split of a total mu: exact, never more than the total, by relative mu's."""

from __future__ import annotations

import math
import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg.accounting import Allocation, Budget, gdp, per_record_mu
from dpbinagg.accounting.budget import COMPONENTS, DEFAULT_SHARES
from dpbinagg.errors import BudgetError

relatives = st.one_of(st.just(0.0), st.floats(1e-3, 1e3), st.integers(1, 10))


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    parts = {name: draw(relatives) for name in COMPONENTS}
    if not any(parts.values()) or parts["sum_x"] or parts["sum_y"]:
        parts["count"] = draw(st.floats(1e-3, 1e3))
    return Budget(**parts)


@examples(300)
@given(budgets(), st.floats(1e-300, 1e6))
def test_parts_compose_to_the_total_and_never_more(budget: Budget, total: float) -> None:
    allocation = budget.split(total)
    squares = sum((Fraction(part) ** 2 for part in allocation.as_dict().values()), Fraction(0))
    assert squares <= Fraction(total) ** 2
    assert squares >= (Fraction(total) * (1 - Fraction(1, 10**15))) ** 2
    assert allocation.total == gdp.compose(*allocation.as_dict().values()) <= total


@examples(200)
@given(budgets(), st.floats(1e-6, 1e3))
def test_parts_keep_the_relative_sizes(budget: Budget, total: float) -> None:
    allocation = budget.split(total)
    scale = total / math.sqrt(sum(value**2 for value in budget.as_dict().values()))
    for name, relative in budget.as_dict().items():
        assert getattr(allocation, name) == pytest.approx(relative * scale, rel=1e-13)


@pytest.mark.parametrize("total", [1e-300, 1e-9, 0.1, 1.0, 3.7, 1e6])
def test_a_single_component_gets_exactly_the_total(total: float) -> None:
    only = Budget().without(*(name for name in COMPONENTS if name != "moments"))
    assert only.split(total).moments == total


def test_paper_is_one_to_three() -> None:
    assert Budget.paper().as_dict() == {
        "ranges": 0,
        "partition": 1,
        "count": 3,
        "sum_x": 3,
        "sum_y": 3,
        "moments": 0,
        "scores": 0,
    }
    allocation = Budget.paper().split(1.0)
    assert allocation.partition == pytest.approx(1 / math.sqrt(28), rel=1e-15)
    assert allocation.count == pytest.approx(3 / math.sqrt(28), rel=1e-15)


def test_default_shares_are_squares_of_the_default_relatives() -> None:
    assert math.fsum(DEFAULT_SHARES.values()) == pytest.approx(1.0, abs=1e-15)
    for name, share in DEFAULT_SHARES.items():
        assert getattr(Budget(), name) ** 2 == pytest.approx(share, rel=1e-14)
    assert tuple(DEFAULT_SHARES) == COMPONENTS == tuple(Budget().as_dict())


def test_without_gives_the_part_to_the_rest() -> None:
    rest = Budget().without("scores", "ranges")
    assert (rest.scores, rest.ranges) == (0.0, 0.0)
    assert rest.moments == Budget().moments
    allocation = rest.split(1.0)
    assert allocation.moments**2 == pytest.approx(0.20 / 0.30, rel=1e-12)
    assert 1.0 - 1e-15 <= allocation.total <= 1.0
    assert Budget().without() == Budget()


def test_without_refuses_what_leaves_no_budget() -> None:
    with pytest.raises(BudgetError, match="count"):
        Budget.paper().without("count")
    with pytest.raises(BudgetError, match="at least one"):
        Budget().without(*COMPONENTS)
    with pytest.raises(BudgetError, match="one of ranges, partition"):
        Budget().without("noise")


@pytest.mark.parametrize("bad", [-1.0, -1e-300, math.nan, math.inf, "3", None, True, 1j], ids=repr)
@pytest.mark.parametrize("name", COMPONENTS)
def test_bad_relatives_are_refused_by_name(name: str, bad: object) -> None:
    with pytest.raises(BudgetError, match=rf"^Budget\.{name} must "):
        Budget(**{name: bad})


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, False], ids=repr)
def test_bad_totals_are_refused(bad: object) -> None:
    with pytest.raises(BudgetError, match=r"^mu_total must "):
        Budget().split(bad)
    with pytest.raises(BudgetError, match=r"^mu_total must "):
        per_record_mu(bad, "add-remove")


def test_sums_need_a_count() -> None:
    for name in ("sum_x", "sum_y"):
        with pytest.raises(BudgetError, match=r"Budget\.count"):
            Budget(**{"sum_x": 0.0, "sum_y": 0.0, "count": 0.0, name: 1.0})
    assert Budget(sum_x=0, sum_y=0, count=0).split(1.0).count == 0.0


def test_a_part_below_the_smallest_float_is_refused() -> None:
    with pytest.raises(BudgetError, match="smallest float"):
        Budget.paper().split(5e-324)
    with pytest.raises(BudgetError, match="partition"):
        Budget(partition=1e-300, count=1e300).split(1.0)


def test_values_are_frozen_floats_that_pickle() -> None:
    budget = Budget(count=np.float32(2), scores=3)
    assert all(type(value) is float for value in budget.as_dict().values())
    with pytest.raises(FrozenInstanceError):
        budget.count = 1.0  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(budget)) == budget
    allocation = budget.split(1.0)
    assert isinstance(allocation, Allocation)
    assert pickle.loads(pickle.dumps(allocation)) == allocation


def test_replace_neighbours_halve_the_mu() -> None:
    assert per_record_mu(1.3, "add-remove") == 1.3
    assert per_record_mu(1.3, "replace") == 0.65
    assert 2 * per_record_mu(1.5e-323, "replace") <= 1.5e-323
    for bad in ("swap", None, ["replace"]):
        with pytest.raises(BudgetError, match="neighbours must be"):
            per_record_mu(1.0, bad)  # type: ignore[arg-type]
