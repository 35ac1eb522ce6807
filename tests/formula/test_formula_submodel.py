"""Smaller models as linear maps of a released design."""

import numpy as np
import pytest
from formula_corpus import DOMAIN, random_frame, records_of

from dpbinagg.errors import DomainError, FormulaError
from dpbinagg.formula import build_design, linear_map
from dpbinagg.public.domain import Domain

FULL = build_design("np.log(wage) ~ region * union * exper + C(kids) + sector + I(temp**2)", DOMAIN)
RECORDS = records_of(random_frame(400, np.random.default_rng(6)))


@pytest.mark.parametrize(
    "right",
    [
        "1",
        "exper",
        "0 + region",
        "region + exper + C(kids)",
        "C(region, Poly) * exper",
        "C(region, Sum):union + sector",
        "I(2 * exper - 3) + kids",
        "I(region == 'west') * exper",
        "I(kids > 2) + I(temp * temp)",
        "region * union * exper + C(kids) + sector + I(temp**2)",
        "0 + sector + I(exper * (union == True))",
    ],
)
def test_columns_are_recovered(right):
    sub = build_design(f"np.log(wage) ~ {right}", DOMAIN)
    mapping = linear_map(FULL, sub)
    assert mapping.shape == (len(FULL.column_names), len(sub.column_names))
    recovered = FULL.columns(RECORDS) @ mapping
    np.testing.assert_allclose(recovered, sub.columns(RECORDS), atol=1e-9 * 1700)
    for j, name in enumerate(sub.column_names):
        if name in FULL.column_names:
            unit = np.zeros(len(FULL.column_names))
            unit[FULL.column_names.index(name)] = 1
            np.testing.assert_array_equal(mapping[:, j], unit)


@pytest.mark.parametrize(
    ("right", "column"),
    [
        ("exper + I(exper**2)", "I(exper ** 2)"),
        ("region * sector", "region[T.south]:sector[T.b]"),
        ("temp", "temp"),
        ("np.sqrt(exper)", "np.sqrt(exper)"),
    ],
)
def test_foreign_columns_are_named(right, column):
    with pytest.raises(FormulaError) as caught:
        linear_map(FULL, build_design(f"np.log(wage) ~ {right}", DOMAIN))
    assert repr(column) in str(caught.value)


def test_foreign_variables_are_named():
    with pytest.raises(FormulaError, match="'age'"):
        linear_map(FULL, build_design("np.log(wage) ~ age", DOMAIN))


def test_works_without_variables_and_on_a_working_domain():
    one = build_design("wage ~ 1", DOMAIN)
    np.testing.assert_array_equal(linear_map(one, one), [[1.0]])
    narrow = FULL.with_domain(Domain({"exper": (3, 4)}))
    mapping = linear_map(narrow, build_design("wage ~ I(exper - 3)", DOMAIN))
    np.testing.assert_allclose(mapping[0, 1], -3, atol=1e-9)


def test_every_combination_of_levels_is_seen():
    domain = Domain({"y": (0, 1), "a": range(20), "b": range(20)})
    full = build_design("y ~ C(a) * C(b)", domain)
    sub = build_design("y ~ 0 + C(a):C(b)", domain)
    mapping = linear_map(full, sub)
    grid = {"a": np.repeat(np.arange(20.0), 20), "b": np.tile(np.arange(20.0), 20)}
    recovered = full.columns(grid) @ mapping
    np.testing.assert_allclose(recovered, sub.columns(grid), atol=1e-9)


def test_needs_bounds():
    design = build_design("y ~ x", Domain({"y": (0, 1)}))
    with pytest.raises(DomainError, match="'x'"):
        linear_map(design, design)
