"""What was asked and answered: the one thing that a release holds beside public facts.

Estimators, statistics and files are all folds over it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula import Design
from dpbinagg.kernel.questions import Answer, Question, from_plain, to_plain
from dpbinagg.public.partition import Partition
from dpbinagg.public.rounds import NoisyScores, ScoreRequest
from dpbinagg.public.scaling import bin_scaling
from dpbinagg.release.questions import (
    COUNTS,
    MOMENTS,
    RESPONSES,
    SCORES,
    SUMS,
    columns_in_bins,
    noisy_columns,
    noisy_scores,
    request_of,
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


class Transcript(Sequence[Entry]):
    """All questions of a release with their answers, in order."""

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self._entries = tuple(entries)

    def __getitem__(self, place: Any) -> Any:
        return self._entries[place]

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<Transcript: {', '.join(entry.question.name for entry in self)}>"

    def of(self, name: str) -> Iterator[Entry]:
        """The entries of that name."""
        return (entry for entry in self._entries if entry.question.name == name)

    def first(self, name: str) -> Entry | None:
        """The first entry of that name, None if it was not asked."""
        return next(self.of(name), None)

    def with_answers(self, answers: Mapping[str, Answer]) -> Transcript:
        """The same questions, with other answers to those that `answers` names."""
        return Transcript(
            [
                replace(entry, answer=answers.get(entry.question.name, entry.answer))
                for entry in self
            ]
        )

    def without(self, *names: str) -> Transcript:
        """The entries of other names."""
        return Transcript([entry for entry in self if entry.question.name not in names])


def rounds(transcript: Transcript) -> Iterator[tuple[ScoreRequest, NoisyScores, NoisyScores]]:
    """Request, answer and noise of every round of residual scores."""
    for entry in transcript.of(SCORES):
        request = request_of(entry.question)
        yield (
            request,
            noisy_scores(request, entry.answer.values, 0.0),
            noisy_scores(request, entry.answer.scales, math.inf),
        )


def statistics_of(
    transcript: Transcript, design: Design, partition: Partition, calibration: str
) -> tuple[Statistics, Statistics]:
    """The statistics of a release by name, and the standard deviations of their noise."""
    found: tuple[Statistics, Statistics] = ({}, {})
    if (entry := transcript.first(MOMENTS)) is not None:
        for table, parts in zip(found, _parts(entry), strict=True):
            table["moments"] = parts[0]
    asked = list(rounds(transcript))
    if asked:
        found[0]["requests"] = [asdict(request) for request, *_ in asked]
        found[0]["scores"] = [asdict(answer) for _, answer, _ in asked]
        # A request is computed from what was released before: it has no noise of its own.
        found[1]["requests"] = []
        found[1]["scores"] = [asdict(noise) for _, _, noise in asked]
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
