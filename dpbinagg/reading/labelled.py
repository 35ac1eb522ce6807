"""Stata and SPSS files: codes, with labels for some of them.

Labels are names of codes. They do not decide what a column is: the caller declares a number or a
category, and the levels of a category by code or by label.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.reading.columns import convert
from dpbinagg.reading.frames import ROWS
from dpbinagg.reading.readers import reading
from dpbinagg.reading.rules import Codes
from dpbinagg.reading.source import ColumnType, Source

Labels = Mapping[Any, str]


@dataclass(frozen=True, slots=True, repr=False)
class LabelledPart:
    """Some records of such a file."""

    frame: Any
    schema: Mapping[str, ColumnType]

    def records(self, domain: Domain, variables: Sequence[str]) -> Records:
        """The records: a cell whose code is not a level may be one by its label."""
        records = dict(convert(self.frame, domain, variables))
        for name in variables:
            variable, labels = domain[name], self.schema[name].labels
            if isinstance(variable, Categorical) and labels:
                records[name] = _by_label(records[name], self.frame[name], variable, labels)
        return records


def _by_label(codes: Any, column: Any, variable: Categorical, labels: Labels) -> Any:
    known = Codes(variable)
    by_code = {code: known.of_text(str(label)) for code, label in labels.items()}
    # What is declared as missing stays missing, whatever its label says.
    declared = {float(code) for code in variable.missing if not isinstance(code, str)}
    wanted = {code: found for code, found in by_code.items() if found >= 0}
    values = column.to_numpy()
    for code, found in wanted.items():
        if not isinstance(code, str) and float(code) in declared:
            continue
        codes = np.where((codes < 0) & (values == code), found, codes)
    return codes


class StataSource(Source):
    """A .dta file, read in pieces."""

    def __init__(self, path: str) -> None:
        self._path = path
        super().__init__("stream", reading(path, "pandas", lambda pd: _stata_schema(pd, path)))

    def parts(self, domain: Domain, variables: Sequence[str]) -> Iterator[LabelledPart]:
        """Pieces of the columns that are needed; dates stay numbers, so that none is refused."""
        import pandas as pd

        with pd.io.stata.StataReader(
            self._path,
            columns=list(variables),
            chunksize=ROWS,
            convert_categoricals=False,
            convert_dates=False,
        ) as reader:
            for frame in reader:
                yield LabelledPart(frame, self.schema)


def _stata_schema(pd: Any, path: str) -> dict[str, ColumnType]:
    with pd.io.stata.StataReader(path, convert_categoricals=False, convert_dates=False) as reader:
        names, about = reader.variable_labels(), reader.value_labels()
        # pandas does not tell otherwise which labels belong to which variable.
        labels = dict(zip(reader._varlist, reader._lbllist, strict=True))
        types = dict(zip(reader._varlist, reader._dtyplist, strict=True))
    return {
        name: _column(types[name], about.get(labels[name], {}), description)
        for name, description in names.items()
    }


def _column(dtype: Any, labels: Labels, description: str | None) -> ColumnType:
    if isinstance(dtype, int | str) or getattr(dtype, "kind", "O") in "OSU":
        return ColumnType("text", "str", {}, description or "")
    stored = "labelled" if labels else "number"
    return ColumnType(stored, str(dtype), dict(labels), description or "")  # type: ignore[arg-type]


class SpssSource(Source):
    """A .sav file. What its author marked as missing is missing."""

    def __init__(self, path: str) -> None:
        self._path = path
        schema = reading(path, "pyreadstat", lambda spss: _spss_schema(spss, path))
        super().__init__("stream", schema)

    def parts(self, domain: Domain, variables: Sequence[str]) -> Iterator[LabelledPart]:
        """Pieces of the columns that are needed; dates stay numbers, so that none is refused."""
        import pyreadstat

        start = 0
        while True:
            frame, _ = pyreadstat.read_sav(
                self._path,
                usecols=list(dict.fromkeys(variables)),
                apply_value_formats=False,
                disable_datetime_conversion=True,
                row_offset=start,
                row_limit=SPSS_ROWS,
            )
            if len(frame):
                yield LabelledPart(frame, self.schema)
            if len(frame) < SPSS_ROWS:
                return
            start += len(frame)


SPSS_ROWS = 2**20
"""Records of one piece: the file is read from its start for each of them."""


def _spss_schema(pyreadstat: Any, path: str) -> dict[str, ColumnType]:
    _, meta = pyreadstat.read_sav(path, metadataonly=True, disable_datetime_conversion=True)
    return {
        name: _column(
            "text" if meta.readstat_variable_types[name] == "string" else np.dtype("float64"),
            meta.variable_value_labels.get(name, {}),
            meta.column_names_to_labels.get(name),
        )
        for name in meta.column_names
    }
