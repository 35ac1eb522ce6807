"""Weights of candidate rows that bring counts and second moments to what was released.

The law nearest to the candidates, in relative entropy, that has given second moments of whitened
columns w and given shares of cells is

    weight_i = exp(w_i' L w_i / 2) * product over variables of f(cell of i).

L is found by steps of Newton's method, the factors f by iterated proportional fitting in between.
Noise in a released moment is a prior on L: with the variance rho of that noise, in units of the
sampling variance of a moment, the equation is ``T - G(L) = rho L``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.types import Array

STEPS = 12
"""After so many the moments of the development populations do not come nearer."""
DAMPING = 0.7
"""Share of a step of Newton's method that is taken: columns are not normal."""
LARGEST = 8.0
"""Largest weight, in those of an average candidate: rows repeat little."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The cell of every candidate and the share that each cell shall have."""

    of: NDArray[np.int64]
    shares: Array

    @property
    def possible(self) -> Array:
        """The shares, of cells that candidates are in."""
        held = np.bincount(self.of, minlength=len(self.shares)) > 0
        total = self.shares[held].sum()
        return np.where(held, self.shares / total, 0.0) if total > 0.0 else self.shares


def raked(
    columns: Array, second: Array | None, rho: Array | float, cells: Sequence[Cells]
) -> Array:
    """Weights with mean 1.

    Parameters
    ----------
    columns : (N, k) array
        w.
    second : (k, k) array or None
        T, the mean of ``w w'``.
    rho : (k, k) array or float
    cells : sequence of Cells
    """
    n, k = columns.shape
    tilt, factor, weight = np.zeros((k, k)), np.ones(n), np.ones(n)
    curvature = None
    targets = [(one.of, one.possible) for one in cells]
    for _ in range(STEPS):
        for of, shares in targets:
            have = np.bincount(of, weights=weight, minlength=len(shares)) / n
            ratio = np.divide(shares, have, out=np.ones_like(have), where=have > 0.0)
            each = np.clip(ratio, 0.0, LARGEST)[of]
            factor *= each
            weight *= each
        if second is None:
            continue
        weight *= n / weight.sum()
        gap = second - (columns * weight[:, None]).T @ columns / n - rho * tilt
        if curvature is None:
            square = columns**2
            curvature = np.maximum(square.T @ square / n - second**2, 1e-3) + rho
        tilt += DAMPING * gap / curvature
        power = np.einsum("ij,ij->i", columns @ tilt, columns) / 2.0
        weight = factor * np.exp(np.clip(power - power.mean(), -20.0, np.log(LARGEST) + 1.0))
        weight = np.minimum(weight * (n / weight.sum()), LARGEST)
    total = weight.sum()
    return np.asarray(weight * (n / total)) if total > 0.0 else np.ones(n)


def systematic(weight: Array, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`size` candidates, each within one of ``size * weight / sum`` times."""
    reach = np.cumsum(weight)
    place = (np.arange(size) + rng.random()) * (reach[-1] / size)
    return np.asarray(np.minimum(np.searchsorted(reach, place, side="right"), len(weight) - 1))
