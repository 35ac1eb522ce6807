"""Table 1 and its relatives: what a release says of its variables, to print and to hand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dpbinagg.analyst.describe import Facts, Figure
from dpbinagg.formula.union import spelled
from dpbinagg.public.domain import Categorical, Variable
from dpbinagg.release.transcript import Released, counted
from dpbinagg.report import tables
from dpbinagg.report.inference import require_alpha
from dpbinagg.report.notes import SEEDED, omissions
from dpbinagg.report.side_by_side import RegressionTable

STATISTICS = ("Mean or share", "Std. dev.", "First quartile", "Median", "Third quartile", "Missing")
QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
COLUMNS = ["variable", "level", "group", "statistic", "estimate", "std_error", "low", "high"]


@dataclass(frozen=True, repr=False)
class Description(RegressionTable):
    """A table of facts about variables; prints, and has every form that a table of models has.

    Attributes
    ----------
    numbers : DataFrame
        One row for each number: variable, level, group, statistic, estimate, std_error, low, high.
    """

    numbers: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers, with standard errors and ends of intervals."""
        return self.numbers


def describe(release: Released, by: str | None = None, alpha: float = 0.05) -> Description:
    """Table 1 of a release; see `Release.describe`."""
    require_alpha(alpha)
    facts = Facts(release, alpha)
    return _overall(release, facts) if by is None else _by_group(release, facts, by)


def _overall(release: Released, facts: Facts) -> Description:
    numbers: list[list[Any]] = []
    body = _rows("Observations", [facts.everybody], tables.whole, len(STATISTICS))
    body += _rows("Complete", [facts.nobs], tables.whole, len(STATISTICS))
    numbers.append(["", "", "", "records", *_plain(facts.everybody)])
    numbers.append(["", "", "", "nobs", *_plain(facts.nobs)])
    for name in facts.names:
        variable, lacking = facts.design.domain[name], facts.missing(name)
        if lacking is not None:
            numbers.append([name, "", "", "missing", *_plain(lacking)])
        if isinstance(variable, Categorical):
            blank = [""] * (len(STATISTICS) - 1)
            body.append([_title(name, variable), *blank, _cell(lacking, _percent)])
            body.append(["", *blank, _interval(lacking, _percent)])
            for place, level in enumerate(variable.levels):
                share = facts.share(name, place)
                numbers.append([name, level, "", "share", *_plain(share)])
                body += _rows(f"  {_label(variable, place)}", [share], _percent, len(STATISTICS))
            continue
        found = _of_number(facts, name)
        numbers += [[name, "", "", key, *_plain(figure)] for key, figure in found.items()]
        shown = [found.get(key) for key in ("mean", "sd", *QUARTILES)]
        spread = max((f.error for f in shown if f is not None), default=0.0)
        write = _writer(spread)
        body += _rows(_title(name, variable), shown, write, len(STATISTICS))
        body[-2][6], body[-1][6] = _cell(lacking, _percent), _interval(lacking, _percent)
    return Description(
        "Descriptive statistics",
        STATISTICS,
        body,
        [],
        _notes(release, facts, ALL),
        pd.DataFrame(numbers, columns=COLUMNS),
    )


def _of_number(facts: Facts, name: str) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    if facts.is_plain(name) or name in facts.margins:
        found["mean"], found["sd"] = facts.number(name)
    if name in facts.margins:
        found |= {key: facts.quantile(name, place) for key, place in QUARTILES.items()}
    return found


def _by_group(release: Released, facts: Facts, by: str) -> Description:
    """Means and shares within the levels of a variable."""
    levels, indicators = facts.indicators(by)
    variable = facts.design.domain[by]
    labels = tuple(_label(variable, place) for place in range(len(levels)))
    counts, noise = facts.table(indicators, facts.whole[:, None])
    sizes = [
        Figure.normal(float(c), float(s), facts.alpha, 0.0)
        for c, s in zip(counts[:, 0], noise[:, 0], strict=True)
    ]
    numbers = [["", "", lv, "nobs", *_plain(s)] for lv, s in zip(levels, sizes, strict=True)]
    body = _rows("Observations", sizes, tables.whole)
    for name in facts.names:
        if name == by:
            continue
        variable = facts.design.domain[name]
        if isinstance(variable, Categorical):
            body.append([_title(name, variable), *[""] * len(levels)])
            inner, vectors = facts.indicators(name)
            parts = [
                (f"  {_label(variable, j)}", level, vectors[:, j], "share")
                for j, level in enumerate(inner)
            ]
        elif facts.is_plain(name):
            vector = facts.vector(spelled(name))
            parts = [(_title(name, variable), "", vector, "mean")]
        else:
            continue
        for title, level, vector, kind in parts:
            found = [facts.mean(vector, group) for group in indicators.T]
            if kind == "share":
                found = [Figure.normal(f.value, f.error, facts.alpha, 0.0, 1.0) for f in found]
            numbers += [
                [name, level, group, kind, *_plain(f)]
                for group, f in zip(levels, found, strict=True)
            ]
            spread = max(f.error for f in found)
            body += _rows(title, found, _percent if kind == "share" else _writer(spread))
    return Description(
        f"Descriptive statistics by {by}",
        labels,
        body,
        [],
        _notes(release, facts),
        pd.DataFrame(numbers, columns=COLUMNS),
    )


def crosstab(release: Released, one: str, other: str, alpha: float = 0.05) -> Description:
    """A two-way table; see `Release.crosstab`."""
    require_alpha(alpha)
    facts = Facts(release, alpha)
    rows, of_rows = facts.indicators(one)
    columns, of_columns = facts.indicators(other)
    counts, noise = facts.table(of_rows, of_columns)
    variable = facts.design.domain[one]
    numbers, body = [], []
    for i, level in enumerate(rows):
        found = [
            Figure.normal(float(c), float(s), alpha, 0.0)
            for c, s in zip(counts[i], noise[i], strict=True)
        ]
        numbers += [[level, group, *_plain(f)] for group, f in zip(columns, found, strict=True)]
        body += _rows(_label(variable, i), found, tables.whole)
    frame = pd.DataFrame(numbers, columns=[one, other, *COLUMNS[4:]])
    labels = tuple(_label(facts.design.domain[other], j) for j in range(len(columns)))
    notes = [
        f"Numbers of records by {one} (rows) and {other} (columns), {_share(alpha)} intervals for "
        "the privacy noise in brackets.",
        *_notes(release, facts)[1:],
    ]
    return Description(f"{one} by {other}", labels, body, [], notes, frame)


def corr(release: Released, alpha: float = 0.05) -> Description:
    """Correlations; see `Release.corr`."""
    require_alpha(alpha)
    facts = Facts(release, alpha)
    names = [
        name
        for name in facts.names
        if not isinstance(facts.design.domain[name], Categorical) and facts.is_plain(name)
    ]
    value, low, high = facts.correlations(names)
    numbers, body = [], []
    for i, name in enumerate(names):
        cells, ends = [], []
        for j, other in enumerate(names):
            numbers.append([name, other, value[i, j], low[i, j], high[i, j]])
            shown = j <= i
            cells.append(f"{value[i, j]:.2f}" if shown else "")
            ends.append(f"[{low[i, j]:.2f}, {high[i, j]:.2f}]" if j < i else "")
        body += [[name, *cells], ["", *ends]]
    frame = pd.DataFrame(numbers, columns=["variable", "with", "estimate", "low", "high"])
    return Description("Correlations", tuple(names), body, [], _notes(release, facts), frame)


# Text.

Writer = Callable[[float], str]


def _plain(figure: Figure) -> list[float]:
    return [figure.value, figure.error, figure.low, figure.high]


def _rows(
    title: str, figures: Sequence[Figure | None], write: Writer, width: int = 0
) -> list[list[str]]:
    """A row of numbers, and below it their intervals; empty cells up to `width`."""
    lacking = [""] * (width - len(figures))
    first = [title, *(_cell(figure, write) for figure in figures), *lacking]
    return [first, ["", *(_interval(figure, write) for figure in figures), *lacking]]


def _cell(figure: Figure | None, write: Writer) -> str:
    return "" if figure is None else write(figure.value)


def _interval(figure: Figure | None, write: Writer) -> str:
    return "" if figure is None else f"[{write(figure.low)}, {write(figure.high)}]"


def _percent(value: float) -> str:
    return f"{100.0 * value:.1f}%"


def _writer(spread: float) -> Writer:
    decimals = tables.decimals_for(spread, 0)
    return lambda value: tables.number(value, decimals)


def _title(name: str, variable: Variable) -> str:
    return f"{name} ({variable.unit})" if variable.unit else name


def _label(variable: Variable, place: int) -> str:
    if isinstance(variable, Categorical):
        return variable.labels[place] if variable.labels else str(variable.levels[place])
    return str(place)


def _share(alpha: float) -> str:
    return f"{100.0 * (1.0 - alpha):g}%"


ALL = (
    "Each variable is described over the records that have it, whatever else they lack; models "
    "rest on those that are complete in all variables."
)
COMPLETE = "These are numbers of the records that are complete in all variables of the release."


def _notes(release: Released, facts: Facts, scope: str = COMPLETE) -> list[str]:
    notes = [
        f"{_share(facts.alpha)} intervals in brackets; they hold sampling error and privacy noise. "
        f"{scope}",
        f"Privacy: mu = {release.mu:.4g} (Gaussian differential privacy), for all that the release "
        "says.",
    ]
    known = counted(release.transcript)
    nobs = known.complete if known is not None else 0.0
    notes += omissions(known, release.declared, release.declared, nobs)
    if not release.privacy.secure:
        notes.append(SEEDED)
    return notes
