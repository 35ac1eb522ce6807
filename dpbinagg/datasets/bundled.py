"""Loaders of the project's own data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbinagg.datasets._dataset import Dataset, data_path, make_dataset
from dpbinagg.datasets.simulate import make_register

if TYPE_CHECKING:
    import numpy as np

CC0 = "CC0 1.0"
SOURCE = (
    "Simulated by the dpbinagg project (data/generate.py, fixed seed). No real person is described."
)
WAGES_FORMULA = "np.log(wage) ~ educ + exper + I(exper**2) + C(sex) + C(region) + C(union)"
SCHOOL_FORMULA = "score ~ treatment + pretest + ses + class_size + C(school_type) + C(gender)"
REGISTER_FORMULA = (
    "np.log(income) ~ age + I(age**2) + tenure + hours + C(sex) + C(education) + C(sector)"
)


def load_wages() -> Dataset:
    """Wage survey of 5,000 employees, with heaped answers and missing values.

    Simulated around a Mincer equation whose coefficients are
    ``WAGE_COEFFICIENTS``: log wage on schooling, experience and its square, sex,
    region and union membership.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> wages = load_wages()
    >>> wages.frame.shape
    (5000, 7)
    >>> list(wages.frame.columns)
    ['wage', 'educ', 'exper', 'sex', 'region', 'union', 'hours']
    """
    import pandas as pd

    return make_dataset(
        "wages",
        pd.read_csv(data_path("wages")),
        formula=WAGES_FORMULA,
        source=SOURCE,
        license=CC0,
        note=(
            "A few percent of wage, hours and union are missing. Wages are reported by the "
            "respondents: heaped at round values, and coded from 3 to 150."
        ),
    )


def load_school() -> Dataset:
    """Tutoring experiment with 3,000 pupils; the true effect is 4 points for everybody.

    Each pupil was assigned by an even lottery, so that a comparison of means and the
    regression with covariates estimate the same effect, the second more precisely.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> school = load_school()
    >>> school.frame["treatment"].value_counts().to_dict() == {0: 1500, 1: 1500}
    True
    """
    import pandas as pd

    return make_dataset(
        "school",
        pd.read_csv(data_path("school")),
        formula=SCHOOL_FORMULA,
        source=SOURCE,
        license=CC0,
        note=(
            "A few percent of score and ses are missing; whether they are depends on the "
            "covariates, not on the score."
        ),
    )


def load_register(
    n: int = 100_000, rng: np.random.Generator | np.random.SeedSequence | int | None = 0
) -> Dataset:
    """Income register of any size, made on the spot, for trying out large tables.

    Parameters
    ----------
    n : int, default 100,000
        Number of people.
    rng : numpy.random.Generator, SeedSequence, int or None, default 0
        Source of randomness of the simulation (SPEC 7). The default gives the same
        register every time, ``None`` a new one.

    Returns
    -------
    Dataset

    See Also
    --------
    make_register : The same as a plain frame.

    Examples
    --------
    >>> register = load_register(n=1_000)
    >>> register.frame.shape
    (1000, 8)
    >>> bool(register.frame.isna().any(axis=None))
    False
    """
    return make_dataset(
        "register",
        make_register(n, rng),
        formula=REGISTER_FORMULA,
        source=SOURCE.replace("data/generate.py, fixed seed", "make_register"),
        license=CC0,
        note=(
            "Made when called; nothing is stored. Incomes have a heavy upper tail and are "
            "coded from 1,000 to 1,000,000."
        ),
    )
