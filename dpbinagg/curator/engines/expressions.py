"""The kernels of `aggregates` and `scores` as expressions of a data-frame engine.

The same operations on doubles in the same order as in numpy: additions,
products, quotients, square roots and comparisons are rounded the same way
everywhere, so the whole numbers that come out are the same. Only logarithms,
exponentials and sines of the formula may differ in the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.privatise import FACTOR_BITS, GRID_BITS
from dpbinagg.public.paths import IntervalAxis
from dpbinagg.public.rounds import ScoreRequest
from dpbinagg.public.scaling import ColumnScaling

Expr = nw.Expr
Floats = NDArray[np.float64]
ONE = 2.0**FACTOR_BITS
HALF_BITS = GRID_BITS // 2
SHORT_BITS = FACTOR_BITS // 2


def total(terms: Iterable[Expr]) -> Expr:
    """The sum of expressions, added from left to right."""
    return reduce(lambda one, two: one + two, terms)


def whole(x: Expr) -> Expr:
    """Cut toward zero; still a double."""
    return nw.when(x >= 0.0).then(x.floor()).otherwise(x.ceil())


def above(x: Expr, edges: Iterable[float]) -> Expr:
    """Number of `edges` below x."""
    return total((x > float(edge)).cast(nw.Int64) for edge in edges)


def interval_cell(name: str, axis: IntervalAxis) -> Expr:
    """`IntervalAxis.cells`."""
    inside = nw.col(name).clip(axis.lower, axis.upper)
    position = ((inside - axis.lower) * axis.scale).floor()
    return position.clip(None, float(axis.n_cells - 1)).cast(nw.Int64)


def factor(value: Expr, centre: float, scale: float) -> Expr:
    """`aggregates.put_factors`, one of them."""
    scaled = ((value - centre) * (ONE / scale)).clip(-ONE, ONE)
    return (scaled + 0.5).floor()


def projection(weights: Floats, names: Sequence[str]) -> Expr:
    """``weights' f``, exact."""
    terms = [
        nw.col(name) * float(weight)
        for name, weight in zip(names, weights, strict=True)
        if weight != 0.0
    ]
    return total(terms) if terms else nw.col(names[0]) * 0.0


def limbs(name: str) -> tuple[Expr, Expr]:
    """A whole double below ``2^GRID_BITS`` in two parts, the high and the low half of its bits."""
    high = (nw.col(name) / 2.0**HALF_BITS).floor()
    return high, nw.col(name) - high * 2.0**HALF_BITS


def short_limbs(name: str) -> tuple[Expr, Expr]:
    """A factor in two parts, of which products with another factor are small."""
    high = (nw.col(name) / 2.0**SHORT_BITS).floor()
    return high, nw.col(name) - high * 2.0**SHORT_BITS


class ScoreColumns:
    """The stages of `scores.score_factors`, each a list of named columns.

    Parameters
    ----------
    f : sequence of str
        Names of the columns that hold f.
    """

    def __init__(self, f: Sequence[str], scaling: ColumnScaling, request: ScoreRequest) -> None:
        k = len(request.whitening)
        self._f = list(f)
        self._scaling = scaling
        self._request = request
        self.w = [f"_w{i}" for i in range(k)]
        self.direction = [f"_d{i}" for i in range(k)]
        self.spread = [f"_s{i}" for i in range(k)]

    def stages(self) -> list[list[Expr]]:
        """Expressions to be added to the table, one list after another."""
        request = self._request
        residual = nw.col(self._f[-1]) * (self._scaling.scale_y / ONE) + self._scaling.centre_y
        fitted = projection(request.coefficients, self._f) * (1.0 / ONE)
        first = [
            (projection(row, self._f) * (1.0 / ONE)).alias(name)
            for row, name in zip(request.whitening, self.w, strict=True)
        ]
        norm2 = total(nw.col(name) * nw.col(name) for name in self.w)
        r = nw.col("_r")
        ratio = (r * (1.0 / request.spread_clip)) * (r * (1.0 / request.spread_clip))
        root = (nw.col("_norm2") * (1.0 / request.radius**2)).clip(1.0, None).sqrt()
        cut = (r * (1.0 / request.clip)).clip(-1.0, 1.0)
        third = [
            (nw.lit(ONE) / root).alias("_root"),
            (1.0 - ratio.clip(None, 1.0)).alias("_inside"),
        ]
        scale = nw.col("_root") * (1.0 / request.radius)
        return [
            [*first, (residual - fitted).alias("_r")],
            [norm2.alias("_norm2")],
            third,
            [(nw.col(name) * scale).alias(name) for name in self.w]
            + [
                whole(cut * nw.col("_root")).alias("_residual"),
                whole(nw.col("_inside") * ONE**2).alias("_whole_inside"),
            ],
            [whole(nw.col(w)).alias(name) for w, name in zip(self.w, self.direction, strict=True)]
            + [
                whole(nw.col(w) * nw.col("_inside").sqrt()).alias(name)
                for w, name in zip(self.w, self.spread, strict=True)
            ],
        ]

    def tails(self) -> dict[str, Expr]:
        """Numbers of records beyond each threshold, by sign of the residual."""
        r = nw.col("_r")
        found: dict[str, Expr] = {}
        for i, threshold in enumerate(self._request.thresholds):
            far = r.abs() >= float(threshold)
            for sign, side in enumerate((~(r > 0.0), r > 0.0)):
                found[f"_t{sign}_{i}"] = (far & side).cast(nw.Int64)
        return found

    def norms(self) -> dict[str, Expr]:
        """Numbers of records beyond each edge of ``|w|^2``."""
        return {
            f"_n{i}": (nw.col("_norm2") > float(edge)).cast(nw.Int64)
            for i, edge in enumerate(self._request.norm_edges)
        }


def cumulative_to_cells(counts: Sequence[Any]) -> list[int]:
    """Records in each cell, from numbers of records beyond each edge."""
    beyond = [int(count) for count in counts]
    return [one - two for one, two in zip(beyond, [*beyond[1:], 0], strict=True)]
