"""What was asked and answered: the one thing that a release holds beside public facts.

Estimators, statistics and files are all folds over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.accounting import Allocation
from dpbinagg.accounting.budget import Privacy
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.scaling import (
    BinScaling,
    ColumnScaling,
    bin_scaling,
    column_scaling,
    row_layout,
)
from dpbinagg.formula.union import combinations
from dpbinagg.kernel.questions import Answer, Question
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition
from dpbinagg.public.rounds import JointAnswer, JointRequest, RoundAnswer, RoundRequest
from dpbinagg.release.questions import (
    CLOSER,
    COUNTS,
    JOINT,
    MARGINS,
    MOMENTS,
    RESPONSES,
    SCORES,
    SUMS,
    column_map,
    column_moments,
    columns_in_bins,
    from_plain,
    joint_answer,
    joint_request,
    margin_answer,
    matrices_of,
    moment_request,
    noisy_columns,
    round_answer,
    round_request,
    scores_of,
    to_plain,
)

Floats = NDArray[np.float64]
Statistics = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Entry:
    """A question, its answer, and what it cost, per record added or removed."""

    question: Question
    answer: Answer
    mu: float

    def to_plain(self) -> dict[str, Any]:
        """Plain values and arrays from which, with the partition, `from_plain` makes it again."""
        return {
            "question": to_plain(self.question),
            "values": list(self.answer.values),
            "scales": list(self.answer.scales),
            "mu": self.mu,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], partition: Partition) -> Entry:
        """The entry that `to_plain` described."""
        answer = Answer(tuple(plain["values"]), tuple(plain["scales"]))
        question = from_plain(plain["question"], partition)
        if not isinstance(question, Question):
            raise ValueError("an entry of a transcript must hold a question")
        _check_shapes(question, answer)
        return cls(question, answer, float(plain["mu"]))


def _check_shapes(question: Question, answer: Answer) -> None:
    """Refuse an answer that does not fit its question."""
    asked = [map_.scales(1.0, question.k).shape for _, map_ in question.groups]
    for parts in (answer.values, answer.scales):
        if [np.shape(part) for part in parts] != asked:
            raise ValueError("an answer must have the shape that its question asks for")


class Transcript(tuple[Entry, ...]):
    """All questions of a release with their answers, in order."""

    def __repr__(self) -> str:
        return f"<Transcript: {', '.join(entry.question.name for entry in self)}>"

    def of(self, name: str) -> Iterator[Entry]:
        """The entries of that name."""
        return (entry for entry in self if entry.question.name == name)

    def first(self, name: str) -> Entry | None:
        """The first entry of that name, None if it was not asked."""
        return next(self.of(name), None)

    def with_answers(self, answers: Mapping[str, Answer]) -> Transcript:
        """The same questions, with other answers to those that `answers` names."""
        return Transcript(
            replace(entry, answer=answers.get(entry.question.name, entry.answer)) for entry in self
        )

    def without(self, *names: str) -> Transcript:
        """The entries of other names."""
        return Transcript(entry for entry in self if entry.question.name not in names)


@dataclass(frozen=True, slots=True)
class Choice:
    """The estimate that stands for a release; None is the release's own, or the best.

    Attributes
    ----------
    formula : str, optional
        The released model or a smaller one.
    estimator, cov_type : str, optional
        As in `dp_ols`.
    """

    formula: str | None = None
    estimator: str | None = None
    cov_type: str | None = None


@dataclass(frozen=True, eq=False)
class Released:
    """All that a release holds: public facts, and the transcript.

    What computes from a release needs no more than this; `Release`, which callers see, adds verbs.

    Attributes
    ----------
    design : Design
        The formula over the working domain.
    declared : Domain
        The bounds and levels as the caller declared them.
    partition : Partition
    allocation : Allocation
        The mu of each component, per record added or removed.
    calibration : str
        "joint" or "paper".
    privacy : Privacy
    transcript : Transcript
        Every question that was asked, its noisy answer, and its mu.
    choice : Choice
        What `ols()` gives without arguments and `save` writes: the estimate that `dp_ols` was
        asked for, or that was saved.
    models : mapping of str
        Formulas of a study by name; `design` then holds all their columns. Empty where `design`
        is the model.
    rules : tuple of str
        Public comparisons of variables that synthetic rows keep.
    """

    design: Design
    declared: Domain
    partition: Partition
    allocation: Allocation
    calibration: str
    privacy: Privacy
    transcript: Transcript = field(repr=False)
    choice: Choice = Choice()
    models: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[str, ...] = ()

    def __getstate__(self) -> dict[str, Any]:
        # What is computed from the fields is computed again.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _views(self) -> tuple[Statistics, Statistics]:
        return statistics_of(
            self.transcript, self.outer, self.design, self.partition, self.calibration
        )

    @property
    def statistics(self) -> Mapping[str, Any]:
        """What was released, by component; one without a share of the budget is absent.

        ``count`` (K,), ``dev_x`` (K, p), ``dev_y`` (K,) are arrays; so is ``products``, sums of
        products of blocks (see `dpbinagg.kernel.maps.Moments`), and ``moments`` (m, m), the second
        moments of scaled columns that follow from it. ``margins`` holds one-way counts by variable,
        ``total`` the number of records. ``scores`` is a list with one mapping for each round (see
        `dpbinagg.public.rounds.RoundAnswer`), ``requests`` what was asked in each: computed from
        what was released before, not from records.
        """
        return self._views[0]

    @property
    def noise_scales(self) -> Mapping[str, Any]:
        """Standard deviations of the noise of `statistics`, same keys and shapes."""
        return self._views[1]

    @property
    def formula(self) -> str:
        """The formula of the release."""
        return self.design.formula

    @property
    def domain(self) -> Domain:
        """The working domain: declared bounds, or ranges found privately."""
        return self.design.domain

    @property
    def mu(self) -> float:
        """True privacy of the release."""
        return self.privacy.mu

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return self.partition.n_bins

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the design columns."""
        return self.design.column_names

    @cached_property
    def outer(self) -> Design:
        """The formula on the bounds that contributions to moments and rounds were held to."""
        constants = dict(self.design.constants)
        design = build_design(self.design.formula, self.declared, constants, apart=False)
        return design.bounded_by(self.design.domain)

    @property
    def bin_scaling(self) -> BinScaling:
        """Public centres and half-widths of the columns in every bin."""
        return bin_scaling(self.design, self.partition, self.calibration)

    @property
    def column_scaling(self) -> ColumnScaling:
        """Public centre and scale of every column over the working domain."""
        return column_scaling(self.design)


def rounds(
    transcript: Transcript, name: str = SCORES
) -> Iterator[tuple[RoundRequest, RoundAnswer, RoundAnswer]]:
    """Request, answer and noise of every round of residual scores of that name."""
    for entry in transcript.of(name):
        request = round_request(entry.question)
        yield (request, *round_answer(request, entry.answer))


def joint_rounds(transcript: Transcript, models: Iterable[str]) -> Iterator[JointRound]:
    """Every round of several models: what was asked and answered, and what cost how much."""
    names = {matrices_of(name): name for name in models}
    found: list[tuple[Entry, dict[str, Entry]]] = []
    for entry in transcript:
        if entry.question.name == JOINT:
            found.append((entry, {}))
        elif entry.question.name in names and found:
            found[-1][1][names[entry.question.name]] = entry
    for entry, matrices in found:
        request = joint_request(entry.question)
        yield JointRound(request, *joint_answer(request, entry.answer), matrices)


@dataclass(frozen=True, slots=True)
class JointRound:
    """A round of several models, from a transcript.

    Attributes
    ----------
    request, answer, noise
        See `dpbinagg.public.rounds`.
    matrices : dict of Entry
        What was asked about the matrices of models.
    """

    request: JointRequest
    answer: JointAnswer
    noise: JointAnswer
    matrices: dict[str, Entry]


@dataclass(frozen=True, slots=True)
class Counted:
    """What one-way counts say of the records that a model can and cannot use.

    Attributes
    ----------
    margins : dict of dict
        By variable, the last look at it; see `margin_answer`.
    complete, incomplete : float
        Noisy numbers of records with a value in every variable, and of the others. Several counts
        are weighed by the inverse squares of their noise.
    sd : float
        Of the noise of either.
    """

    margins: dict[str, dict[str, Any]]
    complete: float
    incomplete: float
    sd: float


@lru_cache(maxsize=8)
def counted(transcript: Transcript) -> Counted | None:
    """What the one-way counts of a transcript say; None if they were not asked for."""
    known: dict[str, dict[str, Any]] = {}
    weight, total = 0.0, np.zeros(2)
    for entry in transcript.of(MARGINS):
        found, counts, sd = margin_answer(entry.question, entry.answer)
        for name, one in found.items():
            # A second look is within a range that was found.
            if name in known:
                one["outside"] = known[name]["outside"]
            known[name] = one
        weight += sd**-2
        total += counts * sd**-2
    if not known:
        return None
    return Counted(known, float(total[0] / weight), float(total[1] / weight), weight**-0.5)


def margins(transcript: Transcript) -> dict[str, dict[str, Any]]:
    """One-way counts of every variable, none if they were not asked for; see `margin_answer`."""
    known = counted(transcript)
    return {} if known is None else known.margins


def closer(transcript: Transcript) -> dict[str, dict[str, Any]]:
    """Counts of numbers in narrower cells, where they were asked for; see `margin_answer`."""
    entry = transcript.first(CLOSER)
    return {} if entry is None else margin_answer(entry.question, entry.answer)[0]


def statistics_of(
    transcript: Transcript,
    outer: Design,
    design: Design,
    partition: Partition,
    calibration: str,
) -> tuple[Statistics, Statistics]:
    """The statistics of a release by name, and the standard deviations of their noise."""
    found: tuple[Statistics, Statistics] = ({}, {})
    if (known := counted(transcript)) is not None:
        found[0]["margins"] = known.margins
        found[1]["margins"] = {name: margin["sd"] for name, margin in known.margins.items()}
        found[0].update(total=known.complete, incomplete=known.incomplete)
        found[1].update(total=known.sd, incomplete=known.sd)
    if (entry := transcript.first(MOMENTS)) is not None:
        for table, parts in zip(found, _parts(entry), strict=True):
            table["products"] = parts[0]
        products, sd = (table["products"] for table in found)
        request = moment_request(entry.question)
        of_g = column_map(row_layout(outer), request)
        both = column_moments(*of_g, design, request.levels, (products, sd))
        for table, matrix in zip(found, both, strict=True):
            table["moments"] = matrix
    _put_rounds(found, transcript, SCORES)
    counts, responses = transcript.first(COUNTS), transcript.first(RESPONSES)
    if counts is not None and responses is not None:
        scaling, sums = bin_scaling(design, partition, calibration), transcript.first(SUMS)
        for place, table in enumerate(found):
            table["count"] = _parts(counts)[place][0]
            table["dev_x"] = np.zeros_like(scaling.unit)
            if sums is not None:
                table["dev_x"] = columns_in_bins(scaling, _parts(sums)[place][0])
            table["dev_y"] = _parts(responses)[place][0][:, 0] * scaling.unit_y
    return found


def model_statistics(
    whole: Released, design: Design, outer: Design, name: str | None
) -> tuple[Statistics, Statistics]:
    """The same for one model of the columns and the response of a release.

    Parameters
    ----------
    whole : Released
    design, outer : Design
        The model on the working domain, and on the bounds that values were held to.
    name : str or None
        Of a declared model, which has rounds of its own.
    """
    found: tuple[Statistics, Statistics] = ({}, {})
    for table, source in zip(found, (whole.statistics, whole.noise_scales), strict=True):
        keys = ("total", "incomplete", "products")
        table |= {key: source[key] for key in keys if key in source}
        if "margins" in source:
            table["margins"] = {key: source["margins"][key] for key in design.domain}
    entry = whole.transcript.first(MOMENTS)
    if entry is not None:
        request = moment_request(entry.question)
        of_g = np.column_stack(column_map(row_layout(whole.outer), request))
        columns, response = combinations(whole.outer, outer)
        released = found[0]["products"], found[1]["products"]
        both = column_moments(of_g @ columns, of_g @ response, design, request.levels, released)
        for table, matrix in zip(found, both, strict=True):
            table["moments"] = matrix
    if name is not None:
        _put_rounds(found, whole.transcript, scores_of(name))
        _put_joint(found, whole, name)
    return found


def _put_joint(found: tuple[Statistics, Statistics], whole: Released, name: str) -> None:
    """The rounds of one of several models: its scores and matrices, and what is of all."""
    held = list(joint_rounds(whole.transcript, whole.models))
    place = list(whole.models).index(name)
    if not held:
        return
    for table, side in zip(found, ("answer", "noise"), strict=True):
        table["scores"] = []
        for one in held:
            answer, entry = getattr(one, side), one.matrices.get(name)
            start = sum(one.request.blocks[:place])
            block = slice(start, start + one.request.blocks[place])
            # In the units of all models together: contributions over their standard deviations.
            parts = {"score": answer.score[block], "counts": answer.counts}
            parts["square"] = answer.shares[place]
            if answer.direction is not None:
                parts["direction"] = answer.direction[block]
            if entry is not None:
                matrices = _parts(entry)[side == "noise"]
                asked = ("meat",) if one.request.last else ("gram", "beyond", "far")
                parts |= dict(zip(asked, matrices, strict=True))
            table["scores"].append(parts)
    found[0]["requests"] = [asdict(one.request) for one in held]
    found[1]["requests"] = []


def _put_rounds(found: tuple[Statistics, Statistics], transcript: Transcript, name: str) -> None:
    asked = list(rounds(transcript, name))
    if asked:
        found[0]["requests"] = [asdict(request) for request, *_ in asked]
        found[0]["scores"] = [present(answer) for _, answer, _ in asked]
        # A request is computed from what was released before: it has no noise of its own.
        found[1]["requests"] = []
        found[1]["scores"] = [present(noise) for _, _, noise in asked]


def present(answer: RoundAnswer) -> dict[str, Any]:
    """The groups of an answer that were asked for, by name."""
    named = {field.name: getattr(answer, field.name) for field in fields(answer)}
    return {name: value for name, value in named.items() if value is not None}


def _parts(entry: Entry) -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    return entry.answer.values, entry.answer.scales


def with_bins(
    transcript: Transcript,
    design: Design,
    partition: Partition,
    calibration: str,
    statistics: Mapping[str, Floats],
    noise_scales: Mapping[str, Floats],
) -> Transcript:
    """The transcript with other statistics of the bins: ``count``, ``dev_x`` and ``dev_y``."""
    scaling = bin_scaling(design, partition, calibration)
    columns = noisy_columns(scaling)
    unit = scaling.unit[:, columns]

    def scaled(deviations: Floats) -> Floats:
        found = np.zeros_like(unit)
        np.divide(deviations[:, columns], unit, out=found, where=unit > 0.0)
        return found

    def answer(key: str, convert: Callable[[Floats], Floats]) -> Answer:
        return Answer((convert(statistics[key]),), (convert(noise_scales[key]),))

    return transcript.with_answers(
        {
            COUNTS: answer("count", np.asarray),
            SUMS: answer("dev_x", scaled),
            RESPONSES: answer("dev_y", lambda sums: sums[:, None] / scaling.unit_y),
        }
    )
