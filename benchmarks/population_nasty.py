"""Cells whose populations are simulated, each with one thing that breaks a naive estimator."""

from __future__ import annotations

from collections.abc import Iterator

import population_laws as laws
from population_cell import Cell, simulated, wide, without


def nasty_cells() -> Iterator[Cell]:
    """All simulated cells at mu = 1."""
    yield from _linear_cells()
    yield from _factor_cells()
    yield from _inflated_cells()
    yield from _money_cells()


def _linear_cells() -> Iterator[Cell]:
    """Kinks, skewed and varying and heavy errors, degenerate columns."""
    bounds = {"y": (0, 15), "x": (0, 22)}
    yield Cell("two_line", "y ~ x", bounds, 50_000, simulated(laws.two_line), note="kinked mean")
    for errors, columns, n in (
        ("normal", 5, 1000),
        ("normal", 10, 5000),
        ("normal", 1, 200),
        ("skewed", 4, 1000),
        ("skewed", 4, 5000),
        ("varying", 4, 1000),
        ("t3", 4, 2000),
    ):
        names = [f"x{j}" for j in range(columns)]
        top = 1.0 + 1.5 * columns
        public = {**dict.fromkeys(names, (0, 1)), "y": (-top - 8, top + 12)}
        source = simulated(laws.linear, columns=columns, errors=errors)
        formula = "y ~ " + " + ".join(names)
        yield Cell(f"{errors}_{columns}_{n}", formula, public, n, source)
        if errors == "skewed" and n == 5000:
            loose = wide(public, 10)
            yield Cell("skewed_wide10", formula, loose, n, source)
            absent = without(public, "y")
            yield Cell("skewed_absent", formula, absent, n, source, note="no bounds")
    twins = {"y": (-6, 10), "x": (0, 10), "twin": (0, 10), "z": (0, 12), "constant": (0, 10)}
    source = simulated(laws.degenerate)
    yield Cell("constant", "y ~ x + z + constant", twins, 2000, source, note="constant column")
    yield Cell("duplicate", "y ~ x + z + twin", twins, 2000, source, note="duplicated column")
    mixed = {"y": (-15, 20), "a": (0, 1), "b": (0, 15), "c": range(2)}
    for n in (1000, 5000):
        yield Cell(f"mixed_{n}", "y ~ a + b + c", mixed, n, simulated(laws.mixed_design))


def _factor_cells() -> Iterator[Cell]:
    """Many levels, rare levels, empty levels, interactions."""
    bounds = {"y": (-8, 8), "x": (-4, 4), "state": list(range(50))}
    source = simulated(laws.states, levels=50)
    for n in (5000, 20_000):
        yield Cell(f"states50_{n}", "y ~ x + C(state)", bounds, n, source, note="50 equal states")
    yield from _rare_cells()
    group = {"y": (-20, 60), "x": (0, 30), "group": list("abcdef")}
    source = simulated(laws.slopes_by_group)
    yield Cell("group_slopes", "y ~ x * C(group)", group, 10_000, source, note="interaction")
    sure = {"yes": (0, 1), "x": (-4, 4), "sure": range(2), "other": range(2)}
    yield Cell("separable", "yes ~ x + sure + other", sure, 2000, simulated(laws.separable))
    public = {"visits": (0, 100), "age": (18, 90), "ill": (0, 20), "region": list(range(1, 13))}
    visits = "visits ~ age + I(age**2) + ill + C(region)"
    yield Cell("visits", visits, public, 5000, simulated(laws.visits), note="count outcome")


def _rare_cells() -> Iterator[Cell]:
    """Levels of few people or none that do nothing; the reference is the first declared level."""
    bounds = {"y": (-5, 10), "x": (0, 20), "group": [f"g{code}" for code in range(6)]}
    formula = "y ~ x + C(group)"
    # Expected people in a sample of 5,000: most, 40%, then none, 1, 5 and 20.
    source = simulated(laws.levels_of, shares=(0.4, 0.0, 1 / 5000, 5 / 5000, 20 / 5000))
    rare = tuple(f"C(group)[T.g{code}]" for code in range(2, 6))
    note = "levels of 0, 1, 5, 20 people"
    yield Cell("rare_levels", formula, bounds, 5000, source, note=note, rare=rare)
    two = {**bounds, "group": ["g0", "g1", "g2"]}
    nobody = simulated(laws.levels_of, shares=(0.4, 0.0))
    yield Cell("empty_level", formula, two, 2000, nobody, note="empty level", rare=rare[:1])
    first = {**bounds, "group": ["g2", "g0", "g1"]}
    yield Cell("empty_reference", formula, first, 2000, nobody, note="empty reference level")
    for people in (1, 5, 20):
        source = simulated(laws.levels_of, shares=(0.4, people / 2000))
        note = f"a level of {people}"
        yield Cell(f"people{people}", formula, two, 2000, source, note=note, rare=rare[:1])


def _inflated_cells() -> Iterator[Cell]:
    """Covariates that are mostly zero, within declared bounds of (0, 100)."""
    birth = {
        "bwght": (0, 300),
        "cigs": (0, 100),
        "faminc": (0, 100),
        "motheduc": (0, 20),
        "male": range(2),
        "parity": (0, 10),
    }
    weight = "bwght ~ cigs + faminc + motheduc + male + parity"
    source = simulated(laws.smokers)
    yield Cell("smokers", weight, birth, 1388, source, note="zero-inflated covariate")
    absent = without(birth, "cigs", "faminc")
    yield Cell("smokers_absent", weight, absent, 5000, source, note="no bounds, zero-inflated")
    crime = {
        "arrests": (0, 30),
        **dict.fromkeys(("prison", "sentence", "past"), (0, 100)),
        "employed": (0, 4),
        "group": ["a", "b", "c"],
    }
    count = "arrests ~ prison + sentence + past + employed + C(group)"
    yield Cell("arrests", count, crime, 2725, simulated(laws.arrests), note="zero-inflated")


def _money_cells() -> Iterator[Cell]:
    """Money in levels, heavy tails and their squares, differences in differences."""
    people = {
        "earned": (0, 300),
        "treated": range(2),
        "age": (16, 60),
        "educ": (0, 20),
        "race": ["white", "black", "hispanic"],
        "married": range(2),
        "degree": range(2),
        "past1": (0, 200),
        "past2": (0, 200),
    }
    pay = "earned ~ treated + age + I(age**2) + educ + C(race) + married + degree + past1 + past2"
    source = simulated(laws.earnings)
    yield Cell("earnings", pay, people, 10_000, source, note="heavy-tailed earnings")
    yield Cell("earnings_plain", "earned ~ treated", people, 2000, source)
    unbounded = without(people, "earned", "past1", "past2")
    yield Cell("earnings_absent", pay, unbounded, 10_000, source, note="no bounds, heavy tails")
    rich = {
        "worth": (-500, 5000),
        "eligible": range(2),
        "age": (25, 64),
        "income": (0, 500),
        "married": range(2),
        "size": (1, 12),
    }
    worth = "worth ~ eligible + age + income + married + size"
    yield Cell("wealth", worth, rich, 10_000, simulated(laws.wealth), note="lognormal money")
    house = {
        "price": (1, 3000),
        "near": range(2),
        "after": range(2),
        "age": (0, 200),
        "area": (300, 8000),
        "rooms": range(1, 13),
        "baths": range(1, 7),
    }
    did = "np.log(price) ~ near * after + age + I(age**2) + np.log(area) + baths"
    source = simulated(laws.prices)
    for n in (1000, 5000):
        yield Cell(f"prices_{n}", did, house, n, source, note="difference in differences")
    yield Cell("prices_levels", "price ~ near * after", house, 5000, source)
    firm = {
        "salary": (10, 60_000),
        "sales": (50, 200_000),
        "roe": (0, 100),
        "ros": (-100, 500),
        "sector": ["industry", "finance", "consumer", "utility"],
    }
    salary = "np.log(salary) ~ np.log(sales) + roe + ros + C(sector)"
    yield Cell("salaries", salary, firm, 2000, simulated(laws.salaries), note="skewed errors")
    curve = {"y": (-20, 40), "x": (0, 100), "z": (0, 60)}
    square = "y ~ x + I(x**2) + z"
    yield Cell("squares", square, curve, 5000, simulated(laws.squares), note="heavy square")
