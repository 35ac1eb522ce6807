"""Codebooks as CSV on the Web metadata: a JSON file beside a table, a standard of the W3C.

What the standard has no word for is said in those of schema.org: the values of a category and
their labels (``schema:valueReference``) and the unit (``schema:unitText``).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbinagg.errors import DomainError
from dpbinagg.public.variables import Categorical, Numeric, Variable

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
