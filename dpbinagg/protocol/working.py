"""Working ranges of numeric variables: one private look at histograms, or two."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula import Design
from dpbinagg.protocol.dialogue import Dialogue
from dpbinagg.protocol.ranges import (
    FIRST_SHARE,
    histogram_edges,
    second_range,
    too_coarse,
    working_range,
)
from dpbinagg.public.domain import Domain, Numeric
from dpbinagg.release.questions import range_question

Floats = NDArray[np.float64]


def working_domain(
    dialogue: Dialogue, design: Design, variables: tuple[str, ...], mu: float
) -> tuple[Domain, float]:
    """Working ranges of numeric variables, and the noisy number of records.

    A record falls in one interval of each of the v histograms and adds 1
    to the total. Where a variable lacks a bound, a second look, with a smaller
    part of mu^2, resolves the ranges that the first one found too coarse. If
    there are none it counts the records again. Privacy: mu-GDP in all.
    """
    known = {
        name: variable for name in variables if isinstance(variable := design.domain[name], Numeric)
    }
    unbounded = tuple(name for name, variable in known.items() if not variable.bounded)
    first = mu * math.sqrt(FIRST_SHARE) if unbounded else mu
    edges, counts, total, sd = _look(dialogue, known, first, with_total=True)
    found = {
        name: working_range(edges[name], counts[name], sd, variable, total)
        for name, variable in known.items()
    }
    if unbounded:
        coarse = tuple(n for n in unbounded if too_coarse(edges[n], found[n], known[n]))
        narrowed = {name: known[name].within(*found[name]) for name in coarse}
        rest = mu * math.sqrt(1.0 - FIRST_SHARE) * (1.0 - 2.0**-50)
        edges, counts, again, sd_again = _look(dialogue, narrowed, rest, with_total=not coarse)
        for name in coarse:
            found[name] = second_range(edges[name], counts[name], sd_again, narrowed[name], total)
        if not coarse:
            weights = (sd**-2, sd_again**-2)
            total = (weights[0] * total + weights[1] * again) / sum(weights)
    working = {n: known[n].within(*found[n]) for n in known}
    return design.domain.updated(working), total


def _look(
    dialogue: Dialogue, variables: Mapping[str, Numeric], mu: float, with_total: bool
) -> tuple[dict[str, Floats], dict[str, Floats], float, float]:
    """Edges and noisy histograms of variables, the noisy total, and the noise of each count."""
    edges = {name: histogram_edges(variable) for name, variable in variables.items()}
    (answer,) = dialogue.ask([range_question(edges, with_total)], [mu])
    total = float(answer.values[-1][0]) if with_total else math.nan
    sd = float(answer.scales[-1][0])
    return edges, dict(zip(variables, answer.values, strict=False)), total, sd
