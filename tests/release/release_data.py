"""Invented records, and a release of them that is saved once for many tests."""

import warnings

import numpy as np
import pandas as pd

from dpbinagg import dp_ols, dp_release

FORMULA = "np.log(wage) ~ educ + np.sqrt(exper) + I(exper**2):union + C(region) + k"
BOUNDS = {
    "wage": (0.5, 100),
    "educ": range(6, 19),
    "exper": (0, 40),
    "region": ["01", "NA", "E, W", "no"],
    "union": [False, True],
    "k": [1, 2, 3],
}


def wages(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "educ": rng.integers(6, 19, n),
            "exper": rng.uniform(0, 40, n),
            "region": rng.choice(BOUNDS["region"], n),
            "union": rng.random(n) < 0.3,
            "k": rng.choice([1, 2, 3], n),
        }
    )
    data["wage"] = np.exp(0.5 + 0.08 * data.educ + 0.1 * data.union + rng.normal(0, 0.4, n))
    return data


def make_release():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp_release(FORMULA, wages(), mu=1, bounds=BOUNDS, rng=1)


ODD_FORMULA = (
    'Q("else") ~ Q("if") + I(Q("in")**2) + Q("TRUE") + Q("hours per week") + Q("größe") '
    '+ C(Q("using"))'
)
ODD_BOUNDS = {
    "else": (-50, 50),
    "if": (0, 10),
    "in": (0, 3),
    "TRUE": [False, True],
    "hours per week": (0, 80),
    "größe": (140, 210),
    "using": ["Île", "if", "a b", "50%"],
}


def odd_records(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "if": rng.uniform(0, 10, n),
            "in": rng.uniform(0, 3, n),
            "TRUE": rng.random(n) < 0.4,
            "hours per week": rng.uniform(0, 80, n),
            "größe": rng.normal(175, 8, n),
            "using": rng.choice(ODD_BOUNDS["using"], n),
        }
    )
    mean = data["if"] - data["in"] ** 2 + 2.0 * data["TRUE"] + 0.1 * data["hours per week"]
    data["else"] = mean + 0.2 * (data["größe"] - 175) + rng.normal(0, 2, n)
    return data


def make_odd_results(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dp_ols(ODD_FORMULA, odd_records(), mu=2, bounds=ODD_BOUNDS, rng=1, **options)
