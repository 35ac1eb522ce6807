"""What rows are computed with is elementwise to the last bit, on every platform that runs this.

The proof needs that a record's columns do not depend on the records beside it. Functions of whole
arrays may take another path for the first or last few numbers, or where they are not contiguous; a
last bit that follows from the place of a number would be such a dependence. Where an array runs
backward, numpy's logarithm does differ in the last bit (2.4, AVX-512): row maps work on copies.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpbinagg import Domain
from dpbinagg.formula.rows import OPERATIONS, Arrays, Basis, power

N = 331
ODD = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 1e308, -1e308, 5e-324, 2.0**53, 710.0]
KNOTS = (2.0, 3.5, 7.0)
BASES = {
    **{kind: Basis(kind, KNOTS, 0.0, 10.0) for kind in ("bs", "cr", "cc")},  # type: ignore[arg-type]
    "bs, degree 1": Basis("bs", KNOTS, 0.0, 10.0, degree=1, intercept=True),
}
POWERS = {f"power {exponent}": exponent for exponent in (2.0, 3.0, -2.0, 16.0, 0.5, -1.5, 17.0)}


def numbers(seed: int) -> Any:
    """Numbers of all sizes and signs, odd ones at both ends and in the middle."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=N) * 10.0 ** rng.integers(-8, 9, N)
    values[: len(ODD)] = ODD
    values[N // 2 : N // 2 + len(ODD)] = ODD
    values[-len(ODD) :] = ODD
    return values


def arity(function: Any) -> int:
    if isinstance(function, np.ufunc):
        return function.nin
    return 3 if function is np.where else len(inspect.signature(function).parameters)


def assert_elementwise(function: Callable[..., Any], arguments: list[Any]) -> None:
    with np.errstate(all="ignore"):
        whole = np.asarray(function(*arguments))
        for i in range(N):
            assert_bits(function(*(a[i : i + 1] for a in arguments)), whole[i : i + 1])
        for start, stop, step in ((1, N, 1), (3, N - 5, 1), (0, N, 2), (5, N, 7)):
            some = slice(start, stop, step)
            assert_bits(function(*(a[some] for a in arguments)), whole[some])
        order = np.random.default_rng(0).permutation(N)
        assert_bits(function(*(a[order] for a in arguments)), whole[order])
        wide = [np.repeat(a, 3)[::3] for a in arguments]
        assert_bits(function(*wide), whole)


def assert_bits(one: Any, other: Any) -> None:
    """Equal to the last bit, signs of zeros and all kinds of NaN aside from their payload."""
    one, other = np.asarray(one), np.asarray(other)
    np.testing.assert_array_equal(one, other)
    if one.dtype.kind == "f":
        known = ~np.isnan(one)
        np.testing.assert_array_equal(np.signbit(one)[known], np.signbit(other)[known])


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    function = OPERATIONS[name]
    arguments = [numbers(seed) for seed in range(arity(function))]
    if name in ("and", "or", "xor", "not", "where"):
        arguments[0] = arguments[0] > 0.0
    assert_elementwise(function, arguments)


@pytest.mark.parametrize("name", POWERS)
def test_powers(name: str) -> None:
    exponent = np.float64(POWERS[name])
    assert_elementwise(lambda base: power(base, exponent), [numbers(0)])


@pytest.mark.parametrize("name", BASES)
def test_splines(name: str) -> None:
    assert_elementwise(BASES[name], [np.random.default_rng(1).uniform(-1.0, 11.0, N)])


def test_an_array_that_runs_backward_is_copied() -> None:
    """As in ``frame[::-1]``: the same record must say the same, wherever it is kept."""
    values = np.abs(numbers(0)) + 1.0
    arrays = Arrays({"x": values[::-1]}, Domain({"x": (0.0, math.inf)}), N)
    with np.errstate(all="ignore"):
        assert_bits(np.log(arrays.variable("x"))[::-1], np.log(np.clip(values, 0.0, math.inf)))
    assert arrays.variable("x").strides == (8,)


def test_a_function_that_is_not_would_be_seen() -> None:
    with pytest.raises(AssertionError):
        assert_elementwise(lambda x: x - x.mean(), [numbers(0)[len(ODD) : N // 2].repeat(4)[:N]])
