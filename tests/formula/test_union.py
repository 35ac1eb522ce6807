"""Designs of several models, and models as combinations of their columns."""

import numpy as np
import pytest

from dpbinagg.errors import FormulaError
from dpbinagg.formula import build_design
from dpbinagg.formula.union import all_names, combinations, union_design
from dpbinagg.public.domain import Domain, spread_rows

DOMAIN = Domain(
    {
        "wage": (1, 100),
        "hours": range(81),
        "educ": range(21),
        "region": ["N", "S", "E"],
        "sex": ["f", "m"],
        "job years": (0, 50),
    }
)
FORMULAS = [
    "np.log(wage) ~ educ + C(region)",
    "hours ~ 0 + educ:sex + C(region)*sex",
    "I(region == 'N') ~ educ",
    "wage ~ hours + bs(educ, knots=(10,), degree=2, lower_bound=0, upper_bound=20)",
]


@pytest.fixture(scope="module")
def union():
    return union_design(FORMULAS, ["job years", "region", "hours", "wage"], DOMAIN)


@pytest.mark.parametrize("formula", [*FORMULAS, "educ ~ hours + sex", "I(2*hours + 1) ~ wage"])
def test_models_are_combinations(union, formula):
    model = build_design(formula, DOMAIN)
    columns, response = combinations(union, model)
    rows = spread_rows(union.domain, 300, np.random.default_rng(1))
    held = np.column_stack([union.columns(rows), union.response(rows)])
    model = model.with_domain(union.domain)
    assert held @ columns == pytest.approx(model.columns(rows), abs=1e-7)
    assert held @ response == pytest.approx(model.response(rows), abs=1e-7)


@pytest.mark.parametrize("formula", ["wage ~ educ + sex", "np.log(wage) ~ educ + sex"])
def test_a_response_that_is_never_zero_is_not_taken_for_a_constant(formula):
    """The other level of a factor is one minus the first, and not a multiple of the response."""
    full = build_design(formula, DOMAIN)
    rows = spread_rows(full.domain, 300, np.random.default_rng(1))
    held = np.column_stack([full.columns(rows), full.response(rows)])
    for other in ("I(sex == 'f') ~ 1", "I(sex == 'm') ~ 1"):
        model = build_design(other, DOMAIN)
        response = combinations(full, model)[1]
        assert held @ response == pytest.approx(model.response(rows), abs=1e-9)
        assert response[-1] == 0.0


def test_every_term_is_there_once(union):
    names = all_names(union)
    assert len(set(names)) == len(names)
    assert sum("region" in name and ":" not in name for name in names) == 3
    assert "Q('job years')" in names


def test_other_functions_are_refused(union):
    with pytest.raises(FormulaError, match=r"response 'np.sqrt\(wage\)' is not a linear"):
        combinations(union, build_design("np.sqrt(wage) ~ educ", DOMAIN))
    with pytest.raises(FormulaError, match="variable 'age' was not released"):
        combinations(union, build_design("age ~ educ", DOMAIN.updated({"age": (0, 99)})))
