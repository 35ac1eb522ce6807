"""The questions of a release, and what their answers say.

To ask something new, write a function that gives a `Question` from public facts, ask it in
`protocol.conduct`, and read its answer from the transcript, here or in an estimator. Structured
second moments are released as sums of products of ``g = (1, nu, codes, y')`` (see
`dpbinagg.kernel.maps.Moments`); those of design columns follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbinagg.accounting.budget import Allocation
from dpbinagg.formula import Design
from dpbinagg.formula.scaling import BinScaling, RowLayout, bin_scaling, column_scaling
from dpbinagg.kernel import maps
from dpbinagg.kernel.maps import (
    BinCells,
    Completeness,
    Deviations,
    Direction,
    Everyone,
    LevelCells,
    Map,
    Moments,
    NormCells,
    NumberCells,
    OneHot,
    Outer,
    OuterBeyond,
    Shares,
    SharesBeyond,
    Tensor,
    UnitInside,
)
from dpbinagg.kernel.questions import Answer, Question, alone, weigh
from dpbinagg.kernel.view import Projection, Rows
from dpbinagg.public.bins import Bins
from dpbinagg.public.domain import Categorical, Variable
from dpbinagg.public.partition import Partition
from dpbinagg.public.rounds import (
    JointAnswer,
    JointRequest,
    MomentRequest,
    RoundAnswer,
    RoundRequest,
    joint_weights,
    weights,
)

Floats = NDArray[np.float64]
Said = TypeVar("Said", RoundAnswer, JointAnswer)


MARGINS, RECORDS, MOMENTS = "one-way counts", "number of records", "second moments"
CLOSER = "closer one-way counts"
COUNTS, SUMS, RESPONSES = "bin counts", "bin sums of covariates", "bin sums of the response"
SCORES = "residual scores"
"""Names of questions, as lists of mechanisms show them."""

SEEN = 2.5
"""Noise standard deviations above which a count is taken for one of records: noise alone gets there
six times in a thousand."""


def scores_of(model: str | None) -> str:
    """Name of the rounds of a model of a study; of the only one without a name."""
    return SCORES if model is None else f"{SCORES} of {model}"


JOINT = "residual scores of all models"


def matrices_of(model: str) -> str:
    """Name of the matrices of a model of a study."""
    return f"squares of {model}"


def count_question() -> Question:
    """The number of complete records."""
    return Question(RECORDS, alone(OneHot(Everyone())), records="complete")


def margin_question(
    edges: Mapping[str, Floats], variables: Mapping[str, Variable], outside: bool = True
) -> Question:
    """A histogram of each variable, and the number of complete records, jointly.

    A histogram has cells for what is missing, for levels that nobody declared, and for numbers
    outside bounds that were declared. They cost nothing: a record is in one cell.

    Parameters
    ----------
    edges : mapping of arrays
        Of the cells of each number.
    variables : mapping of Variable
    outside : bool
        Whether their bounds are those that the caller declared.
    """
    cells: list[NumberCells | LevelCells | Completeness] = []
    for name, variable in variables.items():
        if isinstance(variable, Categorical):
            cells.append(LevelCells(name, len(variable.levels), missing=True, outside=True))
        else:
            its_edges = edges[name]
            bounds = math.isfinite(variable.lower) or math.isfinite(variable.upper)
            if outside and bounds:
                # The lower bound is within.
                its_edges = np.concatenate([[np.nextafter(its_edges[0], -np.inf)], its_edges[1:]])
            cells.append(NumberCells(name, its_edges, missing=True, outside=outside and bounds))
    maps = [OneHot(of_one) for of_one in (*cells, Completeness())]
    return Question(MARGINS, weigh([(1.0, map_) for map_ in maps]), records="all")


def closer_question(edges: Mapping[str, Floats]) -> Question:
    """A histogram of some numbers in narrower cells, jointly; numbers outside are counted apart."""
    maps: list[tuple[float, Map]] = []
    for name, its_edges in edges.items():
        # The lower end is within.
        ends = np.concatenate([[np.nextafter(its_edges[0], -np.inf)], its_edges[1:]])
        maps.append((1.0, OneHot(NumberCells(name, ends, missing=True, outside=True))))
    return Question(CLOSER, weigh(maps), records="all")


def margin_answer(
    question: Question, answer: Answer
) -> tuple[dict[str, dict[str, Any]], Floats, float]:
    """What `margin_question` or `closer_question` was answered.

    Returns
    -------
    margins : dict of dict
        By variable: ``edges``, None for levels; ``counts`` of the cells; the noise ``sd`` of every
        count; how many records are ``missing``; and ``outside`` of what was declared: one number
        for levels, (below, above) for bounds, none where there are no bounds. Where the latter
        stand out of the noise they count in the outer cells too, since values are moved there.
    numbers : (2,) array
        Of complete and of incomplete records.
    sd : float
        Of the noise of either.
    """
    found: dict[str, dict[str, Any]] = {}
    numbers, its_sd = np.zeros(2), math.inf
    for (_, map_), counts, scales in zip(
        question.groups, answer.values, answer.scales, strict=True
    ):
        cells, sd = map_.cells if isinstance(map_, OneHot) else None, float(scales[0])
        if isinstance(cells, Completeness):
            numbers, its_sd = counts, sd
        if not isinstance(cells, NumberCells | LevelCells):
            continue
        edges = cells.edges if isinstance(cells, NumberCells) else None
        within = cells.n_levels if isinstance(cells, LevelCells) else len(cells.edges) - 1
        inner, outside = counts[:within].copy(), counts[within:-1]
        if edges is not None and len(outside):
            np.add.at(inner, [0, -1], np.where(outside > SEEN * sd, outside, 0.0))
        found[cells.name] = {
            "edges": edges,
            "counts": inner,
            "sd": sd,
            "missing": float(counts[-1]),
            "outside": outside,
        }
    return found, numbers, its_sd


def moment_question(request: MomentRequest, rows: Rows) -> Question:
    """Structured second moments."""
    size = len(request.whitening)
    projection = _projection(request.whitening, request.coefficients, rows)
    moments = Moments(size, request.radius, request.levels, request.reach)
    return Question(MOMENTS, alone(moments), projection)


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


def _projection(whitening: Floats, coefficients: Floats, rows: Rows, *blocks: Any) -> Projection:
    # A question needs a W of at least one row.
    whitening = whitening if len(whitening) else np.zeros((1, rows.size))
    return Projection(whitening, coefficients, rows.centre_y, rows.scale_y, *blocks)


def round_question(request: RoundRequest, rows: Rows, name: str = SCORES) -> Question:
    """One round of scores."""
    maps: dict[str, Map] = {
        "score": UnitInside("wr", request.clip),
        "counts": OneHot(NormCells("wr", request.edges)),
        **_matrices(request),
    }
    if request.last:
        maps["direction"] = Direction("wr", request.clip)
    groups = weigh([(weight, maps[name]) for name, weight in weights(request).items()])
    projection = _projection(request.whitening, request.coefficients, rows)
    return Question(name, groups, projection)


def _matrices(request: RoundRequest) -> dict[str, Map]:
    """The maps of a round that give matrices: of w in one that approaches, of w r in the last."""
    if request.last:
        return {"meat": Outer("wr", request.meat_clip)}
    if request.radius is None:
        return {}
    return {
        "gram": Outer("w", request.radius),
        "beyond": OuterBeyond("w", request.radius),
        "far": OneHot(NormCells("w", request.far_edges)),
    }


def joint_question(request: JointRequest, rows: Rows) -> Question:
    """One round of scores of several models."""
    maps: dict[str, Map] = {
        "score": UnitInside("wr", request.clip),
        "counts": OneHot(NormCells("wr", request.edges)),
        "shares": Shares("wr", request.square_clip, request.blocks),
        "direction": Direction("wr", request.clip),
        "beyond": SharesBeyond("wr", request.square_clip, request.blocks),
    }
    groups = weigh([(w, maps[name]) for name, w in joint_weights(request.last).items()])
    given = request.whitening, request.coefficients, rows, request.blocks, request.units
    projection = _projection(*given)
    return Question(JOINT, groups, projection)


def joint_answer(request: JointRequest, answer: Answer) -> tuple[JointAnswer, JointAnswer]:
    """The answer to `joint_question`, and its noise."""
    names = joint_weights(request.last)
    return _by_name(JointAnswer, names, answer.values), _by_name(JointAnswer, names, answer.scales)


def _by_name(kind: type[Said], names: Iterable[str], groups: Sequence[Floats]) -> Said:
    """The groups of an answer by name; the last of the score is the sum inside the clip."""
    found = dict(zip(names, groups, strict=True))
    score = found.pop("score")
    return kind(score=score[:-1], inside=float(score[-1]), **found)


def joint_request(question: Question) -> JointRequest:
    """The request that `joint_question` asked."""
    projection, held = question.projection, {type(map_): map_ for _, map_ in question.groups}
    score, counts, shares = held.get(UnitInside), held.get(OneHot), held.get(Shares)
    if projection is None or not isinstance(score, UnitInside) or not isinstance(shares, Shares):
        raise ValueError("a question about joint scores must hold them")
    if not isinstance(counts, OneHot) or not isinstance(counts.cells, NormCells):
        raise ValueError("a question about joint scores must hold their lengths")
    return JointRequest(
        projection.coefficients,
        projection.whitening,
        projection.blocks,
        projection.units,
        score.limit,
        shares.limit,
        counts.cells.edges,
        Direction in held,
    )


def matrix_question(request: RoundRequest, rows: Rows, model: str) -> Question | None:
    """Matrices of one model of a study in a round; None where they would teach nothing."""
    asked, maps = weights(request), _matrices(request)
    if not maps:
        return None
    groups = weigh([(asked[name], map_) for name, map_ in maps.items()])
    projection = _projection(request.whitening, request.coefficients, rows)
    return Question(matrices_of(model), groups, projection)


def matrix_answer(
    request: RoundRequest, answer: Answer | None
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The answer to `matrix_question` by group, and its noise; empty where it was not asked."""
    if answer is None:
        return {}, {}
    names = list(_matrices(request))
    return (
        dict(zip(names, answer.values, strict=True)),
        dict(zip(names, answer.scales, strict=True)),
    )


def matrix_limits(question: Question) -> dict[str, Any]:
    """The limits that `matrix_question` asked with, by the fields of `RoundRequest`."""
    found: dict[str, Any] = {}
    for _, map_ in question.groups:
        if isinstance(map_, Outer) and not isinstance(map_, OuterBeyond):
            found["meat_clip" if map_.vector == "wr" else "radius"] = map_.limit
        elif isinstance(map_, OneHot) and isinstance(map_.cells, NormCells):
            found["far_edges"] = map_.cells.edges
    return found


def round_answer(request: RoundRequest, answer: Answer) -> tuple[RoundAnswer, RoundAnswer]:
    """The answer to `round_question`, and its noise."""
    names = weights(request)
    return _by_name(RoundAnswer, names, answer.values), _by_name(RoundAnswer, names, answer.scales)


def moment_request(question: Question) -> MomentRequest:
    """The request that `moment_question` asked."""
    projection, moments = question.projection, question.groups[0][1]
    if projection is None or not isinstance(moments, Moments):
        raise ValueError("a question about second moments must hold them")
    return MomentRequest(
        projection.whitening[: moments.size],
        moments.limit,
        projection.coefficients,
        moments.reach,
        moments.levels,
    )


def round_request(question: Question) -> RoundRequest:
    """The request that `round_question` asked."""
    projection, held = question.projection, {type(map_): map_ for _, map_ in question.groups}
    cells = [m.cells for _, m in question.groups if isinstance(m, OneHot)]
    score, outer = held.get(UnitInside), held.get(Outer)
    if projection is None or not isinstance(score, UnitInside):
        raise ValueError("a question about scores must hold them")
    edges = {c.vector: c.edges for c in cells if isinstance(c, NormCells)}
    last = Direction in held
    limit = outer.limit if isinstance(outer, Outer) else None
    return RoundRequest(
        coefficients=projection.coefficients,
        whitening=projection.whitening,
        clip=score.limit,
        edges=edges["wr"],
        radius=None if last else limit,
        far_edges=edges.get("w", np.empty(0)),
        meat_clip=limit if last and limit is not None else score.limit,
        last=last,
    )


Array = NDArray[np.float64]
Released = tuple[Array, Array]

SWEEPS = 4
"""Alternating projections on what levels must add up to; two factors need a few."""
COPIES, SEED = 64, 20_260_102
"""Public draws from which standard deviations of entries follow, within 9%."""


def places_of(levels: Sequence[int], size: int) -> list[NDArray[np.intp]]:
    """Places of each factor's code in g, of that length."""
    ends = np.cumsum([size - 1 - sum(levels), *levels])
    return [np.arange(a, b) for a, b in pairwise(ends)]


def complete(levels: Sequence[int], released: Array) -> Array:
    """The matrices ``sum g g'`` from released entries, or their noise; (..., m, m).

    The square of y' was released less the count; squares of a code are the code; products within it
    are zero; and the rows of a code add up to the row of the constant, on which the noisy matrix is
    projected, in least squares.
    """
    full = np.array(released if released.ndim == 3 else released[None])
    codes = places_of(levels, full.shape[1])
    full[:, -1, -1] += full[:, 0, 0]
    for code in codes:
        full[:, code[:, None], code] = 0.0
        full[:, code, code] = full[:, 0, code]
    for _ in range(SWEEPS if len(codes) > 1 else min(len(codes), 1)):
        for code in codes:
            _add_up(full, code)
    return full if released.ndim == 3 else np.asarray(full[0])


def _add_up(full: Array, code: NDArray[np.intp]) -> None:
    """Spread what a factor's rows lack over them and the constant's row."""
    others = np.setdiff1d(np.arange(full.shape[1]), code)
    missing = full[:, 0, others] - full[:, code][:, :, others].sum(axis=1)
    share = missing / (len(code) + 1.0)
    for one in code:
        full[:, one, others] += share
        full[:, others, one] = full[:, one, others]
    full[:, 0, others] -= share
    full[:, others, 0] = full[:, 0, others]
    full[:, code, code] = full[:, 0, code]


def column_map(layout: RowLayout, request: MomentRequest) -> tuple[Array, Array]:
    """Design columns and response as combinations of g: ``x = X' g``, ``y = Y' g``.

    ``nu = W f / radius`` is solved for the numeric columns: what W leaves out is constant.
    """
    whitening, numeric = request.whitening, layout.design_map[:, layout.numeric]
    size = len(whitening)
    into = np.zeros((2 + size + sum(layout.levels), layout.design_map.shape[1]))
    into[0] = layout.design_map[0]
    slopes = np.linalg.pinv(whitening[:, 1:]) if size else np.zeros((numeric.shape[0] - 1, 0))
    back = numeric[1:].T @ slopes
    into[0, layout.numeric] -= back @ whitening[:, 0]
    into[1 : 1 + size, layout.numeric] = back.T * request.radius
    start = 1 + size
    for matrix, columns in layout.factors:
        into[0, columns] = 0.0
        into[start : start + len(matrix), columns] = matrix
        start += len(matrix)
    response = np.zeros(len(into))
    response[0], response[-1] = request.coefficients[0], request.reach
    return into, response


def column_moments(
    columns: Array, response: Array, design: Design, levels: Sequence[int], released: Released
) -> Released:
    """Second moments of ``f = (1, z*, y*)``, and the standard deviations of their noise.

    Parameters
    ----------
    columns, response : (m, p) and (m,) arrays
        As combinations of g.
    design : Design
        Over whose domain they are scaled to [-1, 1].
    levels : sequence of int
        Of the factors.
    released : pair of (m, m) arrays
        Entries of ``sum g g'``, and the standard deviations of their noise.
    """
    scaling = column_scaling(design)
    one, varying = np.eye(len(columns))[0], scaling.varying
    centred = columns[:, varying] - np.outer(one, scaling.centre[varying])
    last = (response - one * scaling.centre_y) / scaling.scale_y
    into = np.column_stack([one, centred / scaling.scale[varying], last])
    products, sd = released
    noise = into.T @ noise_copies(levels, sd) @ into
    matrix = into.T @ complete(levels, products) @ into
    return np.asarray(matrix), np.asarray(np.sqrt(np.mean(noise**2, axis=0)))


def noise_copies(levels: Sequence[int], sd: Array) -> Array:
    """Public draws of the noise in the matrices that `complete` gives, (COPIES, m, m)."""
    rng = np.random.default_rng(SEED)
    upper = np.triu(rng.normal(size=(COPIES, *sd.shape)) * sd)
    return complete(levels, upper + np.swapaxes(np.triu(upper, 1), 1, 2))


_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(maps.OneHot, maps.UnitInside, maps.Shares, maps.SharesBeyond),
        *(maps.Direction, maps.Outer, maps.OuterBeyond),
        *(maps.Deviations, maps.Tensor, maps.Moments),
        *(maps.Everyone, maps.Completeness, maps.NumberCells, maps.LevelCells),
        *(maps.NormCells, maps.BinCells, Projection, Question),
    )
}
"""The closed set of what a question may hold."""


def to_plain(value: Any) -> Any:
    """A question, or what it holds, as plain values, lists and arrays."""
    if type(value).__name__ in _KINDS:
        held = {one.name: to_plain(getattr(value, one.name)) for one in fields(value) if one.init}
        return {"kind": type(value).__name__, **held}
    if isinstance(value, Bins):
        return {"kind": "Partition"}
    if isinstance(value, Fraction):
        return {"kind": "Fraction", "value": [value.numerator, value.denominator]}
    if isinstance(value, tuple):
        return [to_plain(item) for item in value]
    return value


def from_plain(plain: Any, partition: Bins | None = None) -> Any:
    """The question that `to_plain` described; its partition, public too, is handed in."""
    if isinstance(plain, list):
        return tuple(from_plain(item, partition) for item in plain)
    if not isinstance(plain, Mapping):
        return plain
    kind = plain["kind"]
    if kind == "Partition":
        if partition is None:
            raise ValueError("the question needs a partition")
        return partition
    if kind == "Fraction":
        return Fraction(*plain["value"])
    held = {name: from_plain(item, partition) for name, item in plain.items() if name != "kind"}
    return _KINDS[kind](**held)
