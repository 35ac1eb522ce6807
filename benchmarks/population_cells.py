"""Development populations as cells: a formula, public bounds, a sample size, a privacy level.

    from population_cells import cells
    cell = cells()["fair"]
    sample = cell.draw(rng)          # n rows with replacement
    population = cell.population()   # the whole table: its least squares coefficients are the truth

Bounds are those of a questionnaire, known without the table; no population reaches beyond its
bounds, so that the truth does not depend on how wide they are declared.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache

from common import DATA_VARIABLE
from population_cell import Cell, wide, without
from population_nasty import nasty_cells
from population_surveys import census_cells, survey_cells

__all__ = ["Cell", "cells", "wide", "without"]


@cache
def cells(folder: str | None = None) -> dict[str, Cell]:
    """All cells by name; those of the census only where its file is in `folder`.

    The folder is that of ``DPBINAGG_BENCH_DATA`` where it is not given.
    """
    at_one = [
        *census_cells(folder or os.environ.get(DATA_VARIABLE)),
        *survey_cells(),
        *nasty_cells(),
    ]
    named = {cell.name: cell for cell in at_one}
    for name, mus in REPEATED.items():
        for mu in mus if name in named else ():
            again = replace(named[name], name=f"{name}@{mu:g}", mu=mu)
            named[again.name] = again
    return named


REPEATED: dict[str, tuple[float, ...]] = {
    "cps_mincer_54875": (0.25, 0.5, 2.0),
    "cps_mincer_5000": (0.5, 2.0),
    "cps_levels": (0.5, 2.0),
    "cps_degree": (0.5,),
    "two_line": (0.25, 0.5, 2.0),
    "states50_20000": (0.25, 0.5, 2.0),
    "anes96_20000": (0.5, 2.0),
    "anes96_80000": (0.25,),
    "fair_6366": (0.5, 2.0),
    "diabetes_3000": (0.5, 2.0),
    "randhie_20000": (0.25, 0.5),
    "register_20000": (0.25, 2.0),
    "smokers": (0.5, 2.0),
    "earnings": (0.5, 2.0),
    "prices_5000": (0.5, 2.0),
    "mixed_5000": (0.25, 2.0),
    "rare_levels": (0.5, 2.0),
    "skewed_4_5000": (0.25, 2.0),
    "wages_500": (2.0,),
}
"""Cells of mu = 1 that are run at other mu too."""
