"""``dpbinagg codebook``: a codebook to fill in, from the schema of a table alone."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpbinagg.cli.show import print_json
from dpbinagg.cli.skeleton import skeleton
from dpbinagg.errors import DataError
from dpbinagg.public.codebook import codebook_text
from dpbinagg.reading import open_source

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
    source = open_source(
        options.data,
        separator=options.separator,
        decimal=options.decimal,
        encoding=options.encoding,
        sheet=options.sheet,
    )
    rows = skeleton(source)
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
