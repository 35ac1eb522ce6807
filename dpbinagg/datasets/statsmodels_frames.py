"""Frames that ship with statsmodels, with public codebooks of ours.

Bounds and levels follow the documented coding of each study; where it documents none, they
are round limits for the kind of quantity. Codes that stand for labels become categories,
and columns that a formula can build (a square, a logarithm) are left out.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from dpbinagg.datasets._dataset import Dataset, make_dataset, read_levels

if TYPE_CHECKING:
    import pandas as pd

BOUNDS_NOTE = (
    "Bounds and levels follow the documented coding of the study; where it documents none, they "
    "are round limits for the kind of quantity, checked to clip nothing."
)


def load_fair() -> Dataset:
    """Fair's survey of marriages: 6,366 answers to a magazine's questionnaire of 1974.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> fair = load_fair()
    >>> fair.frame.shape
    (6366, 9)
    >>> fair.formula
    'rate_marriage ~ age + yrs_married + children + religious + educ + C(occupation)'
    """
    raw = _statsmodels_frame("fair")
    for column in ("occupation", "occupation_husb"):
        raw[column] = _labels(raw[column], "fair", column, first=1)
    return _dataset(
        "fair",
        _whole(raw, "rate_marriage", "religious", "educ"),
        formula="rate_marriage ~ age + yrs_married + children + religious + educ + C(occupation)",
        note="Ages, years and children are midpoints of the questionnaire's intervals.",
    )


def load_ccard() -> Dataset:
    """Greene's credit card data: 72 cardholders, too few for a private regression.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load_ccard().frame.columns.tolist()
    ['AVGEXP', 'AGE', 'INCOME', 'OWNRENT']
    """
    raw = _statsmodels_frame("ccard")
    raw["OWNRENT"] = _labels(raw["OWNRENT"], "ccard", "OWNRENT")
    return _dataset(
        "ccard",
        raw,
        formula="AVGEXP ~ AGE + C(OWNRENT) + INCOME + I(INCOME**2)",
        note=(
            "With 72 records, noise outweighs what the data say at any strong privacy level: an "
            "example of a table that is too small. The column INCOMESQ is left out. The study "
            "documents no bounds at all."
        ),
    )


def load_anes96() -> Dataset:
    """American National Election Study of 1996: 944 voters.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load_anes96().frame["vote"].cat.categories.tolist()
    ['Clinton', 'Dole']
    """
    raw = _statsmodels_frame("anes96")
    raw["vote"] = _labels(raw["vote"], "anes96", "vote")
    whole = ("TVnews", "selfLR", "ClinLR", "DoleLR", "PID", "age", "educ", "income")
    return _dataset(
        "anes96",
        _whole(raw, *whole),
        formula="selfLR ~ PID + age + educ + income + TVnews",
        note="The column logpopul is left out; write np.log(popul + 0.1).",
    )


def load_randhie() -> Dataset:
    """RAND Health Insurance Experiment: 20,190 person-years of visits to a doctor.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> load_randhie().frame["health"].cat.categories.tolist()
    ['excellent', 'good', 'fair', 'poor']
    """
    raw = _statsmodels_frame("randhie")
    raw["idp"] = _labels(raw["idp"], "randhie", "idp")
    code = raw["hlthg"] + 2 * raw["hlthf"] + 3 * raw["hlthp"]
    raw["health"] = _labels(code, "randhie", "health")
    return _dataset(
        "randhie",
        raw,
        formula="mdvis ~ lncoins + C(idp) + lpi + fmde + physlm + disea + C(health)",
        note=(
            "The indicators hlthg, hlthf and hlthp are one category, health. A row is a year of "
            "a person, and people appear more than once: the guarantee for one record "
            "protects a person-year. The study documents no limit for "
            "mdvis, lpi and disea."
        ),
    )


def _statsmodels_frame(name: str) -> pd.DataFrame:
    module = importlib.import_module(f"statsmodels.datasets.{name}")
    return cast("pd.DataFrame", module.load_pandas().data.copy())


def _labels(codes: pd.Series, name: str, column: str, first: int = 0) -> pd.Series:
    """Codes first, first + 1, ... as the levels that the codebook declares."""
    levels = read_levels(name)[column] or []
    return codes.map(dict(enumerate(levels, start=first)))


def _whole(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    return frame.astype(dict.fromkeys(columns, "int64"))


def _dataset(name: str, frame: pd.DataFrame, *, formula: str, note: str) -> Dataset:
    module = importlib.import_module(f"statsmodels.datasets.{name}")
    return make_dataset(
        name,
        frame,
        formula=formula,
        source=f"statsmodels.datasets.{name}. {' '.join(module.SOURCE.split())}",
        license=" ".join(module.COPYRIGHT.split()),
        note=f"{BOUNDS_NOTE} {note}",
    )
