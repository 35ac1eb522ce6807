"""Public tables as files: CSV, Parquet and Stata; bins with their boxes, and second moments."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Hashable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg.errors import DataError
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.release.transcript import Released

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
                "Parquet files need pyarrow, which is not installed; run: "
                'pip install "dpbinagg[parquet]", or write CSV'
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


BIN_KEYS = ("count", "dev_x", "dev_y")
MOMENTS = "moments"
SD = "sd "
"""Before the name of a column: the standard deviation of its noise."""


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A CSV file; floats as their shortest exact text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def bin_keys(release: Released) -> tuple[str, ...]:
    """Statistics that go into the table of bins."""
    return tuple(key for key in BIN_KEYS if key in release.statistics)


def bins_to_csv(release: Released) -> bytes:
    """One row for each bin: its box, what was released, and the noise of each number."""
    header, columns = ["bin_id"], [list(range(release.n_bins))]
    for names, values in (_boxes(release), _statistics(release)):
        header += names
        columns += values
    return to_csv(header, zip(*columns, strict=True))


def _boxes(release: Released) -> tuple[list[str], list[list[Any]]]:
    boxes, names, columns = release.partition.boxes, [], []
    for name, variable in release.partition.domain.items():
        if isinstance(variable, Numeric):
            names += [f"{name} from", f"{name} to"]
            columns += [boxes.lower[name].tolist(), boxes.upper[name].tolist()]
        else:
            names.append(f"{name} levels")
            columns.append([_levels(variable, row) for row in boxes.members[name]])
    return names, columns


def _levels(variable: Categorical, members: Iterable[bool]) -> str:
    return "|".join(str(lv) for lv, held in zip(variable.levels, members, strict=True) if held)


def _statistics(release: Released) -> tuple[list[str], list[list[Any]]]:
    names, columns = [], []
    for key in bin_keys(release):
        labels = _labels(release, key)
        for prefix, source in (("", release.statistics), (SD, release.noise_scales)):
            table = np.asarray(source[key], dtype=np.float64).reshape(release.n_bins, -1)
            names += [prefix + label for label in labels]
            columns += table.T.tolist()
    return names, columns


def _labels(release: Released, key: str) -> list[str]:
    if key == "dev_x":
        return [f"dev {name}" for name in release.column_names]
    return ["count"] if key == "count" else [f"dev {release.design.response_name} (response)"]


def moments_to_csv(release: Released) -> bytes:
    """One row for each entry of the matrix of second moments."""
    scaling = release.column_scaling
    names = ["1", *(release.column_names[j] for j in scaling.varying)]
    names.append(f"{release.design.response_name} (response)")
    matrix, sd = release.statistics[MOMENTS], release.noise_scales[MOMENTS]
    rows = [
        (i, j, names[i], names[j], float(matrix[i, j]), float(sd[i, j]))
        for i in range(len(matrix))
        for j in range(len(matrix))
    ]
    return to_csv(["row", "column", "row name", "column name", "sum of products", "sd"], rows)
