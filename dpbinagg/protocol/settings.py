"""What a caller may ask for, checked and divided before anything is charged.

Columns whose meaning nobody has declared are refused by the schema, with the remedy.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_args

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import Allocation, Budget, Neighbours, per_record_mu
from dpbinagg.accounting.gdp import as_number
from dpbinagg.accounting.ledger import Ledger
from dpbinagg.analyst.fit import OFFERED
from dpbinagg.errors import (
    ArgumentError,
    BudgetError,
    DomainError,
    DPBinAggError,
    FormulaError,
)
from dpbinagg.formula import Design
from dpbinagg.formula.describe import undeclared_names
from dpbinagg.inputs import Calibration, Missing, PartitionKind
from dpbinagg.protocol.ranges import needs_range
from dpbinagg.public.domain import Domain, Numeric
from dpbinagg.public.partition import Partition
from dpbinagg.reading.columns import ColumnType
from dpbinagg.reading.source import Source

PARTITIONS = get_args(PartitionKind)
CALIBRATIONS = get_args(Calibration)
MISSING = get_args(Missing)
NEIGHBOURS = get_args(Neighbours)
SYNONYMS = {
    **dict.fromkeys(("substitute", "substitution", "bounded", "change-one", "swap"), "replace"),
    **dict.fromkeys(("unbounded", "add_remove", "add/remove", "addremove", "remove"), "add-remove"),
    **dict.fromkeys(("omit", "na.omit", "exclude", "ignore", "listwise"), "drop"),
    **dict.fromkeys(("fail", "na.fail", "error"), "raise"),
    **dict.fromkeys(("kd", "kdtree", "tree", "quadtree"), "privtree"),
    **dict.fromkeys(("uniform", "regular", "equal"), "grid"),
    **dict.fromkeys(("published", "original", "binagg"), "paper"),
    **dict.fromkeys(("best", "default", "auto"), "refined"),
}
"""Words of other packages and papers, and what they are called here."""
SWAPPED = (
    "formula must be a text and data a table, but they were passed the other way round; write "
    "dp_ols(formula, data, mu=1), and dp_study(formulas, data, mu=1)"
)
LEAST_MU = 2.0**-16
LARGEST_MU = 2.0**24
"""Beyond it the margin of the mechanism would not cover its discrete noise."""
LARGEST = 1e150
"""Bounds beyond this, or closer to each other than its inverse, leave no room for arithmetic."""


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Check an argument that takes one of a few words."""
    if not isinstance(value, str) or value not in allowed:
        got = repr(value) if isinstance(value, str) else type(value).__name__
        words = ", ".join(repr(word) for word in allowed)
        raise DPBinAggError(f"{name} must be one of {words}, got {got}{_meant(value, allowed)}")
    return value


def _meant(value: object, allowed: tuple[str, ...]) -> str:
    """The word that somebody who passed `value` may have meant."""
    word = str(value).lower() if isinstance(value, str) else ""
    if SYNONYMS.get(word) in allowed:
        return f"; {value!r} is called {SYNONYMS[word]!r} here"
    near = get_close_matches(word, allowed, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def named_formulas(formulas: object, data: object) -> dict[str, str]:
    """The models of a study by name; `data` tells whether the two were mixed up."""
    if isinstance(formulas, str):
        formulas = [formulas]
    if isinstance(formulas, Mapping):
        named = dict(formulas)
    elif isinstance(formulas, Sequence):
        named = {f"({k})": formula for k, formula in enumerate(formulas, start=1)}
    elif isinstance(data, Mapping | list | tuple) or (isinstance(data, str) and "~" in data):
        raise ArgumentError(SWAPPED)
    else:
        named = {}
    if not named:
        raise FormulaError(
            'formulas must be models by name, {"wage": "wage ~ educ"}, or a list of them, got '
            + ("none" if isinstance(formulas, Mapping | Sequence) else type(formulas).__name__)
        )
    for name, formula in named.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(formula, str):
            raise FormulaError(
                f"formulas must have texts as names and models, got {type(name).__name__} and "
                f"{type(formula).__name__}"
            )
    return named


def named_variables(variables: object) -> list[str]:
    """The further variables of a study."""
    if isinstance(variables, str):
        variables = [variables]
    if not isinstance(variables, Sequence) or not all(isinstance(v, str) for v in variables):
        raise FormulaError(
            f'variables must be a list of names, ["age", "region"], got {type(variables).__name__}'
        )
    return [*dict.fromkeys(variables)]


def total_mu(mu: object, epsilon: object, delta: object) -> float:
    """The total mu, given as such or by epsilon and delta."""
    if mu is None and epsilon is None and delta is None:
        raise BudgetError("give the privacy of the release: mu=1.0, or epsilon= and delta=")
    if mu is not None and (epsilon is not None or delta is not None):
        raise BudgetError("give either mu= or epsilon= and delta=, not both")
    if mu is None:
        if epsilon is None or delta is None:
            raise BudgetError("epsilon= and delta= belong together; give both, or mu= instead")
        return gdp.mu(epsilon, delta)  # type: ignore[arg-type]
    return as_number(mu, "mu", "positive")


@dataclass(frozen=True)
class Settings:
    """The public arguments of a release, validated.

    Attributes
    ----------
    mu, domain, budget, partition, calibration, missing, neighbours
        As in `dp_ols`.
    per_record : float
        The mu per record added or removed that `mu` against these `neighbours` leaves.
    """

    mu: float
    domain: Domain
    budget: Budget
    partition: str | Partition
    calibration: str
    missing: str
    neighbours: Neighbours
    per_record: float

    @classmethod
    def from_arguments(
        cls,
        *,
        mu: Any,
        epsilon: Any = None,
        delta: Any = None,
        bounds: Any = None,
        budget: Any = None,
        partition: Any = "privtree",
        calibration: Any = "joint",
        missing: Any = "drop",
        neighbours: Any = "add-remove",
        estimator: str = "refined",
        models: int = 1,
    ) -> Settings:
        """Validate what a caller passed; the default budget depends on the number of models."""
        if not isinstance(partition, Partition):
            one_of("partition", partition, PARTITIONS)
        one_of("calibration", calibration, CALIBRATIONS)
        one_of("missing", missing, MISSING)
        one_of("neighbours", neighbours, NEIGHBOURS)
        one_of("estimator", estimator, OFFERED)
        if budget is None and calibration == "paper":
            budget = Budget.paper()
        elif budget is None:
            # The package's split, less the components that the estimator does not use.
            budget = Budget.of_study(models)
            if estimator != "refined":
                unused = ("scores",) if estimator == "combined" else ("moments", "scores")
                budget = budget.without(*unused)
        if not isinstance(budget, Budget):
            raise BudgetError(
                f"budget must be a Budget, got {type(budget).__name__}; "
                "write Budget(partition=1, count=3, sum_x=3, sum_y=3)"
            )
        if calibration == "paper" and (budget.moments or budget.scores):
            budget = budget.without("moments", "scores")
        domain = bounds if isinstance(bounds, Domain) else Domain(bounds)
        total = total_mu(mu, epsilon, delta)
        return cls(
            total,
            domain,
            budget,
            partition,
            calibration,
            missing,
            neighbours,
            per_record_mu(total, neighbours),
        )


def check_kinds(formula: object, data: object, constants: object, ledger: object) -> None:
    """Check of what kind the other arguments are."""
    if not isinstance(formula, str) and isinstance(data, str) and "~" in data:
        raise ArgumentError(SWAPPED)
    if constants is not None and not isinstance(constants, Mapping):
        raise FormulaError(
            f"constants must be a mapping from names to numbers, got {type(constants).__name__}; "
            'write constants={"k": 2.5}'
        )
    if ledger is not None and not isinstance(ledger, Ledger):
        raise BudgetError(
            f"ledger must be a Ledger, got {type(ledger).__name__}; "
            'write ledger=Ledger("survey.db", mu=2.0)'
        )


def check_scale(design: Design) -> None:
    """Refuse bounds with which the arithmetic of a release would leave the floats."""
    for name, variable in design.domain.items():
        if isinstance(variable, Numeric) and variable.bounded:
            largest = max(abs(variable.lower), abs(variable.upper))
            if largest > LARGEST or variable.upper - variable.lower < 1.0 / LARGEST:
                raise DomainError(
                    f"bounds[{name!r}] must lie within {LARGEST:g} and at least "
                    f"{1.0 / LARGEST:g} apart; choose another unit"
                )
    if design.unbounded:
        return
    lower, upper = design.column_bounds()
    for name, low, high in zip(design.column_names, lower[0], upper[0], strict=True):
        if not max(abs(low), abs(high)) <= LARGEST:
            raise DomainError(
                f"column {name!r} can be larger than {LARGEST:g} on the bounds of its variables; "
                "narrow them, or choose another unit"
            )
    low, high = design.response_bounds()
    if not high - low >= 1.0 / LARGEST or not max(abs(low), abs(high)) <= LARGEST:
        raise DomainError(
            f"response {design.response_name!r} must vary on the bounds of its variables, by "
            f"{1.0 / LARGEST:g} or more, and stay within {LARGEST:g}; check the formula and the "
            "bounds"
        )


def allocate(settings: Settings, design: Design) -> Allocation:
    """Split the total mu over the components that this release needs."""
    budget = settings.budget
    if settings.partition != "privtree":
        budget = budget.without("partition")
    held = settings.partition
    if isinstance(held, Partition) and held.domain != design.domain.subset(design.variables):
        raise DomainError(
            "partition must cut exactly the variables of the formula's right side, in that order "
            "and with the same bounds and levels; make it from those bounds"
        )
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
    allocation = budget.split(settings.per_record)
    for name, part in allocation.as_dict().items():
        if part and not LEAST_MU <= part <= LARGEST_MU:
            raise BudgetError(
                f"mu and budget leave the component {name!r} a mu outside {LEAST_MU:g} to "
                f"{LARGEST_MU:g}; choose another mu, or give the component another share"
            )
    return allocation


def published_mu(settings: Settings, design: Design, allocation: Allocation) -> float:
    """What a release really spends, at most, under the published calibration: more than asked for.

    It treats the p columns of a bin's sums as if each record moved only one of them: they are
    ``sqrt(p) mu``-GDP.
    """
    columns = len(design.column_names) - (design.intercept is not None)
    parts = allocation.as_dict() | {"sum_x": math.sqrt(max(columns, 1)) * allocation.sum_x}
    factor = settings.mu / settings.per_record
    return factor * gdp.compose(*parts.values())


def range_is_sought(design: Design, partition: str | Partition) -> bool:
    """Whether a range is to be found for some variable.

    Not for those whose bounds are part of the model (levels of an integer) or of the caller's own
    partition, nor for those with few values anyway.
    """
    held = partition.variables if isinstance(partition, Partition) else ()
    return any(
        isinstance(variable, Numeric)
        and name not in (*design.fixed, *held)
        and needs_range(variable)
        for name, variable in design.domain.items()
    )


SHOWN = 6
"""Value labels that a message lists."""
EXAMPLE = '["first", "second", ...]'


def declared_domain(
    domain: Domain, source: Source, formulas: Iterable[str] = (), variables: Iterable[str] = ()
) -> Domain:
    """The caller's domain, and the truth values that the table stores as such.

    Columns of the formulas that are then neither declared nor plain numbers are refused.

    Parameters
    ----------
    domain : Domain
    source : Source
    formulas : iterable of str
    variables : iterable of str
        Further variables.

    Raises
    ------
    DomainError
        It says what to write.
    """
    declared = Domain({**source.declared(), **domain})
    doubtful = {
        name: column
        for name, column in source.schema.items()
        if column.stored in _MESSAGES and name not in declared
    }
    strangers = [name for name in declared if name not in source.schema]
    if not doubtful and not strangers:
        return declared
    names = [*(name for formula in formulas for name in undeclared_names(formula)), *variables]
    used = [name for name in names if name not in declared and name in source.schema]
    for name in strangers:
        near = difflib.get_close_matches(name, used, n=1)
        if near:
            raise DomainError(
                f"bounds[{name!r}]: data has no column {name!r}; did you mean {near[0]!r}, which "
                "the formula uses and bounds does not declare?"
            )
    for name in used:
        if name in doubtful:
            column = doubtful[name]
            raise DomainError(_MESSAGES[column.stored](name, column, source))
    return declared


def _entry(name: str, value: str) -> str:
    return f"bounds={{{_quoted(name)}: {value}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _levels(name: str, column: ColumnType, source: Source) -> str:
    listed = _entry(name, EXAMPLE)
    message = (
        f"column {name!r} is a category, but its levels are not declared: dtype {column.dtype} "
        "lists levels that may have been learnt from the records, and then the names of the "
        "coefficients, and which level is the reference, could depend on a single person. "
        f"Declare every level that may occur, the reference first: {listed}"
    )
    if source.kind == "memory":
        message += (
            ". Or, if the categories of the dtype are public (they come from a questionnaire or a "
            "codebook, not from the data), say so: from dpbinagg import Domain; "
            "bounds=Domain.from_frame(df), and with other bounds "
            'bounds=Domain.from_frame(df).updated({"age": (18, 90)})'
        )
    else:
        message += (
            ". Or write them down in a codebook: from dpbinagg import Domain; "
            'bounds=Domain.from_csv("codebook.csv")'
        )
    return message


def _text(name: str, column: ColumnType, source: Source) -> str:
    what = "text" if column.stored == "text" else "objects of any type"
    listed, bounds = _entry(name, EXAMPLE), _entry(name, "(low, high)")
    return (
        f"column {name!r} holds {what} (dtype {column.dtype}) and is not declared; whether it is a "
        "category or a number is never guessed from the records. For a category declare every "
        f"level that may occur, the reference first: {listed}; "
        f"for a number declare its bounds: {bounds}, with None for a bound "
        "that is not known"
    )


def _labelled(name: str, column: ColumnType, source: Source) -> str:
    codes = [_plain(code) for code in list(column.labels)[:SHOWN]]
    said = ", ".join(
        f"{code} = {_quoted(str(column.labels[key]))}"
        for code, key in zip(codes, list(column.labels), strict=False)
    )
    more = ", ..." if len(column.labels) > SHOWN else ""
    levels = f"[{', '.join(map(str, codes))}{more}]"
    category = _entry(name, f'{{"levels": {levels}}}')
    bounds = _entry(name, "(low, high)")
    refused = _entry(name, '{"levels": [1, 2], "missing": [9]}')
    return (
        f"column {name!r} has value labels ({said}{more}) and is not declared: labels name codes, "
        "they do not say whether the column is a category or a number with names for some codes. "
        f"For a category declare its levels: {category}, or their labels; for a "
        f"number declare its bounds: {bounds}; and list codes that stand for no answer: {refused}. "
        "A codebook to fill in: dpbinagg codebook TABLE --out codebook.csv"
    )


def _plain(code: Any) -> Any:
    if isinstance(code, str):
        return _quoted(code)
    return int(code) if float(code).is_integer() else float(code)


_MESSAGES: Mapping[str, Any] = {
    "levels": _levels,
    "text": _text,
    "object": _text,
    "labelled": _labelled,
}
