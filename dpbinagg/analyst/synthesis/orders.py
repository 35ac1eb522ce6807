"""Normal variables in whose order numbers stand, before these have their laws."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from dpbinagg.analyst.types import Array

TERMS, PLACES = 24, 512
"""Hermite polynomials, and places of a law at which they are looked at: steps such as 0 and 1 leave
a tenth of their variance to polynomials of higher degree, whose sums at -1 and 1 are exact."""

REACH = np.sin(np.linspace(-np.pi / 2.0, np.pi / 2.0, 129))
"""Correlations that are tried, closer near -1 and 1."""


def _hermite() -> Array:
    """Hermite polynomials of degrees 1 to `TERMS` with mean square 1, at normal quantiles."""
    z = ndtri((np.arange(PLACES) + 0.5) / PLACES)
    found = [np.ones(PLACES), z]
    for n in range(1, TERMS):
        found.append((z * found[-1] - np.sqrt(n) * found[-2]) / np.sqrt(n + 1.0))
    return np.array(found[1:])


HERMITE = _hermite()


def before_laws(target: Array, values: Array) -> Array:
    """Correlations of normal variables under which functions of them have given correlations.

    With ``F(z) = sum_n a_n h_n(z)`` and ``G(z') = sum_n b_n h_n(z')``, h_n the Hermite polynomials,
    the correlation of F and G is ``sum_n a_n b_n rho^n``, rho that of z and z'; of F and a variable
    that is linear in z', ``a_1 rho``.

    Parameters
    ----------
    target : (k, k) array
        Correlations of f functions, and of what is taken for normal.
    values : (f, PLACES) array
        The functions, increasing or decreasing, at normal quantiles.
    """
    f = len(values)
    found = target.copy()
    if not f:
        return found
    centred = values - values.mean(axis=1, keepdims=True)
    size = np.linalg.norm(centred, axis=1)
    centred = np.where(size[:, None] > 0.0, centred, HERMITE[0])
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    a = centred @ HERMITE.T / np.sqrt(PLACES)
    sign = np.sign(a[:, 0])
    a, centred, degree = a * sign[:, None], centred * sign[:, None], np.arange(1, TERMS + 1)
    powers = REACH ** np.append(degree, [TERMS + 1, TERMS + 2])[:, None]
    most, least = centred @ centred.T, centred @ centred[:, ::-1].T
    for i in range(1, f):
        products = a[:i] * a[i]
        rest = most[i, :i] - products.sum(axis=1), least[i, :i] - products @ (-1.0) ** degree
        odd, even = (rest[0] - rest[1]) / 2.0, (rest[0] + rest[1]) / 2.0
        curve = np.maximum.accumulate(np.column_stack([products, odd, even]) @ powers, axis=1)
        wanted = target[i, :i] * sign[:i] * sign[i]
        rho = [np.interp(one, line, REACH) for one, line in zip(wanted, curve, strict=True)]
        found[i, :i] = found[:i, i] = rho
    found[:f, f:] = np.clip(target[:f, f:] / (sign * a[:, 0])[:, None], -1.0, 1.0)
    found[f:, :f] = found[:f, f:].T
    return found


def normal_given(correlation: Array, kept: Array, rng: np.random.Generator) -> Array:
    """Normal variables, (f, n), given others, (k - f, n), that have the last correlations."""
    f = len(correlation) - len(kept)
    slopes = correlation[:f, f:] @ np.linalg.pinv(correlation[f:, f:])
    values, vectors = np.linalg.eigh(correlation[:f, :f] - slopes @ correlation[f:, :f])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root @ rng.standard_normal((f, kept.shape[1])) + slopes @ kept)
