"""``dpbinagg synth``: synthetic records from a saved release, free of charge."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dpbinagg.cli.show import print_json
from dpbinagg.errors import DataError
from dpbinagg.release.exports import table_bytes

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.public.domain import Domain

WRITABLE = (".csv", ".parquet", ".dta")


def check_writable(path: str | Path) -> Path:
    """Refuse a name that `write_table` could not write."""
    target = Path(path)
    if target.suffix.lower() not in WRITABLE:
        raise DataError(
            f"the table must be written to a file that ends in {', '.join(WRITABLE)}, "
            f"got {target.suffix!r}"
        )
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise DataError(f"{str(target)!r} cannot be written: its folder does not exist")
    return target


def write_table(frame: pd.DataFrame, path: str | Path, domain: Domain | None = None) -> None:
    """Write a public table as CSV, Parquet or Stata, by the ending of its name."""
    target = check_writable(path)
    try:
        target.write_bytes(table_bytes(frame, target.suffix.lower(), domain))
    except OSError as error:
        raise DataError(f"{str(target)!r} cannot be written ({type(error).__name__})") from None


def run(options: argparse.Namespace) -> None:
    """Make a synthetic table and write it."""
    from dpbinagg.analyst.synthesis.supports import find_tag, sidecar_of
    from dpbinagg.analyst.synthesis.tables import formula_for
    from dpbinagg.report.verbs import load_release

    target = check_writable(options.out)
    release = load_release(options.release)
    frame = release.synthesize(
        size=options.size,
        copies=options.copies,
        kind=options.kind,
        bin_id=options.bin_id,
        rng=options.rng,
        labels=options.labels,
        missing=options.missing,
    )
    write_table(frame, target, release.domain)
    tag = find_tag(frame)
    assert tag is not None
    beside = sidecar_of(target)
    beside.write_text(tag.to_json(indent=1) + "\n", encoding="utf-8")
    formula = formula_for(frame, release.design, release.design)
    if options.json:
        print_json(
            {
                "file": str(target),
                "supports": str(beside),
                "rows": len(frame),
                "columns": list(frame.columns),
                "kind": options.kind,
                "formula": formula,
            }
        )
        return
    print(f"{target}: {len(frame):,} synthetic records ({', '.join(frame.columns)}).")
    print(f"{beside}: what they support, and what not.")
    if options.kind == "calibrated" and options.copies > 1:
        print(f"Fit {formula} to each copy by least squares: the mean over the copies gives the")
        print("released coefficients, the standard deviation their standard errors.")
    elif options.kind == "calibrated":
        print(f"Least squares of {formula} on it gives the released coefficients;")
        print("take standard errors from the release, or from the spread over 20 copies.")
