"""Exact sums of residual scores, in whole numbers.

Products are sums of products of whole factors, added up without error in
double precision over a chunk. Factors are cut toward zero, so that the norm of
a contribution is at most what `ScoreRequest` proves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.aggregates import factors
from dpbinagg.curator.blocks import chunks, map_blocks
from dpbinagg.curator.privatise import FACTOR_BITS
from dpbinagg.rounds import ScoreRequest
from dpbinagg.scaling import ColumnScaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
ONE = 2.0**FACTOR_BITS


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """Sums in units of 2^(-2 FACTOR_BITS); tails are plain counts."""

    score: NDArray[np.object_]
    gram: NDArray[np.object_]
    spread: NDArray[np.object_]
    level: int
    tails: Integers


@dataclass(frozen=True, slots=True)
class _Factors:
    """Whole factors of some records, each at most ONE in absolute value."""

    direction: Floats  # sqrt(omega) w / R, (n, q)
    residual: Floats  # sqrt(omega) s, (n,)
    spread: Floats  # sqrt(omega (1 - g)) w / R, (n, q)
    level: Floats  # 1 - g, (n,), in units of 1 / ONE^2
    signed: Floats  # r, (n,), not whole


def score_factors(f: Floats, y: Floats, request: ScoreRequest) -> _Factors:
    """The factors of each record's contribution.

    Parameters
    ----------
    f : (n, m) array, y : (n,) array
        Scaled columns and response as whole multiples of 1/ONE; their products
        with the request's numbers are exact, and sums of squares are taken in
        the order of the columns, so that all engines agree.
    """
    w = (f @ request.whitening.T) * (1.0 / (ONE * request.radius))
    r = (y - f @ request.guess) * (1.0 / ONE)
    norm2 = np.zeros(len(y))
    for column in w.T:
        norm2 += np.square(column)
    root = 1.0 / np.sqrt(np.maximum(norm2, 1.0))
    level = 1.0 - np.minimum(np.square(r / request.level_clip), 1.0)
    w *= (root * ONE)[:, None]
    return _Factors(
        np.trunc(w),
        np.trunc(np.clip(r / request.clip, -1.0, 1.0) * (root * ONE)),
        np.trunc(w * np.sqrt(level)[:, None]),
        np.trunc(level * ONE * ONE),
        r,
    )


def tail_counts(residuals: Floats, thresholds: Floats) -> Integers:
    """Records by sign of the residual (not positive, positive) and tail cell, (2, t)."""
    size = len(thresholds)
    cell = np.searchsorted(thresholds, np.abs(residuals), side="right")
    code = np.where(residuals > 0.0, size + 1, 0) + cell
    return np.bincount(code, minlength=2 * (size + 1)).reshape(2, size + 1)[:, 1:]


def score_sums(
    columns: Floats, response: Floats, scaling: ColumnScaling, request: ScoreRequest
) -> ScoreSums:
    """Sums of all parts of a round over the records."""
    q = len(request.whitening)

    def block_sums(block: slice) -> tuple[Integers, Integers, Integers, int, Integers]:
        score = np.zeros(q, dtype=np.int64)
        gram = np.zeros((q, q), dtype=np.int64)
        spread = np.zeros((q, q), dtype=np.int64)
        tails = np.zeros((2, len(request.thresholds)), dtype=np.int64)
        level = 0
        for rows in chunks(block.stop, start=block.start):
            f = factors(columns[rows], response[rows], scaling)
            part = score_factors(f[:, :-1], f[:, -1], request)
            score += (part.direction.T @ part.residual).astype(np.int64)
            if request.gram_weight:
                gram += (part.direction.T @ part.direction).astype(np.int64)
            if request.spread_weight:
                spread += (part.spread.T @ part.spread).astype(np.int64)
            level += int(part.level.astype(np.int64).sum())
            tails += tail_counts(part.signed, request.thresholds)
        return score, gram, spread, level, tails

    score, gram, spread = (np.zeros(shape, dtype=object) for shape in (q, (q, q), (q, q)))
    tails = np.zeros((2, len(request.thresholds)), dtype=np.int64)
    level = 0
    for part in map_blocks(len(response), block_sums):
        score += part[0]
        gram += part[1]
        spread += part[2]
        level += part[3]
        tails += part[4]
    return ScoreSums(score, gram, spread, level, tails)


def norm_counts(
    columns: Floats, response: Floats, scaling: ColumnScaling, edges: Floats
) -> Integers:
    """Records by ``|f|^2`` between `edges`, the first and last cell open, (len(edges) + 1,)."""

    def block_counts(block: slice) -> Integers:
        counts = np.zeros(len(edges) + 1, dtype=np.int64)
        for rows in chunks(block.stop, start=block.start):
            f = factors(columns[rows], response[rows], scaling)[:, :-1] * (1.0 / ONE)
            norm2 = np.zeros(len(f))
            for column in f.T:
                norm2 += np.square(column)
            cell = np.searchsorted(edges, norm2, side="left")
            counts += np.bincount(cell, minlength=len(edges) + 1)
        return counts

    return sum(map_blocks(len(response), block_counts), np.zeros(len(edges) + 1, dtype=np.int64))
