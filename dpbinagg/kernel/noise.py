"""The one source of noise, and the mechanism that adds it to exact sums.

Noise is drawn as whole numbers, in units of a public grid, and added to exact integer sums. Whole
numbers have no low bits that could tell the noise from the signal. The secure source is OpenDP:
exact samplers of the discrete Gaussian and discrete Laplace laws on randomness from the operating
system.

Every statistic but the partition is released by the one mechanism here. A record contributes a
vector of whole numbers, in units of a public grid, whose L2 norm is at most `sensitivity`; the
sums are exact. All noise is drawn with one standard deviation, 2^`NOISE_BITS`, so that it may be
drawn before it is known what for. Each of the m sums is multiplied by ``2^NOISE_BITS / sd`` with
``sd = MARGIN * sensitivity / mu``, cut to a whole number, given its noise, and brought back to
whole units of its own, which is post-processing.

Neighbours: one record added or removed. Cutting may part the sums of two neighbours by one more
unit each, so that they differ by at most ``2^NOISE_BITS mu / MARGIN + sqrt(m)``. Privacy: mu-GDP.
`MARGIN` covers ``sqrt(m)`` (`in_noise_units` checks it), the rounding of the scales, and the factor
of about ``1 + 2^-2 NOISE_BITS / 24`` by which the discrete law exceeds mu.
"""

from __future__ import annotations

import math
import os
from collections import deque
from concurrent.futures import Future
from functools import lru_cache
from typing import Any, Literal, Protocol
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import BudgetError, PublicRefusalError
from dpbinagg.public.threads import n_workers, pool, single_thread

Integers = NDArray[np.int64]
Law = Literal["gaussian", "laplace"]

NOISE_BITS = 58
"""All Gaussian noise has the standard deviation 2^NOISE_BITS, in its own units: 64 bits hold 32 of
them."""
MAX_SCALE = 2.0**NOISE_BITS
MARGIN = 1.0 + 2.0**-30
DRAWS, FEW = 256, 128
"""Values of one call, at most, and values that are worth a call ahead of time.

A call enters and leaves Python a dozen times, and each time one thread waits for another that
holds Python's lock: the fewer calls, the better.
"""
FIRST, MOST = 2**9, 2**13
"""The stock is what was asked for at once so far, and no more than so much: what is left when a
release ends was drawn for nothing."""


def gaussian_mechanism(
    sums: NDArray[np.generic], sensitivity: float, mu: float, noise: Noise
) -> NDArray[np.float64]:
    """Add noise of standard deviation ``sensitivity / mu`` to exact integer sums.

    Parameters
    ----------
    sums : array of whole numbers (int64 or Python integers)
    sensitivity : float
        Bound on the L2 norm of one record's contribution, in the same units.
    mu : float
        Privacy of the release of all sums together.

    Returns
    -------
    array of float64, same shape
        Noisy sums, whole in the same units, rounded to double precision.
    """
    bits, under = _noise_units(sensitivity, mu)
    noisy = in_noise_units(sums, sensitivity, mu)
    noisy += noise.gaussian(sums.size, 2.0**NOISE_BITS).reshape(sums.shape)
    return np.asarray((noisy * under) >> bits, dtype=np.float64)


def in_noise_units(sums: NDArray[np.generic], sensitivity: float, mu: float) -> NDArray[np.object_]:
    """Sums in whole units of noise of standard deviation 2^NOISE_BITS.

    Those of neighbours differ by at most ``2^NOISE_BITS mu``, in the L2 norm.
    """
    # sqrt(m) <= 2^NOISE_BITS mu (1 - 1/MARGIN), with as much again for rounding.
    if math.sqrt(sums.size) > 2.0 ** (NOISE_BITS - 31) * mu:
        raise BudgetError(
            "mu is too small for so many sums; give the component a larger share, or use a larger "
            "mu, fewer bins or fewer columns"
        )
    bits, under = _noise_units(sensitivity, mu)
    cut: NDArray[np.object_] = (sums.astype(object) * 2**bits) // under
    return cut


def _noise_units(sensitivity: float, mu: float) -> tuple[int, int]:
    """Units of the noise in one unit of the sums, ``2^bits / under``, as whole (bits, under)."""
    # The denominator of a double is a power of two.
    under, denominator = (MARGIN * sensitivity / mu).as_integer_ratio()
    return NOISE_BITS + denominator.bit_length() - 1, under


class Noise(Protocol):
    """Draws whole-number noise."""

    secure: bool

    def prepare(self, size: int) -> None:
        """So many Gaussian values will be asked for next."""
        ...

    def gaussian(self, size: int, sd: float) -> Integers:
        """`size` draws of a (discrete) Gaussian with standard deviation `sd`."""
        ...

    def laplace(self, size: int, scale: float) -> Integers:
        """`size` draws of a (discrete) Laplace with scale `scale`."""
        ...


class SecureNoise:
    """OpenDP's samplers. There is no seed.

    Drawing takes longer than most of what is done with records, so Gaussian values, which all have
    the scale `MAX_SCALE`, are drawn ahead on other threads: what a question will need while its
    sums are computed, and a stock of them after every request. Each is handed out once.
    """

    secure = True

    def __init__(self) -> None:
        self._level = FIRST
        self._forget()
        self.prepare(FIRST)

    def __reduce__(self) -> Any:
        raise TypeError("noise that was drawn ahead must not be used twice and is not pickled")

    def _forget(self) -> None:
        self._process = os.getpid()
        self._drawn = np.empty(0, dtype=np.int64)
        self._begun: deque[tuple[int, Future[Integers]]] = deque()

    def prepare(self, size: int) -> None:
        """Begin to draw what is missing to `size` values; a few are not worth a call."""
        if self._process != os.getpid():
            # What was drawn before a fork in the middle of a release is the parent's.
            self._forget()
        missing = size - len(self._drawn) - sum(n for n, _ in self._begun)
        while missing > FEW and not single_thread():
            n = min(missing, DRAWS)
            threads = pool("noise", max(n_workers() - 1, 1))
            self._begun.append((n, threads.submit(_draw_ahead, ref(self), n)))
            missing -= n

    def gaussian(self, size: int, sd: float) -> Integers:
        if sd != MAX_SCALE:
            return _sample("gaussian", sd, size)
        self.prepare(size)
        parts, missing = [self._drawn], size - len(self._drawn)
        asked: list[tuple[int, Future[Integers]]] = []
        while missing > 0 and self._begun and (missing > FEW or self._begun[0][1].done()):
            asked.append(self._begun.popleft())
            missing -= asked[-1][0]
        # Others begin with the first ones; what nobody has begun is drawn here and now.
        for n, future in reversed(asked):
            if future.cancel():
                parts.append(_sample("gaussian", MAX_SCALE, n))
        if missing > 0:
            # Nobody waits for many values in order to have a few.
            parts.append(_sample("gaussian", MAX_SCALE, missing))
        parts += [future.result() for _, future in asked if not future.cancelled()]
        values = np.concatenate(parts)
        self._drawn = values[size:]
        self._level = min(max(self._level, size), MOST)
        self.prepare(self._level)
        return values[:size]

    def laplace(self, size: int, scale: float) -> Integers:
        return _sample("laplace", scale, size)


def _draw_ahead(noise: ref[SecureNoise], size: int) -> Integers:
    """`size` values, if there is still somebody who may take them."""
    return _sample("gaussian", MAX_SCALE, size if noise() is not None else 0)


class SeededNoise:
    """A numpy generator, for tests and simulations only: not for publication."""

    secure = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def prepare(self, size: int) -> None:
        """Nothing: draws have an order."""

    def gaussian(self, size: int, sd: float) -> Integers:
        _check_scale(sd)
        return np.rint(self._rng.normal(0.0, sd, size)).astype(np.int64)

    def laplace(self, size: int, scale: float) -> Integers:
        _check_scale(scale)
        return np.rint(self._rng.laplace(0.0, scale, size)).astype(np.int64)


def noise_source(rng: np.random.Generator | int | None) -> Noise:
    """Secure noise for None; reproducible noise for a generator or a seed."""
    if rng is None:
        return SecureNoise()
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer | np.random.Generator):
        raise PublicRefusalError(
            f"rng must be None (secure noise), a seed or a numpy Generator, got "
            f"{type(rng).__name__}"
        )
    if not isinstance(rng, np.random.Generator) and rng < 0:
        raise PublicRefusalError("rng must be a seed of at least 0; leave it out for secure noise")
    return SeededNoise(np.random.default_rng(rng))


def _check_scale(scale: float) -> None:
    if not 1.0 <= scale <= MAX_SCALE:
        raise PublicRefusalError(
            "the noise scale does not fit the grid of whole numbers; "
            "use a mu between about 1e-5 and 1e9 for every component of the budget"
        )


def _sample(law: Law, scale: float, size: int) -> Integers:
    """`size` values, on this thread."""
    # OpenDP checks every number of a list, but not of an array.
    drawn = _measurement(law, float(scale))(np.zeros(size, dtype=np.int64))
    return np.array(drawn, dtype=np.int64)


@lru_cache(maxsize=64)
def _measurement(law: Law, scale: float) -> Any:
    """OpenDP's sampler, on vectors of 64-bit integers."""
    import opendp.prelude as dp

    _check_scale(scale)
    dp.enable_features("contrib")
    metric = dp.l2_distance(T="f64") if law == "gaussian" else dp.l1_distance(T="i64")
    space = dp.vector_domain(dp.atom_domain(T="i64")), metric
    return (dp.m.make_gaussian if law == "gaussian" else dp.m.make_laplace)(*space, scale=scale)
