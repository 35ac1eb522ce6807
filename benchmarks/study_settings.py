"""Studies on the populations of `populations.py`: ten models each, and models that nobody declared.

The first m models make a study of m. They are what papers print: the same outcome with more and
with fewer regressors, other outcomes, and groups. `free` are asked of the release afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
from population_cell import Bounds, Source, simulated
from population_tables import bundled, census, census_file, statsmodels_table


@dataclass(frozen=True, slots=True)
class Setting:
    """A population, its public bounds, ten models in order, and models that are not declared."""

    name: str
    source: Source = field(repr=False)
    bounds: Bounds = field(repr=False)
    models: tuple[str, ...]
    free: tuple[str, ...]

    def study(self, m: int) -> dict[str, str]:
        """The first m models by name."""
        return {f"m{k}": formula for k, formula in enumerate(self.models[:m], start=1)}

    def population(self) -> pd.DataFrame:
        """The rows of the whole table that are complete, with the variables of the bounds."""
        return self.source()[list(self.bounds)].dropna().reset_index(drop=True)


def settings(folder: str | None) -> dict[str, Setting]:
    """All settings by name; the census' only where its file is."""
    found = [_randhie(), _fair(), _wages(), _school(), _register(), _simulated()]
    file = census_file(folder)
    if file is not None:
        found.insert(0, _census(partial(census, file)))
    return {setting.name: setting for setting in found}


def _census(source: Source) -> Setting:
    bounds = {
        "log_wage": (0, 15),
        "educ_years": (0, 22),
        "experience": (0, 70),
        "experience_sq": (0, 4900),
        "female": range(2),
        "A_AGE": (15, 90),
        "WSAL_VAL": (0, 2_500_000),
        "low": range(2),
        "degree": ["school", "none", "some", "college"],
    }
    mincer = "educ_years + experience + experience_sq + female"
    models = (
        f"log_wage ~ {mincer}",
        f"low ~ {mincer}",
        "educ_years ~ A_AGE + female",
        "log_wage ~ educ_years * female + experience",
        "log_wage ~ C(degree) + experience + female",
        "WSAL_VAL ~ educ_years + experience + female",
        "low ~ C(degree) + experience + female",
        "log_wage ~ educ_years + A_AGE + female",
        "low ~ educ_years * female",
        "female ~ educ_years + A_AGE",
    )
    free = ("experience ~ female", "log_wage ~ female", "A_AGE ~ log_wage + low", "low ~ log_wage")
    return Setting("cps", source, bounds, models, free)


def _randhie() -> Setting:
    bounds = {
        "mdvis": (0, 100),
        "lncoins": (0, 5),
        "idp": range(2),
        "lpi": (0, 10),
        "fmde": (0, 10),
        "physlm": (0, 1),
        "disea": (0, 60),
        "hlthg": range(2),
        "hlthf": range(2),
        "hlthp": range(2),
    }
    health = "physlm + disea + hlthg + hlthf + hlthp"
    models = (
        f"mdvis ~ lncoins + idp + lpi + fmde + {health}",
        "mdvis ~ lncoins + idp + lpi + fmde",
        "disea ~ lncoins + idp + physlm + hlthg + hlthf",
        "physlm ~ lncoins + idp + disea",
        "hlthg ~ lncoins + idp + disea + physlm",
        "I(mdvis > 0) ~ lncoins + idp + lpi + physlm + disea",
        "hlthf ~ lncoins + idp + disea",
        "mdvis ~ disea * idp + physlm",
        "lpi ~ idp + disea + physlm",
        "I(mdvis > 0) ~ lncoins + disea + hlthg + hlthf + hlthp",
    )
    free = ("disea ~ mdvis + lncoins", "mdvis ~ disea", "fmde ~ lncoins + idp", "idp ~ disea")
    return Setting("randhie", partial(statsmodels_table, "randhie"), bounds, models, free)


def _fair() -> Setting:
    bounds = {
        "affairs": (0, 60),
        "any": range(2),
        "rate_marriage": range(1, 6),
        "age": (15, 50),
        "yrs_married": (0, 30),
        "children": (0, 8),
        "religious": range(1, 5),
        "educ": range(8, 22),
    }
    causes = "age + yrs_married + children + religious + educ"
    models = (
        f"any ~ rate_marriage + {causes}",
        f"rate_marriage ~ {causes}",
        "affairs ~ rate_marriage + yrs_married + religious",
        "children ~ age + yrs_married + religious + educ",
        "any ~ rate_marriage + yrs_married",
        "religious ~ age + educ + children",
        "rate_marriage ~ religious + educ",
        "any ~ rate_marriage * religious",
        "educ ~ age + religious",
        "yrs_married ~ age + educ",
    )
    free = ("age ~ educ", "affairs ~ any", "any ~ religious", "religious ~ rate_marriage + educ")
    return Setting("fair", partial(statsmodels_table, "fair"), bounds, models, free)


def _wages() -> Setting:
    bounds = {
        "wage": (3, 150),
        "educ": range(21),
        "exper": range(51),
        "sex": ["male", "female"],
        "region": ["north", "south", "east", "west"],
        "union": ["no", "yes"],
        "hours": (0, 80),
    }
    models = (
        "np.log(wage) ~ educ + exper + I(exper**2) + C(sex) + C(region) + C(union)",
        "np.log(wage) ~ educ + exper + C(sex)",
        "hours ~ educ + exper + C(sex)",
        "educ ~ C(sex) + C(region)",
        "np.log(wage) ~ educ * C(sex) + exper",
        "I(hours >= 40) ~ educ + C(sex) + C(union)",
        "hours ~ np.log(wage) + C(sex) + C(union)",
        "np.log(wage) ~ educ + C(union) + hours",
        "exper ~ educ + C(sex)",
        "I(hours >= 40) ~ np.log(wage) + C(sex)",
    )
    free = ("exper ~ np.log(wage)", "np.log(wage) ~ C(union)", "educ ~ hours", "hours ~ C(region)")
    return Setting("wages", partial(bundled, "wages"), bounds, models, free)


def _school() -> Setting:
    bounds = {
        "score": (0, 100),
        "treatment": range(2),
        "pretest": (0, 100),
        "ses": (-3, 3),
        "class_size": range(8, 37),
        "school_type": ["public", "charter", "private"],
        "gender": ["boy", "girl"],
    }
    models = (
        "score ~ treatment + pretest + ses + class_size + C(school_type) + C(gender)",
        "score ~ treatment",
        "score ~ treatment + pretest",
        "pretest ~ treatment + ses + C(gender)",
        "score ~ treatment * C(gender) + pretest",
        "ses ~ C(school_type)",
        "class_size ~ treatment + C(school_type)",
        "I(score > 60) ~ treatment + pretest",
        "score ~ treatment * ses + pretest",
        "treatment ~ pretest + ses",
    )
    free = ("score ~ ses", "pretest ~ class_size", "ses ~ pretest", "score ~ C(school_type)")
    return Setting("school", partial(bundled, "school"), bounds, models, free)


def _register() -> Setting:
    bounds = {
        "income": (1000, 1_000_000),
        "age": range(18, 71),
        "tenure": range(56),
        "hours": range(1, 81),
        "sex": ["male", "female"],
        "education": ["primary", "secondary", "tertiary"],
        "sector": ["agriculture", "manufacturing", "construction", "trade", "public", "services"],
    }
    models = (
        "np.log(income) ~ age + I(age**2) + tenure + hours + C(sex) + C(education) + C(sector)",
        "np.log(income) ~ age + C(sex) + C(education)",
        "hours ~ age + C(sex) + C(sector)",
        "tenure ~ age + C(education)",
        "np.log(income) ~ age + tenure + C(sex) * C(education)",
        "I(hours > 40) ~ age + C(sex) + C(education)",
        "hours ~ np.log(income) + C(sex)",
        "np.log(income) ~ hours + tenure",
        "tenure ~ age + C(sex) + C(sector)",
        "I(hours > 40) ~ tenure + C(sector)",
    )
    free = ("age ~ C(education)", "np.log(income) ~ C(sex)", "hours ~ tenure", "tenure ~ hours")
    return Setting("register", partial(bundled, "register"), bounds, models, free)


def _several(size: int, rng: np.random.Generator) -> pd.DataFrame:
    """Five covariates that hang together, a factor, and five outcomes with shared errors."""
    base = rng.normal(size=(size, 5))
    x = 0.8 * base + 0.6 * base[:, [0]]
    group = rng.choice(["a", "b", "c"], size, p=[0.5, 0.3, 0.2])
    shared = rng.normal(size=size)
    frame = pd.DataFrame({f"x{j}": np.clip(x[:, j], -5, 5) for j in range(5)})
    frame["group"] = group
    for k in range(5):
        slopes = np.array([0.6, -0.4, 0.3, 0.0, 0.2])[np.arange(k, k + 5) % 5]
        error = 0.6 * shared + 0.8 * rng.normal(size=size)
        if k == 3:
            error = error * (0.5 + 0.5 * np.abs(x[:, 0]))
        y = x @ slopes + 0.3 * (group == "b") + error
        frame[f"y{k}"] = (y > 0.5).astype(int) if k == 4 else np.clip(y, -12, 12)
    return frame


def _simulated() -> Setting:
    bounds: dict[str, object] = {f"x{j}": (-5, 5) for j in range(5)}
    bounds |= {"group": ["a", "b", "c"]}
    bounds |= {f"y{k}": (-12, 12) for k in range(4)} | {"y4": range(2)}
    whole = "x0 + x1 + x2 + x3 + x4 + C(group)"
    models = (
        *(f"y{k} ~ {whole}" for k in range(5)),
        "y0 ~ x0 + x1",
        "y1 ~ x0 + C(group)",
        "y0 ~ x0 * C(group)",
        "y2 ~ y0 + x0",
        "y3 ~ x0 + x1 + x2",
    )
    free = ("x0 ~ x1 + x2", "y1 ~ x2", "y2 ~ y1 + y3", "y3 ~ C(group)")
    return Setting("simulated", simulated(_several), bounds, models, free)
