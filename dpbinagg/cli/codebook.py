"""``dpbinagg codebook``: a codebook to fill in, from the schema of a table alone."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg.cli.show import print_json
from dpbinagg.cli.tables import schema
from dpbinagg.errors import DataError
from dpbinagg.public.domain import CODEBOOK_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

ADVICE = (
    "Fill in lower and upper from the questionnaire, the law or common sense, never from the "
    "records; leave empty what is not known. Levels are separated by |. Rows that the formula "
    "does not use may be deleted."
)


def run(options: argparse.Namespace) -> None:
    """Write the codebook, or print it."""
    rows = [describe(str(name), column) for name, column in schema(options.data).items()]
    if options.json:
        print_json(rows)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, CODEBOOK_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    if not options.out:
        print(text.getvalue(), end="")
        return
    target = Path(options.out)
    if target.exists():
        raise DataError(f"--out {str(target)!r} exists already; choose another name or delete it")
    try:
        target.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"--out {str(target)!r} cannot be written ({type(error).__name__})"
        ) from None
    print(f"{target}: {len(rows)} variables. {ADVICE}", file=sys.stderr)


def describe(name: str, column: pd.Series) -> dict[str, Any]:
    """One row of a codebook, from the dtype of an empty column.

    Examples
    --------
    >>> import pandas as pd
    >>> describe("age", pd.Series([], dtype="int64"))["type"]
    'integer'
    >>> describe("sex", pd.Series([], dtype=pd.CategoricalDtype(["f", "m"])))["levels"]
    'f|m'
    """
    import pandas as pd

    dtype, types = column.dtype, pd.api.types
    kind, levels = "numeric", ""
    if isinstance(dtype, pd.CategoricalDtype):
        kind, levels = "categorical", "|".join(str(level) for level in dtype.categories)
    elif types.is_bool_dtype(dtype):
        kind = "boolean"
    elif types.is_integer_dtype(dtype):
        kind = "integer"
    elif isinstance(dtype, pd.StringDtype):
        kind = "categorical"
    row = dict.fromkeys(CODEBOOK_COLUMNS, "")
    return {**row, "name": name, "type": kind, "levels": levels}
