"""Public tables as files: CSV, Parquet and Stata."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
