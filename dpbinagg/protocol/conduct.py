"""Conducts a release: asks the curator for each component, and the analyst in between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import Allocation, per_record_mu
from dpbinagg.accounting.privacy import Mechanism, Privacy
from dpbinagg.analyst.ols.rounds import plan_round, round_mus
from dpbinagg.analyst.ols.steps import Plan, Steps, begin, plan_of
from dpbinagg.engines import Engine, open_engine
from dpbinagg.errors import BudgetError, DomainError
from dpbinagg.formula import Design
from dpbinagg.kernel.curator import Curator
from dpbinagg.protocol import progress
from dpbinagg.protocol.dialogue import Dialogue
from dpbinagg.protocol.ranges import needs_range
from dpbinagg.protocol.rows import coded_rows, rows_of
from dpbinagg.protocol.settings import Settings, check_scale
from dpbinagg.protocol.working import OneWay, one_way, uniform
from dpbinagg.public.domain import Domain, Numeric
from dpbinagg.public.partition import Partition
from dpbinagg.public.paths import MAX_DEPTH, Paths
from dpbinagg.reading import open_source
from dpbinagg.release.questions import (
    bin_questions,
    count_question,
    missing_question,
    moment_question,
    round_answer,
    round_question,
    scores_of,
)
from dpbinagg.report.verbs import Release

LARGE_TABLE = 10_000
"""Number of records from which on the number of bins does not grow."""
GRID_BINS = 4
LEAST_MU = 2.0**-16
LARGEST_MU = 2.0**24
"""Beyond it the margin of the mechanism would not cover its discrete noise."""
MISSING_SHARE = 0.1
"""Share of the mu^2 of one-way counts for how many records lack each variable: shares of missing
values are looked at, and nothing rests on them."""
TOTAL_SHARE = 0.1
"""Share of the partition's mu^2 for the number of records, where ranges do not tell it."""


def allocate(settings: Settings, design: Design) -> Allocation:
    """Split the total mu over the components that this release needs."""
    budget = settings.budget
    if settings.partition != "privtree":
        budget = budget.without("partition")
    if isinstance(settings.partition, Partition):
        check_partition(settings.partition, design)
    if not budget.moments and not range_is_sought(design, settings.partition) and budget.ranges:
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


def range_is_sought(design: Design, partition: str | Partition) -> bool:
    """Whether a range is to be found for some variable.

    Not for those whose bounds are part of the model (levels of an integer) or of the caller's own
    partition, nor for those with few values anyway.
    """
    names = dict.fromkeys((*design.variables, *design.response_variables))
    held = partition.variables if isinstance(partition, Partition) else ()
    return any(
        isinstance(variable := design.domain[name], Numeric)
        and name not in (*design.fixed, *held)
        and needs_range(variable)
        for name in names
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
    curator: Curator,
    design: Design,
    allocation: Allocation,
    settings: Settings,
    models: Mapping[str, Design] | None = None,
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
    """
    declared, dialogue = design.domain, Dialogue(curator)
    progress.start(n_steps(allocation))
    progress.step("one-way counts")
    if models is not None:
        allocation = ask_missing(dialogue, design, allocation)
    held = settings.partition.variables if isinstance(settings.partition, Partition) else ()
    kept = frozenset((*design.fixed, *held))
    counts = uniform(design)
    if allocation.ranges:
        counts = one_way(dialogue, design, kept, allocation.ranges)
    outer = design.bounded_by(counts.working)
    design = design.with_domain(counts.working)
    check_scale(design)
    check_scale(outer)
    progress.step("partition")
    partition = make_partition(dialogue, design, allocation, settings, counts.total)
    led: dict[str | None, Steps] = {}
    if allocation.moments:
        progress.step("second moments")
        led |= estimate(dialogue, outer, design.domain, counts, allocation, models)
    if allocation.count:
        progress.step("sums in bins")
        asked = bin_questions(design, partition, allocation, settings.calibration)
        dialogue.ask(*asked, rows_of(design))
    return Release(
        design,
        declared,
        partition,
        allocation,
        settings.calibration,
        privacy_of(curator, settings),
        dialogue.transcript,
        models={} if models is None else {name: model.formula for name, model in models.items()},
        led=led.get(None),
    )


def ask_missing(dialogue: Dialogue, design: Design, allocation: Allocation) -> Allocation:
    """Ask how many records lack each variable; what is left of the allocation."""
    if not allocation.ranges:
        return allocation
    names = dict.fromkeys((*design.variables, *design.response_variables))
    question = missing_question({name: design.domain[name] for name in names})
    dialogue.ask([question], [math.sqrt(MISSING_SHARE) * allocation.ranges])
    rest = math.sqrt(1.0 - MISSING_SHARE) * (1.0 - 2.0**-50)
    return replace(allocation, ranges=rest * allocation.ranges)


def estimate(
    dialogue: Dialogue,
    outer: Design,
    working: Domain,
    counts: OneWay,
    allocation: Allocation,
    models: Mapping[str, Design] | None,
) -> dict[str | None, Steps]:
    """Second moments and rounds of scores: the analyst asks, the curator answers.

    Requests are functions of what was released before, hence public. The models of a study share
    the moments; each round asks for the scores of all of them in one pass, each with
    ``mu/sqrt(m)``.
    """
    rows = coded_rows(outer)
    whole = begin(outer, working, counts.margins)
    question = moment_question(whole.moments.request, rows)
    (answer,) = dialogue.ask([question], [allocation.moments], rows)
    plans: dict[str | None, Plan] = {None: whole}
    if models is not None:
        plans = {name: plan_of(whole, outer, model) for name, model in models.items()}
    found = {
        name: Steps.start(plan, answer.values[0], answer.scales[0], counts.count)
        for name, plan in plans.items()
    }
    for mu in round_mus(allocation.scores) if allocation.scores else ():
        progress.step("residual scores")
        each = mu if len(found) == 1 else mu / math.sqrt(len(found)) * (1.0 - 2.0**-50)
        planned = {name: plan_round(steps.state, each) for name, steps in found.items()}
        asked = [round_question(one, rows, scores_of(name)) for name, (_, one) in planned.items()]
        answers = dialogue.ask(asked, [each] * len(asked), rows)
        for (name, (state, request)), answer in zip(planned.items(), answers, strict=True):
            found[name] = found[name].taken(state, request, *round_answer(request, answer))
    return found


def n_steps(allocation: Allocation) -> int:
    """Number of steps of a release, for a progress bar."""
    rounds = len(round_mus(1.0)) * bool(allocation.scores)
    return 2 + bool(allocation.moments) + rounds + bool(allocation.count)


def privacy_of(curator: Curator, settings: Settings) -> Privacy:
    """What the curator has released so far, under the caller's neighbouring relation."""
    factor = settings.mu / per_record_mu(settings.mu, settings.neighbours)
    mechanisms = tuple(Mechanism(m.name, factor * m.mu, m.law) for m in curator.spent)
    return Privacy(mechanisms, settings.neighbours, curator.secure, settings.mu, settings.missing)


def make_partition(
    dialogue: Dialogue,
    design: Design,
    allocation: Allocation,
    settings: Settings,
    total: float,
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
    if math.isnan(total):
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
