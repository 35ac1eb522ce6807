"""Conducts a release: asks the curator for each component, and the analyst in between.

The progress that it shows counts the public steps of a release, not records, bytes or passes over
the table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TextIO

from dpbinagg.accounting.budget import Allocation, Mechanism, Privacy
from dpbinagg.analyst.ols.coordinates import Plan, begin, plan_of
from dpbinagg.analyst.ols.finish import Steps
from dpbinagg.analyst.ols.joint import Together
from dpbinagg.analyst.ols.rounds import plan_round, round_mus
from dpbinagg.engines import Engine, open_engine
from dpbinagg.formula import Design
from dpbinagg.formula.rules import Rule
from dpbinagg.formula.scaling import column_scaling, row_layout
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.questions import Answer, Question
from dpbinagg.kernel.view import Rows
from dpbinagg.protocol.ranges import OneWay, one_way
from dpbinagg.protocol.settings import Settings, check_scale
from dpbinagg.public.bins import MAX_DEPTH, Paths
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition
from dpbinagg.reading import open_source
from dpbinagg.release.questions import (
    bin_questions,
    count_question,
    joint_answer,
    joint_question,
    matrix_answer,
    matrix_question,
    moment_question,
    round_answer,
    round_question,
    scores_of,
)
from dpbinagg.release.transcript import Entry, Transcript, counted
from dpbinagg.report.notes import require_some
from dpbinagg.report.verbs import Release

BAR_WIDTH = 24


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 1
        self._done = 0
        self._shown = 0

    def start(self, total: int) -> None:
        self.close()
        self._total, self._done = max(total, 1), 0

    def step(self, name: str) -> None:
        full = BAR_WIDTH * self._done // self._total
        bar = "#" * full + "." * (BAR_WIDTH - full)
        line = f"[{bar}] {self._done + 1} of {self._total}: {name}"
        self._stream.write("\r" + line.ljust(self._shown))
        self._stream.flush()
        self._shown = len(line)
        self._done = min(self._done + 1, self._total - 1)

    def close(self) -> None:
        if self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()
        self._shown = 0


_BAR: ContextVar[_Bar | None] = ContextVar("dpbinagg_progress", default=None)


@contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[None]:
    """Show the steps of the releases that are made inside a ``with`` block.

    Parameters
    ----------
    stream : text file, optional
        Where to write; standard error by default.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import io
    >>> from dpbinagg import dp_ols, show_progress
    >>> from dpbinagg.datasets import load_school
    >>> school, shown = load_school(), io.StringIO()
    >>> with show_progress(shown):
    ...     res = dp_ols("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> "partition" in shown.getvalue()
    True
    """
    bar = _Bar(sys.stderr if stream is None else stream)
    token = _BAR.set(bar)
    try:
        yield
    finally:
        _BAR.reset(token)
        bar.close()


def step(name: str, of: int | None = None) -> None:
    """Begin the next step, or the first one `of` so many."""
    bar = _BAR.get()
    if bar is not None:
        if of is not None:
            bar.start(of)
        bar.step(name)


LARGE_TABLE = 10_000
"""Number of records from which on the number of bins does not grow."""
GRID_BINS = 4
TOTAL_SHARE = 0.1
"""Share of the partition's mu^2 for the number of records, where ranges do not tell it."""


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


def open_table(data: Any, design: Design, missing: str) -> Engine:
    """The engine for a table, for the variables of a design."""
    columns = len(design.column_names) + 1
    return open_engine(open_source(data), design.domain, tuple(design.domain), missing, columns)


def conduct(
    curator: Curator,
    design: Design,
    allocation: Allocation,
    settings: Settings,
    models: Mapping[str, Design] | None = None,
    rules: Sequence[Rule] = (),
) -> Release:
    """Ask the curator for each component in turn and put the release together.

    Parameters
    ----------
    curator : Curator
    design : Design
        All columns that second moments and bins are of.
    allocation : Allocation
    settings : Settings
    models : mapping of Design, optional
        The models of a study, of columns of `design`; `design` itself is the only one by default.
    rules : sequence of Rule
        What synthetic rows shall keep; of no matter to the questions.
    """
    declared, dialogue = design.domain, Dialogue(curator)
    mus = round_mus(allocation.scores) if allocation.scores else ()
    steps = 2 + bool(allocation.moments) + len(mus) + bool(allocation.count)
    step("one-way counts", steps)
    held = settings.partition.variables if isinstance(settings.partition, Partition) else ()
    kept = frozenset((*design.fixed, *held))
    counts = one_way(dialogue.ask, design, kept, allocation.ranges)
    require_some(counted(Transcript(dialogue.entries)))
    outer = design.bounded_by(counts.working)
    design = design.with_domain(counts.working)
    check_scale(design)
    check_scale(outer)
    step("partition")
    partition = make_partition(dialogue, design, allocation, settings, counts.count)
    led: dict[str | None, Steps] = {}
    if allocation.moments:
        step("second moments")
        led |= estimate(dialogue, outer, design.domain, counts, allocation.moments, mus, models)
    if allocation.count:
        step("sums in bins")
        asked = bin_questions(design, partition, allocation, settings.calibration)
        dialogue.ask(*asked, rows_of(design))
    # What was spent, under the caller's neighbouring relation.
    factor = settings.mu / settings.per_record
    spent = tuple(Mechanism(m.name, factor * m.mu, m.law) for m in curator.spent)
    return Release(
        design,
        declared,
        partition,
        allocation,
        settings.calibration,
        Privacy(spent, settings.neighbours, curator.secure, settings.mu, settings.missing),
        Transcript(dialogue.entries),
        models={} if models is None else {name: model.formula for name, model in models.items()},
        rules=tuple(rule.text for rule in rules),
        led=led,
    )


def estimate(
    dialogue: Dialogue,
    outer: Design,
    working: Domain,
    counts: OneWay,
    mu: float,
    mus: Sequence[float],
    models: Mapping[str, Design] | None,
) -> dict[str | None, Steps]:
    """Second moments, for `mu`, and a round of scores for each of `mus`.

    The analyst asks, the curator answers. Requests are functions of what was released before, hence
    public. The models of a study share the moments, and have rounds together.
    """
    rows = rows_of(outer, coded=True)
    whole = begin(outer, working, counts.margins)
    question = moment_question(whole.moments.request, rows)
    (answer,) = dialogue.ask([question], [mu], rows)
    plans: dict[str | None, Plan] = {None: whole}
    if models is not None:
        plans = {name: plan_of(whole, outer, model) for name, model in models.items()}
    found = {
        name: Steps.start(plan, answer.values[0], answer.scales[0], counts.count)
        for name, plan in plans.items()
    }
    if len(found) > 1:
        return ask_together(dialogue, rows, found, mus)
    for mu in mus:
        step("residual scores")
        for name, steps in found.items():
            state, request = plan_round(steps.state, mu)
            (answer,) = dialogue.ask([round_question(request, rows, scores_of(name))], [mu], rows)
            found[name] = steps.taken(state, request, *round_answer(request, answer))
    return found


def ask_together(
    dialogue: Dialogue,
    rows: Rows,
    found: Mapping[str | None, Steps],
    mus: Sequence[float],
) -> dict[str | None, Steps]:
    """Rounds of several models: each asks for one vector of all contributions, and for matrices."""
    together = Together({str(name): steps for name, steps in found.items()})
    for mu in mus:
        step("residual scores")
        asked, joint_mu, own = together.plan(mu)
        about = {
            name: matrix_question(asked.each[name], rows, name)
            for name in dict.fromkeys(asked.whose.values())
        }
        held = {name: question for name, question in about.items() if question is not None}
        questions = [joint_question(asked.joint, rows), *held.values()]
        first, *rest = dialogue.ask(questions, [joint_mu, *[own] * len(held)], rows)
        told = dict(zip(held, rest, strict=True))
        matrices = {
            name: matrix_answer(one, told.get(asked.whose[name]))
            for name, one in asked.each.items()
        }
        together = together.taken(asked, *joint_answer(asked.joint, first), matrices)
    return {name: together.steps[str(name)] for name in found}


def make_partition(
    dialogue: Dialogue,
    design: Design,
    allocation: Allocation,
    settings: Settings,
    count: tuple[float, float],
) -> Partition:
    """The partition the caller asked for, over the working domain."""
    partition = settings.partition
    if isinstance(partition, Partition):
        return partition
    if partition == "grid":
        return Partition.grid(design.domain.subset(design.variables), GRID_BINS)
    paths = Paths(design.domain.subset(design.variables), design.variables, MAX_DEPTH)
    if settings.calibration == "paper":
        return Partition.of_tree(dialogue.curator.partition(paths, allocation.partition, 0.0))
    mu_tree, total = allocation.partition, count[0]
    if math.isinf(count[1]):
        mu_tree *= math.sqrt(1.0 - TOTAL_SHARE) * (1.0 - 2.0**-50)
        share = math.sqrt(TOTAL_SHARE) * allocation.partition
        (answer,) = dialogue.ask([count_question()], [share])
        total = float(answer.values[0][0])
    # The smallest noisy count worth a split: more records than the noise on the count of a bin, and
    # as many as keep the number of bins to the root of that of records, up to `LARGE_TABLE`.
    floor = 2.0 / allocation.count if allocation.count else 0.0
    n = max(total, 1.0)
    threshold = max(floor, math.sqrt(n * max(n / LARGE_TABLE, 1.0)))
    return Partition.of_tree(dialogue.curator.partition(paths, mu_tree, threshold))


def rows_of(design: Design, coded: bool = False) -> Rows:
    """The row map of a design, numbers scaled to [-1, 1] over its domain.

    Factors are columns as any others, or `coded`.
    """
    if coded:
        layout = row_layout(design)
        row_map, scaling, levels = layout.row_map, layout.scaling, layout.levels
    else:
        row_map, scaling, levels = design.row_map(), column_scaling(design), ()
    return Rows(row_map, scaling.centre, scaling.scale, scaling.centre_y, scaling.scale_y, levels)
