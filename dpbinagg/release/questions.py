"""The questions of a release, and what their answers say.

To ask something new, write a function that gives a `Question` from public facts, ask it in
`protocol.conduct`, and read its answer from the transcript, here or in an estimator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpbinagg.accounting.budget import Allocation
from dpbinagg.formula import Design
from dpbinagg.kernel.cells import BinCells, Everyone, NormCells, NumberCells
from dpbinagg.kernel.maps import ClippedScores, Deviations, OneHot, Outer, Tensor
from dpbinagg.kernel.moments import Block, Moments
from dpbinagg.kernel.questions import Question, alone, weigh
from dpbinagg.kernel.view import Projection
from dpbinagg.public.partition import Partition
from dpbinagg.public.rounds import GroupWeights, NoisyScores, ScoreRequest
from dpbinagg.public.scaling import BinScaling, bin_scaling, column_scaling

Floats = NDArray[np.float64]


RANGES, RECORDS, MOMENTS = "ranges", "number of records", "second moments"
COUNTS, SUMS, RESPONSES = "bin counts", "bin sums of covariates", "bin sums of the response"
SCORES = "residual scores"
"""Names of questions, as lists of mechanisms show them."""


def count_question() -> Question:
    """The number of complete records."""
    return Question(RECORDS, alone(OneHot(Everyone())), records="complete")


def range_question(edges: Mapping[str, Floats], with_total: bool) -> Question:
    """A histogram of each variable, and the number of complete records, jointly."""
    maps = [OneHot(NumberCells(name, its_edges)) for name, its_edges in edges.items()]
    total = [OneHot(Everyone())] if with_total else []
    groups = weigh([(1.0, map_) for map_ in (*maps, *total)])
    return Question(RANGES, groups, records="complete")


def moment_question(design: Design) -> Question:
    """Second moments of f = (1, z*, y*), a block each; squares centred by half the count."""
    numbers = range(1, column_scaling(design).size)
    blocks = tuple(Block(number) for number in numbers)
    return Question(MOMENTS, alone(Moments(blocks, Fraction(1, 2))))


def bin_questions(
    design: Design, partition: Partition, allocation: Allocation, calibration: str
) -> tuple[list[Question], list[float]]:
    """Counts of the bins, and sums in them of columns and of the response, with the mu of each.

    The published calibration divides by mu as if all columns together had norm 1: its mu is
    `sensitivity_x` times as large.
    """
    scaling = bin_scaling(design, partition, calibration)
    bins, found = (
        BinCells(partition),
        [(COUNTS, allocation.count, OneHot(BinCells(partition)))],
    )
    if columns := noisy_columns(scaling):
        unit, centre = scaling.unit[:, columns], scaling.centre[:, columns]
        inner = Deviations(partition, tuple(columns), centre, unit, scaling.sensitivity_x)
        mu = scaling.sensitivity_x * allocation.sum_x
        found.append((SUMS, mu, Tensor(bins, inner)))  # type: ignore[arg-type]
    ones = np.ones((partition.n_bins, 1))
    response = Deviations(partition, (-1,), scaling.centre_y * ones, scaling.unit_y * ones, 1.0)
    found.append((RESPONSES, allocation.sum_y, Tensor(bins, response)))  # type: ignore[arg-type]
    return [Question(name, alone(map_)) for name, _, map_ in found], [mu for _, mu, _ in found]


def noisy_columns(scaling: BinScaling) -> list[int]:
    """The columns that vary in some bin."""
    return [int(j) for j in np.flatnonzero((scaling.unit > 0.0).any(axis=0))]


def columns_in_bins(scaling: BinScaling, deviations: Floats) -> Floats:
    """Deviations of all columns, in their own units, from an answer for those that vary, (K, p)."""
    found = np.zeros_like(scaling.unit)
    columns = noisy_columns(scaling)
    found[:, columns] = deviations * scaling.unit[:, columns]
    return found


def score_question(design: Design, request: ScoreRequest) -> Question:
    """One round of residual scores."""
    scaling, weights = column_scaling(design), request.weights
    scores = ClippedScores(
        request.radius,
        request.clip,
        request.spread_clip,
        math.floor(weights.spread * 1024.0),
        math.floor(weights.inside * 1024.0),
    )
    groups = [
        (1.0, scores),
        (weights.hessian, Outer("w", request.radius)),
        (weights.tails, OneHot(NormCells("r", request.thresholds, signed=True))),
        (weights.norms, OneHot(NormCells("w", np.r_[0.0, np.sqrt(request.norm_edges)]))),
    ]
    projection = Projection(
        request.whitening, request.coefficients, scaling.centre_y, scaling.scale_y
    )
    return Question(SCORES, weigh(groups), projection)  # type: ignore[arg-type]


def request_of(question: Question) -> ScoreRequest:
    """The request that `score_question` asked, as far as its question tells."""
    assert question.projection is not None
    (first, scores), *others = question.groups
    assert isinstance(scores, ClippedScores)
    weights = {"spread": scores.spread / 1024.0, "inside": scores.inside / 1024.0}
    thresholds, norm_edges = np.empty(0), np.empty(0)
    for weight, map_ in others:
        share = float(weight / first)
        if isinstance(map_, Outer):
            weights["hessian"] = share
        elif isinstance(map_, OneHot) and isinstance(map_.cells, NormCells):
            name = "tails" if map_.cells.signed else "norms"
            weights[name] = share
            if map_.cells.signed:
                thresholds = map_.cells.edges
            else:
                norm_edges = np.square(map_.cells.edges[1:])
    return ScoreRequest(
        coefficients=question.projection.coefficients,
        whitening=question.projection.whitening,
        radius=scores.radius,
        clip=scores.clip,
        spread_clip=scores.spread_clip,
        thresholds=thresholds,
        norm_edges=norm_edges,
        weights=GroupWeights(**weights),
    )


def noisy_scores(request: ScoreRequest, groups: Sequence[Floats], absent: float) -> NoisyScores:
    """The groups of an answer to `score_question`, or of its noise; `absent` for those left out."""
    weights, k = request.weights, len(request.whitening)
    parts = iter(groups)
    scores = next(parts)
    hessian = next(parts) if weights.hessian else np.full((k, k), absent)
    tails = next(parts) if weights.tails else np.full(2 * len(request.thresholds), absent)
    norms = next(parts) if weights.norms else np.full(len(request.norm_edges) + 1, absent)
    return NoisyScores(
        score=scores[0],
        hessian=hessian,
        spread=scores[2:],
        inside=float(scores[1, 0]),
        tails=tails.reshape(2, -1),
        norms=norms,
    )
