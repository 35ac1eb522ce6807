"""One-way counts of all variables: working ranges, margins, and the number of records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dpbinagg.analyst.ols.margins import Margin, uniform_margins
from dpbinagg.analyst.types import Array
from dpbinagg.formula import Design
from dpbinagg.protocol.dialogue import Dialogue
from dpbinagg.protocol.ranges import (
    FIRST_SHARE,
    histogram_edges,
    needs_range,
    second_range,
    too_coarse,
    working_range,
)
from dpbinagg.public.domain import Categorical, Domain, Numeric, Variable
from dpbinagg.release.questions import completeness_answer, margin_answer, margin_question


@dataclass(frozen=True, slots=True)
class OneWay:
    """What one-way counts say.

    Attributes
    ----------
    working : Domain
        Where records were seen to lie.
    margins : dict of Margin
    total, total_sd : float
        Noisy number of complete records and its standard deviation.
    """

    working: Domain
    margins: dict[str, Margin]
    total: float
    total_sd: float

    @property
    def count(self) -> tuple[float, float]:
        """Number of records and its standard deviation; nothing known is an infinite one."""
        return (0.0, math.inf) if math.isnan(self.total) else (self.total, self.total_sd)


def one_way(dialogue: Dialogue, design: Design, fixed: frozenset[str], mu: float) -> OneWay:
    """Count all variables of a design, and find working ranges of the numeric ones.

    A record falls in one cell of each of the v variables and adds 1 to the total. Where a variable
    lacks a bound, a second look, with a smaller part of mu^2, resolves the ranges that the first
    one found too coarse. If there are none it counts the records again. Privacy: mu-GDP in all.

    Parameters
    ----------
    dialogue : Dialogue
    design : Design
    fixed : frozenset of str
        Variables that keep their bounds.
    mu : float
    """
    names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
    variables = {name: design.domain[name] for name in names}
    open_ = [n for n in design.unbounded if n in variables]
    margins, total, sd = _look(dialogue, variables, mu * math.sqrt(FIRST_SHARE) if open_ else mu)
    found = {
        name: working_range(_edges(margins[name]), margins[name].counts, sd, variable, total)
        for name, variable in variables.items()
        if isinstance(variable, Numeric) and name not in fixed and needs_range(variable)
    }
    if open_:
        rest = mu * math.sqrt(1.0 - FIRST_SHARE) * (1.0 - 2.0**-50)
        coarse: dict[str, Variable] = {
            name: _numeric(found[name], variables[name])
            for name in open_
            if too_coarse(_edges(margins[name]), found[name], _declared(variables[name]))
        }
        more, again, its_sd = _look(dialogue, coarse, rest, declared=False)
        for name, margin in more.items():
            first = _declared(coarse[name])
            found[name] = second_range(_edges(margin), margin.counts, its_sd, first, total)
            margins[name] = margin
        weights = (sd**-2, its_sd**-2)
        total = (weights[0] * total + weights[1] * again) / sum(weights)
        sd = sum(weights) ** -0.5
    working = {name: _numeric(ends, variables[name]) for name, ends in found.items()}
    return OneWay(design.domain.updated(working), margins, total, sd)


def _declared(variable: Variable) -> Numeric:
    assert isinstance(variable, Numeric)
    return variable


def _numeric(ends: tuple[float, float], variable: Variable) -> Numeric:
    """A variable with a range that was found."""
    return _declared(variable).within(*ends)


def _edges(margin: Margin) -> Array:
    assert margin.edges is not None
    return margin.edges


def _look(
    dialogue: Dialogue, variables: Mapping[str, Variable], mu: float, declared: bool = True
) -> tuple[dict[str, Margin], float, float]:
    """Noisy counts of each variable, the noisy total, and the noise of each count.

    `declared` says whether bounds are the caller's.
    """
    edges = {
        name: None if isinstance(variable, Categorical) else histogram_edges(variable)
        for name, variable in variables.items()
    }
    question = margin_question(edges, variables, declared)
    (answer,) = dialogue.ask([question], [mu])
    counts, sd = completeness_answer(question, answer)
    margins = {
        name: Margin(one["edges"], one["counts"], one["sd"])
        for name, one in margin_answer(question, answer).items()
    }
    return margins, float(counts[0]), sd


def uniform(design: Design) -> OneWay:
    """Where nothing is spent on counts: every value within the bounds is as likely as any other."""
    names = dict.fromkeys((*design.variables, *design.response_variables))
    return OneWay(design.domain, uniform_margins(design.domain, names), math.nan, math.inf)
