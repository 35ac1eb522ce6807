"""Boxes: the public regions that partitions are made of.

A box is a half-open interval for every numeric variable and a subset of the
levels for every categorical one. `Boxes` holds K of them as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.public.domain import Categorical, Domain, Numeric

Records = Mapping[str, NDArray[np.generic]]
"""Columns by name: float64 for numeric variables (NaN is missing), integer
codes into the declared levels for categorical ones (-1 is missing, -2 a value that is no level)."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """K boxes over named variables.

    Attributes
    ----------
    lower, upper : dict of str to (K,) float arrays
        Closed hulls of the numeric intervals. A record belongs to the
        half-open interval ``lower <= x < upper``; where `upper` is the upper
        bound of the domain, it is included. An integer variable's box holds
        the whole numbers from `lower` to `upper`, both included.
    members : dict of str to (K, L) bool arrays
        Which of the L declared levels of a categorical variable a box holds.
    """

    lower: dict[str, NDArray[np.float64]]
    upper: dict[str, NDArray[np.float64]]
    members: dict[str, NDArray[np.bool_]]

    def __len__(self) -> int:
        arrays = [*self.lower.values(), *self.members.values()]
        return len(arrays[0]) if arrays else 1

    @classmethod
    def whole(cls, domain: Domain, variables: tuple[str, ...]) -> Boxes:
        """One box that covers the domain of `variables`."""
        boxes = cls({}, {}, {})
        for name in variables:
            variable = domain[name]
            if isinstance(variable, Categorical):
                boxes.members[name] = np.ones((1, len(variable.levels)), dtype=bool)
            else:
                assert isinstance(variable, Numeric)
                boxes.lower[name] = np.array([variable.lower])
                boxes.upper[name] = np.array([variable.upper])
        return boxes
