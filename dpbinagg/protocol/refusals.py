"""Columns whose meaning nobody has declared: refused by the schema, with the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from dpbinagg.errors import DomainError
from dpbinagg.public.domain import Domain
from dpbinagg.reading.columns import ColumnType
from dpbinagg.reading.source import Source

SHOWN = 6
"""Value labels that a message lists."""
EXAMPLE = '["first", "second", ...]'


def has_doubts(declared: Domain, source: Source) -> bool:
    """Whether there is any column that `refuse_undeclared` may refuse, or a stranger in bounds."""
    stored = source.schema
    return any(name not in stored for name in declared) or any(
        column.stored in _MESSAGES and name not in declared for name, column in stored.items()
    )


def refuse_undeclared(names: Sequence[str], declared: Domain, source: Source) -> None:
    """Refuse columns of a formula that are neither declared nor plain numbers.

    Parameters
    ----------
    names : sequence of str
        Variables of the formula whose levels it does not list itself.
    declared : Domain
        By the caller or by stored types.
    source : Source

    Raises
    ------
    DomainError
        It says what to write.
    """
    strangers = [name for name in declared if name not in source.schema]
    used = [name for name in names if name not in declared and name in source.schema]
    _refuse_misspelled(strangers, used)
    for name in used:
        column = source.schema[name]
        if column.stored in _MESSAGES:
            raise DomainError(_MESSAGES[column.stored](name, column, source))


def _refuse_misspelled(strangers: list[str], used: list[str]) -> None:
    """A declared name that no column has, and that is nearly one which the formula uses."""
    for name in strangers:
        near = difflib.get_close_matches(name, used, n=1)
        if near:
            raise DomainError(
                f"bounds[{name!r}]: data has no column {name!r}; did you mean {near[0]!r}, which "
                "the formula uses and bounds does not declare?"
            )


def _entry(name: str, value: str) -> str:
    return f"bounds={{{_quoted(name)}: {value}}}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _levels(name: str, column: ColumnType, source: Source) -> str:
    listed = _entry(name, EXAMPLE)
    message = (
        f"column {name!r} is a category, but its levels are not declared: dtype {column.dtype} "
        "lists levels that may have been learnt from the records, and then the names of the "
        "coefficients, and which level is the reference, could depend on a single person. "
        f"Declare every level that may occur, the reference first: {listed}"
    )
    if source.kind == "memory":
        message += (
            ". Or, if the categories of the dtype are public (they come from a questionnaire or a "
            "codebook, not from the data), say so: from dpbinagg import Domain; "
            "bounds=Domain.from_frame(df), and with other bounds "
            'bounds=Domain.from_frame(df).updated({"age": (18, 90)})'
        )
    else:
        message += (
            ". Or write them down in a codebook: from dpbinagg import Domain; "
            'bounds=Domain.from_csv("codebook.csv")'
        )
    return message


def _text(name: str, column: ColumnType, source: Source) -> str:
    what = "text" if column.stored == "text" else "objects of any type"
    listed, bounds = _entry(name, EXAMPLE), _entry(name, "(low, high)")
    return (
        f"column {name!r} holds {what} (dtype {column.dtype}) and is not declared; whether it is a "
        "category or a number is never guessed from the records. For a category declare every "
        f"level that may occur, the reference first: {listed}; "
        f"for a number declare its bounds: {bounds}, with None for a bound "
        "that is not known"
    )


def _labelled(name: str, column: ColumnType, source: Source) -> str:
    codes = [_plain(code) for code in list(column.labels)[:SHOWN]]
    said = ", ".join(
        f"{code} = {_quoted(str(column.labels[key]))}"
        for code, key in zip(codes, list(column.labels), strict=False)
    )
    more = ", ..." if len(column.labels) > SHOWN else ""
    levels = f"[{', '.join(map(str, codes))}{more}]"
    category = _entry(name, f'{{"levels": {levels}}}')
    bounds = _entry(name, "(low, high)")
    refused = _entry(name, '{"levels": [1, 2], "missing": [9]}')
    return (
        f"column {name!r} has value labels ({said}{more}) and is not declared: labels name codes, "
        "they do not say whether the column is a category or a number with names for some codes. "
        f"For a category declare its levels: {category}, or their labels; for a "
        f"number declare its bounds: {bounds}; and list codes that stand for no answer: {refused}. "
        "A codebook to fill in: dpbinagg codebook TABLE --out codebook.csv"
    )


def _plain(code: Any) -> Any:
    if isinstance(code, str):
        return _quoted(code)
    return int(code) if float(code).is_integer() else float(code)


_MESSAGES: Mapping[str, Any] = {
    "levels": _levels,
    "text": _text,
    "object": _text,
    "labelled": _labelled,
}
