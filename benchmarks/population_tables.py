"""Real tables that serve as populations: statsmodels', scikit-learn's, our own, the census'.

The census file is not shipped: without it its cells are left out.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pandas as pd

from dpbinagg import datasets

CENSUS = "cps2024.csv.gz"


def census_file(folder: str | None) -> Path | None:
    """The census file in `folder` or its subfolder populations; None where it is not."""
    for place in (Path(folder), Path(folder) / "populations") if folder else ():
        if (place / CENSUS).is_file():
            return place / CENSUS
    return None


def census(file: Path) -> pd.DataFrame:
    """Adult earners of the Current Population Survey 2024, and a few recoded columns."""
    frame = pd.read_csv(file)
    frame["low"] = (frame["WSAL_VAL"] < 25_000).astype(int)
    frame["degree"] = np.select(
        [frame["educ_years"] < 12, frame["educ_years"] < 13, frame["educ_years"] < 16],
        ["none", "school", "some"],
        "college",
    )
    frame["band"] = np.minimum((frame["A_AGE"] - 25) // 5, 7)
    return frame


def statsmodels_table(name: str) -> pd.DataFrame:
    """A table that statsmodels ships, with the columns that its cells add."""
    module = importlib.import_module(f"statsmodels.datasets.{name}")
    frame: pd.DataFrame = module.load_pandas().data.copy()
    if name == "star98":
        frame["share"] = frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"])
    if name == "fair":
        frame["any"] = (frame["affairs"] > 0).astype(int)
    whole = [c for c in frame if frame[c].dtype.kind == "f" and (frame[c] % 1 == 0).all()]
    return frame.astype(dict.fromkeys(whole, "int64"))


def diabetes() -> pd.DataFrame:
    """Disease progression of 442 patients on ten laboratory values, in their own units."""
    from sklearn.datasets import load_diabetes

    frame: pd.DataFrame = load_diabetes(as_frame=True, scaled=False).frame
    return frame


def bundled(name: str) -> pd.DataFrame:
    """A survey of `dpbinagg.datasets`, its complete rows, levels as plain labels."""
    frame = getattr(datasets, f"load_{name}")().frame.dropna()
    labels = [c for c in frame if isinstance(frame[c].dtype, pd.CategoricalDtype)]
    return pd.DataFrame(frame.astype(dict.fromkeys(labels, object)))
