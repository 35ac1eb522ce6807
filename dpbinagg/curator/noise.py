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

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.blocks import Errand, begin, chunks
from dpbinagg.errors import PublicRefusalError

Integers = NDArray[np.int64]
Law = Literal["gaussian", "laplace"]
Kind = tuple[Law, float]
MAX_SCALE = 2.0**58
DRAWS, FEW = 512, 128
"""Values of one call, at most, and values that are worth a call ahead of time.

A call enters and leaves Python a dozen times, and each time one thread waits for another that
holds Python's lock: the fewer calls, the better.
"""


class Noise(Protocol):
    """Draws whole-number noise."""

    secure: bool

    def gaussian(self, size: int, sd: float) -> Integers:
        """`size` draws of a (discrete) Gaussian with standard deviation `sd`."""
        ...

    def laplace(self, size: int, scale: float) -> Integers:
        """`size` draws of a (discrete) Laplace with scale `scale`."""
        ...

    def expect(self, law: Law, size: int, scale: float) -> None:
        """Say that at least so many values will be asked for, so that drawing may begin."""
        ...


class SecureNoise:
    """OpenDP's samplers. There is no seed.

    Drawing takes longer than most of what is done with records, so values that
    are expected are drawn on other threads meanwhile. Noise depends on its
    scale alone; each value is handed out once.
    """

    secure = True

    def __init__(self) -> None:
        self._drawn: dict[Kind, Integers] = {}
        self._begun: dict[Kind, deque[tuple[int, Errand[Integers]]]] = {}
        self._process = os.getpid()

    def _forget_after_fork(self) -> None:
        """What was drawn before a fork in the middle of a release is the parent's."""
        if self._process != os.getpid():
            self._drawn, self._begun, self._process = {}, {}, os.getpid()

    def __reduce__(self) -> Any:
        raise TypeError("noise that was drawn ahead must not be used twice and is not pickled")

    def gaussian(self, size: int, sd: float) -> Integers:
        return self._take(("gaussian", float(sd)), size)

    def laplace(self, size: int, scale: float) -> Integers:
        return self._take(("laplace", float(scale)), size)

    def expect(self, law: Law, size: int, scale: float) -> None:
        kind = (law, float(scale))
        begun = self._stock(kind)
        held = len(self._drawn[kind]) + sum(n for n, _ in begun)
        missing = size - held
        # A few more are not worth a call.
        for piece in chunks(missing if missing > FEW or not held else 0, DRAWS):
            n = piece.stop - piece.start
            begun.append((n, begin(_sample, kind, n)))

    def _stock(self, kind: Kind) -> deque[tuple[int, Errand[Integers]]]:
        """Errands of a kind that were begun, in order; what is drawn already is in `_drawn`."""
        self._forget_after_fork()
        if kind not in self._begun:
            _check_scale(kind[1])
            self._begun[kind], self._drawn[kind] = deque(), _NOTHING
        return self._begun[kind]

    def _take(self, kind: Kind, size: int) -> Integers:
        begun = self._stock(kind)
        parts, missing = [self._drawn[kind]], size - len(self._drawn[kind])
        if missing > FEW:
            self.expect(kind[0], size, kind[1])
        asked: list[Errand[Integers]] = []
        while missing > 0 and begun and (missing > FEW or begun[0][1].done()):
            n, errand = begun.popleft()
            asked.append(errand)
            missing -= n
        # Others begin with the first one.
        for errand in reversed(asked):
            errand.run()
        parts += [errand.result() for errand in asked]
        if missing > 0:
            # Nobody waits for many values in order to have a few.
            parts.append(_sample(kind, missing))
        values = np.concatenate(parts)
        self._drawn[kind] = values[size:]
        return values[:size]


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

    def expect(self, law: Law, size: int, scale: float) -> None:
        """Nothing: what a seed gives depends on the order of draws."""


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


_NOTHING = np.empty(0, dtype=np.int64)


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
