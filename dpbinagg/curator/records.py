"""Complete records: a record with a missing value in any needed variable is left out.

That is decided for each record by itself, and no message tells how many it concerns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbinagg.errors import IncompleteError
from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Domain
from dpbinagg.reading import convert, open_source


def complete(records: Records, missing: str = "drop") -> Records:
    """Records without those that lack a value.

    Parameters
    ----------
    records : mapping of arrays
        Numbers are missing where they are NaN, codes where they are negative.
    missing : {"drop", "raise"}
        What to do with incomplete records. "raise" reveals whether there is
        one, and only that.
    """
    incomplete = None
    for column in records.values():
        lacking = np.less(column, 0) if column.dtype.kind == "i" else np.isnan(column)
        if lacking.any():
            incomplete = lacking if incomplete is None else incomplete | lacking
    if incomplete is None:
        return records
    if missing == "raise":
        raise IncompleteError
    return {name: column[~incomplete] for name, column in records.items()}


def read_records(data: Any, domain: Domain, variables: Sequence[str], missing: str) -> Records:
    """The complete records of a table in memory.

    Parameters
    ----------
    data : table
    domain : Domain
        Declares every variable; bounds may be unknown.
    variables : sequence of str
        The columns to read.
    missing : {"drop", "raise"}
    """
    source = open_source(data)
    source.check(domain, variables)
    (part,) = source.parts(domain, variables)
    return complete(convert(part, domain, variables), missing)
