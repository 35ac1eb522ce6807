"""The one source of noise.

Noise is drawn as whole numbers, in units of a public grid, and added to exact
integer sums. Whole numbers have no low bits that could tell the noise from
the signal. The secure source is OpenDP: exact samplers of the discrete
Gaussian and discrete Laplace laws on randomness from the operating system.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.blocks import map_blocks, n_workers
from dpbinagg.errors import DataError

Integers = NDArray[np.int64]
MAX_SCALE = 2.0**58
DRAWS = 48
"""Values that are drawn by one thread at least."""


class Noise(Protocol):
    """Draws whole-number noise."""

    secure: bool

    def gaussian(self, size: int, sd: float) -> Integers:
        """`size` draws of a (discrete) Gaussian with standard deviation `sd`."""
        ...

    def laplace(self, size: int, scale: float) -> Integers:
        """`size` draws of a (discrete) Laplace with scale `scale`."""
        ...


class SecureNoise:
    """OpenDP's samplers. There is no seed and no state to copy."""

    secure = True

    def gaussian(self, size: int, sd: float) -> Integers:
        return _draw("make_gaussian", size, sd)

    def laplace(self, size: int, scale: float) -> Integers:
        return _draw("make_laplace", size, scale)


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
        raise DataError(
            f"rng must be None (secure noise), a seed or a numpy Generator, got "
            f"{type(rng).__name__}"
        )
    if not isinstance(rng, np.random.Generator) and rng < 0:
        raise DataError("rng must be a seed of at least 0; leave it out for secure noise")
    return SeededNoise(np.random.default_rng(rng))


def _check_scale(scale: float) -> None:
    if not 1.0 <= scale <= MAX_SCALE:
        raise DataError(
            "the noise scale does not fit the grid of whole numbers; "
            "use a mu between about 1e-5 and 1e9 for every component of the budget"
        )


def _draw(name: str, size: int, scale: float) -> Integers:
    _check_scale(scale)
    if size == 0:
        return np.empty(0, dtype=np.int64)
    measurement = _measurement(name, float(scale))

    def draw(block: slice) -> list[int]:
        # OpenDP checks every number of a list, but not of an array.
        drawn: list[int] = measurement(np.zeros(block.stop - block.start, dtype=np.int64))
        return drawn

    parts = list(map_blocks(size, draw, max(DRAWS, -(-size // n_workers()))))
    return np.concatenate(parts).astype(np.int64, copy=False)


@cache
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@cache
def _space(name: str) -> tuple[Any, Any]:
    """OpenDP's domain and metric: vectors of 64-bit integers."""
    dp = _opendp()
    metric = dp.l2_distance(T="f64") if name == "make_gaussian" else dp.l1_distance(T="i64")
    return dp.vector_domain(dp.atom_domain(T="i64")), metric


@lru_cache(maxsize=64)
def _measurement(name: str, scale: float) -> Any:
    return getattr(_opendp().m, name)(*_space(name), scale=scale)
