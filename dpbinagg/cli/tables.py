"""Tables in files: read by public rules, written for others.

Whether a file is refused depends on its name and schema, never on one value: a cell
that cannot be read as what the domain declares is missing, as in every other table.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg.errors import DataError
from dpbinagg.release.exports import table_bytes

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.public.domain import Domain

TEXT = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PACKED = (".gz", ".zst")
LARGE = 2**28
"""Bytes beyond which a file is streamed instead of read."""
EXCEL = (".xlsx", ".xlsm", ".xls", ".ods")
READABLE = (*TEXT, ".parquet", ".dta", ".sav", *EXCEL)
WRITABLE = (".csv", ".parquet", ".dta")
TRUE, FALSE = ("true", "t", "yes", "1"), ("false", "f", "no", "0")


def read_table(
    path: str | Path, formula: str, domain: Domain, sheet: str | None = None
) -> pd.DataFrame | str:
    """Read a private table with the types that the domain declares.

    CSV and Excel files carry no types: a variable with declared levels is read as
    text, any other variable of the formula as a number. In Stata and SPSS files, value
    labels become levels, unless the domain declares the variable numeric. Large CSV
    and Parquet files, folders of them and patterns are left to the engine that streams
    them.

    Parameters
    ----------
    path : path
    formula : str
    domain : Domain
        What is declared, codebook and options together.
    sheet : str, optional
        Sheet of an Excel file; the first by default.

    Returns
    -------
    DataFrame, or the path where it is to be streamed
    """
    source = Path(path)
    ending = source.suffix.lower()
    if _streamed(source, ending):
        return str(path)
    if ending not in READABLE:
        raise DataError(
            f"data must be a file that ends in {', '.join(READABLE)}, got {source.suffix!r}; "
            "convert the table, or pass a data frame to dp_ols in Python"
        )
    if not source.is_file():
        raise DataError(f"data file {str(source)!r} does not exist")
    if ending in TEXT or ending in EXCEL:
        return _untyped(source, ending, formula, domain, sheet)
    if ending == ".parquet":
        frame: pd.DataFrame = _reading(source, "pandas", lambda pd: pd.read_parquet(source))
        return frame
    frame, labels = _labelled(source, ending)
    return with_labels(frame, labels, domain)


def schema(path: str | Path) -> pd.DataFrame:
    """The columns of a table without its records: names, types, value labels.

    CSV and Excel files have no types; their columns are of type object.
    """
    import pandas as pd

    source = Path(path)
    ending = source.suffix.lower()
    if ending not in READABLE:
        raise DataError(f"data must be a file that ends in {', '.join(READABLE)}")
    if not source.is_file():
        raise DataError(f"data file {str(source)!r} does not exist")
    if ending in TEXT:
        options: dict[str, Any] = {"sep": TEXT[ending], "nrows": 0, "dtype": object}
        frame = _reading(source, "pandas", lambda pd: pd.read_csv(source, **options))
    elif ending in EXCEL:
        frame = _reading(source, "pandas", lambda pd: pd.read_excel(source, nrows=0, dtype=object))
    elif ending == ".parquet":
        frame = _reading(
            source,
            "pyarrow.parquet",
            lambda parquet: parquet.read_schema(source).empty_table().to_pandas(),
        )
    else:
        from dpbinagg.public.domain import Domain

        codes, labels = _labelled(source, ending)
        frame = with_labels(codes.iloc[:0], labels, Domain())
    return pd.DataFrame(frame)


def _streamed(source: Path, ending: str) -> bool:
    """Whether the curator reads the files itself, batch by batch."""
    if source.is_dir() or any(mark in str(source) for mark in "*?") or ending in PACKED:
        return True
    typed = ending in TEXT or ending == ".parquet"
    return typed and source.is_file() and source.stat().st_size > LARGE


def _reading(source: Path, module: str, read: Any) -> Any:
    """Call `read` with the module; hide the text of its errors, which may quote the file."""
    from importlib import import_module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(import_module(module))
    except ImportError as error:
        missing = getattr(error, "name", None) or module
        raise DataError(
            f"data file {str(source)!r} needs the package {missing}, which is not installed; "
            "install it, or save the table as CSV"
        ) from None
    # Readers raise their own kinds of errors.
    except Exception as error:
        raise DataError(
            f"data file {str(source)!r} cannot be read as a {source.suffix} file "
            f"({type(error).__name__}); check that it is whole and of that kind"
        ) from None


def _untyped(
    source: Path, ending: str, formula: str, domain: Domain, sheet: str | None
) -> pd.DataFrame:
    from dpbinagg.formula import build_design

    design = build_design(formula, domain)
    names = list(dict.fromkeys((*design.variables, *design.response_variables)))
    if ending in EXCEL:
        frame = _reading(source, "pandas", lambda pd: _sheet(pd, source, sheet))
        if frame is None:
            raise DataError(
                f"data file {str(source)!r} has no sheet {sheet!r}; check --sheet, or leave it out "
                "for the first"
            )
        frame = frame[[name for name in names if name in frame.columns]]
    else:
        frame = _reading(
            source,
            "pandas",
            lambda pd: pd.read_csv(
                source,
                sep=TEXT[ending],
                dtype=str,
                keep_default_na=False,
                usecols=lambda name: name in names,
                encoding="utf-8-sig",
                encoding_errors="replace",
                on_bad_lines="skip",
            ),
        )
    return with_types(frame, design.domain)


def _sheet(pd: Any, source: Path, name: str | None) -> Any:
    """A sheet of a workbook, the first by default; None if there is no such sheet."""
    with pd.ExcelFile(source) as book:
        if name is not None and name not in book.sheet_names:
            return None
        return book.parse(name or 0, dtype=object, na_filter=False)


def with_types(frame: pd.DataFrame, domain: Domain) -> pd.DataFrame:
    """A frame of text as numbers and declared categories; what is neither becomes missing.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpbinagg import Domain
    >>> text = pd.DataFrame({"age": ["31", "n/a"], "sex": [" f", "x"]})
    >>> with_types(text, Domain({"age": (0, 99), "sex": ["f", "m"]}))
        age  sex
    0  31.0    f
    1   NaN  NaN
    """
    import pandas as pd

    return pd.DataFrame({name: _typed(frame[name], domain, str(name)) for name in frame.columns})


def _typed(column: pd.Series, domain: Domain, name: str) -> Any:
    import pandas as pd

    from dpbinagg.public.domain import Categorical

    variable = domain[name]
    if not isinstance(variable, Categorical):
        return pd.to_numeric(column, errors="coerce")
    text = column.astype(str).str.strip()
    by_text: dict[str, Any] = {_text(level): level for level in variable.levels}
    if variable.levels == (False, True):
        by_text = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}
        text = text.str.lower()
    elif not all(isinstance(level, str) for level in variable.levels):
        numbers = pd.to_numeric(text, errors="coerce")
        text = text.where(numbers.isna(), numbers.map(_text))
    return pd.Categorical(text.map(by_text), categories=list(variable.levels))


def _text(level: object) -> str:
    """A level as text, whole numbers without a point."""
    return f"{level:g}" if isinstance(level, float) else str(level)


def _labelled(source: Path, ending: str) -> tuple[pd.DataFrame, dict[str, dict[Any, str]]]:
    """The codes of a Stata or SPSS table and the value labels of its variables."""
    if ending == ".dta":

        def read_stata(pd: Any) -> Any:
            with pd.io.stata.StataReader(source, convert_categoricals=False) as reader:
                frame = reader.read()
                labels = reader.value_labels()
                names = dict(zip(reader._varlist, reader._lbllist, strict=True))
            return frame, {name: labels[key] for name, key in names.items() if key in labels}

        found: tuple[pd.DataFrame, dict[str, dict[Any, str]]] = _reading(
            source, "pandas", read_stata
        )
        return found

    def read_spss(pyreadstat: Any) -> Any:
        frame, meta = pyreadstat.read_sav(str(source), apply_value_formats=False)
        return frame, meta.variable_value_labels

    found = _reading(source, "pyreadstat", read_spss)
    return found


def with_labels(
    frame: pd.DataFrame, labels: Mapping[str, Mapping[Any, str]], domain: Domain
) -> pd.DataFrame:
    """Turn codes into their value labels, in the order of the codes; others become missing.

    A variable that the domain declares numeric keeps its codes.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpbinagg import Domain
    >>> codes = pd.DataFrame({"sex": [2, 1, 9]})
    >>> with_labels(codes, {"sex": {1: "male", 2: "female"}}, Domain())["sex"].tolist()
    ['female', 'male', nan]
    """
    import pandas as pd

    from dpbinagg.public.domain import Numeric

    columns = {}
    for name in frame.columns:
        coded = labels.get(name, {})
        numeric = name in domain and isinstance(domain[name], Numeric)
        if not coded or numeric or len(set(coded.values())) != len(coded):
            columns[name] = frame[name]
            continue
        ordered = [str(coded[code]).strip() for code in sorted(coded)]
        named = {code: str(label).strip() for code, label in coded.items()}
        columns[name] = pd.Series(
            pd.Categorical(frame[name].map(named), categories=ordered), index=frame.index
        )
    return pd.DataFrame(columns)


def check_writable(path: str | Path) -> Path:
    """Refuse a name that `write_table` could not write."""
    target = Path(path)
    if target.suffix.lower() not in WRITABLE:
        raise DataError(
            f"the table must be written to a file that ends in {', '.join(WRITABLE)}, "
            f"got {target.suffix!r}"
        )
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise DataError(f"{str(target)!r} cannot be written: its folder does not exist")
    return target


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a public table as CSV, Parquet or Stata, by the ending of its name."""
    target = check_writable(path)
    try:
        target.write_bytes(table_bytes(frame, target.suffix.lower()))
    except OSError as error:
        raise DataError(f"{str(target)!r} cannot be written ({type(error).__name__})") from None
