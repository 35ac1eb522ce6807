"""Reading: from any table to typed columns that are declared, by one rule for each type.

A batch has all records: a number that is missing is NaN, a category that is missing or
was not declared has code -1. Nobody is left out here; whoever adds up leaves out
incomplete records one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Categorical, Domain

Kind = Literal["memory", "stream", "cluster"]


class Source(Protocol):
    """A private table, opened: its schema is known, no record has been read.

    Attributes
    ----------
    kind : {"memory", "stream", "cluster"}
        Whether the records are in this process, are read batch by batch, or are with workers
        who hold them.
    columns : tuple of str
        The names of the columns, which are public.
    native : object
        The Dask or Spark frame of a cluster; None for other kinds.
    """

    kind: Kind
    columns: tuple[str, ...]
    native: Any

    def declared(self) -> Mapping[str, Categorical]:
        """The levels that the stored types declare."""
        ...

    def parts(self, domain: Domain, variables: Sequence[str]) -> Iterator[Any]:
        """Pieces of the table that `convert` turns into records, on whatever thread."""
        ...

    def batches(self, domain: Domain, variables: Sequence[str]) -> Iterator[Records]:
        """All records of `variables`, batch by batch: float64 numbers and int64 codes."""
        ...


def open_source(data: Any) -> Source:
    """The source that `data` is or names."""
    from dpbinagg.reading.tables import open_any

    return open_any(data)


def convert(part: Any, domain: Domain, variables: Sequence[str]) -> Records:
    """All records of one piece of a table: the one conversion rule.

    Parameters
    ----------
    part : pandas.DataFrame, Arrow table or record batch, or what `Source.parts` yields
    domain : Domain
        Declares every variable.
    variables : sequence of str
        The columns to read.
    """
    from dpbinagg.reading.tables import convert_any

    return convert_any(part, domain, variables)
