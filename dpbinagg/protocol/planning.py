"""What a release would give: standard errors to expect, before any budget is spent.

A plan runs the release itself, question by question, on made-up records: what it foresees cannot
depart from what the estimator does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg.analyst.estimators import FALLBACK
from dpbinagg.analyst.ols.margins import UNSEEN
from dpbinagg.errors import DataError, DomainError, DPBinAggWarning
from dpbinagg.formula import Design, build_design
from dpbinagg.inputs import Data
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.questions import Engine, Sum
from dpbinagg.kernel.view import Sums
from dpbinagg.protocol.assumed import Assumed
from dpbinagg.protocol.conduct import conduct, open_table
from dpbinagg.protocol.settings import Settings, allocate, total_mu
from dpbinagg.public.arguments import refuse_unknown
from dpbinagg.release.questions import MARGINS
from dpbinagg.report import tables
from dpbinagg.report.verbs import Release

LARGEST_SIMULATION = 20_000
"""Records that are made up at most; where there are more, each stands for several."""
MOSTLY = 0.5
"""Share of simulated releases that must identify a term for a standard error to be shown."""
DETECTED = 2.8
"""Standard errors of a coefficient that a test at 5% finds with power 80%."""
USUAL: Mapping[str, Any] = {
    "budget": None,
    "partition": "privtree",
    "calibration": "joint",
    "missing": "drop",
    "neighbours": "add-remove",
    "estimator": "refined",
}
"""What `dp_ols` takes where it is not told."""


@dataclass(frozen=True)
class Plan:
    """Standard errors to expect.

    Attributes
    ----------
    frame : pandas.DataFrame
        By term: ``se`` (private), ``se_ols`` (HC1 of ordinary least squares
        on the same records), ``ratio`` of the two, ``detectable``, the
        smallest coefficient found with 80% power at the 5% level, and
        ``identified``, the share of simulated releases that identify the
        term. Where it is under half, there is no standard error.
    n, mu, sd : float
        Number of records, privacy and standard deviation of the error.
    assumptions : str
        What was assumed of the data.
    replicates : int
        Number of simulated releases.
    """

    frame: pd.DataFrame
    n: int
    mu: float
    sd: float
    assumptions: str
    replicates: int = 1

    def __str__(self) -> str:
        return "\n".join([self.table(), "", *tables.wrapped(self.assumptions, tables.WIDTH)])

    __repr__ = __str__

    def table(self) -> str:
        """The standard errors as text, and what will not be identified, without assumptions."""
        rows = []
        for term, error, ordinary, ratio, least, _ in self.frame.itertuples():
            shown = [tables.number(x, tables.decimals_for(x)) for x in (error, ordinary, least)]
            if np.isnan(error):
                rows.append([term, "not identified", shown[1], "", ""])
            else:
                rows.append([term, *shown[:2], f"{ratio:.2f}", shown[2]])
        title = f"Expected for n = {self.n:,} and mu = {self.mu:g}"
        table = tables.plain(["", "std err", "ordinary", "ratio", "detectable"], rows, title)
        notes = [line for note in self.notes() for line in tables.wrapped(note, tables.WIDTH)]
        return "\n".join([table, *notes])

    def notes(self) -> list[str]:
        """Which terms will not be identified, and which perhaps."""
        shares = self.frame["identified"]
        lost, doubtful = shares.index[shares < MOSTLY], shares[(shares >= MOSTLY) & (shares < 1.0)]
        notes = []
        if len(lost):
            which = "no term" if len(lost) == len(shares) else ", ".join(lost)
            verb = "is identified" if len(lost) == len(shares) else "will not be identified"
            notes.append(
                f"CAUTION: {which} {verb}. The noise is too large for this n and mu: more records, "
                "a larger mu, or fewer columns help."
            )
        if len(doubtful):
            times = [f"{term} ({share * self.replicates:.0f})" for term, share in doubtful.items()]
            notes.append(
                f"Identified in some of {self.replicates} simulated releases only: "
                f"{', '.join(times)}."
            )
        return notes


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
    example: Data | None = None,
    replicates: int = 16,
    rng: np.random.Generator | int = 0,
    constants: Mapping[str, float] | None = None,
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
        side; by default that of the example where it has the response, else an
        eighth of the response's range.
    coefficients : mapping, optional
        Guessed coefficients by term; by default those of the example where it
        has the response, else zero.
    example : table or path, optional
        PUBLIC records (an earlier survey, a synthetic table), in any form that
        `dp_ols` takes; they are drawn instead of uniform ones. Where they have
        the response too, errors are drawn from its residuals: money, counts
        and shares err differently from the normal law.
    replicates : int
        Number of simulated releases.
    rng : seed or Generator
    constants : mapping
        Numbers that the formula uses by name.
    **options
        Further arguments of `dp_release`, such as `budget`.

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
    refuse_unknown("plan", options, ["formula", *USUAL])
    settings = Settings.from_arguments(
        mu=total, epsilon=None, delta=None, bounds=bounds, **{**USUAL, **options}
    )
    design = build_design(formula, settings.domain, constants)
    if design.unbounded:
        raise DomainError(
            f"plan needs bounds of {', '.join(design.unbounded)}; give a guess of where the "
            "values will lie"
        )
    assumed = Assumed.of(design, sd, coefficients, example)
    generator = np.random.default_rng(rng)
    times = math.ceil(n / LARGEST_SIMULATION)
    private, ordinary, known = [], [], []
    for _ in range(replicates):
        records, own = assumed.draw(round(n / times), generator)
        release = _released(records, times, design, settings, generator)
        found = release.estimates()
        best = next(found[name] for name in FALLBACK if name in found)
        terms = best.identified_terms
        known.append(np.ones(len(own), dtype=bool) if terms is None else terms)
        private.append(best.bse)
        ordinary.append(own / math.sqrt(times))
    frame = pd.DataFrame(
        {"se": np.median(private, axis=0), "se_ols": np.median(ordinary, axis=0)},
        index=pd.Index(design.column_names, name="term"),
    )
    shares = np.mean(known, axis=0)
    frame.loc[shares < MOSTLY, "se"] = np.nan
    frame["ratio"] = frame["se"] / frame["se_ols"]
    frame["detectable"] = DETECTED * frame["se"]
    frame["identified"] = shares
    text = assumed.words(sd, coefficients)
    if (needed := records_of_level(release)) and (risk := assumed.risk(int(n), needed)):
        text = f"{text} {risk}"
    return Plan(frame, int(n), total, assumed.sd, text, replicates)


@dataclass(frozen=True, slots=True)
class Repeated:
    """The engine of a table that has each record of another engine's so many times."""

    engine: Engine
    times: int

    def map_reduce(self, task: Sum) -> list[Sums]:
        """Exact sums, so many times."""
        return [sums.astype(object) * self.times for sums in self.engine.map_reduce(task)]


def _released(
    records: pd.DataFrame,
    times: int,
    design: Design,
    settings: Settings,
    rng: np.random.Generator,
) -> Release:
    """The release of records that stand so many times each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPBinAggWarning)
        engine = Repeated(open_table(records, design, settings.missing), times)
        return conduct(Curator(engine, rng), design, allocate(settings, design), settings)


def records_of_level(release: Release) -> int:
    """How many records a level needs to be told from an empty one; 0 where nothing was counted.

    Twice the threshold: half of the levels that are just at it fall below.
    """
    spent = next((m.mu for m in release.privacy.mechanisms if m.name == MARGINS), 0.0)
    groups = len(release.transcript[0].question.groups)
    return math.ceil(2.0 * UNSEEN * math.sqrt(groups) / spent) if spent else 0
