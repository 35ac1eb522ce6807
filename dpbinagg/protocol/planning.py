"""What a release would give: standard errors to expect, before any budget is spent."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbinagg.accounting.privacy import Privacy
from dpbinagg.analyst.estimators import FALLBACK
from dpbinagg.analyst.ols.margins import UNSEEN
from dpbinagg.api import dp_release
from dpbinagg.errors import DataError, DomainError, DPBinAggError, DPBinAggWarning
from dpbinagg.formula import Design, build_design
from dpbinagg.protocol.settings import total_mu
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.public.rows import column_of, rows_of, spread_rows
from dpbinagg.release.questions import MARGINS
from dpbinagg.report import tables

LARGEST_SIMULATION = 20_000
MOSTLY = 0.5
"""Share of simulated releases that must identify a term for a standard error to be shown."""
RANGE_IN_SDS = 8.0
"""Width of the response's bounds in standard deviations of the error, if none is given."""


@dataclass(frozen=True)
class Plan:
    """Standard errors to expect.

    Attributes
    ----------
    frame : pandas.DataFrame
        By term: ``se`` (private), ``se_ols`` (what ordinary least squares
        would have on the same records), ``ratio`` of the two, and
        ``detectable``, the smallest coefficient found with 80% power at the
        5% level, and ``identified``, the share of simulated releases that
        identify the term. Where it is under half, there is no standard error.
    n, mu, sd : float
        Number of records, privacy and standard deviation of the error.
    assumptions : str
        What was assumed of the data.
    """

    frame: pd.DataFrame
    n: int
    mu: float
    sd: float
    assumptions: str

    def __str__(self) -> str:
        return "\n".join([self.table(), "", *tables.wrapped(self.assumptions, tables.WIDTH)])

    __repr__ = __str__

    def table(self) -> str:
        """The standard errors as text, without the assumptions."""
        rows = []
        for term, error, ordinary, ratio, least, _ in self.frame.itertuples():
            shown = [tables.number(x, tables.decimals_for(x)) for x in (error, ordinary, least)]
            if np.isnan(error):
                rows.append([term, "not identified", shown[1], "", ""])
            else:
                rows.append([term, *shown[:2], f"{ratio:.2f}", shown[2]])
        title = f"Expected for n = {self.n:,} and mu = {self.mu:g}"
        return tables.plain(["", "std err", "ordinary", "ratio", "detectable"], rows, title)


def plan(
    formula: str,
    n: int,
    mu: float | None = None,
    bounds: Any = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sd: float | None = None,
    coefficients: Mapping[str, float] | None = None,
    example: pd.DataFrame | None = None,
    replicates: int = 8,
    rng: np.random.Generator | int = 0,
    **options: Any,
) -> Plan:
    """Expected standard errors of `dp_ols`, from public facts alone.

    Simulates the release on made-up records that fit the bounds.

    Parameters
    ----------
    formula : str
    n : int
        About how many records there are.
    mu, epsilon, delta : float
        Privacy, as in `dp_ols`.
    bounds : mapping or Domain
        Public bounds and levels of all variables.
    sd : float, optional
        Standard deviation of the error, on the scale of the formula's left
        side; an eighth of the response's range by default.
    coefficients : mapping, optional
        Guessed coefficients by term; zero by default.
    example : DataFrame, optional
        PUBLIC records (an earlier survey, a synthetic table) whose covariates
        are drawn instead of uniform ones.
    replicates : int
        Number of simulated releases.
    rng : seed or Generator
    **options
        Further arguments of `dp_ols`, such as `budget`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from dpbinagg.protocol.planning import plan
    >>> found = plan("y ~ x", n=2000, mu=1, bounds={"x": (0, 1), "y": (0, 10)})
    >>> list(found.frame.columns)
    ['se', 'se_ols', 'ratio', 'detectable', 'identified']
    """
    total = total_mu(mu, epsilon, delta)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise DataError(f"n must be a whole number of at least 2, got {n!r}")
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise DataError(f"replicates must be a whole number of at least 1, got {replicates!r}")
    domain = bounds if isinstance(bounds, Domain) else Domain(bounds)
    design = build_design(formula, domain)
    if design.unbounded:
        raise DomainError(
            f"plan needs bounds of {', '.join(design.unbounded)}; give a guess of where the "
            "values will lie"
        )
    low, high = design.response_bounds()
    error = (high - low) / RANGE_IN_SDS if sd is None else float(sd)
    if not error > 0.0:
        raise DataError("sd must be a number above 0")
    _require_columns(example, design)
    beta = _coefficients(design, coefficients)
    generator = np.random.default_rng(rng)
    size = min(int(n), LARGEST_SIMULATION)
    stretch = math.sqrt(n / size)
    private, ordinary, known = [], [], []
    for _ in range(replicates):
        records, columns = _simulate(design, size, beta, error, example, generator)
        # Privacy noise relative to sampling error depends on mu sqrt(n) alone.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPBinAggWarning)
            release = dp_release(
                formula,
                records,
                total * stretch,
                bounds=design.domain,
                rng=generator,
                **options,
            )
        found = release.estimates()
        best = next(found[name] for name in FALLBACK if name in found)
        terms = best.identified_terms
        known.append(np.ones(len(beta), dtype=bool) if terms is None else terms)
        private.append(best.bse / stretch)
        bread = np.linalg.pinv(columns.T @ columns)
        ordinary.append(error * np.sqrt(np.diag(bread)) / stretch)
    frame = pd.DataFrame(
        {"se": np.median(private, axis=0), "se_ols": np.median(ordinary, axis=0)},
        index=pd.Index(design.column_names, name="term"),
    )
    shares = np.mean(known, axis=0)
    frame.loc[shares < MOSTLY, "se"] = np.nan
    frame["ratio"] = frame["se"] / frame["se_ols"]
    frame["detectable"] = 2.8 * frame["se"]
    frame["identified"] = shares
    text = _assumptions(error, sd, coefficients, example)
    if risk := _rare_levels(design, release.privacy, len(release.transcript[0].question.groups)):
        text = f"{text} {risk}"
    return Plan(frame, int(n), total, error, text)


def _rare_levels(design: Design, privacy: Privacy, groups: int) -> str:
    """How many records a level needs; which levels are rare is not public."""
    factors = [n for n in design.variables if isinstance(design.domain[n], Categorical)]
    spent = next((m.mu for m in privacy.mechanisms if m.name == MARGINS), 0.0)
    if not factors or not spent:
        return ""
    needed = math.ceil(2.0 * UNSEEN * math.sqrt(groups) / spent)
    return (
        f"A level of {', '.join(factors)} with fewer than about {needed} records will often not be "
        "identified; which levels are rare is not public, so nothing here can tell."
    )


def _require_columns(example: pd.DataFrame | None, design: Design) -> None:
    lacking = [] if example is None else [v for v in design.variables if v not in example]
    if lacking:
        raise DataError(
            f"example has no column {lacking[0]!r}, which the formula uses; it needs "
            f"{', '.join(design.variables)}"
        )


def _coefficients(design: Design, given: Mapping[str, float] | None) -> NDArray[np.float64]:
    beta = np.zeros(len(design.column_names))
    for name, value in (given or {}).items():
        if name not in design.column_names:
            raise DPBinAggError(
                f"coefficients names {name!r}, which is no term of the formula; its terms are "
                f"{', '.join(design.column_names)}"
            )
        beta[design.column_names.index(name)] = value
    low, high = design.response_bounds()
    if design.intercept is not None and design.column_names[design.intercept] not in (given or {}):
        beta[design.intercept] = (low + high) / 2.0
    return beta


def _simulate(
    design: Design,
    n: int,
    beta: NDArray[np.float64],
    sd: float,
    example: pd.DataFrame | None,
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, NDArray[np.float64]]:
    """Made-up records and their design columns."""
    domain = design.domain.subset(design.variables)
    if example is None:
        rows = spread_rows(domain, n, rng)
        frame = pd.DataFrame(
            {name: column_of(values, domain[name]) for name, values in rows.items()},
            index=range(n),
        )
    else:
        drawn = rng.integers(0, len(example), n)
        frame = example[list(domain)].iloc[drawn].reset_index(drop=True)
        rows = rows_of(frame, domain)
    columns = design.columns(rows)
    complete = np.flatnonzero(np.isfinite(columns).all(axis=1))
    frame = frame.iloc[complete].reset_index(drop=True)
    columns = columns[complete]
    low, high = design.response_bounds()
    response = np.clip(columns @ beta + sd * rng.normal(size=len(columns)), low, high)
    inverse = design.invert_response(response)
    if inverse is None:
        raise DPBinAggError(
            f"plan cannot invert the response {design.response_name!r}; plan for the raw variable"
        )
    name, values = inverse
    frame[name] = values
    return frame, columns


def _assumptions(
    error: float,
    sd: float | None,
    coefficients: Mapping[str, float] | None,
    example: pd.DataFrame | None,
) -> str:
    covariates = "spread evenly over their bounds" if example is None else "as in the example"
    source = "an eighth of the response's range" if sd is None else "as given"
    slopes = "zero" if not coefficients else "as given"
    return (
        f"Assumed: covariates {covariates}; normal errors with standard deviation {error:.4g} "
        f"({source}); slopes {slopes}. Narrower covariates mean larger standard errors."
    )
