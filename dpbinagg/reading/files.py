"""Stata and SPSS files, and workbooks, through the readers of other packages.

Labels of .dta and .sav are names of codes. They do not decide what a column is: the caller declares
a number or a category, and the levels of a category by code or by label. Cells of a workbook have
types of their own, its columns have none.
"""

from __future__ import annotations

import codecs
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dpbinagg.errors import DataError
from dpbinagg.public.variables import Categorical, Records, Variables
from dpbinagg.reading.columns import Codes, ColumnType, convert
from dpbinagg.reading.source import Source
from dpbinagg.reading.tables import ROWS

T = TypeVar("T")
EXTRAS = {"pyreadstat": "spss", "openpyxl": "excel", "pyarrow": "parquet"}
"""The extra of this package that installs a reader."""


def _quietly(read: Callable[[], T]) -> T:
    """Read without warnings, which tell of records."""
    with warnings.catch_warnings(action="ignore"):
        return read()


def reading(path: str, module: str, read: Callable[[Any], T]) -> T:
    """Call `read` with a module; hide the text of its errors, which may quote the file."""
    try:
        return _quietly(lambda: read(import_module(module)))
    except ImportError as error:
        # pandas names what it lacks in the text alone.
        named = next((name for name in EXTRAS if name in str(error)), module)
        missing = error.name if error.name in EXTRAS else named
        extra = EXTRAS.get(missing)
        how = f'pip install "dpbinagg[{extra}]"' if extra else f"pip install {missing}"
        raise DataError(
            f"data file {path!r} needs the package {missing}, which is not installed: {how}; or "
            "save the table as CSV"
        ) from None
    # Readers raise their own kinds of errors.
    except Exception as error:
        raise DataError(
            f"data file {path!r} cannot be read as a {Path(path).suffix} file "
            f"({type(error).__name__}); check that it is whole and of that kind"
        ) from None


Labels = Mapping[Any, str]


@dataclass(frozen=True, slots=True, repr=False)
class LabelledPart:
    """Some records of such a file."""

    frame: Any
    schema: Mapping[str, ColumnType]

    def records(self, domain: Variables, variables: Sequence[str]) -> Records:
        """The records: a cell whose code is not a level may be one by its label."""
        records = dict(convert(self.frame, domain, variables))
        for name in variables:
            variable, labels = domain[name], self.schema[name].labels
            if isinstance(variable, Categorical) and labels:
                records[name] = _by_label(records[name], self.frame[name], variable, labels)
        return records


def _by_label(codes: Any, column: Any, variable: Categorical, labels: Labels) -> Any:
    known, values = Codes(variable), column.to_numpy()
    for code, label in labels.items():
        found = known.of_text(str(label))
        # What is declared as missing stays missing, whatever its label says.
        if found >= 0 and (isinstance(code, str) or float(code) not in variable.missing):
            codes = np.where((codes < 0) & (values == code), found, codes)
    return codes


class StataSource(Source):
    """A .dta file, read in pieces."""

    def __init__(self, path: str) -> None:
        self._path = path
        super().__init__(
            "stream", reading(path, "pandas", lambda pd: _stata_schema(pd, path)).items()
        )

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[LabelledPart]:
        """Pieces of the columns that are needed; dates stay numbers, so that none is refused."""
        import pandas as pd

        with pd.io.stata.StataReader(
            self._path,
            columns=list(variables),
            chunksize=ROWS,
            convert_categoricals=False,
            convert_dates=False,
        ) as reader:
            while (frame := _quietly(lambda: next(reader, None))) is not None:
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
        self._encoding, schema = reading(path, "pyreadstat", lambda spss: _spss_schema(spss, path))
        super().__init__("stream", schema.items())

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[LabelledPart]:
        """Pieces of the columns that are needed.

        Dates stay numbers and texts stay bytes, one letter each, until they are converted one by
        one: else a single cell that is neither would end the reading.
        """
        import pyreadstat

        names = {_letters(name, self._encoding): name for name in variables}
        start = 0
        while True:
            frame, _ = pyreadstat.read_sav(
                self._path,
                usecols=list(names),
                apply_value_formats=False,
                disable_datetime_conversion=True,
                encoding=BYTES,
                row_offset=start,
                row_limit=SPSS_ROWS,
            )
            if len(frame):
                yield LabelledPart(self._decoded(frame.rename(columns=names)), self.schema)
            if len(frame) < SPSS_ROWS:
                return
            start += len(frame)

    def _decoded(self, frame: Any) -> Any:
        for name in frame.columns:
            if self.schema[name].stored == "text":
                texts = frame[name].unique()
                known = {text: _text(text, self._encoding) for text in texts}
                frame[name] = frame[name].map(known).astype(object)
        return frame


SPSS_ROWS = 2**20
"""Records of one piece: the file is read from its start for each of them."""
BYTES = "ISO-8859-1"
"""The encoding in which each byte is a letter."""


def _letters(text: str, encoding: str) -> str:
    """A text as the letters that its bytes are."""
    return text.encode(encoding).decode(BYTES)


def _text(letters: object, encoding: str) -> str | None:
    """The text whose bytes are these letters; None if it is none."""
    try:
        return letters.encode(BYTES).decode(encoding) if isinstance(letters, str) else None
    except UnicodeError:
        return None


def _spss_schema(pyreadstat: Any, path: str) -> tuple[str, dict[str, ColumnType]]:
    _, meta = pyreadstat.read_sav(path, metadataonly=True, disable_datetime_conversion=True)
    schema = {
        name: _column(
            "text" if meta.readstat_variable_types[name] == "string" else np.dtype("float64"),
            meta.variable_value_labels.get(name, {}),
            meta.column_names_to_labels.get(name),
        )
        for name in meta.column_names
    }
    return codecs.lookup(meta.file_encoding or "utf-8").name, schema


class SheetSource(Source):
    """One sheet of a workbook, the first by default.

    The first row names the columns. Each cell is read by itself, as text, number or truth value.
    """

    def __init__(self, path: str, sheet: str | None = None) -> None:
        self._path, self._sheet = path, sheet
        header = reading(path, "pandas", lambda pd: _parsed(pd, path, sheet, nrows=1))
        if header is None:
            raise DataError(
                f"data file {path!r} has no sheet {sheet!r}; check sheet= (--sheet), or leave it "
                "out for the first"
            )
        names = [str(name).strip() for name in header.iloc[0]] if len(header) else []
        if not any(names):
            raise DataError(f"data file {path!r}: the first row must name the columns")
        super().__init__("stream", [(name, ColumnType("untyped")) for name in names])

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """The whole sheet, which holds a million rows at most."""
        import pandas as pd

        places = [self._names.index(name) for name in variables]
        frame = _quietly(lambda: _parsed(pd, self._path, self._sheet, skiprows=1))
        # As an empty line of a text file, an empty row is no record.
        frame = frame[(frame != "").any(axis=1)]
        whole = frame.reindex(columns=range(len(self._names)))[places]
        yield whole.set_axis(list(variables), axis=1).astype(object)


def _parsed(pd: Any, path: str, sheet: str | None, **options: Any) -> Any:
    """Cells as they are; None if there is no such sheet."""
    with pd.ExcelFile(path) as book:
        if sheet is not None and sheet not in book.sheet_names:
            return None
        return book.parse(sheet or 0, header=None, dtype=object, na_filter=False, **options)
