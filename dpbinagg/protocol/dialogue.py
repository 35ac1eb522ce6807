"""A curator, and what it has been asked so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.questions import Answer, Question
from dpbinagg.kernel.view import Rows
from dpbinagg.release.transcript import Entry, Transcript


@dataclass
class Dialogue:
    """Asks a curator, and writes down every question with its answer."""

    curator: Curator
    entries: list[Entry] = field(default_factory=list)

    def ask(
        self, questions: Sequence[Question], mus: Sequence[float], rows: Rows | None = None
    ) -> list[Answer]:
        """Answers to some questions, from one pass over the records.

        Parameters
        ----------
        questions : sequence of Question
        mus : sequence of float
        rows : Rows, optional
            The row map, for questions about f or about design columns.
        """
        answers = self.curator.answer(questions, mus, rows) if questions else []
        self.entries += map(Entry, questions, answers, mus)
        return answers

    @property
    def transcript(self) -> Transcript:
        """What was asked and answered so far."""
        return Transcript(self.entries)
