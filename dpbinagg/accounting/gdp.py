"""Gaussian differential privacy: conversions and composition.

A mechanism is mu-GDP exactly when it is (epsilon, delta)-DP for every epsilon >= 0 with

    delta(mu, epsilon) = Phi(-epsilon/mu + mu/2) - exp(epsilon) Phi(-epsilon/mu - mu/2)

(Dong, Roth and Su 2022, Corollary 2.13). With `x = epsilon/mu - mu/2` and the Mills ratio
`m(t) = Phi(-t)/phi(t)` this is `phi(x) (m(x) - m(x + mu))`, which is computed here in log
space. Every result is rounded toward privacy: a guarantee that is reported (`delta`,
`epsilon`, `compose`, `mu_from_pure`) is rounded up, a guarantee that is to be spent
(`mu`, `pure_from_mu`) is rounded down.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal, SupportsFloat

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import erf, erfcx, erfinv, log_ndtr, ndtri_exp

from dpbinagg.errors import BudgetError

MANTISSA_BITS = 53


Rule = Literal["positive", "nonnegative", "probability"]


def as_number(value: object, name: str, rule: Rule) -> float:
    """Return `value` as a finite float that obeys a rule, or say what is wrong with it.

    Parameters
    ----------
    value : object
        What the caller passed.
    name : str
        The argument's name, for the message.
    rule : {"positive", "nonnegative", "probability"}
        Above zero, at least zero, or strictly between zero and one.
    """
    if type(value).__name__ in ("bool", "bool_") or not isinstance(value, numbers.Real):
        raise BudgetError(
            f"{name} must be a number, but a {type(value).__name__} was passed; "
            f"pass a float such as {name}=1.0."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BudgetError(f"{name} must be finite, but {number} was passed.")
    if rule == "positive" and number <= 0.0:
        raise BudgetError(f"{name} must be greater than zero, but {number} was passed.")
    if rule == "nonnegative" and number < 0.0:
        raise BudgetError(f"{name} must not be negative, but {number} was passed.")
    if rule == "probability" and not 0.0 < number < 1.0:
        raise BudgetError(
            f"{name} must lie strictly between 0 and 1, but {number} was passed; "
            f"a usual choice is far below one over the number of records."
        )
    return number + 0.0


def sum_of_squares(values: Iterable[SupportsFloat]) -> Fraction:
    """Return the sum of the squares of floats, without any rounding."""
    by_exponent: dict[int, int] = {}
    for value in values:
        mantissa, exponent = math.frexp(float(value))
        digits = int(math.ldexp(mantissa, MANTISSA_BITS))
        by_exponent[exponent] = by_exponent.get(exponent, 0) + digits * digits
    total = Fraction(0)
    for exponent, squares in by_exponent.items():
        total += squares * Fraction(2) ** (2 * (exponent - MANTISSA_BITS))
    return total


def sqrt_down(square: Fraction) -> float:
    """Return the largest float whose exact square is at most `square`."""
    if square < 0:
        raise ValueError("square must not be negative.")
    if square == 0:
        return 0.0
    # A finite float within a few units in the last place of the root, then to the right one.
    bits = square.numerator.bit_length() - square.denominator.bit_length()
    half_shift = (2 * MANTISSA_BITS + 20 - bits) // 2
    scaled = square * Fraction(2) ** (2 * half_shift)
    try:
        root = math.ldexp(float(math.isqrt(int(scaled))), -half_shift)
    except OverflowError:
        root = math.nextafter(math.inf, 0.0)
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    while (above := math.nextafter(root, math.inf)) < math.inf and Fraction(above) ** 2 <= square:
        root = above
    return root


def sqrt_up(square: Fraction) -> float:
    """Return the smallest float whose exact square is at least `square`, or infinity."""
    root = sqrt_down(square)
    return root if Fraction(root) ** 2 == square else math.nextafter(root, math.inf)


__all__ = ["compose", "delta", "epsilon", "log_delta", "mu", "mu_from_pure", "pure_from_mu"]

_UNIT = sys.float_info.epsilon
_HUGE = sys.float_info.max
_CLOSE: dict[str, Any] = {"xtol": 5e-324, "rtol": 4 * _UNIT, "maxiter": 1000}
"""Roots are found to the last digits; what is left is stepped over."""
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)
_ASYMPTOTIC_FROM = 12.0
_ASYMPTOTIC_TERMS = 20


def delta(mu: float, epsilon: float) -> float:
    """Return the smallest delta for which mu-GDP implies (epsilon, delta)-DP, rounded up.

    Parameters
    ----------
    mu : float
        Greater than zero.
    epsilon : float
        At least zero; at zero, delta is the total variation `Phi(mu/2) - Phi(-mu/2)`.

    Returns
    -------
    float

    Examples
    --------
    >>> round(delta(mu=1.0, epsilon=1.0), 4)
    0.1269
    """
    log_value = log_delta(mu, epsilon)
    return min(1.0, _up(math.exp(log_value), 4))


def log_delta(mu: float, epsilon: float) -> float:
    """Return the natural logarithm of `delta(mu, epsilon)`, rounded up.

    It stays exact where delta itself is below the smallest float.

    Parameters
    ----------
    mu, epsilon : float
        As for `delta`.

    Returns
    -------
    float

    Examples
    --------
    >>> round(log_delta(mu=1.0, epsilon=60.0), 1)
    -1779.2
    """
    m, e = as_number(mu, "mu", "positive"), as_number(epsilon, "epsilon", "nonnegative")
    return min(0.0, _log_delta(m, e))


def epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon for which mu-GDP implies (epsilon, delta)-DP, rounded up.

    Zero when delta is at least the total variation; infinity when epsilon exceeds the floats.

    Parameters
    ----------
    mu : float
        Greater than zero.
    delta : float
        Strictly between zero and one.

    Returns
    -------
    float

    Examples
    --------
    >>> round(epsilon(mu=1.0, delta=1e-6), 2)
    4.89
    """
    m, target = as_number(mu, "mu", "positive"), _log_lower(delta)

    def excess(e: float) -> float:
        return _log_delta(m, e) - target

    if excess(0.0) <= 0.0:
        return 0.0
    high = m * m / 2.0 + m * math.sqrt(-2.0 * target)
    while math.isfinite(high) and excess(high) > 0.0:
        high *= 2.0
    if not math.isfinite(high):
        return math.inf
    root = float(brentq(excess, 0.0, high, **_CLOSE))
    step = math.ulp(root)
    while excess(root) > 0.0:
        root += step
        step *= 2.0
    return root


def mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-GDP implies (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : float
        At least zero.
    delta : float
        Strictly between zero and one. Pure epsilon-DP has no Gaussian equivalent: see
        `mu_from_pure` for the opposite direction.

    Returns
    -------
    float

    Examples
    --------
    >>> round(mu(epsilon=2.0, delta=1e-6), 3)
    0.448
    """
    e, target = as_number(epsilon, "epsilon", "nonnegative"), _log_lower(delta)

    def excess(log_m: float) -> float:
        return _log_delta(math.exp(log_m), e) - target

    log_m = math.log(max(_mu_guess(e, target), delta))
    low = high = log_m
    while excess(high) <= 0.0:
        high += 0.7
    while excess(low) > 0.0:
        low -= 0.7
    root = math.exp(brentq(excess, low, high, **_CLOSE))
    step = math.ulp(root)
    while _log_delta(root, e) > target:
        root -= step
        step *= 2.0
    return root


def compose(*mus: float) -> float:
    """Return the mu of several mechanisms together, `sqrt(sum mu_i^2)`, rounded up.

    The sum is exact, the root is the smallest float that is not below it, so parts whose
    exact composition is at most a float `total` have `compose(*parts) <= total`. A part that
    is switched off may be zero; no parts at all compose to zero.

    Parameters
    ----------
    *mus : float
        At least zero each.

    Returns
    -------
    float

    Examples
    --------
    >>> compose(1.0, 1.0, 1.0, 1.0)
    2.0
    """
    return sqrt_up(sum_of_squares(as_number(part, "mu", "nonnegative") for part in mus))


def mu_from_pure(epsilon: float) -> float:
    """Return the mu for which any epsilon-DP mechanism is mu-GDP, rounded up.

    Implements `mu = -2 Phi^-1(1/(1 + exp(epsilon)))`, for small epsilon in the form
    `erf(mu/sqrt(8)) = tanh(epsilon/2)`.

    Parameters
    ----------
    epsilon : float
        Greater than zero.

    Returns
    -------
    float

    Examples
    --------
    >>> round(mu_from_pure(1.0), 3)
    1.232
    """
    return _mu_from_pure(as_number(epsilon, "epsilon", "positive"))


def pure_from_mu(mu: float) -> float:
    """Return the largest epsilon for which epsilon-DP implies mu-GDP, rounded down.

    The inverse of `mu_from_pure`: `epsilon = ln((1-a)/a)` with `a = Phi(-mu/2)`.

    Parameters
    ----------
    mu : float
        Greater than zero.

    Returns
    -------
    float

    Examples
    --------
    >>> round(pure_from_mu(1.0), 3)
    0.807
    """
    m = as_number(mu, "mu", "positive")
    half = m / 2.0
    if half < 0.5:
        value = 2.0 * math.atanh(float(erf(half / math.sqrt(2.0))))
    else:
        value = float(log_ndtr(half) - log_ndtr(-half))
    if not math.isfinite(value):
        value = _HUGE
    step = math.ulp(value)
    while value > 0.0 and _mu_from_pure(value) > m:
        value = max(0.0, value - step)
        step *= 2.0
    return value


def _mu_from_pure(e: float) -> float:
    if e < 1.0:
        value = 2.0 * math.sqrt(2.0) * float(erfinv(math.tanh(e / 2.0)))
    else:
        value = 2.0 * _upper_quantile(-(e + math.log1p(math.exp(-e))))
    return _up(value, 16)


def _upper_quantile(log_tail: float) -> float:
    """Return t with `log Phi(-t) = log_tail`: scipy's inverse, good to 1e-12, and a Newton step."""
    t = -float(ndtri_exp(log_tail))
    return t + float(log_ndtr(-t) - log_tail) * float(_mills(t))


def _mu_guess(e: float, log_target: float) -> float:
    """Solve `e = m^2/2 + m z` for m, z the quantile bound of the target."""
    z, root = math.sqrt(-2.0 * log_target), math.sqrt(2.0) * math.sqrt(e)
    return root * (root / (math.hypot(root, z) + z))


def _up(value: float, units: int) -> float:
    """Return a float that is at least `units` units in the last place above `value`."""
    return value + units * math.ulp(value)


def _log_lower(delta: float) -> float:
    """Return the logarithm of a delta, rounded down."""
    log_value = math.log(as_number(delta, "delta", "probability"))
    return log_value - 2.0 * math.ulp(log_value)


def _log_delta(m: float, e: float) -> float:
    """Return `log(phi(x) (m(x) - m(x + mu)))`, x = e/mu - mu/2, plus a bound on its error.

    Of three forms it takes the one that loses no digits. `x` carries an absolute error of at most
    `s = e/m + m/2` units, which enters the logarithm times `|x|`; the differences of Mills ratios
    are good to about 200 units.
    """
    x, s = e / m - m / 2.0, e / m + m / 2.0
    if abs(x) > 1e150:
        return 0.0 if x < 0.0 else -_HUGE
    log_density = -x * x / 2.0 - math.log(2.0 * math.pi) / 2.0
    if x <= 0.0 and m > 1.0:
        below = math.exp(float(log_ndtr(x))) + math.exp(log_density) * float(_mills(x + m))
        found = math.log1p(-below) if below < 1.0 else -math.inf
    elif m > max(1.0, x / 2.0):
        found = log_density + math.log(float(_mills(x) - _mills(x + m)))
    else:
        # The mean of -m'(t) = 1 - t m(t); far out by its asymptotic series in 1/t^2.
        t = x + m * (_NODES + 1.0) / 2.0
        inverse_square = np.maximum(t, _ASYMPTOTIC_FROM) ** -2.0
        far = np.zeros_like(t)
        for k in range(_ASYMPTOTIC_TERMS, 0, -1):
            far = (2 * k - 1) * inverse_square * (1.0 - far)
        slopes = np.where(t < _ASYMPTOTIC_FROM, 1.0 - t * _mills(t), far)
        found = log_density + math.log(m) + math.log(float(_NODE_WEIGHTS @ slopes) / 2.0)
    return found + _UNIT * (4.0 * s * (abs(x) + 1.0) + 256.0)


def _mills(t: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Mills ratio `Phi(-t)/phi(t)`."""
    ratio: NDArray[np.float64] = math.sqrt(math.pi / 2.0) * erfcx(np.asarray(t) / math.sqrt(2.0))
    return ratio
