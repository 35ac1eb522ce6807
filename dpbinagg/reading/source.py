"""What a private table is before a record is read: a schema, and pieces that can be converted."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dpbinagg.errors import PublicRefusalError
from dpbinagg.public.variables import Categorical, Records, Variables
from dpbinagg.reading.rules import Codes

Kind = Literal["memory", "stream", "cluster"]
Stored = Literal["number", "truth", "text", "levels", "labelled", "object", "untyped", "other"]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """How the table stores a column: a public fact.

    Attributes
    ----------
    stored : str
        "number"; "truth"; "text"; "levels", a type that lists values which may have been learnt
        from the records; "labelled", numbers with value labels; "object", anything cell by cell;
        "untyped", a file without types; "other", which no variable is read from.
    dtype : str
        The name of the type, for messages.
    labels : mapping
        Value labels, by code.
    description : str
    """

    stored: Stored
    dtype: str = ""
    labels: Mapping[Any, str] = field(default_factory=dict)
    description: str = ""


class Source:
    """A private table, opened: its schema is known, no record has been read.

    Attributes
    ----------
    kind : {"memory", "stream", "cluster"}
        Whether the records are in this process, are read batch by batch, or are with workers
        who hold them.
    schema : mapping from str to ColumnType
    native : object
        The Dask or Spark frame of a cluster; None for other kinds.
    """

    native: Any = None
    repeated: frozenset[str] = frozenset()

    def __init__(self, kind: Kind, schema: Mapping[str, ColumnType]) -> None:
        self.kind: Kind = kind
        self.schema = dict(schema)

    def __reduce__(self) -> Any:
        raise TypeError("private records are not pickled")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, which are public."""
        return tuple(self.schema)

    def declared(self) -> dict[str, Categorical]:
        """The levels that a stored type declares: a truth value is false or true."""
        return {
            name: Categorical((False, True))
            for name, column in self.schema.items()
            if column.stored == "truth"
        }

    def check(self, domain: Variables, variables: Sequence[str]) -> None:
        """Refuse variables that the schema, which is public, lacks or stores as something else."""
        for name in variables:
            if name in self.repeated:
                raise PublicRefusalError(
                    f"data has several columns named {name!r}; keep one of them"
                )
            column_at(self.columns, name)
            _check_stored(name, self.schema[name], domain)

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Pieces of the table that `convert` turns into records, on whatever thread."""
        raise NotImplementedError(f"a {type(self).__name__} is read by its own workers")

    def batches(self, domain: Variables, variables: Sequence[str]) -> Iterator[Records]:
        """All records of `variables`, batch by batch: float64 numbers and int64 codes."""
        from dpbinagg.reading.columns import convert

        self.check(domain, variables)
        for part in self.parts(domain, variables):
            yield convert(part, domain, variables)


def column_at(names: Sequence[str], name: str) -> int:
    """The place of a column that must be there once."""
    found = [place for place, column in enumerate(names) if column == name]
    if len(found) > 1:
        raise PublicRefusalError(f"data has several columns named {name!r}; keep one of them")
    if not found:
        near = [one for one in names if one.casefold() == name.casefold()]
        near = near or difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; check the spelling or rename it"
        raise PublicRefusalError(f"data has no column {name!r}, which is asked for{hint}")
    return found[0]


def _check_stored(name: str, column: ColumnType, domain: Variables) -> None:
    variable = domain[name]
    if isinstance(variable, Categorical):
        numbers = column.stored in ("number", "truth")
        possible = not numbers or bool(Codes(variable).known_numbers)
        if column.stored == "other" or not possible:
            raise PublicRefusalError(
                f"column {name!r}: none of its declared levels can occur, given its dtype "
                f"{column.dtype}; declare the levels as they are in the table, or convert the "
                "column"
            )
    elif column.stored == "other":
        raise PublicRefusalError(
            f"column {name!r} must be numeric, but its dtype is {column.dtype}; convert it, or "
            "declare its levels in bounds if it is a category"
        )
