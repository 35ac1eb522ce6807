"""Public tables as files: CSV, Parquet and Stata."""

from __future__ import annotations

import io
import warnings
from collections.abc import Hashable
from importlib.util import find_spec

import numpy as np
import pandas as pd

from dpbinagg.errors import DataError
from dpbinagg.public.domain import Categorical, Domain

LARGE_CELLS = 2_000_000
"""Cells beyond which a synthetic table is a Parquet file: about 40 MB as CSV, which e-mail and
many archives refuse."""


def frame_to_csv(frame: pd.DataFrame) -> bytes:
    """A frame as CSV: all digits, booleans as R writes them.

    Examples
    --------
    >>> frame_to_csv(pd.DataFrame({"x": [0.1], "union": [True]}))
    b'x,union\\n0.1,TRUE\\n'
    """
    text = io.StringIO()
    plain = frame.copy()
    for name in plain.columns:
        if plain[name].dtype == bool:
            plain[name] = np.where(plain[name], "TRUE", "FALSE")
    plain.to_csv(text, index=False, lineterminator="\n")
    return text.getvalue().encode()


def table_files(frame: pd.DataFrame, stem: str) -> dict[str, bytes]:
    """A synthetic table as one file: CSV, or Parquet where it is large and pyarrow is there."""
    if frame.size > LARGE_CELLS and find_spec("pyarrow") is not None:
        return {f"{stem}.parquet": table_bytes(frame, ".parquet")}
    return {f"{stem}.csv": frame_to_csv(frame)}


def table_bytes(frame: pd.DataFrame, ending: str, domain: Domain | None = None) -> bytes:
    """A public table as the content of a file that ends in .csv, .parquet or .dta.

    A Stata file has the labels and descriptions of `domain`.
    """
    if ending == ".csv":
        return frame_to_csv(frame)
    plain = frame.copy()
    plain.attrs = {}
    buffer = io.BytesIO()
    if ending == ".parquet":
        for name in plain.columns:
            dtype = plain[name].dtype
            if isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype.kind in "iuf":
                # R reads a category of numbers as text.
                plain[name] = plain[name].astype(dtype.categories.dtype)
        try:
            plain.to_parquet(buffer, index=False)
        except ImportError:
            raise DataError(
                "Parquet files need the package pyarrow, which is not installed; install it, or "
                "write CSV"
            ) from None
        return buffer.getvalue()
    for name in plain.columns:
        if plain[name].dtype == bool:
            plain[name] = plain[name].astype("int8")
    plain, values, variables = _for_stata(plain, domain)
    with warnings.catch_warnings():
        # Names that Stata does not allow are changed to ones that it does.
        warnings.simplefilter("ignore")
        plain.to_stata(
            buffer,
            write_index=False,
            version=118,
            value_labels=values,
            variable_labels=variables,
        )
    return buffer.getvalue()


LONGEST_DESCRIPTION = 80
"""Characters that Stata takes as the label of a variable."""


def _for_stata(
    frame: pd.DataFrame, domain: Domain | None
) -> tuple[pd.DataFrame, dict[Hashable, dict[float, str]], dict[Hashable, str]]:
    """Categories of whole numbers as such, and labels of their values and of variables."""
    plain, values = frame.copy(), dict[Hashable, dict[float, str]]()
    variables: dict[Hashable, str] = {}
    for name in plain.columns:
        variable = domain.get(name) if domain is not None else None
        dtype = plain[name].dtype
        if isinstance(dtype, pd.CategoricalDtype) and dtype.categories.dtype.kind in "iu":
            plain[name] = plain[name].astype(dtype.categories.dtype)
            if isinstance(variable, Categorical) and variable.labels:
                values[name] = {float(str(k)): label for k, label in variable.label_of.items()}
        if variable is not None and variable.description:
            variables[name] = variable.description[:LONGEST_DESCRIPTION]
    return plain, values, variables
