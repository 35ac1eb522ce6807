"""The one source of noise.

Noise is drawn as whole numbers, in units of a public grid, and added to exact
integer sums. Whole numbers have no low bits that could tell the noise from
the signal. The secure source is OpenDP: exact samplers of the discrete
Gaussian and discrete Laplace laws on randomness from the operating system.
"""

from __future__ import annotations

import os
from collections import deque
from functools import cache, lru_cache
from typing import Any, Literal, Protocol
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import PublicRefusalError
from dpbinagg.kernel.errands import Errand, begin

Integers = NDArray[np.int64]
Law = Literal["gaussian", "laplace"]
Kind = tuple[Law, float]
MAX_SCALE = 2.0**58
"""All Gaussian noise of a release has this standard deviation; see `privatise`."""
DRAWS, FEW = 512, 128
"""Values of one call, at most, and values that are worth a call ahead of time.

A call enters and leaves Python a dozen times, and each time one thread waits for another that
holds Python's lock: the fewer calls, the better.
"""
MOST = 2**13
"""The stock is what was asked for at once so far, and no more than so much: what is left when a
release ends was drawn for nothing."""


class Noise(Protocol):
    """Draws whole-number noise."""

    secure: bool

    def gaussian(self, size: int, sd: float) -> Integers:
        """`size` draws of a (discrete) Gaussian with standard deviation `sd`."""
        ...

    def laplace(self, size: int, scale: float) -> Integers:
        """`size` draws of a (discrete) Laplace with scale `scale`."""
        ...


class _Stock:
    """Values of one kind that are drawn ahead, each handed out once."""

    def __init__(self, kind: Kind) -> None:
        _check_scale(kind[1])
        self._kind = kind
        self._drawn = np.empty(0, dtype=np.int64)
        self._begun: deque[tuple[int, Errand[Integers]]] = deque()
        # Every release asks for a few hundred Gaussian values, and for few others at a time.
        self._level = DRAWS if kind == _GAUSSIAN else 0
        self._fill(self._level)

    def _fill(self, level: int) -> None:
        """Begin to draw what is missing to `level` values; a few are not worth a call."""
        missing = level - len(self._drawn) - sum(n for n, _ in self._begun)
        while missing > FEW:
            n = min(missing, DRAWS)
            self._begun.append((n, begin(_draw_ahead, ref(self), self._kind, n)))
            missing -= n

    def take(self, size: int) -> Integers:
        self._fill(size)
        parts, missing = [self._drawn], size - len(self._drawn)
        asked: list[Errand[Integers]] = []
        while missing > 0 and self._begun and (missing > FEW or self._begun[0][1].done()):
            n, errand = self._begun.popleft()
            asked.append(errand)
            missing -= n
        # Others begin with the first one.
        for errand in reversed(asked):
            errand.run()
        parts += [errand.result() for errand in asked]
        if missing > 0:
            # Nobody waits for many values in order to have a few.
            parts.append(_sample(self._kind, missing))
        values = np.concatenate(parts)
        self._drawn = values[size:]
        self._level = min(max(self._level, size), MOST)
        self._fill(self._level)
        return values[:size]


def _draw_ahead(stock: ref[_Stock], kind: Kind, size: int) -> Integers:
    """`size` values, if there is still somebody who may take them."""
    return _sample(kind, size) if stock() is not None else np.empty(0, dtype=np.int64)


class SecureNoise:
    """OpenDP's samplers. There is no seed.

    Drawing takes longer than most of what is done with records, so a stock of
    values is drawn on other threads meanwhile, and filled up after every
    request. Noise depends on its scale alone; each value is handed out once.
    """

    secure = True

    def __init__(self) -> None:
        self._process = os.getpid()
        self._stocks = {_GAUSSIAN: _Stock(_GAUSSIAN)}

    def __reduce__(self) -> Any:
        raise TypeError("noise that was drawn ahead must not be used twice and is not pickled")

    def gaussian(self, size: int, sd: float) -> Integers:
        return self._take(("gaussian", float(sd)), size)

    def laplace(self, size: int, scale: float) -> Integers:
        return self._take(("laplace", float(scale)), size)

    def _take(self, kind: Kind, size: int) -> Integers:
        if self._process != os.getpid():
            # What was drawn before a fork in the middle of a release is the parent's.
            self._stocks, self._process = {}, os.getpid()
        if kind not in self._stocks:
            self._stocks[kind] = _Stock(kind)
        return self._stocks[kind].take(size)


class SeededNoise:
    """A numpy generator, for tests and simulations only: not for publication."""

    secure = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

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


_GAUSSIAN: Kind = ("gaussian", MAX_SCALE)


def _sample(kind: Kind, size: int) -> Integers:
    """`size` values, on this thread."""
    # OpenDP checks every number of a list, but not of an array.
    drawn = _measurement(*kind)(np.zeros(size, dtype=np.int64))
    return np.array(drawn, dtype=np.int64)


@cache
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@cache
def _space(law: Law) -> tuple[Any, Any]:
    """OpenDP's domain and metric: vectors of 64-bit integers."""
    dp = _opendp()
    metric = dp.l2_distance(T="f64") if law == "gaussian" else dp.l1_distance(T="i64")
    return dp.vector_domain(dp.atom_domain(T="i64")), metric


@lru_cache(maxsize=64)
def _measurement(law: Law, scale: float) -> Any:
    return getattr(_opendp().m, f"make_{law}")(*_space(law), scale=scale)
