"""Interval arithmetic, by random expressions on random boxes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg.errors import FormulaError
from dpbinagg.formula import build_design
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Boxes

DOMAIN = Domain({"y": (0, 1), "x": (-3, 5), "z": (0.5, 4), "n": range(-4, 9), "c": list("abc")})

leaf = st.sampled_from(["x", "z", "n", "2.5", "-1", "0.1", "3", "(c == 'b')"])


def _extend(inner):
    unary = st.sampled_from(
        ["-{}", "np.exp({} / 9)", "abs({})", "np.tanh({})", "np.log({})", "np.sqrt({})",
         "np.sin({})", "np.cos({} * 2)", "np.floor({})", "np.arcsinh({})", "({})**2", "({})**3",
         "({})**-1", "({})**0.5", "({})**5", "({}) % 3", "({}) // 2", "np.cosh({} / 5)",
         "np.cbrt({})", "np.clip({}, -1, 2)", "1.0 * (({}) > 1)", "1.0 * (({}) <= 0)",
         "1.0 * (({}) == 2)"]
    )  # fmt: skip
    binary = st.sampled_from(
        ["({} + {})", "({} - {})", "({} * {})", "({} / {})", "np.minimum({}, {})",
         "np.maximum({}, {})", "np.where({} > 0, {}, 1)", "1.0 * ((x > {}) & (z < {}))",
         "1.0 * ((x > {}) ^ ~(z < {}))"]
    )  # fmt: skip
    return st.one_of(
        st.builds(lambda form, a: form.format(a), unary, inner),
        st.builds(lambda form, a, b: form.format(a, b), binary, inner, inner),
    )


expressions = st.recursive(leaf, _extend, max_leaves=6)


@examples(400)
@given(expressions, st.integers(0, 2**32 - 1))
def test_intervals_bound_every_value(code, seed):
    try:
        design = build_design(f"y ~ I({code} + 0.0)", DOMAIN)
    except FormulaError:
        return
    rng = np.random.default_rng(seed)
    n_boxes, n = 6, 60
    lower, upper, values = {}, {}, {}
    for name in ("x", "z", "n"):
        low, high = DOMAIN[name].lower, DOMAIN[name].upper
        ends = np.sort(rng.uniform(low, high, (2, n_boxes)), axis=0)
        ends[0, 0], ends[1, 0] = low, high
        lower[name], upper[name] = ends
        points = rng.uniform(ends[0], ends[1], (n, n_boxes))
        points[0] = ends[0]
        points[1] = np.where(ends[1] == high, high, np.nextafter(ends[1], -np.inf))
        values[name] = points
    whole = np.ceil(values["n"])
    inside = whole <= upper["n"]
    values["n"] = whole
    members = rng.random((n_boxes, 3)) < 0.6
    members[:, 1] |= ~members.any(axis=1)
    boxes = Boxes(lower, upper, {"c": members})
    codes = np.array([rng.choice(np.flatnonzero(row), n) for row in members]).T
    low, high = design.column_bounds(boxes)
    records = {name: points.ravel() for name, points in values.items()}
    z = design.columns({**records, "c": codes.ravel()})[:, 1].reshape(n, n_boxes)
    z = np.where(inside, z, low[:, 1])
    assert np.all(low[:, 1] <= z), code
    assert np.all(z <= high[:, 1]), code


@examples(100)
@given(st.floats(-50, 50), st.floats(0, 20))
def test_waves_are_tight(start, width):
    domain = Domain({"y": (0, 1), "x": (-100, 100)})
    design = build_design("y ~ np.sin(x) + np.cos(x)", domain)
    boxes = Boxes({"x": np.array([start])}, {"x": np.array([start + width])}, {})
    lower, upper = design.column_bounds(boxes)
    grid = np.linspace(start, start + width, 4001)
    for j, wave in ((1, np.sin(grid)), (2, np.cos(grid))):
        assert lower[0, j] <= wave.min() + 1e-12
        assert wave.max() - 1e-12 <= upper[0, j]
        assert wave.min() - lower[0, j] < 1e-4
        assert upper[0, j] - wave.max() < 1e-4


@pytest.mark.parametrize(
    "basis",
    [
        "bs(x, knots=[0, 1, 2.5], lower_bound=-3, upper_bound=5)",
        "bs(x, knots=[0, 0, 2], degree=2, lower_bound=-3, upper_bound=5, include_intercept=True)",
        "bs(x, knots=[0], degree=1, lower_bound=-3, upper_bound=5)",
        "cr(x, knots=[0, 1, 2.5], lower_bound=-3, upper_bound=5)",
        "cc(x, knots=[0, 1, 2.5], lower_bound=-3, upper_bound=5)",
        "cr(x, knots=[1], lower_bound=0, upper_bound=2)",
    ],
)
def test_spline_bounds_are_tight(basis):
    design = build_design(f"y ~ 0 + {basis}", DOMAIN)
    rng = np.random.default_rng(4)
    ends = np.sort(rng.uniform(-3, 5, (2, 30)), axis=0)
    boxes = Boxes({"x": ends[0]}, {"x": ends[1]}, {})
    lower, upper = design.column_bounds(boxes)
    for k in range(30):
        z = design.columns({"x": np.linspace(ends[0, k], ends[1, k], 5001)})
        np.testing.assert_allclose(lower[k], z.min(axis=0), atol=1e-3)
        np.testing.assert_allclose(upper[k], z.max(axis=0), atol=1e-3)
        assert np.all(lower[k] <= z.min(axis=0))
        assert np.all(z.max(axis=0) <= upper[k])
