"""``dpbinagg codebook``: a codebook to fill in, from the schema of a table alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpbinagg.cli.fit import open_private
from dpbinagg.cli.show import print_json
from dpbinagg.errors import DataError
from dpbinagg.public.codebook import CODEBOOK_COLUMNS, codebook_text
from dpbinagg.reading.columns import ColumnType
from dpbinagg.reading.source import Source


def skeleton(source: Source) -> list[dict[str, str]]:
    """One row for each column; what the schema does not tell is left empty."""
    return [row_of_column(name, column) for name, column in source.schema.items()]


def row_of_column(name: str, column: ColumnType) -> dict[str, str]:
    """The row of a column, to be filled in.

    The type is empty where it has to be asked: in files without types, and where codes have
    labels, which may be all values of a category or names of a few special ones.

    Examples
    --------
    >>> row = row_of_column("sex", ColumnType("labelled", "int8", {1: "male", 2: "female"}))
    >>> row["type"], row["levels"], row["labels"]
    ('', '1|2', 'male|female')
    """
    row = dict.fromkeys(CODEBOOK_COLUMNS, "") | {
        "name": name,
        "type": _kind(column),
        "description": " ".join(column.description.split()),
    }
    if column.labels:
        row["levels"] = "|".join(_code(code) for code in column.labels)
        labels = [" ".join(str(label).split()) for label in column.labels.values()]
        if all(label and "|" not in label for label in labels):
            row["labels"] = "|".join(labels)
    return row


def _kind(column: ColumnType) -> str:
    if column.stored == "number":
        return "integer" if "int" in column.dtype.lower() else "numeric"
    return {"truth": "boolean", "text": "categorical", "levels": "categorical"}.get(
        column.stored, ""
    )


def _code(code: object) -> str:
    return f"{code:g}" if isinstance(code, float) else str(code)


ADVICE = (
    "Fill in lower and upper from the questionnaire, the law or common sense, never from the "
    "records; leave empty what is not known. Levels, labels and missing codes (such as -9|99) are "
    "separated by |. Rows that the formula does not use may be deleted."
)
ASKED = (
    "Types that the file does not tell are empty: write numeric, integer, categorical or boolean."
)


def run(options: argparse.Namespace) -> None:
    """Write the codebook, or print it."""
    rows = skeleton(open_private(options))
    if options.json:
        print_json(rows)
        return
    text = codebook_text(rows)
    if not options.out:
        print(text, end="")
        return
    target = Path(options.out)
    if target.exists():
        raise DataError(f"--out {str(target)!r} exists already; choose another name or delete it")
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"--out {str(target)!r} cannot be written ({type(error).__name__})"
        ) from None
    asked = "" if all(row["type"] for row in rows) else f" {ASKED}"
    print(f"{target}: {len(rows)} variables.{asked} {ADVICE}", file=sys.stderr)
