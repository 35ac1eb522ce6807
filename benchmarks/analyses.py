"""What a reader of a paper may do with its data: analyses of development populations, by kind.

"declared" is the model of the release. The others were not declared: smaller models, subgroups,
another variable as the outcome, a transformed variable, an interaction, a logit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from population_cells import Cell, cells

KINDS = ("declared", "smaller", "subgroup", "swapped", "transformed", "interaction", "logit")


@dataclass(frozen=True, slots=True)
class Analysis:
    """One regression: its kind, formula, and the rows that it takes."""

    kind: str
    formula: str
    rows: str | None = None

    def fit(self, table: pd.DataFrame) -> object:
        """By statsmodels, errors robust to heteroscedasticity; levels in alphabetical order."""
        labels = [c for c in table if isinstance(table[c].dtype, pd.CategoricalDtype)]
        table = table.astype(dict.fromkeys(labels, object))
        if self.rows is not None:
            table = table.query(self.rows)
        if self.kind == "logit":
            return smf.logit(self.formula, table).fit(disp=0, cov_type="HC1")
        return smf.ols(self.formula, table).fit(cov_type="HC1")


@dataclass(frozen=True, slots=True)
class Population:
    """A cell of the populations benchmark with what a reader may ask of it."""

    cell: Cell
    numbers: tuple[str, ...]
    asked: tuple[tuple[str, str] | tuple[str, str, str], ...]

    @property
    def bounds(self) -> dict[str, object]:
        """The bounds of the cell, whole numbers declared as such."""
        table, declared = self.cell.population(), dict(self.cell.bounds)
        for name, bound in declared.items():
            if isinstance(bound, tuple) and name in table and (table[name] % 1 == 0).all():
                declared[name] = range(int(bound[0]), int(bound[1]) + 1)
        return declared

    def analyses(self) -> Iterator[Analysis]:
        yield Analysis("declared", self.cell.formula)
        for parts in self.asked:
            yield Analysis(*parts)


def populations(folder: str | None = None) -> dict[str, Population]:
    """Eight populations; that of the census only where its file is in `folder`."""
    found, known = {}, cells(folder)
    for name, (cell, n, numbers, asked) in ASKED.items():
        if cell in known:
            found[name] = Population(replace(known[cell], n=n), numbers, asked)
    return found


ASKED: dict[str, tuple[str, int, tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    "wages": (
        "wages_5000",
        5000,
        ("wage", "educ", "exper"),
        (
            ("smaller", "np.log(wage) ~ educ + C(sex)"),
            ("smaller", "np.log(wage) ~ exper + I(exper**2) + C(region)"),
            ("subgroup", "np.log(wage) ~ educ + exper", "sex == 'female'"),
            ("subgroup", "np.log(wage) ~ educ + exper + I(exper**2)", "educ >= 12"),
            ("swapped", "educ ~ np.log(wage) + exper + C(sex)"),
            ("swapped", "exper ~ educ + np.log(wage)"),
            ("transformed", "wage ~ educ + exper + C(sex)"),
            ("transformed", "np.log(wage) ~ educ + np.log(1 + exper)"),
            ("interaction", "np.log(wage) ~ educ * C(sex) + exper"),
            ("interaction", "np.log(wage) ~ educ * exper"),
            ("logit", "I((wage > 20) * 1) ~ educ + exper + C(sex)"),
        ),
    ),
    "school": (
        "school_3000",
        3000,
        ("score", "treatment", "pretest", "ses", "class_size"),
        (
            ("smaller", "score ~ treatment + pretest"),
            ("smaller", "score ~ ses + class_size"),
            ("subgroup", "score ~ treatment + pretest", "gender == 'girl'"),
            ("subgroup", "score ~ treatment + ses", "class_size >= 22"),
            ("swapped", "pretest ~ ses + score"),
            ("swapped", "ses ~ pretest + C(school_type)"),
            ("transformed", "score ~ treatment + pretest + I(pretest**2)"),
            ("transformed", "np.sqrt(np.maximum(score, 0)) ~ treatment + ses"),
            ("interaction", "score ~ treatment * ses"),
            ("interaction", "score ~ pretest * C(gender)"),
            ("logit", "I((score > 60) * 1) ~ treatment + pretest + ses"),
        ),
    ),
    "register": (
        "register_20000",
        5000,
        ("income", "age", "tenure", "hours"),
        (
            ("smaller", "np.log(income) ~ age + C(sex)"),
            ("smaller", "np.log(income) ~ tenure + hours + C(education)"),
            ("subgroup", "np.log(income) ~ age + hours", "sex == 'female'"),
            ("subgroup", "np.log(income) ~ tenure + hours", "age < 40"),
            ("swapped", "hours ~ np.log(income) + age + C(sex)"),
            ("swapped", "tenure ~ age + C(sector)"),
            ("transformed", "income ~ age + tenure + C(sex)"),
            ("transformed", "np.log(income) ~ np.log(1 + tenure) + hours"),
            ("interaction", "np.log(income) ~ hours * C(sex)"),
            ("interaction", "np.log(income) ~ age * C(education)"),
            ("logit", "I((hours > 40) * 1) ~ age + C(sex)"),
        ),
    ),
    "affairs": (
        "fair_6366",
        6366,
        ("affairs", "rate_marriage", "age", "yrs_married", "children", "religious", "educ"),
        (
            ("smaller", "affairs ~ rate_marriage + religious"),
            ("smaller", "affairs ~ age + yrs_married + children"),
            ("subgroup", "affairs ~ rate_marriage + age", "children > 0"),
            ("subgroup", "affairs ~ rate_marriage + religious", "educ >= 14"),
            ("swapped", "rate_marriage ~ age + yrs_married + religious + affairs"),
            ("swapped", "children ~ yrs_married + educ"),
            ("transformed", "np.log(1 + affairs) ~ rate_marriage + age + religious"),
            ("transformed", "affairs ~ rate_marriage + I(age**2) + age"),
            ("interaction", "affairs ~ rate_marriage * religious"),
            ("interaction", "affairs ~ age * yrs_married"),
            ("logit", "I((affairs > 0) * 1) ~ rate_marriage + age + religious + educ"),
        ),
    ),
    "visits": (
        "randhie_2000",
        5000,
        ("mdvis", "lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"),
        (
            ("smaller", "mdvis ~ lncoins + physlm"),
            ("smaller", "mdvis ~ disea + hlthf + hlthp"),
            ("subgroup", "mdvis ~ lncoins + disea", "idp == 0"),
            ("subgroup", "mdvis ~ lncoins + disea", "hlthg == 1"),
            ("swapped", "disea ~ mdvis + physlm + hlthf"),
            ("swapped", "lpi ~ lncoins + idp + fmde"),
            ("transformed", "np.log(1 + mdvis) ~ lncoins + disea + physlm"),
            ("transformed", "mdvis ~ disea + I(disea**2)"),
            ("interaction", "mdvis ~ lncoins * physlm"),
            ("interaction", "mdvis ~ disea * hlthg"),
            ("logit", "I((mdvis > 0) * 1) ~ lncoins + disea + physlm"),
        ),
    ),
    "earners": (
        "cps_mincer_5000",
        5000,
        ("log_wage", "educ_years", "experience", "experience_sq", "female"),
        (
            ("smaller", "log_wage ~ educ_years + female"),
            ("smaller", "log_wage ~ experience + experience_sq"),
            ("subgroup", "log_wage ~ educ_years + experience", "female == 1"),
            ("subgroup", "log_wage ~ educ_years + experience", "educ_years >= 13"),
            ("swapped", "educ_years ~ log_wage + experience + female"),
            ("swapped", "experience ~ educ_years + female"),
            ("transformed", "np.exp(log_wage) ~ educ_years + experience + female"),
            ("transformed", "log_wage ~ educ_years + I(educ_years**2)"),
            ("interaction", "log_wage ~ educ_years * female + experience"),
            ("interaction", "log_wage ~ experience * female"),
            ("logit", "I((log_wage > 11) * 1) ~ educ_years + experience + female"),
        ),
    ),
    "patients": (
        "diabetes_3000",
        3000,
        ("target", "age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"),
        (
            ("smaller", "target ~ bmi + bp"),
            ("smaller", "target ~ age + sex + s5"),
            ("subgroup", "target ~ bmi + bp", "sex == 1"),
            ("subgroup", "target ~ bmi + s5", "age >= 50"),
            ("swapped", "bmi ~ target + age + bp"),
            ("swapped", "s6 ~ age + bmi"),
            ("transformed", "np.log(target) ~ bmi + bp + s5"),
            ("transformed", "target ~ bmi + I(bmi**2)"),
            ("interaction", "target ~ bmi * sex"),
            ("interaction", "target ~ bmi * age"),
            ("logit", "I((target > 150) * 1) ~ bmi + bp + s5"),
        ),
    ),
    "voters": (
        "anes96_scale",
        944,
        ("selfLR", "PID", "age", "educ", "income", "TVnews"),
        (
            ("smaller", "selfLR ~ PID + age"),
            ("smaller", "selfLR ~ educ + income"),
            ("subgroup", "selfLR ~ PID + age", "educ >= 4"),
            ("subgroup", "selfLR ~ PID + educ", "age >= 45"),
            ("swapped", "PID ~ selfLR + income"),
            ("swapped", "income ~ educ + age"),
            ("transformed", "selfLR ~ np.log(age) + PID"),
            ("transformed", "selfLR ~ PID + I(PID**2)"),
            ("interaction", "selfLR ~ PID * educ"),
            ("interaction", "selfLR ~ age * income"),
            ("logit", "I((selfLR > 4) * 1) ~ PID + age + educ"),
        ),
    ),
}
"""By population: its cell, n, the variables that are numbers, and what is asked of it."""


def truth(analysis: Analysis, population: pd.DataFrame) -> pd.Series:
    """The coefficients in the whole population."""
    return pd.Series(np.asarray(analysis.fit(population).params), dtype=float)
