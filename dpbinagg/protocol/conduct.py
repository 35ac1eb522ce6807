"""Conducts a release: asks the curator for each component, and the analyst in between."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import Allocation, per_record_mu
from dpbinagg.accounting.privacy import Mechanism, Privacy
from dpbinagg.analyst.fit import moments_from, remember
from dpbinagg.analyst.refinement.refine import (
    State,
    plan_round,
    round_mus,
    start,
    update,
    with_schedule,
)
from dpbinagg.curator.curator import Curator, Noisy
from dpbinagg.curator.ranges import needs_range
from dpbinagg.errors import BudgetError, DomainError
from dpbinagg.formula import Design
from dpbinagg.protocol import progress
from dpbinagg.protocol.settings import Settings, check_scale
from dpbinagg.public.domain import Numeric
from dpbinagg.public.partition import Partition
from dpbinagg.public.paths import MAX_DEPTH
from dpbinagg.release.release import Release

LARGE_TABLE = 10_000
"""Number of records from which on the number of bins does not grow."""
GRID_BINS = 4
LEAST_MU = 2.0**-16
LARGEST_MU = 2.0**24
"""Beyond it the margin of the mechanism would not cover its discrete noise."""
FEW_BINS = 32
"""Bins whose noise is drawn before there is a partition: most have more."""
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


def conduct(
    curator: Curator, design: Design, allocation: Allocation, settings: Settings
) -> Release:
    """Ask the curator for each component in turn and put the release together."""
    declared = design.domain
    total = None
    progress.start(n_steps(allocation))
    rounds = n_sums(design, allocation)
    curator.expect(rounds + bool(allocation.count) * FEW_BINS * (len(design.column_names) + 2))
    if allocation.ranges:
        progress.step("working ranges")
        names = range_variables(design, settings.partition)
        working, total = curator.ranges(
            design,
            names,
            allocation.ranges,
            lambda n: expect_tree(curator, n, allocation, settings),
        )
        design = design.with_domain(working)
        check_scale(design)
    progress.step("partition")
    partition = make_partition(curator, design, allocation, settings, total)
    parts: list[Noisy] = []
    state = None
    if allocation.count:
        curator.expect_bins(design, partition, settings.calibration, rounds)
    if allocation.moments:
        progress.step("second moments")
        parts.append(curator.moments(design, allocation.moments))
    if allocation.scores:
        progress.step("residual scores")
        scores, state = refine(curator, design, parts[0], allocation.scores)
        parts.append(scores)
    if allocation.count:
        progress.step("sums in bins")
        parts.append(curator.bins(design, partition, allocation, settings.calibration))
    statistics = {key: value for part in parts for key, value in part.statistics.items()}
    scales = {key: value for part in parts for key, value in part.noise_scales.items()}
    release = Release(
        design,
        declared,
        partition,
        allocation,
        settings.calibration,
        privacy_of(curator, settings),
        statistics,
        scales,
    )
    if state is not None:
        remember(release, state)
    return release


def n_sums(design: Design, allocation: Allocation) -> int:
    """About how many sums moments and two rounds of scores are: matrices, and some counts."""
    columns = len(design.column_names) + 1
    matrix = columns * (columns + 1) // 2
    return bool(allocation.moments) * matrix + bool(allocation.scores) * 4 * (matrix + 8)


def n_steps(allocation: Allocation) -> int:
    """Number of steps of a release, for a progress bar."""
    parts = (allocation.ranges, allocation.count, allocation.moments, allocation.scores)
    return 1 + sum(bool(part) for part in parts)


def privacy_of(curator: Curator, settings: Settings) -> Privacy:
    """What the curator has released so far, under the caller's neighbouring relation."""
    factor = settings.mu / per_record_mu(settings.mu, settings.neighbours)
    mechanisms = tuple(Mechanism(m.name, factor * m.mu, m.law) for m in curator.mechanisms)
    return Privacy(mechanisms, settings.neighbours, curator.secure, settings.mu, settings.missing)


def refine(curator: Curator, design: Design, moments: Noisy, mu: float) -> tuple[Noisy, State]:
    """Rounds of residual scores: the analyst asks, the curator answers.

    The requests are functions of what was released before, hence public.
    """
    state = start(moments_from(design, moments.statistics, moments.noise_scales))
    state = with_schedule(state, mu)
    requests: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    scales: list[dict[str, Any]] = []
    for part in round_mus(mu, state.schedule):
        request = plan_round(state, part)
        answer = curator.scores(design, request, part)
        state = update(state, request, answer, part)
        requests.append(asdict(request))
        answers.append(asdict(answer))
        scales.append(asdict(request.noise_scales(part)))
    # A request is computed from what was released before: it has no noise of its own.
    noise_scales = {"requests": [], "scores": scales}
    return Noisy({"requests": requests, "scores": answers}, noise_scales), state


def make_partition(
    curator: Curator,
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
    if settings.calibration == "paper":
        return curator.partition(design, allocation.partition, 0.0, MAX_DEPTH)
    mu_tree = allocation.partition
    if total is None:
        mu_tree *= math.sqrt(1.0 - TOTAL_SHARE) * (1.0 - 2.0**-50)
        total = curator.total(math.sqrt(TOTAL_SHARE) * allocation.partition)
        curator.expect_nodes(total, mu_tree, split_threshold(total, allocation))
    return curator.partition(design, mu_tree, split_threshold(total, allocation), MAX_DEPTH)


def expect_tree(curator: Curator, total: float, allocation: Allocation, settings: Settings) -> None:
    """Have the noise of a partition drawn ahead, once the number of records is known."""
    if settings.partition == "privtree" and settings.calibration != "paper":
        theta = split_threshold(total, allocation)
        curator.expect_nodes(total, allocation.partition, theta)


def split_threshold(total: float, allocation: Allocation) -> float:
    """Smallest noisy count worth a split.

    A bin should hold more records than the noise on its count, and the number
    of bins should not grow faster than helps: as the root of the number of
    records up to `LARGE_TABLE`, and no further.
    """
    floor = 2.0 / allocation.count if allocation.count else 0.0
    n = max(total, 1.0)
    return max(floor, math.sqrt(n * max(n / LARGE_TABLE, 1.0)))
