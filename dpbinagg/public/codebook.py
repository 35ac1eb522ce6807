"""Codebooks: what is public about a table, as a CSV file that people fill in, or as metadata.

CSV on the Web metadata, a standard of the W3C, is a JSON file beside a table. What the standard has
no word for is said in those of schema.org: the values of a category and their labels
(``schema:valueReference``) and the unit (``schema:unitText``).
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dpbinagg.errors import DomainError
from dpbinagg.public.variables import BLANKS, Categorical, Numeric, Variable

CODEBOOK_COLUMNS = (
    "name",
    "type",
    "lower",
    "upper",
    "levels",
    "labels",
    "missing",
    "unit",
    "description",
)
TYPES = ("numeric", "integer", "categorical", "boolean")


def read_codebook(path: str | Path) -> dict[str, Variable]:
    """The variables that a codebook declares, by name."""
    rows = _rows(path)
    if not rows or not {"name", "type"} <= set(rows[0]):
        raise DomainError(
            f"codebook {str(path)!r} must have a header with the columns "
            f"{', '.join(CODEBOOK_COLUMNS[:7])} and at least one row; all but name and type may be "
            "left out"
        )
    variables: dict[str, Variable] = {}
    for row in rows:
        name = _cell(row, "name")
        if name in variables:
            raise DomainError(f"codebook {str(path)!r} lists variable {name!r} twice")
        try:
            if not name:
                raise DomainError("name must not be empty; delete the row, or name the column")
            variables[name] = variable_of_row(row)
        except DomainError as error:
            raise DomainError(f"codebook {str(path)!r}, variable {name!r}: {error}") from None
    return variables


def _rows(path: str | Path) -> list[dict[str, str | None]]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        raise DomainError(
            f"codebook {str(path)!r} does not exist; write one with the columns "
            f"{', '.join(CODEBOOK_COLUMNS[:7])}, or by Domain({{...}}).to_csv(path)"
        ) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DomainError(
            f"codebook {str(path)!r} cannot be read as a CSV file ({type(error).__name__})"
        ) from None


def _cell(row: Mapping[str, str | None], name: str) -> str:
    return (row.get(name) or "").strip()


def _listed(row: Mapping[str, str | None], name: str) -> tuple[str, ...]:
    """The parts of a cell, between bars."""
    text = _cell(row, name)
    return tuple(part.strip() for part in text.split("|")) if text else ()


def variable_of_row(row: Mapping[str, str | None]) -> Variable:
    """The variable that one row of a codebook declares."""
    kind = _cell(row, "type").lower()
    missing = tuple(code for code in _listed(row, "missing") if code)
    about = {"description": _cell(row, "description"), "unit": _cell(row, "unit")}
    if kind == "boolean":
        return Categorical((False, True), _listed(row, "labels"), missing, **about)
    if kind == "categorical":
        levels = tuple(level for level in _listed(row, "levels") if level)
        return Categorical(levels, _listed(row, "labels"), missing, **about)
    if kind not in TYPES:
        got = f"got {kind!r}" if kind else "it is empty: fill it in, types are never guessed"
        raise DomainError(f"type must be {', '.join(TYPES[:-1])} or {TYPES[-1]}, {got}")
    if _cell(row, "levels") or _cell(row, "labels"):
        raise DomainError(
            f"the type is {kind}, but levels or labels are listed: move codes that mean no answer "
            "to missing and empty both cells, or write the type categorical"
        )
    sides: list[float] = []
    for side, unknown in (("lower", -math.inf), ("upper", math.inf)):
        text = _cell(row, side)
        try:
            sides.append(float(text) if text else unknown)
        except ValueError:
            raise DomainError(f"{side} must be a number or empty") from None
    return Numeric(sides[0], sides[1], integer=kind == "integer", missing=missing, **about)


def row_of_variable(name: str, variable: Variable) -> dict[str, str]:
    """The row of a codebook that declares a variable.

    Levels that are numbers are written as text, which matches the same cells.
    """
    row = dict.fromkeys(CODEBOOK_COLUMNS, "") | {
        "name": name,
        "missing": _joined("missing codes", variable.missing),
        "unit": variable.unit,
        "description": variable.description,
    }
    if isinstance(variable, Numeric):
        sides = {"lower": variable.lower, "upper": variable.upper}
        row |= {key: "" if math.isinf(side) else repr(side) for key, side in sides.items()}
        return row | {"type": "integer" if variable.integer else "numeric"}
    row["labels"] = _joined("labels", variable.labels)
    if variable.boolean:
        return row | {"type": "boolean"}
    return row | {"type": "categorical", "levels": _joined("levels", variable.levels)}


def _joined(what: str, parts: Iterable[object]) -> str:
    texts = [str(part) for part in parts]
    if any("|" in text or text != text.strip(BLANKS) or not text for text in texts):
        raise DomainError(
            f"a codebook CSV separates {what} by '|', so they must be string without '|' and "
            "without blanks around them; save a release instead"
        )
    return "|".join(texts)


def codebook_text(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows as the text of a codebook."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CODEBOOK_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


CONTEXT = "http://www.w3.org/ns/csvw"
VALUES, UNIT, DESCRIPTION = "schema:valueReference", "schema:unitText", "dc:description"


def csvw_text(variables: Mapping[str, Variable], table: str) -> str:
    """The metadata of a CSV file with the name `table`."""
    columns = [_column(name, variable) for name, variable in variables.items()]
    plain = {"@context": CONTEXT, "url": table, "tableSchema": {"columns": columns}}
    return json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _column(name: str, variable: Variable) -> dict[str, Any]:
    column: dict[str, Any] = {
        "titles": name,
        "datatype": _datatype(variable),
        "null": ["", *(str(code) for code in variable.missing)],
    }
    if isinstance(variable, Categorical):
        labels = variable.labels or (None,) * len(variable.levels)
        column[VALUES] = [
            {"schema:value": level} | ({"schema:name": label} if label else {})
            for level, label in zip(variable.levels, labels, strict=True)
        ]
    about = {UNIT: variable.unit, DESCRIPTION: variable.description}
    return column | {key: value for key, value in about.items() if value}


def _datatype(variable: Variable) -> dict[str, Any]:
    if isinstance(variable, Categorical):
        if variable.boolean:
            return {"base": "boolean"}
        return {"base": "string", "format": "|".join(re.escape(str(v)) for v in variable.levels)}
    sides = {"minimum": variable.lower, "maximum": variable.upper}
    known = {key: side for key, side in sides.items() if math.isfinite(side)}
    return {"base": "integer" if variable.integer else "number", **known}


def read_csvw(path: str | Path) -> dict[str, Variable]:
    """The variables that a metadata file declares, by name."""
    try:
        plain = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        columns = plain["tableSchema"]["columns"]
        names = [_name(column) for column in columns]
    except FileNotFoundError:
        raise DomainError(f"codebook {str(path)!r} does not exist; check the path") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DomainError(
            f"codebook {str(path)!r} cannot be read as CSV on the Web metadata "
            f"({type(error).__name__}); it needs tableSchema.columns, each with a name or titles"
        ) from None
    if len(set(names)) != len(names):
        raise DomainError(f"codebook {str(path)!r} lists a variable twice; keep one of them")
    variables: dict[str, Variable] = {}
    for name, column in zip(names, columns, strict=True):
        try:
            variables[name] = _variable(column)
        except (DomainError, TypeError, ValueError, AttributeError, KeyError) as error:
            said = str(error) if isinstance(error, DomainError) else "its entry is malformed"
            raise DomainError(f"codebook {str(path)!r}, variable {name!r}: {said}") from None
    return variables


def _name(column: Mapping[str, Any]) -> str:
    titles = column.get("titles", column.get("name"))
    name = titles[0] if isinstance(titles, list) else titles
    if not isinstance(name, str) or not name:
        raise KeyError("titles")
    return name


def _variable(column: Mapping[str, Any]) -> Variable:
    given = column.get("datatype", "string")
    datatype = given if isinstance(given, Mapping) else {"base": given}
    null = column.get("null", "")
    missing = tuple(code for code in (null if isinstance(null, list) else [null]) if code)
    about = {"unit": column.get(UNIT, ""), "description": column.get(DESCRIPTION, "")}
    values = column.get(VALUES, [])
    labels = tuple(value.get("schema:name", "") for value in values)
    labels = labels if any(labels) else ()
    base = datatype.get("base", "string")
    if base == "boolean":
        return Categorical((False, True), labels, missing, **about)
    if values or base == "string":
        levels = tuple(value["schema:value"] for value in values)
        return Categorical(levels, labels, missing, **about)
    if base not in NUMBERS:
        raise DomainError(f"datatype must be a number, string or boolean, got {base!r}")
    lower, upper = datatype.get("minimum", -math.inf), datatype.get("maximum", math.inf)
    whole = base not in ("number", "decimal", "double", "float")
    return Numeric(float(lower), float(upper), integer=whole, missing=missing, **about)


NUMBERS = ("number", "decimal", "double", "float", "integer", "int", "long", "short", "byte")
