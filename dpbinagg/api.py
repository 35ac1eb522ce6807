"""`dp_ols` and `dp_release`: validate, conduct curator and analyst, return results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from typing import Any

from dpbinagg.accounting.budget import Allocation, per_record_mu
from dpbinagg.analyst.fit import released_moments
from dpbinagg.analyst.refine import plan_round, round_mus, start, update
from dpbinagg.curator.curator import Curator, Noisy
from dpbinagg.domain import Categorical, Domain, Numeric
from dpbinagg.errors import BudgetError, DomainError
from dpbinagg.formula import Design, build_design
from dpbinagg.partition import Partition
from dpbinagg.paths import MAX_DEPTH
from dpbinagg.privacy import Mechanism, Privacy
from dpbinagg.release import Release
from dpbinagg.settings import (
    COV_TYPES,
    ESTIMATORS,
    Settings,
    check_constants,
    check_ledger,
    check_scale,
    one_of,
)

GRID_BINS = 4
LEAST_MU = 2.0**-16
LARGEST_MU = 2.0**24
"""Beyond it the margin of the mechanism would not cover its discrete noise."""
TOTAL_SHARE = 0.1
"""Share of the partition's mu^2 for the number of records, where ranges do not tell it."""


def dp_ols(
    formula: str,
    data: Any,
    mu: float | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: Any = None,
    budget: Any = None,
    partition: Any = "privtree",
    calibration: str = "joint",
    estimator: str = "refined",
    cov_type: str = "sandwich",
    missing: str = "drop",
    neighbours: str = "add-remove",
    ledger: Any = None,
    rng: Any = None,
    constants: Mapping[str, float] | None = None,
) -> Any:
    """Differentially private linear regression.

    Parameters
    ----------
    formula : str
        A patsy formula, as in statsmodels and R:
        ``"np.log(wage) ~ educ + exper + I(exper**2) + C(region)"``.
    data : table or path
        The private records: a pandas, Polars, PyArrow, DuckDB, Spark or Dask
        table, or the path of a CSV or Parquet file. Column names and dtypes
        count as public.
    mu : float
        Total privacy, mu-GDP. About 0.5 is strict, 1 usual, 2 lenient; see
        `dpbinagg.gdp` for epsilon and delta.
    epsilon, delta : float
        The total as (epsilon, delta) instead of mu.
    bounds : mapping or Domain
        Public bounds and levels, ``{"educ": (0, 20), "region": ["N", "S"]}``.
        Numeric bounds that are not given are found privately, from the same
        budget; the levels of categories must be declared here, by a
        categorical dtype, or by ``C(x, levels=...)``. Bounds must not be read
        off the private data.
    budget : Budget
        How mu is divided over the components of the release.
    partition : {"privtree", "grid"} or Partition
        How the covariates are binned.
    calibration : {"joint", "paper"}
        "paper" adds the published, too small noise; the true mu is reported.
    estimator : {"refined", "combined", "corrected", "naive", "paper"}
        Which estimate to show; a component that the budget switches off falls
        back to the next.
    cov_type : {"sandwich", "model"}
        Covariance of the estimate from bins.
    missing : {"drop", "raise"}
        What to do with records that lack a value the formula needs.
    neighbours : {"add-remove", "replace"}
        What counts as one person's change of the table.
    ledger : Ledger
        Charged before anything is released.
    rng : seed or Generator
        For tests and simulations only: the summary then says "not for
        publication". By default the noise is cryptographically secure.
    constants : mapping
        Numbers that the formula may use by name.

    Returns
    -------
    DPResults
        A statsmodels results object with intervals that account for the
        privacy noise, sibling estimates, the release and synthetic data.

    Examples
    --------
    >>> from dpbinagg import dp_ols
    >>> from dpbinagg.datasets import load_wages
    >>> wages = load_wages()
    >>> res = dp_ols("np.log(wage) ~ educ", wages.frame, mu=1, bounds=wages.codebook, rng=1)
    >>> bool(0.05 < res.params["educ"] < 0.11)
    True
    """
    one_of("estimator", estimator, ESTIMATORS)
    one_of("cov_type", cov_type, COV_TYPES)
    release = dp_release(
        formula,
        data,
        mu,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        budget=budget,
        partition=partition,
        calibration=calibration,
        estimator=estimator,
        missing=missing,
        neighbours=neighbours,
        ledger=ledger,
        rng=rng,
        constants=constants,
    )
    return release.ols(estimator=estimator, cov_type=cov_type)


def dp_release(
    formula: str,
    data: Any,
    mu: float | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    bounds: Any = None,
    budget: Any = None,
    partition: Any = "privtree",
    calibration: str = "joint",
    estimator: str = "refined",
    missing: str = "drop",
    neighbours: str = "add-remove",
    ledger: Any = None,
    rng: Any = None,
    constants: Mapping[str, float] | None = None,
) -> Release:
    """Release private statistics for a regression, without fitting it.

    Takes the arguments of `dp_ols` up to estimation; `estimator` only decides
    which components the default budget pays for.

    Returns
    -------
    Release
        From which ``release.ols()`` fits the model, or a smaller one.
    """
    settings = Settings.from_arguments(
        mu=mu,
        epsilon=epsilon,
        delta=delta,
        bounds=bounds,
        budget=budget,
        partition=partition,
        calibration=calibration,
        missing=missing,
        neighbours=neighbours,
        estimator=estimator,
    )
    declared = declared_domain(settings.domain, data)
    design = build_design(formula, declared, check_constants(constants))
    check_scale(design)
    allocation = allocate(settings, design)
    check_ledger(ledger)
    charge = (
        nullcontext()
        if ledger is None
        else ledger.charging(settings.mu, formula=formula, purpose="release")
    )
    with charge as entry:
        curator = Curator(data, design, settings.missing, rng)
        if entry is not None:
            entry.releasing()
        return conduct(curator, design, allocation, settings)


def declared_domain(domain: Domain, data: Any) -> Domain:
    """The caller's domain, and the levels that the table's dtypes declare."""
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        return domain
    schema: dict[str, object] = {}
    for place, name in enumerate(data.columns):
        if isinstance(name, str) and name not in domain:
            # A category that cannot be declared matters only if the formula uses it.
            with suppress(DomainError):
                schema.update(Domain.from_frame(data.iloc[:0, [place]]))
    return Domain({**schema, **domain})


def allocate(settings: Settings, design: Design) -> Allocation:
    """Split the total mu over the components that this release needs."""
    budget = settings.budget
    if settings.partition != "privtree":
        budget = budget.without("partition")
    if not range_variables(design) and budget.ranges:
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
    allocation = budget.split(per_record_mu(settings.mu, settings.neighbours))  # type: ignore[arg-type]
    for name, part in allocation.as_dict().items():
        if part and not LEAST_MU <= part <= LARGEST_MU:
            raise BudgetError(
                f"mu and budget leave the component {name!r} a mu outside {LEAST_MU:g} to "
                f"{LARGEST_MU:g}; choose another mu, or give the component another share"
            )
    return allocation


def range_variables(design: Design) -> tuple[str, ...]:
    """Numeric variables for which a working range may be found privately."""
    names = dict.fromkeys((*design.variables, *design.response_variables))
    return tuple(
        name
        for name in names
        if isinstance(variable := design.domain[name], Numeric) and not _few_values(variable)
    )


def _few_values(variable: Numeric | Categorical) -> bool:
    return (
        isinstance(variable, Numeric)
        and variable.integer
        and variable.bounded
        and variable.upper - variable.lower <= 8
    )


def conduct(
    curator: Curator, design: Design, allocation: Allocation, settings: Settings
) -> Release:
    """Ask the curator for each component in turn and put the release together."""
    declared = design.domain
    total = None
    if allocation.ranges:
        working, total = curator.ranges(design, range_variables(design), allocation.ranges)
        design = design.with_domain(working)
    partition = make_partition(curator, design, allocation, settings, total)
    parts: list[Noisy] = []
    if allocation.count:
        parts.append(curator.bins(design, partition, allocation, settings.calibration))
    if allocation.moments:
        parts.append(curator.moments(design, allocation.moments))
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
    return refine(curator, release, settings) if allocation.scores else release


def privacy_of(curator: Curator, settings: Settings) -> Privacy:
    """What the curator has released so far, under the caller's neighbouring relation."""
    factor = settings.mu / per_record_mu(settings.mu, settings.neighbours)  # type: ignore[arg-type]
    mechanisms = tuple(Mechanism(m.name, factor * m.mu, m.law) for m in curator.mechanisms)
    return Privacy(mechanisms, settings.neighbours, curator.secure, settings.mu)


def refine(curator: Curator, release: Release, settings: Settings) -> Release:
    """Rounds of residual scores: the analyst asks, the curator answers.

    The requests are functions of what was released before, hence public.
    """
    moments = released_moments(release)
    assert moments is not None
    state = start(moments)
    answers, scales = [], []
    for mu in round_mus(release.allocation.scores):
        request = plan_round(state, mu)
        answer = curator.scores(release.design, request, mu)
        state = update(state, request, answer, mu)
        answers.append(asdict(answer))
        scales.append(asdict(request.noise_scales(mu)))
    return replace(
        release,
        privacy=privacy_of(curator, settings),
        statistics={**release.statistics, "scores": answers},
        noise_scales={**release.noise_scales, "scores": scales},
    )


def make_partition(
    curator: Curator,
    design: Design,
    allocation: Allocation,
    settings: Settings,
    total: float | None,
) -> Partition:
    """The partition the caller asked for, over the working domain."""
    partition = settings.partition
    domain = design.domain.subset(design.variables)
    if isinstance(partition, Partition):
        if partition.domain != domain:
            raise DomainError(
                "partition must cut exactly the variables of the formula's right side, with the "
                "same bounds and levels as the domain; give those bounds and switch ranges off"
            )
        return partition
    if partition == "grid":
        return Partition.grid(domain, GRID_BINS)
    if settings.calibration == "paper":
        return curator.partition(design, allocation.partition, 0.0, MAX_DEPTH)
    mu_tree = allocation.partition
    if total is None:
        mu_tree *= math.sqrt(1.0 - TOTAL_SHARE) * (1.0 - 2.0**-50)
        total = curator.total(math.sqrt(TOTAL_SHARE) * allocation.partition)
    return curator.partition(design, mu_tree, split_threshold(total, allocation), MAX_DEPTH)


def split_threshold(total: float, allocation: Allocation) -> float:
    """Smallest noisy count worth a split.

    A bin should hold more records than the noise on its count, and the number
    of bins should not grow faster than the root of the number of records.
    """
    floor = 2.0 / allocation.count if allocation.count else 0.0
    return max(floor, math.sqrt(max(total, 1.0)) / 2.0)
