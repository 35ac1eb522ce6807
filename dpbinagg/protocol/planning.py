"""What a release would give: standard errors to expect, before any budget is spent.

A plan runs the release itself, question by question, on made-up records: what it foresees cannot
depart from what the estimator does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg.analyst.fit import FALLBACK, Estimates
from dpbinagg.analyst.ols.coordinates import UNSEEN
from dpbinagg.analyst.types import Estimate
from dpbinagg.errors import DataError, DomainError, DPBinAggWarning
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.union import union_design
from dpbinagg.inputs import Data
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.questions import Engine, Sum
from dpbinagg.kernel.view import Sums
from dpbinagg.protocol.assumed import Assumed, AssumedStudy
from dpbinagg.protocol.conduct import conduct, open_table
from dpbinagg.protocol.settings import (
    Settings,
    allocate,
    named_formulas,
    named_variables,
    total_mu,
)
from dpbinagg.public.arguments import closest, refuse_unknown
from dpbinagg.release.questions import MARGINS
from dpbinagg.report import tables
from dpbinagg.report.verbs import Release

LARGEST_SIMULATION = 20_000
"""Records that are made up at most; where there are more, each stands for several."""
MOSTLY = 0.5
"""Share of simulated releases that must identify a term for a standard error to be shown."""
DETECTED = 2.8
"""Standard errors of a coefficient that a test at 5% finds with power 80%."""
OPTIONS = ("budget", "partition", "calibration", "missing", "neighbours", "estimator")
"""What a plan takes as `dp_ols` does."""


@dataclass(frozen=True)
class Plan:
    """Standard errors to expect.

    Attributes
    ----------
    frame : pandas.DataFrame
        By term, of a study by model and term: ``se`` (private), ``se_ols``
        (HC1 of ordinary least squares on the same records), ``ratio`` of the
        two, ``detectable``, the smallest coefficient found with 80% power at the 5% level, and
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
                rows.append([_shown(term), "not identified", shown[1], "", ""])
            else:
                rows.append([_shown(term), *shown[:2], f"{ratio:.2f}", shown[2]])
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
            which = "no term" if len(lost) == len(shares) else ", ".join(map(_shown, lost))
            verb = "is identified" if len(lost) == len(shares) else "will not be identified"
            notes.append(
                f"CAUTION: {which} {verb}. The noise is too large for this n and mu: more records, "
                "a larger mu, or fewer columns help."
            )
        if len(doubtful):
            times = [
                f"{_shown(term)} ({share * self.replicates:.0f})"
                for term, share in doubtful.items()
            ]
            notes.append(
                f"Identified in some of {self.replicates} simulated releases only: "
                f"{', '.join(times)}."
            )
        return notes


def plan(
    formula: str | Mapping[str, str] | Sequence[str],
    n: int,
    mu: float | None = None,
    bounds: Any = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    sd: float | Mapping[str, float] | None = None,
    coefficients: Mapping[str, Any] | None = None,
    example: Data | None = None,
    variables: Sequence[str] = (),
    replicates: int = 16,
    rng: np.random.Generator | int = 0,
    constants: Mapping[str, float] | None = None,
    **options: Any,
) -> Plan:
    """Expected standard errors of `dp_ols` or `dp_study`, from public facts alone.

    Simulates the release on made-up records that fit the bounds.

    Parameters
    ----------
    formula : str, or mapping or list of str
        Several formulas are a study: all models from one release with this mu. What two more
        models cost is the plan with them beside the plan without them.
    n : int
        About how many records there are.
    mu, epsilon, delta : float
        Privacy, as in `dp_ols`.
    bounds : mapping or Domain
        Public bounds and levels of all variables.
    sd : float, optional
        Standard deviation of the error, on the scale of the formula's left
        side; by default that of the example where it has the response, else an
        eighth of the response's range. Of a study, by the name of the model.
    coefficients : mapping, optional
        Guessed coefficients by term, in a study by the name of the model
        first; by default those of the example where it has the response, else
        zero.
    example : table or path, optional
        PUBLIC records (an earlier survey, a synthetic table), in any form that
        `dp_ols` takes; they are drawn instead of uniform ones. Where they have
        the response too, errors are drawn from its residuals: money, counts
        and shares err differently from the normal law.
    variables : list of str, optional
        Further variables of a study.
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
    >>> from dpbinagg import plan
    >>> found = plan("y ~ x", n=2000, mu=1, bounds={"x": (0, 1), "y": (0, 10)})
    >>> list(found.frame.columns)
    ['se', 'se_ols', 'ratio', 'detectable', 'identified']

    What does a second model cost?

    >>> both = {"y": "y ~ x", "z": "z ~ x"}
    >>> bounds = {"x": (0, 1), "y": (0, 10), "z": (0, 10)}
    >>> one, two = plan({"y": "y ~ x"}, 2000, 1, bounds), plan(both, 2000, 1, bounds)
    >>> bool(two.frame["se"]["y", "x"] < 1.2 * one.frame["se"]["y", "x"])
    True
    """
    refuse_unknown("plan", options, [*list(signature(plan).parameters)[:-1], *OPTIONS])
    total = total_mu(mu, epsilon, delta)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise DataError(f"n must be a whole number of at least 2, got {n!r}")
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 1:
        raise DataError(f"replicates must be a whole number of at least 1, got {replicates!r}")
    named = None if isinstance(formula, str) else named_formulas(formula, example)
    wanted = named_variables(variables)
    if wanted and named is None:
        raise DataError("variables belongs to a study: pass formulas by name")
    settings = Settings.from_arguments(
        mu=total, bounds=bounds, models=len(named or [formula]), **options
    )
    domain, models = settings.domain, None
    if named is None:
        design = build_design(str(formula), domain, constants)
    else:
        models = {name: build_design(one, domain, constants) for name, one in named.items()}
        design = union_design(list(named.values()), wanted, domain, constants)
    if design.unbounded:
        raise DomainError(
            f"plan needs bounds of {', '.join(design.unbounded)}; give a guess of where the "
            "values will lie"
        )
    assumed: Assumed | AssumedStudy
    if models is None:
        assumed = Assumed.of(design, sd, coefficients, example)  # type: ignore[arg-type]
    else:
        guesses = _by_model("sd", sd, models), _by_model("coefficients", coefficients, models)
        assumed = AssumedStudy.of(design, models, *guesses, example)
    generator = np.random.default_rng(rng)
    times = math.ceil(n / LARGEST_SIMULATION)
    private, ordinary, known = [], [], []
    for _ in range(replicates):
        records, own = assumed.draw(round(n / times), generator)
        release = _released(records, times, design, settings, generator, models)
        best = [_best(release, name) for name in models or [None]]
        known += [np.concatenate([_identified(one) for one in best])]
        private += [np.concatenate([one.bse for one in best])]
        wholes = [own[one.formula] for one in ([design] if models is None else models.values())]
        ordinary += [np.concatenate(wholes) / math.sqrt(times)]
    frame = pd.DataFrame(
        {"se": np.median(private, axis=0), "se_ols": np.median(ordinary, axis=0)},
        index=_terms(design, models),
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


def _by_model(argument: str, given: Any, models: Mapping[str, Design]) -> Mapping[str, Any]:
    """Guesses by the name of the model."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise DataError(
            f"{argument} of a study must be a mapping by the name of the model, got "
            f"{type(given).__name__}"
        )
    unknown = [name for name in given if name not in models]
    if unknown:
        raise DataError(f"{argument}: {unknown[0]!r} is no model; {closest(unknown[0], models)}")
    return given


def _best(release: Release, name: str | None) -> Estimate:
    """The best estimate of the release's own model or of a declared one."""
    told = release.told_of(name)
    found = Estimates(told, told.steps)
    return next(found[one] for one in FALLBACK if one in found)


def _identified(estimate: Estimate) -> Any:
    terms = estimate.identified_terms
    return np.ones(estimate.params.size, dtype=bool) if terms is None else terms


def _terms(design: Design, models: Mapping[str, Design] | None) -> pd.Index[Any]:
    """Terms, of a study by model."""
    if models is None:
        return pd.Index(design.column_names, name="term")
    pairs = [(name, term) for name, one in models.items() for term in one.column_names]
    return pd.MultiIndex.from_tuples(pairs, names=["model", "term"])


def _shown(term: Any) -> str:
    return term if isinstance(term, str) else f"{term[0]}: {term[1]}"


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
    models: Mapping[str, Design] | None,
) -> Release:
    """The release of records that stand so many times each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPBinAggWarning)
        engine = Repeated(open_table(records, design, settings.missing), times)
        return conduct(Curator(engine, rng), design, allocate(settings, design), settings, models)


def records_of_level(release: Release) -> int:
    """How many records a level needs to be told from an empty one; 0 where nothing was counted.

    Twice the threshold: half of the levels that are just at it fall below.
    """
    spent = next((m.mu for m in release.privacy.mechanisms if m.name == MARGINS), 0.0)
    groups = len(release.transcript[0].question.groups)
    return math.ceil(2.0 * UNSEEN * math.sqrt(groups) / spent) if spent else 0
