"""Cells whose populations are real tables, and the package's own surveys."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from population_cell import Cell, wide, without
from population_tables import bundled, census, census_file, diabetes, statsmodels_table


def census_cells(folder: str | None) -> Iterator[Cell]:
    file = census_file(folder)
    if file is None:
        return
    source = partial(census, file)
    mincer = "log_wage ~ educ_years + experience + experience_sq + female"
    bounds = {
        "log_wage": (0, 15),
        "educ_years": (0, 22),
        "experience": (0, 70),
        "experience_sq": (0, 4900),
        "female": (0, 1),
        "A_AGE": (15, 90),
        "WSAL_VAL": (0, 2_500_000),
        "low": range(2),
        "degree": ["school", "none", "some", "college"],
        "band": list(range(8)),
    }
    for n in (1000, 5000, 20_000, 54_875):
        yield Cell(f"cps_mincer_{n}", mincer, bounds, n, source)
    yield Cell("cps_mincer_wide10", mincer, wide(bounds, 10), 5000, source)
    yield Cell("cps_mincer_wide100", mincer, wide(bounds, 100), 20_000, source)
    absent = without(bounds, "log_wage", "educ_years", "experience", "experience_sq")
    yield Cell("cps_mincer_absent", mincer, absent, 5000, source, note="no bounds")
    square = "log_wage ~ educ_years + experience + I(experience**2) + female"
    yield Cell("cps_square", square, bounds, 2000, source)
    interaction = "log_wage ~ educ_years * female + experience * female"
    yield Cell("cps_interaction", interaction, bounds, 5000, source)
    age = "log_wage ~ educ_years + A_AGE + I(A_AGE**2) + female"
    yield Cell("cps_age", age, bounds, 10_000, source)
    degree = "log_wage ~ C(degree) * female + C(band)"
    yield Cell("cps_degree", degree, bounds, 10_000, source)
    levels = "WSAL_VAL ~ educ_years + experience + female"
    yield Cell("cps_levels", levels, bounds, 10_000, source)
    binary = "low ~ educ_years + experience + experience_sq + female"
    yield Cell("cps_binary", binary, bounds, 5000, source)


def survey_cells() -> Iterator[Cell]:
    """Tables of statsmodels and scikit-learn, and our own surveys."""
    yield from _randhie()
    yield from _fair()
    yield from _anes96()
    card = {"AVGEXP": (0, 3000), "AGE": (18, 90), "INCOME": (0, 20), "OWNRENT": range(2)}
    spending = "AVGEXP ~ AGE + INCOME + I(INCOME**2) + OWNRENT"
    yield Cell("ccard_2000", spending, card, 2000, partial(statsmodels_table, "ccard"))
    yield Cell("ccard_200", "AVGEXP ~ INCOME", card, 200, partial(statsmodels_table, "ccard"))
    yield from _star98()
    yield from _diabetes()
    yield from _bundled()


def _randhie() -> Iterator[Cell]:
    source = partial(statsmodels_table, "randhie")
    formula = "mdvis ~ lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"
    bounds = {
        "mdvis": (0, 100),
        "lncoins": (0, 5),
        "idp": (0, 1),
        "lpi": (0, 10),
        "fmde": (0, 10),
        "physlm": (0, 1),
        "disea": (0, 60),
        "hlthg": (0, 1),
        "hlthf": (0, 1),
        "hlthp": (0, 1),
    }
    yield Cell("randhie_2000", formula, bounds, 2000, source)
    yield Cell("randhie_20000", formula, bounds, 20_000, source)
    absent = without(bounds, "lpi", "disea", "fmde", "lncoins")
    yield Cell("randhie_absent", formula, absent, 20_000, source, note="no bounds")


def _fair() -> Iterator[Cell]:
    source = partial(statsmodels_table, "fair")
    causes = "age + yrs_married + children + religious + educ + C(occupation)"
    bounds = {
        "affairs": (0, 60),
        "any": range(2),
        "rate_marriage": range(1, 6),
        "age": (15, 50),
        "yrs_married": (0, 30),
        "children": (0, 8),
        "religious": range(1, 5),
        "educ": range(8, 22),
        "occupation": list(range(1, 7)),
    }
    yield Cell("fair_6366", f"affairs ~ rate_marriage + {causes}", bounds, 6366, source)
    yield Cell("fair_binary", f"any ~ rate_marriage + {causes}", bounds, 6366, source)
    yield Cell("fair_rating", f"rate_marriage ~ {causes}", bounds, 2000, source)


def _anes96() -> Iterator[Cell]:
    source = partial(statsmodels_table, "anes96")
    formula = "vote ~ selfLR + C(educ) + C(income) + age"
    bounds = {
        "vote": (0, 1),
        "selfLR": (1, 7),
        "educ": list(range(1, 8)),
        "income": list(range(1, 25)),
        "age": (18, 99),
    }
    for n in (5000, 20_000, 80_000):
        yield Cell(f"anes96_{n}", formula, bounds, n, source, note="24 income levels")
    numbers = {"PID": (0, 6), "educ": (1, 7), "income": (1, 24), "TVnews": (0, 7)}
    plain = "selfLR ~ PID + age + educ + income + TVnews"
    yield Cell("anes96_scale", plain, {**bounds, **numbers}, 944, source)
    heavy = "TVnews ~ popul + age + educ"
    public = {"TVnews": (0, 7), "popul": (0, 10_000), "age": (18, 99), "educ": (1, 7)}
    yield Cell("anes96_popul", heavy, public, 5000, source, note="heavy-tailed covariate")


def _star98() -> Iterator[Cell]:
    source = partial(statsmodels_table, "star98")
    shares = ("LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE", "PCTAF", "PCTCHRT")
    bounds = {
        "share": (0, 1),
        **dict.fromkeys([*shares, "PCTYRRND"], (0, 100)),
        "AVYRSEXP": (0, 40),
        "AVSALK": (20, 120),
        "PERSPENK": (0, 15),
        "PTRATIO": (5, 50),
    }
    main = "share ~ LOWINC + PERASIAN + PERBLACK + PERHISP + PTRATIO + PERSPENK"
    yield Cell("star98_3000", main, bounds, 3000, source)
    yield Cell("star98_303", "share ~ LOWINC + PTRATIO", bounds, 303, source)
    product = "share ~ LOWINC + PCTYRRND + PCTCHRT + PERMINTE * AVYRSEXP + AVSALK"
    yield Cell("star98_product", product, bounds, 10_000, source, note="zero-inflated shares")


def _diabetes() -> Iterator[Cell]:
    formula = "target ~ age + sex + bmi + bp + s1 + s2 + s3 + s4 + s5 + s6"
    bounds = {
        "target": (0, 400),
        "age": (18, 90),
        "sex": (1, 2),
        "bmi": (12, 60),
        "bp": (40, 160),
        "s1": (50, 400),
        "s2": (10, 300),
        "s3": (10, 120),
        "s4": (1, 12),
        "s5": (2, 8),
        "s6": (40, 200),
    }
    for n in (442, 3000, 20_000):
        yield Cell(f"diabetes_{n}", formula, bounds, n, diabetes)


def _bundled() -> Iterator[Cell]:
    wage = "np.log(wage) ~ educ + exper + I(exper**2) + C(sex) + C(region) + C(union)"
    wages = {
        "wage": (3, 150),
        "educ": range(21),
        "exper": range(51),
        "sex": ["male", "female"],
        "region": ["north", "south", "east", "west"],
        "union": ["no", "yes"],
    }
    for n in (500, 5000):
        yield Cell(f"wages_{n}", wage, wages, n, partial(bundled, "wages"))
    score = "score ~ treatment + pretest + ses + class_size + C(school_type) + C(gender)"
    school = {
        "score": (0, 100),
        "treatment": range(2),
        "pretest": (0, 100),
        "ses": (-3, 3),
        "class_size": range(8, 37),
        "school_type": ["public", "charter", "private"],
        "gender": ["boy", "girl"],
    }
    yield Cell("school_3000", score, school, 3000, partial(bundled, "school"))
    yield Cell("school_200", "score ~ treatment", school, 200, partial(bundled, "school"))
    income = "np.log(income) ~ age + I(age**2) + tenure + hours + C(sex) + C(education) + C(sector)"
    register = {
        "income": (1000, 1_000_000),
        "age": range(18, 71),
        "tenure": range(56),
        "hours": range(1, 81),
        "sex": ["male", "female"],
        "education": ["primary", "secondary", "tertiary"],
        "sector": ["agriculture", "manufacturing", "construction", "trade", "public", "services"],
    }
    yield Cell("register_20000", income, register, 20_000, partial(bundled, "register"))
    levels = "income ~ age + tenure + C(sex) + C(education)"
    yield Cell("register_levels", levels, register, 20_000, partial(bundled, "register"))
