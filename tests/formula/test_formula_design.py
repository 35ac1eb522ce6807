"""What a design says and does, beyond the corpus."""

import pickle

import numpy as np
import pandas as pd
import patsy
import pytest
from formula_corpus import DOMAIN, centres, radius2, random_boxes, random_frame, records_of

from dpbinagg.errors import DataError, DomainError, FormulaError
from dpbinagg.formula import build_design
from dpbinagg.formula.design import BLOCK
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.public.partition import Boxes

RECORDS = records_of(random_frame(500, np.random.default_rng(11)))


def boxes_of(**edges):
    """Boxes from (lower, upper) pairs of lists."""
    lower = {name: np.array(pair[0], dtype=float) for name, pair in edges.items()}
    upper = {name: np.array(pair[1], dtype=float) for name, pair in edges.items()}
    return Boxes(lower, upper, {})


def test_public_facts():
    design = build_design("np.log(wage) ~ exper + I(exper**2) + region:educ + C(kids)", DOMAIN)
    assert design.variables == ("exper", "region", "educ", "kids")
    assert design.response_variables == ("wage",)
    assert design.response_name == "np.log(wage)"
    assert design.intercept == 0
    assert design.fixed == ("kids",)
    assert set(design.domain) == {"exper", "region", "educ", "kids", "wage"}
    assert build_design("wage ~ 0 + exper", DOMAIN).intercept is None


def test_variables_absent_from_the_domain_are_unbounded_numbers():
    design = build_design("y ~ x + np.log(z)", Domain({"z": (1, 2), "unused": (0, 1)}))
    assert design.unbounded == ("x", "y")
    assert design.domain["x"] == Numeric()
    for bounds in (design.column_bounds, design.response_bounds):
        with pytest.raises(DomainError, match=r"'x'|'y'"):
            bounds()
    z = design.columns({"x": np.array([1e9, np.inf]), "z": np.array([5.0, 1.5])})
    np.testing.assert_allclose(z[0], [1, 1e9, np.log(2)])
    assert np.isnan(z[1]).all()


def test_transforms_of_unbounded_variables_that_are_undefined_mean_missing():
    design = build_design("y ~ np.log(x)", Domain())
    z = design.columns({"x": np.array([-1.0, 0.0, 1.0])})
    assert np.isnan(z).all(axis=1).tolist() == [True, True, False]


def test_with_domain_keeps_structure_and_levels():
    design = build_design("wage ~ C(kids) + exper + region", DOMAIN)
    narrow = design.with_domain(Domain({"exper": (10, 20), "kids": range(2, 4), "other": (0, 1)}))
    assert narrow.domain["exper"] == Numeric(10, 20)
    assert narrow.domain["kids"] == DOMAIN["kids"]
    assert narrow.column_names == design.column_names
    assert narrow.design_info is design.design_info
    np.testing.assert_allclose(narrow.columns(RECORDS)[:, -1].min(), 10)
    rebuilt = build_design(narrow.formula, narrow.domain)
    np.testing.assert_array_equal(rebuilt.columns(RECORDS), narrow.columns(RECORDS))
    with pytest.raises(DomainError, match="levels"):
        design.with_domain(Domain({"region": ["north"]}))
    with pytest.raises(DomainError, match="levels"):
        design.with_domain(Domain({"region": (0, 1)}))


def test_pickle_rebuilds_the_design():
    design = build_design("wage ~ C(kids, Sum) * exper + bs(age, knots=[30], "
                          "lower_bound=18, upper_bound=90)", DOMAIN)  # fmt: skip
    again = pickle.loads(pickle.dumps(design.with_domain(Domain({"exper": (1, 2)}))))
    assert again.domain["exper"] == Numeric(1, 2)
    assert again.column_names == design.column_names


def test_levels_true_and_one_are_not_confused_by_the_cache():
    names = [
        build_design("y ~ x", Domain({"y": (0, 1), "x": levels})).column_names[1]
        for levels in ([False, True], {"levels": [0, 1]}, ["False", "True"])
    ]
    assert names == ["x[T.True]", "x[T.1]", "x[T.True]"]


def test_values_are_clipped_into_the_domain():
    design = build_design("np.log(wage) ~ exper + np.sqrt(exper) + educ", DOMAIN)
    records = {
        "wage": np.array([-5.0, 1e12]),
        "exper": np.array([-1e300, 77.0]),
        "educ": np.array([-3.0, 19.6]),
    }
    np.testing.assert_allclose(design.columns(records), [[1, 0, 0, 0], [1, 50, 50**0.5, 20]])
    np.testing.assert_allclose(design.response(records), [0, np.log(200)])


@pytest.mark.parametrize("missing", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "formula",
    [
        "wage ~ exper",
        "wage ~ I(exper > 3)",
        "wage ~ np.where(exper > 3, 1, 0)",
        "wage ~ np.minimum(exper, 3) + C(exper > 3)",
        "wage ~ bs(exper, knots=[10], lower_bound=0, upper_bound=50)",
    ],
)
def test_missing_numbers_make_the_row_missing(formula, missing):
    records = {"exper": np.array([1.0, missing, 5.0]), "wage": np.array([2.0, 3.0, missing])}
    design = build_design(formula, DOMAIN)
    assert np.isnan(design.columns(records)).all(axis=1).tolist() == [False, True, False]
    assert np.isfinite(design.columns(records)[[0, 2]]).all()
    assert np.isnan(design.response(records)).tolist() == [False, False, True]


def test_missing_levels_make_the_row_missing():
    records = {"region": np.array([0, -1, 3]), "kids": np.array([0.0, 1.0, np.nan])}
    for formula in ("wage ~ region", "wage ~ I(region == 'west')", "wage ~ C(region, Sum)"):
        z = build_design(formula, DOMAIN).columns(records)
        assert np.isnan(z).all(axis=1).tolist() == [False, True, False]
    z = build_design("wage ~ C(kids)", DOMAIN).columns(records)
    assert np.isnan(z).all(axis=1).tolist() == [False, False, True]


def test_values_outside_declared_levels_are_missing():
    design = build_design("wage ~ C(kids, levels=[0, 2]) + C(region, levels=['east'])", DOMAIN)
    records = {"kids": np.array([0.0, 1.0, 2.0, 0.0]), "region": np.array([2, 2, 2, 0])}
    assert np.isnan(design.columns(records)).all(axis=1).tolist() == [False, True, False, True]


def test_levels_in_the_formula_declare_a_variable():
    design = build_design("wage ~ C(state, levels=['b', 'a'])", DOMAIN)
    assert design.domain["state"] == Categorical(("b", "a"))
    assert design.column_names == ("Intercept", "C(state, levels=['b', 'a'])[T.a]")
    np.testing.assert_array_equal(design.columns({"state": np.array([0, 1])}), [[1, 0], [1, 1]])


def test_lacking_variables_are_named_without_values():
    with pytest.raises(DataError, match="'exper'"):
        build_design("wage ~ exper", DOMAIN).columns({"age": np.array([31.4159])})
    with pytest.raises(DataError):
        build_design("wage ~ exper", DOMAIN).columns({})


def test_text_in_a_numeric_variable_is_refused_without_its_value():
    design = build_design("wage ~ exper", DOMAIN)
    for values in (np.array(["canary"]), np.array(["canary"], dtype=object)):
        with pytest.raises(DataError, match="'exper'") as caught:
            design.columns({"exper": values})
        assert "canary" not in str(caught.value)
        assert caught.value.__suppress_context__
    nullable = pd.DataFrame({"exper": pd.array([1, None], dtype="Int64")})
    assert patsy.dmatrix(design.design_info, nullable).tolist() == [[1.0, 1.0]]


def test_a_design_cannot_be_changed():
    design = build_design("wage ~ exper", DOMAIN)
    with pytest.raises(AttributeError):
        design.domain = Domain()


def test_blocks_do_not_show():
    n = BLOCK + 3
    records = records_of(random_frame(n, np.random.default_rng(12)))
    design = build_design("wage ~ region * exper + np.log(age)", DOMAIN)
    whole = design.columns(records)
    tail = {name: values[-5:] for name, values in records.items()}
    np.testing.assert_array_equal(whole[-5:], design.columns(tail))
    assert design.columns({name: values[:0] for name, values in records.items()}).shape == (0, 9)


def test_comparison_as_response_counts_as_zero_and_one():
    design = build_design("I(wage > 20) ~ educ", DOMAIN)
    assert design.response_name == "I(wage > 20)"
    assert design.response_bounds() == (0.0, 1.0)
    np.testing.assert_array_equal(design.response({"wage": np.array([5.0, 50.0])}), [0, 1])
    assert build_design("I(region == 'west') ~ educ", DOMAIN).response_bounds() == (0.0, 1.0)


def test_bounds_are_tight():
    design = build_design(
        "wage ~ temp + I(temp**2) + I(temp**3) + abs(temp) + I((temp - 1)**2) + I(temp*temp)"
        " + np.sin(temp) + np.exp(temp / 10)",
        DOMAIN,
    )
    lower, upper = design.column_bounds(boxes_of(temp=([-2, 1], [3, 2])))
    e = np.exp([[-0.2, 0.3], [0.1, 0.2]])
    sine = [[-1, 1], [np.sin(1), 1]]
    for k, (low, high) in enumerate([(-2, 3), (1, 2)]):
        near = 0 if low < 0 else low
        expected = [
            (1, 1), (low, high), (near**2, high**2), (low**3, high**3), (near, high),
            (0, 9) if k == 0 else (0, 1), (near**2, high**2), sine[k], e[k],
        ]  # fmt: skip
        np.testing.assert_allclose(np.c_[lower[k], upper[k]], expected, rtol=1e-14, atol=1e-15)


def test_boxes_are_half_open():
    design = build_design("wage ~ I(age >= 65) + I(age > 65) + I(age == 65)", DOMAIN)
    lower, upper = design.column_bounds(boxes_of(age=([18, 65, 40], [65, 90, 70])))
    np.testing.assert_array_equal(lower[:, 1:], [[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(upper[:, 1:], [[0, 0, 0], [1, 1, 1], [1, 1, 1]])


def test_whole_numbers_in_a_box():
    design = build_design("wage ~ educ + C(educ) + np.log(educ + 1)", DOMAIN)
    boxes = boxes_of(educ=([12, 19.5, 0, 3.2], [13, 20, 2, 3.8]))
    lower, upper = design.column_bounds(boxes)
    np.testing.assert_array_equal(lower[:, -2], [12, 20, 0, 4])
    np.testing.assert_array_equal(upper[:, -2], [13, 20, 2, 4])
    assert radius2(design, boxes).tolist()[1::2] == [0.0, 0.0]


def test_variables_that_the_boxes_lack_range_over_the_domain():
    design = build_design("wage ~ age + temp", DOMAIN)
    lower, upper = design.column_bounds(boxes_of(age=([20, 30], [30, 40])))
    assert lower[:, 2].tolist() == [-10.5, -10.5]
    assert upper[:, 2].tolist() == [40.25, 40.25]


@pytest.mark.parametrize("contrast", ["Treatment", "Sum", "Helmert", "Poly", "Diff"])
@pytest.mark.parametrize("intercept", ["", "0 + "])
def test_radius_of_one_factor_is_exact(contrast, intercept):
    domain = Domain({"y": (0, 1), "x": list("abcdef")})
    design = build_design(f"y ~ {intercept}C(x, {contrast})", domain)
    rng = np.random.default_rng(5)
    members = rng.random((40, 6)) < 0.5
    members[np.arange(40), rng.integers(6, size=40)] = True
    boxes = Boxes({}, {}, {"x": members})
    lower, upper = design.column_bounds(boxes)
    z = design.columns({"x": np.arange(6)})
    for centre in (None, centres(design, boxes)):
        norm2 = radius2(design, boxes, centre)
        middle = (lower + upper) / 2 if centre is None else centre
        for k in range(40):
            half = (upper[k] - lower[k]) / 2
            scaled = (z[members[k]] - middle[k])[:, half > 0] / half[half > 0]
            expected = np.square(scaled).sum(axis=1).max(initial=0)
            np.testing.assert_allclose(norm2[k], expected, rtol=1e-9, atol=1e-12)


def test_centres_keep_the_radius_of_many_dummies_small():
    domain = Domain({"y": (0, 1), "x": [f"l{i}" for i in range(50)], "z": (0, 1)})
    design = build_design("y ~ x + z", domain)
    whole = Boxes()
    assert radius2(design, whole)[0] == 50
    centre = centres(design, whole)
    np.testing.assert_allclose(centre[0, 1:-1], 1 / 49)
    np.testing.assert_allclose(radius2(design, whole, centre), 4 * (1 - 1 / 49) + 1)


def test_radius_falls_back_to_the_number_of_columns(monkeypatch):
    monkeypatch.setattr("dpbinagg.formula.scaling.MAX_WORK", 10)
    design = build_design("wage ~ C(region, Poly) * sector", DOMAIN)
    boxes = random_boxes(design.domain, design.variables, 5, np.random.default_rng(0))
    lower, upper = design.column_bounds(boxes)
    np.testing.assert_allclose(radius2(design, boxes), (upper > lower).sum(axis=1))


def test_design_info_serves_public_tables():
    frame = random_frame(300, np.random.default_rng(13))
    design = build_design("np.log(wage) ~ educ + C(region, Sum) * exper + I(age > 40)", DOMAIN)
    z = design.columns(records_of(frame))
    again = patsy.dmatrix(design.design_info, frame, return_type="dataframe")
    assert tuple(again.columns) == design.column_names
    np.testing.assert_allclose(again, z, rtol=1e-14, atol=1e-14)
    assert list(design.design_info.term_name_slices) == [
        "Intercept", "C(region, Sum)", "I(age > 40)", "educ", "exper", "C(region, Sum):exper",
    ]  # fmt: skip
    odd = frame.iloc[:2].assign(region=["north", "moon"])
    assert len(patsy.dmatrix(design.design_info, odd)) == 1


def test_invert_response():
    wage = np.array([2.0, 50.0])
    for formula in (
        "wage ~ 1",
        "np.log(wage) ~ 1",
        "log2(wage) ~ 1",
        "I(np.log10(wage / 7) * 3 - 2) ~ 1",
        "sqrt(wage + 4) ~ 1",
        "I(1 - np.log1p(wage)) ~ 1",
        "np.exp(-wage / 50) ~ 1",
        "I(wage**3) ~ 1",
        "I(wage**0.5) ~ 1",
        "I(2**(wage / 50)) ~ 1",
        "np.arcsinh(wage) ~ 1",
        "I(5 + wage) ~ 1",
        "I(-(2 * wage)) ~ 1",
    ):
        design = build_design(formula, DOMAIN)
        name, raw = design.invert_response(design.response({"wage": wage}))
        assert name == "wage"
        np.testing.assert_allclose(raw, wage, rtol=1e-10)
    for formula in ("I(wage**2) ~ 1", "I(wage > 3) ~ 1", "I(wage / hours) ~ 1", "abs(wage) ~ 1"):
        assert build_design(formula, DOMAIN).invert_response(wage) is None
    _, raw = build_design("sqrt(wage) ~ 1", DOMAIN).invert_response(np.array([-3.0]))
    np.testing.assert_allclose(raw, [1.0])


def test_ranges_found_later_are_cut_where_transforms_end():
    design = build_design("np.log(w) ~ np.sqrt(3 - x) + np.log(1 + 2 * z) + I(v**0.5)", Domain())
    moved = design.with_domain(Domain(dict.fromkeys("wxzv", (-9, 9))))
    found = {name: (moved.domain[name].lower, moved.domain[name].upper) for name in "wxzv"}
    ends = {"w": (0, 9), "x": (-9, 3), "z": (-0.5, 9), "v": (0, 9)}
    for name, expected in ends.items():
        # Limits that must not be attained are kept away from a little.
        assert found[name] == pytest.approx(expected, abs=0.01)
        assert expected[0] <= found[name][0] < found[name][1] <= expected[1]


def test_ranges_found_later_are_moved_to_where_transforms_are_defined():
    design = build_design("np.log(w) ~ np.sqrt(3 - x) + np.log(n + 1)", Domain({"n": (None, 9)}))
    found = Domain({"w": (-5, 2**14), "x": (-1, 7), "n": Numeric(-4, 9, integer=True)})
    moved = design.with_domain(found)
    assert moved.domain["w"] == Numeric(1, 2**14)
    assert moved.domain["x"] == Numeric(-1, 3)
    assert moved.domain["n"] == Numeric(0, 9, integer=True)
    assert moved.response_bounds() == pytest.approx((0, 14 * np.log(2)))
    assert build_design(moved.formula, moved.domain).domain == moved.domain
    declared = build_design("wage ~ np.log(hours)", DOMAIN)
    with pytest.raises(FormulaError, match="lower bound of 'hours'"):
        declared.with_domain(Domain({"hours": (0, 2)}))


def test_repeated_factors_and_duplicates_are_computed_once():
    design = build_design("wage ~ exper + exper + exper:exper + age:exper", DOMAIN)
    assert design.column_names == ("Intercept", "exper", "age:exper")


def test_domain_may_be_a_plain_mapping():
    assert build_design("y ~ x", {"x": (0, 1)}).domain["x"] == Numeric(0, 1)


def test_error_of_a_bad_term_names_it_among_many():
    with pytest.raises(FormulaError, match=r"np.log\(temp\)"):
        build_design("wage ~ exper + np.log(temp) + age", DOMAIN)
