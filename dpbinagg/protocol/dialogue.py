"""A curator, and what it has been asked so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpbinagg.formula import Design
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.questions import Answer, Question
from dpbinagg.protocol.rows import rows_of
from dpbinagg.release.transcript import Entry, Transcript


@dataclass
class Dialogue:
    """Asks a curator, and writes down every question with its answer."""

    curator: Curator
    entries: list[Entry] = field(default_factory=list)

    def ask(
        self, questions: Sequence[Question], mus: Sequence[float], design: Design | None = None
    ) -> list[Answer]:
        """Answers to some questions, from one pass over the records.

        Parameters
        ----------
        questions : sequence of Question
        mus : sequence of float
        design : Design, optional
            Whose columns the questions are about, if they are about columns.
        """
        rows = None if design is None else rows_of(design)
        answers = self.curator.answer(questions, mus, rows) if questions else []
        self.entries += map(Entry, questions, answers, mus)
        return answers

    @property
    def transcript(self) -> Transcript:
        """What was asked and answered so far."""
        return Transcript(self.entries)
