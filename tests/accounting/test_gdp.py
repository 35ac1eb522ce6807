"""The Gaussian formula against two oracles, its inverses, and its rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

import dpbinagg.gdp as public_gdp
from dpbinagg import gdp
from dpbinagg.accounting import gdp as accounting_gdp
from dpbinagg.errors import BudgetError

MUS = [1e-4, 1e-3, 0.01, 0.1, 0.5, 1.0, 1.7, 5.0, 10.0, 50.0]
DELTAS = [0.3, 1e-2, 1e-5, 1e-10, 1e-50, 1e-150, 1e-300]
QUANTILES = [0.0, 0.1, 1.0, 3.0, 8.0, 11.99, 12.01, 20.0, 30.0, 37.0]

mus = st.floats(1e-4, 50.0)
log_deltas = st.floats(math.log(1e-300), math.log(0.5))
positive = st.floats(0.0, exclude_min=True, allow_infinity=False)


def exact_log_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """The textbook formula at 400 digits, which outlasts any cancellation here."""
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first = mpmath.ncdf(-e / m + m / 2)
        return mpmath.log(first - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2))


def test_the_public_module_is_the_accounting_one() -> None:
    assert gdp is public_gdp
    assert all(getattr(gdp, name) is getattr(accounting_gdp, name) for name in gdp.__all__)
    assert set(gdp.__all__) == set(accounting_gdp.__all__)


@pytest.mark.parametrize("mu", MUS)
def test_log_delta_is_an_upper_bound_within_1e_11(mu: float) -> None:
    for x in [*QUANTILES, -mu / 2, -mu / 4, -mu / 100]:
        epsilon = max(0.0, mu * (x + mu / 2))
        exact = exact_log_delta(mu, epsilon)
        excess = float(mpmath.mpf(gdp.log_delta(mu, epsilon)) - exact)
        assert 0.0 <= excess <= 1e-11
        if exact > -700:
            assert 0.0 <= float(mpmath.mpf(gdp.delta(mu, epsilon)) / mpmath.exp(exact) - 1) <= 1e-11


def test_known_values() -> None:
    assert gdp.delta(1.0, 0.0) == pytest.approx(0.38292492254802624, rel=1e-13)
    assert gdp.delta(1.0, 1.0) == pytest.approx(0.12693673750664397, rel=1e-13)
    assert gdp.mu_from_pure(1.0) == pytest.approx(1.2320353853449015, rel=1e-14)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-10, 1e-20])
def test_epsilon_agrees_with_dp_accounting(mu: float, delta: float) -> None:
    oracle = get_epsilon_gaussian(1 / mu, delta, tol=1e-13)
    assert gdp.epsilon(mu, delta) == pytest.approx(oracle, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_conversions_invert_over_the_grid(mu: float, delta: float) -> None:
    epsilon = gdp.epsilon(mu, delta)
    if epsilon == 0.0:
        assert gdp.delta(mu, 0.0) <= delta * (1 + 1e-14)
        assert gdp.mu(0.0, delta) >= mu
        return
    assert gdp.delta(mu, epsilon) == pytest.approx(delta, rel=1e-9)
    assert gdp.mu(epsilon, delta) == pytest.approx(mu, rel=1e-11)


@examples(150)
@given(mus, log_deltas)
def test_what_is_reported_holds_and_what_is_spent_is_covered(mu: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    epsilon = gdp.epsilon(mu, delta)
    assert gdp.log_delta(mu, epsilon) <= math.log(delta)
    spent = gdp.mu(epsilon, delta)
    assert gdp.log_delta(spent, epsilon) <= math.log(delta)
    assert gdp.epsilon(spent, delta) <= epsilon * (1 + 1e-11) + 1e-300


@examples(150)
@given(mus, st.floats(0.0, 100.0), st.floats(1.0001, 2.0))
def test_delta_is_monotone(mu: float, epsilon: float, factor: float) -> None:
    assert gdp.log_delta(mu * factor, epsilon) >= gdp.log_delta(mu, epsilon)
    assert gdp.log_delta(mu, epsilon * factor) <= gdp.log_delta(mu, epsilon)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-20, 1e-5, 0.1, 0.999, 1.0, 1.5, 3.0, 10.0, 50.0])
def test_mu_from_pure_is_an_upper_bound_within_1e_14(epsilon: float) -> None:
    with mpmath.workdps(60):
        exact = 2 * mpmath.sqrt(2) * mpmath.erfinv(mpmath.tanh(mpmath.mpf(epsilon) / 2))
        assert 0.0 <= float(mpmath.mpf(gdp.mu_from_pure(epsilon)) / exact - 1) <= 1e-14


@pytest.mark.parametrize("epsilon", np.geomspace(40.0, 1e9, 60).tolist())
def test_mu_from_pure_is_an_upper_bound_for_large_epsilon(epsilon: float) -> None:
    def log_tail(mu: float) -> mpmath.mpf:
        return mpmath.log(mpmath.ncdf(-mpmath.mpf(mu) / 2))

    mu = gdp.mu_from_pure(epsilon)
    with mpmath.workdps(60):
        target = -mpmath.log1p(mpmath.exp(mpmath.mpf(epsilon))) if epsilon < 1e4 else -epsilon
        assert log_tail(mu) <= target <= log_tail(mu * (1 - 1e-14))


@examples(300)
@given(st.floats(1e-300, 1e6))
def test_pure_conversions_invert_from_below(mu: float) -> None:
    back = gdp.mu_from_pure(gdp.pure_from_mu(mu))
    assert back <= mu
    assert back == pytest.approx(mu, rel=1e-13)


def test_pure_epsilon_is_worse_than_its_gaussian_bound() -> None:
    """The trade-off curve of epsilon-DP touches the Gaussian one at its fixed point."""
    for epsilon in [0.1, 1.0, 5.0]:
        tight = gdp.delta(gdp.mu_from_pure(epsilon), 0.0)
        assert tight == pytest.approx(math.tanh(epsilon / 2), rel=1e-12)


@examples(300)
@given(st.lists(st.floats(0.0, 1e150), max_size=12))
def test_compose_is_the_smallest_float_above_the_exact_root(parts: list[float]) -> None:
    total = gdp.compose(*parts)
    squares = sum((Fraction(part) ** 2 for part in parts), Fraction(0))
    assert Fraction(total) ** 2 >= squares
    if total > 0.0:
        assert Fraction(math.nextafter(total, 0.0)) ** 2 < squares


def test_compose_examples() -> None:
    assert gdp.compose() == 0.0
    assert gdp.compose(3.0, 4.0) == 5.0
    assert gdp.compose(0.6, 0.8) == math.nextafter(1.0, 2.0)
    assert gdp.compose(np.float64(3.0), np.int64(4), 0) == 5.0
    assert gdp.compose(5e-324, 5e-324) == 1e-323
    assert gdp.compose(1e300, 1e-300) == math.nextafter(1e300, math.inf)
    assert gdp.compose(1.7e308, 1.7e308) == math.inf


def test_extremes_end_in_a_safe_number() -> None:
    assert gdp.delta(1e-300, 1.0) < 1e-322
    assert gdp.delta(1e-300, 1.0) > 0.0
    assert gdp.delta(1e300, 1.0) == 1.0
    assert gdp.epsilon(1e200, 0.1) == math.inf
    assert gdp.epsilon(1e-300, 1e-10) == 0.0
    assert gdp.epsilon(1e6, 1e-10) == pytest.approx(5e11, rel=1e-4)
    assert gdp.mu(0.0, 1e-300) == pytest.approx(1e-300 * math.sqrt(2 * math.pi), rel=1e-11)
    assert 14.0 < gdp.mu(1.0, 1.0 - 2.0**-53) < 17.0
    assert gdp.mu(1e6, 1e-10) == pytest.approx(math.sqrt(2e6), rel=1e-2)


BAD = [0.0, -1.0, math.nan, math.inf, -math.inf, "1", None, True, np.True_, 1j, [1.0], 10**400]


@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_bad_mu_and_pure_epsilon_are_refused(bad: object) -> None:
    for call in [
        lambda: gdp.delta(bad, 1.0),
        lambda: gdp.log_delta(bad, 1.0),
        lambda: gdp.epsilon(bad, 1e-5),
        lambda: gdp.pure_from_mu(bad),
    ]:
        with pytest.raises(BudgetError, match=r"^mu must be "):
            call()
    with pytest.raises(BudgetError, match=r"^epsilon must be "):
        gdp.mu_from_pure(bad)


@pytest.mark.parametrize("bad", BAD[1:], ids=repr)
def test_bad_epsilon_delta_and_parts_are_refused(bad: object) -> None:
    with pytest.raises(BudgetError, match=r"^epsilon must "):
        gdp.delta(1.0, bad)
    with pytest.raises(BudgetError, match=r"^epsilon must "):
        gdp.mu(bad, 1e-5)
    with pytest.raises(BudgetError, match=r"^mu must "):
        gdp.compose(1.0, bad)


@pytest.mark.parametrize("bad", [*BAD, 1.0, 2.0], ids=repr)
def test_bad_delta_is_refused(bad: object) -> None:
    with pytest.raises(BudgetError, match=r"^delta must "):
        gdp.epsilon(1.0, bad)
    with pytest.raises(BudgetError, match=r"^delta must "):
        gdp.mu(1.0, bad)
