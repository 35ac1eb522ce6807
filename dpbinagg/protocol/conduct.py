"""Conducts a release: asks the curator for each component, and the analyst in between."""

from __future__ import annotations

import math
from typing import Any

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import Allocation, per_record_mu
from dpbinagg.accounting.privacy import Mechanism, Privacy
from dpbinagg.analyst.fit import started, update_by
from dpbinagg.analyst.refinement.refine import plan_round, round_mus, with_schedule
from dpbinagg.engines import Engine, open_engine
from dpbinagg.errors import BudgetError, DomainError
from dpbinagg.formula import Design
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.questions import Question
from dpbinagg.protocol import progress
from dpbinagg.protocol.dialogue import Dialogue
from dpbinagg.protocol.ranges import needs_range
from dpbinagg.protocol.settings import Settings, check_scale
from dpbinagg.protocol.working import working_domain
from dpbinagg.public.domain import Numeric
from dpbinagg.public.partition import Partition
from dpbinagg.public.paths import MAX_DEPTH, Paths
from dpbinagg.reading import open_source
from dpbinagg.release.questions import (
    bin_questions,
    count_question,
    moment_question,
    score_question,
)
from dpbinagg.release.release import Release

LARGE_TABLE = 10_000
"""Number of records from which on the number of bins does not grow."""
GRID_BINS = 4
LEAST_MU = 2.0**-16
LARGEST_MU = 2.0**24
"""Beyond it the margin of the mechanism would not cover its discrete noise."""
TOTAL_SHARE = 0.1
"""Share of the partition's mu^2 for the number of records, where ranges do not tell it."""


def allocate(settings: Settings, design: Design) -> Allocation:
    """Split the total mu over the components that this release needs."""
    budget = settings.budget
    if settings.partition != "privtree":
        budget = budget.without("partition")
    if isinstance(settings.partition, Partition):
        check_partition(settings.partition, design)
    if not range_variables(design, settings.partition) and budget.ranges:
        budget = budget.without("ranges")
    if design.unbounded and not budget.ranges:
        raise DomainError(
            f"variables {', '.join(design.unbounded)} have no public bounds and the budget "
            "spends nothing on ranges; declare their bounds, or give the budget a ranges share"
        )
    if settings.partition == "privtree" and not budget.partition:
        raise BudgetError(
            "partition='privtree' needs a partition share in the budget; "
            "give it one, or use partition='grid'"
        )
    if budget.count and not (budget.sum_x and budget.sum_y):
        raise BudgetError(
            "a budget with count must have sum_x and sum_y too: bins need all three; give each a "
            "share, or set all three to 0"
        )
    if not budget.moments and budget.scores:
        budget = budget.without("scores")
    allocation = budget.split(per_record_mu(settings.mu, settings.neighbours))
    for name, part in allocation.as_dict().items():
        if part and not LEAST_MU <= part <= LARGEST_MU:
            raise BudgetError(
                f"mu and budget leave the component {name!r} a mu outside {LEAST_MU:g} to "
                f"{LARGEST_MU:g}; choose another mu, or give the component another share"
            )
    return allocation


def true_mu(settings: Settings, design: Design, allocation: Allocation) -> float:
    """What the release will really spend, at most: more than asked for under "paper".

    The published calibration treats the p columns of a bin's sums as if each
    record moved only one of them: they are ``sqrt(p) mu``-GDP.
    """
    if settings.calibration != "paper":
        return settings.mu
    columns = len(design.column_names) - (design.intercept is not None)
    parts = allocation.as_dict() | {"sum_x": math.sqrt(max(columns, 1)) * allocation.sum_x}
    factor = settings.mu / per_record_mu(settings.mu, settings.neighbours)
    return factor * gdp.compose(*parts.values())


def check_partition(partition: Partition, design: Design) -> None:
    """A partition of the caller's must cut the right side as the domain declares it."""
    if partition.domain != design.domain.subset(design.variables):
        raise DomainError(
            "partition must cut exactly the variables of the formula's right side, in that order "
            "and with the same bounds and levels; make it from those bounds"
        )


def range_variables(design: Design, partition: str | Partition) -> tuple[str, ...]:
    """Numeric variables for which a working range may be found privately.

    Not those whose bounds are part of the model (levels of an integer) or of
    the caller's own partition, and not those with few values anyway.
    """
    names = dict.fromkeys((*design.variables, *design.response_variables))
    if isinstance(partition, Partition):
        names = dict.fromkeys(n for n in names if n not in partition.variables)
    return tuple(
        name
        for name in names
        if isinstance(variable := design.domain[name], Numeric)
        and name not in design.fixed
        and needs_range(variable)
    )


def open_curator(data: Any, design: Design, missing: str, rng: Any) -> Curator:
    """A curator of a table, for the variables of a design; its noise is secure unless `rng`."""
    return Curator(open_table(data, design, missing), rng)


def open_table(data: Any, design: Design, missing: str) -> Engine:
    """The engine for a table, for the variables of a design."""
    names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
    columns = len(design.column_names) + 1
    return open_engine(open_source(data), design.domain, names, missing, columns)


def conduct(
    curator: Curator, design: Design, allocation: Allocation, settings: Settings
) -> Release:
    """Ask the curator for each component in turn and put the release together."""
    declared, dialogue = design.domain, Dialogue(curator)
    progress.start(n_steps(allocation))
    total = None
    if allocation.ranges:
        progress.step("working ranges")
        names = range_variables(design, settings.partition)
        working, total = working_domain(dialogue, design, names, allocation.ranges)
        design = design.with_domain(working)
        check_scale(design)
    progress.step("partition")
    partition = make_partition(dialogue, design, allocation, settings, total)
    progress.step("second moments and sums in bins")
    measure(dialogue, design, partition, allocation, settings.calibration)
    if allocation.scores:
        progress.step("residual scores")
        refine(dialogue, design, allocation.scores)
    return Release(
        design,
        declared,
        partition,
        allocation,
        settings.calibration,
        privacy_of(curator, settings),
        dialogue.transcript,
    )


def measure(
    dialogue: Dialogue,
    design: Design,
    partition: Partition,
    allocation: Allocation,
    calibration: str,
) -> None:
    """Second moments and sums in bins, in one pass."""
    questions: list[Question] = []
    mus: list[float] = []
    if allocation.moments:
        questions, mus = [moment_question(design)], [allocation.moments]
    if allocation.count:
        more, their_mus = bin_questions(design, partition, allocation, calibration)
        questions, mus = questions + more, mus + their_mus
    dialogue.ask(questions, mus, design)


def n_steps(allocation: Allocation) -> int:
    """Number of steps of a release, for a progress bar."""
    return 2 + bool(allocation.ranges) + bool(allocation.scores)


def privacy_of(curator: Curator, settings: Settings) -> Privacy:
    """What the curator has released so far, under the caller's neighbouring relation."""
    factor = settings.mu / per_record_mu(settings.mu, settings.neighbours)
    mechanisms = tuple(Mechanism(m.name, factor * m.mu, m.law) for m in curator.spent)
    return Privacy(mechanisms, settings.neighbours, curator.secure, settings.mu, settings.missing)


def refine(dialogue: Dialogue, design: Design, mu: float) -> None:
    """Rounds of residual scores: the analyst asks, the curator answers.

    The requests are functions of what was released before, hence public.
    """
    state = with_schedule(started(dialogue.transcript, design), mu)
    for part in round_mus(mu, state.schedule):
        question = score_question(design, plan_round(state, part))
        dialogue.ask([question], [part], design)
        state = update_by(state, dialogue.entries[-1])


def make_partition(
    dialogue: Dialogue,
    design: Design,
    allocation: Allocation,
    settings: Settings,
    total: float | None,
) -> Partition:
    """The partition the caller asked for, over the working domain."""
    partition = settings.partition
    if isinstance(partition, Partition):
        return partition
    if partition == "grid":
        return Partition.grid(design.domain.subset(design.variables), GRID_BINS)
    paths = Paths(design.domain.subset(design.variables), design.variables, MAX_DEPTH)
    if settings.calibration == "paper":
        return dialogue.curator.partition(paths, allocation.partition, 0.0)
    mu_tree = allocation.partition
    if total is None:
        mu_tree *= math.sqrt(1.0 - TOTAL_SHARE) * (1.0 - 2.0**-50)
        share = math.sqrt(TOTAL_SHARE) * allocation.partition
        (answer,) = dialogue.ask([count_question()], [share])
        total = float(answer.values[0][0])
    return dialogue.curator.partition(paths, mu_tree, split_threshold(total, allocation))


def split_threshold(total: float, allocation: Allocation) -> float:
    """Smallest noisy count worth a split.

    A bin should hold more records than the noise on its count, and the number
    of bins should not grow faster than helps: as the root of the number of
    records up to `LARGE_TABLE`, and no further.
    """
    floor = 2.0 / allocation.count if allocation.count else 0.0
    n = max(total, 1.0)
    return max(floor, math.sqrt(n * max(n / LARGE_TABLE, 1.0)))
