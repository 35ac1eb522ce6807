"""Simulators behind the project's own data.

Only uniform and normal draws are taken from the generator, and turned into
everything else here, so that a seed keeps its meaning across numpy versions.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from dpbinagg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rng = np.random.Generator | np.random.SeedSequence | int | None

WAGE_COEFFICIENTS: dict[str, float] = {
    "Intercept": 1.55,
    "educ": 0.08,
    "exper": 0.036,
    "I(exper ** 2)": -0.0006,
    "C(sex)[T.female]": -0.15,
    "C(region)[T.south]": -0.10,
    "C(region)[T.east]": -0.04,
    "C(region)[T.west]": 0.06,
    "C(union)[T.yes]": 0.12,
}
"""True coefficients of log wage in `make_wages`."""

SCHOOL_COEFFICIENTS: dict[str, float] = {
    "Intercept": 24.0,
    "treatment": 4.0,
    "pretest": 0.6,
    "ses": 2.5,
    "class_size": -0.25,
    "C(school_type)[T.charter]": 1.0,
    "C(school_type)[T.private]": 2.0,
    "C(gender)[T.girl]": 1.5,
}
"""True coefficients of the score in `make_school`."""

REGISTER_COEFFICIENTS: dict[str, float] = {
    "Intercept": 7.3,
    "age": 0.06,
    "I(age ** 2)": -0.0006,
    "tenure": 0.01,
    "hours": 0.03,
    "C(sex)[T.female]": -0.12,
    "C(education)[T.secondary]": 0.15,
    "C(education)[T.tertiary]": 0.45,
    "C(sector)[T.manufacturing]": 0.20,
    "C(sector)[T.construction]": 0.15,
    "C(sector)[T.trade]": 0.05,
    "C(sector)[T.public]": 0.18,
    "C(sector)[T.services]": 0.25,
}
"""True coefficients of log income in `make_register`."""

REGIONS = ("north", "south", "east", "west")
SCHOOL_TYPES = ("public", "charter", "private")
EDUCATION = ("primary", "secondary", "tertiary")
SECTORS = ("agriculture", "manufacturing", "construction", "trade", "public", "services")

# Shares in percent of 0, 1, ..., 20 years of schooling; peaks where certificates are given.
EDUC_SHARES = (
    *(0.5, 0.1, 0.2, 0.3, 0.5, 0.6, 1.2, 1.2, 7.0, 3.0, 5.0),
    *(4.5, 30.0, 6.0, 10.0, 4.0, 15.0, 3.0, 5.0, 1.2, 1.7),
)
FULL_TIME = (
    (30, 35, 38, 40, 42, 45, 50, 55, 60),
    (0.04, 0.17, 0.08, 0.47, 0.04, 0.09, 0.07, 0.01, 0.03),
)
PART_TIME = (
    (8, 10, 12, 15, 16, 20, 24, 25, 30),
    (0.04, 0.09, 0.05, 0.10, 0.06, 0.41, 0.08, 0.09, 0.08),
)


def make_wages(n: int, rng: Rng = None) -> pd.DataFrame:
    """Simulate a wage survey.

    Log wage follows a Mincer equation,

        log wage = b0 + b1 educ + b2 exper + b3 exper^2 + sex + region + union + e,

    with the coefficients in `WAGE_COEFFICIENTS` and a normal error whose standard
    deviation grows with experience, 0.33 + 0.0025 exper. Reported wages are heaped at round
    values. Missing answers depend on covariates only.

    Parameters
    ----------
    n : int
        Number of employees.
    rng : numpy.random.Generator, SeedSequence, int or None
        Source of randomness (SPEC 7).

    Returns
    -------
    pandas.DataFrame
        Columns wage, educ, exper, sex, region, union, hours.

    Examples
    --------
    >>> make_wages(3, rng=1).columns.tolist()
    ['wage', 'educ', 'exper', 'sex', 'region', 'union', 'hours']
    """
    n, rng = _size(n), np.random.default_rng(rng)
    female = rng.random(n) < 0.48
    region = _draw(rng.random(n), (0.24, 0.34, 0.20, 0.22))
    educ = _schooling(rng, region)
    exper = _experience(rng, educ, female)
    union = rng.random(n) < expit(
        -2.2 + np.array([0.7, -0.4, 0.2, 0.1])[region] - 0.2 * female + 0.015 * exper
    )
    mean = (
        WAGE_COEFFICIENTS["Intercept"]
        + WAGE_COEFFICIENTS["educ"] * educ
        + WAGE_COEFFICIENTS["exper"] * exper
        + WAGE_COEFFICIENTS["I(exper ** 2)"] * exper**2
        + WAGE_COEFFICIENTS["C(sex)[T.female]"] * female
        + _effects(WAGE_COEFFICIENTS, "region", REGIONS)[region]
        + WAGE_COEFFICIENTS["C(union)[T.yes]"] * union
    )
    wage = np.exp(mean + (0.33 + 0.0025 * exper) * rng.standard_normal(n))
    wage = np.clip(_heap_wages(rng, wage), 3.0, 150.0)
    hours = _weekly_hours(rng, female).astype(float)
    wage[rng.random(n) < expit(-4.4 + 0.09 * educ)] = np.nan
    hours[rng.random(n) < 0.025 + 0.02 * (exper < 10)] = np.nan
    union_answer = np.where(rng.random(n) < 0.015 + 0.02 * (exper < 5), -1, union)
    return _frame(
        wage=wage,
        educ=educ,
        exper=exper,
        sex=(female.astype(np.int64), ("male", "female")),
        region=(region, REGIONS),
        union=(union_answer, ("no", "yes")),
        hours=hours,
    )


def make_school(n: int, rng: Rng = None) -> pd.DataFrame:
    """Simulate a randomised tutoring experiment.

    Half of the pupils, drawn by lot, are tutored. The score is

        score = a + 4 treatment + 0.6 pretest + 2.5 ses - 0.25 class_size + type + gender + e,

    with the coefficients in `SCHOOL_COEFFICIENTS`, e normal with standard deviation 7,
    rounded and kept within 0 to 100. Missing answers depend on covariates only.

    Parameters
    ----------
    n : int
        Number of pupils.
    rng : numpy.random.Generator, SeedSequence, int or None
        Source of randomness (SPEC 7).

    Returns
    -------
    pandas.DataFrame
        Columns score, pretest, treatment, ses, class_size, school_type, gender.

    Examples
    --------
    >>> int(make_school(10, rng=1)["treatment"].sum())
    5
    """
    n, rng = _size(n), np.random.default_rng(rng)
    ses = np.clip(np.round(rng.standard_normal(n), 2), -3.0, 3.0)
    girl = rng.random(n) < 0.5
    kind = np.searchsorted([0.70, 0.88], ndtr(0.35 * ses + 0.94 * rng.standard_normal(n)))
    typical = np.array([25.0, 23.0, 19.0])[kind]
    class_size = np.clip(np.rint(typical + 3.5 * rng.standard_normal(n)), 8, 36)
    ability = 50 + 4.5 * ses + 11 * rng.standard_normal(n)
    pretest = np.clip(np.rint(ability), 0, 100)
    treatment = np.zeros(n, dtype=np.int64)
    treatment[np.argsort(rng.random(n))[: n // 2]] = 1
    mean = (
        SCHOOL_COEFFICIENTS["Intercept"]
        + SCHOOL_COEFFICIENTS["treatment"] * treatment
        + SCHOOL_COEFFICIENTS["pretest"] * pretest
        + SCHOOL_COEFFICIENTS["ses"] * ses
        + SCHOOL_COEFFICIENTS["class_size"] * class_size
        + _effects(SCHOOL_COEFFICIENTS, "school_type", SCHOOL_TYPES)[kind]
        + SCHOOL_COEFFICIENTS["C(gender)[T.girl]"] * girl
    )
    score = np.clip(np.rint(mean + 7 * rng.standard_normal(n)), 0, 100)
    score[rng.random(n) < 0.015 + 0.02 * (pretest < 40)] = np.nan
    ses[rng.random(n) < 0.02 + 0.02 * (kind == 0)] = np.nan
    return _frame(
        score=score,
        pretest=pretest.astype(np.int64),
        treatment=treatment,
        ses=ses,
        class_size=class_size.astype(np.int64),
        school_type=(kind, SCHOOL_TYPES),
        gender=(girl.astype(np.int64), ("boy", "girl")),
    )


def make_register(n: int, rng: Rng = None) -> pd.DataFrame:
    """Simulate an income register, about a second for a million people.

    Log income is linear in age, its square, tenure, weekly hours, sex, education and
    sector with the coefficients in `REGISTER_COEFFICIENTS`. The error is normal with
    standard deviation 0.4; for one person in fifty an exponential variable with mean 0.5 is
    added, which gives incomes a Pareto tail with index 2 (and the intercept 0.01).

    Parameters
    ----------
    n : int
        Number of people.
    rng : numpy.random.Generator, SeedSequence, int or None
        Source of randomness (SPEC 7).

    Returns
    -------
    pandas.DataFrame
        Columns income, age, tenure, hours, sex, education, sector, region.

    Examples
    --------
    >>> make_register(5, rng=1).dtypes["sector"].name
    'category'
    """
    n, rng = _size(n), np.random.default_rng(rng)
    female = rng.random(n) < 0.49
    age = (18 + 52 * (rng.random(n) + rng.random(n)) / 2).astype(np.int64)
    education = np.searchsorted([0.2, 0.68], rng.random(n) + 0.002 * (40 - age))
    sector = _draw(rng.random(n), (0.04, 0.16, 0.08, 0.18, 0.22, 0.32))
    region = _draw(rng.random(n), (0.24, 0.34, 0.20, 0.22))
    tenure = ((age - 17) * rng.random(n) ** 2).astype(np.int64)
    hours = _weekly_hours(rng, female)
    mean = (
        REGISTER_COEFFICIENTS["Intercept"]
        + REGISTER_COEFFICIENTS["age"] * age
        + REGISTER_COEFFICIENTS["I(age ** 2)"] * age**2
        + REGISTER_COEFFICIENTS["tenure"] * tenure
        + REGISTER_COEFFICIENTS["hours"] * hours
        + REGISTER_COEFFICIENTS["C(sex)[T.female]"] * female
        + _effects(REGISTER_COEFFICIENTS, "education", EDUCATION)[education]
        + _effects(REGISTER_COEFFICIENTS, "sector", SECTORS)[sector]
    )
    tail = np.where(rng.random(n) < 0.02, -0.5 * np.log1p(-rng.random(n)), 0.0)
    income = np.exp(mean + 0.4 * rng.standard_normal(n) + tail)
    return _frame(
        income=np.clip(np.rint(income), 1_000, 1_000_000),
        age=age,
        tenure=tenure,
        hours=hours,
        sex=(female.astype(np.int64), ("male", "female")),
        education=(education, EDUCATION),
        sector=(sector, SECTORS),
        region=(region, REGIONS),
    )


def _size(n: int) -> int:
    try:
        size = operator.index(n)
    except TypeError:
        raise DataError(f"n must be a whole number of rows; got {type(n).__name__}.") from None
    if size < 0:
        raise DataError(f"n must not be negative; got {size}.")
    return size


def _draw(uniform: Floats, shares: tuple[float, ...]) -> Ints:
    """Codes 0, 1, ... with the given shares, by inversion."""
    cumulative = np.cumsum(shares)
    return np.searchsorted(cumulative[:-1] / cumulative[-1], uniform, side="right")


def _effects(coefficients: dict[str, float], variable: str, levels: tuple[str, ...]) -> Floats:
    """Effects of the levels, zero for the first."""
    return np.array([coefficients.get(f"C({variable})[T.{level}]", 0.0) for level in levels])


def _schooling(rng: np.random.Generator, region: Ints) -> Ints:
    latent = np.array([0.0, -0.2, 0.0, 0.2])[region] + rng.standard_normal(region.size)
    return _draw(ndtr(latent), EDUC_SHARES)


def _experience(rng: np.random.Generator, educ: Ints, female: NDArray[np.bool_]) -> Ints:
    """Years since school or the age of 16, less career breaks, longer for women."""
    n = educ.size
    age = 18 + 49 * rng.random(n) ** 1.15
    years = np.maximum(age - np.maximum(educ + 6, 16), 0)
    worked = 1 - rng.random(n) * np.where(female, 0.3, 0.1)
    return np.minimum(np.floor(years * worked), 50).astype(np.int64)


def _heap_wages(rng: np.random.Generator, wage: Floats) -> Floats:
    """Reported wages: to the cent, or rounded to .50, to 1 or, above 30, to 5."""
    habit = _draw(rng.random(wage.size), (0.40, 0.20, 0.40))
    step = np.where(habit == 0, 0.01, np.where(habit == 1, 0.5, np.where(wage > 30, 5.0, 1.0)))
    return np.round(np.rint(wage / step) * step, 2)


def _weekly_hours(rng: np.random.Generator, female: NDArray[np.bool_]) -> Ints:
    """Usual weekly hours, 1 to 80, mostly at 40, 20 and 35."""
    n = female.size
    part_time = rng.random(n) < np.where(female, 0.38, 0.10)
    answer = rng.random(n)
    heaped = np.where(
        part_time,
        np.array(PART_TIME[0])[_draw(answer, PART_TIME[1])],
        np.array(FULL_TIME[0])[_draw(answer, FULL_TIME[1])],
    )
    exact = np.clip(np.rint(np.where(part_time, 20, 41) + 6 * rng.standard_normal(n)), 1, 80)
    return np.where(rng.random(n) < 0.85, heaped, exact).astype(np.int64)


def _frame(**columns: Any) -> pd.DataFrame:
    """A frame; a pair (codes, levels) becomes a category, code -1 a missing value."""
    import pandas as pd

    return pd.DataFrame(
        {
            name: pd.Categorical.from_codes(value[0], dtype=pd.CategoricalDtype(list(value[1])))
            if isinstance(value, tuple)
            else value
            for name, value in columns.items()
        }
    )
