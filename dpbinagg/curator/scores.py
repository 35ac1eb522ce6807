"""Exact sums of residual scores, in whole numbers.

Products are sums of products of whole factors, added up without error. Factors
are cut toward zero, so that the norm of a contribution is at most what `ScoreRequest` proves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.aggregates import (
    Accumulator,
    Factors,
    put_combinations,
    whole_product,
    whole_square,
    with_constant,
)
from dpbinagg.curator.blocks import BLOCK, map_blocks, step_rows
from dpbinagg.curator.privatise import FACTOR_BITS
from dpbinagg.public.rounds import ScoreRequest
from dpbinagg.public.scaling import ColumnScaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Sums = NDArray[np.object_]
ONE = 2.0**FACTOR_BITS


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """Sums of all groups of a round.

    In units of ``2^(-2 FACTOR_BITS)`` times C R (score), R^2 (matrices) and 1
    (inside); tails and norms are counts.
    """

    score: Sums
    hessian: Sums
    spread: Sums
    inside: Sums
    tails: Sums
    norms: Sums


@dataclass(frozen=True, slots=True)
class ScoreFactors:
    """Factors of each record's contribution; all but the last two are whole."""

    direction: Floats  # sqrt(omega) w / R, (k, n)
    residual: Floats  # sqrt(omega) clip(r) / C, (n,)
    spread: Floats  # sqrt(omega (1 - g)) w / R, (k, n)
    inside: Floats  # 1 - g, (n,), in units of 1 / ONE^2
    residuals: Floats  # r, (n,)
    norm2: Floats  # |w|^2, (n,)


class Workspace:
    """Room for the factors of one chunk of records after another."""

    def __init__(self, request: ScoreRequest, rows: int) -> None:
        k = len(request.whitening)
        self.projected = np.empty((k + 1, rows))
        self.spread = np.empty((k, rows))
        self.matrix = np.vstack([request.whitening, request.coefficients])


def score_factors(
    f: Floats, scaling: ColumnScaling, request: ScoreRequest, room: Workspace
) -> ScoreFactors:
    """Factors of some records; those of the next ones take their place.

    Parameters
    ----------
    f : (m, n) array
        Whole multiples of 1/ONE. Their products with the request's numbers are
        exact, and squares are added in the order of the rows, so that all
        engines agree.
    """
    n = f.shape[1]
    both, spread = room.projected[:, :n], room.spread[:, :n]
    # Products with powers of two are exact.
    put_combinations(room.matrix * (1.0 / ONE), f, both)
    w, r = both[:-1], f[-1] * (scaling.scale_y / ONE) + scaling.centre_y
    r -= both[-1]
    norm2 = np.add.reduce(np.multiply(w, w, out=spread), axis=0)
    root = norm2 * (1.0 / request.radius**2)
    np.maximum(root, 1.0, out=root)
    np.divide(ONE, np.sqrt(root, out=root), out=root)
    inside = r * (1.0 / request.spread_clip)
    inside *= inside
    np.subtract(1.0, np.minimum(inside, 1.0, out=inside), out=inside)
    residual = r * (1.0 / request.clip)
    np.minimum(residual, 1.0, out=residual)
    np.maximum(residual, -1.0, out=residual)
    residual *= root
    root *= 1.0 / request.radius
    w *= root
    if request.weights.spread:
        np.multiply(w, np.sqrt(inside), out=spread)
        np.trunc(spread, out=spread)
    inside *= ONE**2
    for factor in (w, residual, inside):
        np.trunc(factor, out=factor)
    return ScoreFactors(w, residual, spread, inside, r, norm2)


def tail_counts(residuals: Floats, thresholds: Floats) -> Integers:
    """Records by sign of the residual (not positive, positive) and tail cell, (2, t)."""
    size = len(thresholds)
    far = residuals[np.abs(residuals) >= thresholds[0]]
    cell = np.searchsorted(thresholds, np.abs(far), side="right") - 1
    code = np.where(far > 0.0, size, 0) + cell
    return np.bincount(code, minlength=2 * size).reshape(2, size)


def norm_counts(norm2: Floats, edges: Floats) -> Integers:
    """Records by cell of ``|w|^2``, (e + 1,)."""
    beyond: list[int] = [len(norm2), *(int(np.count_nonzero(norm2 > edge)) for edge in edges), 0]
    return np.array([one - two for one, two in pairwise(beyond)], dtype=np.int64)


def score_shapes(request: ScoreRequest) -> tuple[tuple[int, ...], ...]:
    """Shapes of the groups of a round."""
    k = len(request.whitening)
    return (k,), (k, k), (k, k), (1,), (2, len(request.thresholds)), (len(request.norm_edges) + 1,)


def sums_over(
    parts: Iterable[Floats], scaling: ColumnScaling, request: ScoreRequest, rows: int
) -> list[Integers]:
    """Sums of all groups of a round.

    Parameters
    ----------
    parts : iterable of (m, n) arrays
        f = (1, z*, y*) of some records after others, in whole multiples of 1/ONE.
    rows : int
        The largest n.
    """
    weights = request.weights
    room = Workspace(request, rows)
    sums = [np.zeros(shape, dtype=np.int64) for shape in score_shapes(request)]
    for f in parts:
        part = score_factors(f, scaling, request, room)
        sums[0] += whole_product(part.direction, part.residual)
        if weights.hessian:
            sums[1] += whole_square(part.direction)
        if weights.spread:
            sums[2] += whole_square(part.spread)
        if weights.inside:
            sums[3] += part.inside.astype(np.int64).sum()
        if weights.tails:
            sums[4] += tail_counts(part.residuals, request.thresholds)
        if weights.norms:
            sums[5] += norm_counts(part.norm2, request.norm_edges)
    return sums


def score_parts(
    factors: Factors, scaling: ColumnScaling, request: ScoreRequest, chunk: int
) -> Iterator[list[Integers]]:
    """Sums of all groups of a round, of one block of records after another.

    Parameters
    ----------
    factors : (m - 1, n) array of whole numbers
        See `aggregates.put_factors`.
    chunk : int
        Records of one step.
    """

    def over(block: slice) -> list[Integers]:
        rows = min(chunk, block.stop - block.start)
        return sums_over(with_constant(factors[:, block], chunk), scaling, request, rows)

    return map_blocks(factors.shape[1], over)


def score_sums(factors: Factors, scaling: ColumnScaling, request: ScoreRequest) -> ScoreSums:
    """Sums of all groups of a round over the records."""
    totals = [Accumulator(shape) for shape in score_shapes(request)]
    chunk = step_rows(factors.shape[1], len(factors))
    for sums in score_parts(factors, scaling, request, chunk):
        for total, part in zip(totals, sums, strict=True):
            total.add(part, BLOCK)
    return ScoreSums(*(total.total() for total in totals))
