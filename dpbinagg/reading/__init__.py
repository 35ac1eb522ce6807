"""Reading: from any table to typed columns that are declared, by one rule for each type.

A batch has all records: a number that is missing is NaN, a category that is missing or
was not declared has code -1. Nobody is left out here; whoever adds up leaves out
incomplete records one by one.

`open_source` gives a `Source`, `convert` turns one piece of a table into records by the rules of
`columns`; `text` says what a record of a text file is.
"""

from dpbinagg.public.variables import Records
from dpbinagg.reading.columns import ColumnType, convert
from dpbinagg.reading.source import Kind, Source, open_table

open_source = open_table
"""What the package itself calls it."""

__all__ = ["ColumnType", "Kind", "Records", "Source", "convert", "open_source", "open_table"]
