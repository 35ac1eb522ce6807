"""What a loader returns, and how files of the package become a typed frame."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpbinagg.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.public.domain import Domain

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True, repr=False)
class Dataset:
    """A table with everything that is public about it.

    Parameters
    ----------
    frame : pandas.DataFrame
        The records. Categories carry the levels that the codebook declares.
    codebook : dpbinagg.Domain
        Public bounds and levels, written down without looking at the records.
    description : str
        Markdown text: how the data came about, what an ordinary regression finds.
    formula : str
        A regression to start with.
    name : str
        The name in ``load_<name>``.
    source : str
        Where the data come from.
    license : str
        The terms under which the data may be used.
    note : str
        What to keep in mind when using the data.

    Examples
    --------
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> school.name, school.formula.split(" ~ ")[0]
    ('school', 'score')
    """

    frame: pd.DataFrame
    codebook: Domain
    description: str
    formula: str
    name: str
    source: str
    license: str
    note: str

    def __repr__(self) -> str:
        rows, columns = self.frame.shape
        return (
            f"<Dataset {self.name}: {rows:,} rows x {columns} columns"
            f" ({', '.join(self.frame.columns)})\n"
            f" formula: {self.formula}\n"
            f" license: {self.license}>"
        )


def data_path(name: str) -> Path:
    """Path of a bundled table, for programs that read files.

    Parameters
    ----------
    name : {"wages", "school"}
        The data set.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> data_path("wages").name
    'wages.csv'
    """
    return _existing(name, ".csv")


def codebook_path(name: str) -> Path:
    """Path of the public codebook of a data set, a CSV for ``Domain.from_csv``.

    Parameters
    ----------
    name : str
        "wages", "school", "register", "fair", "ccard", "anes96" or "randhie".

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> codebook_path("fair").name
    'fair_codebook.csv'
    """
    return _existing(name, "_codebook.csv")


def _existing(name: str, ending: str) -> Path:
    names = sorted(path.name.removesuffix(ending) for path in FOLDER.glob(f"*{ending}"))
    if ending == ".csv":
        names = [other for other in names if not other.endswith("_codebook")]
    if name not in names:
        raise DataError(f"name must be one of {', '.join(names)}; got {name!r}.")
    return FOLDER / f"{name}{ending}"


def read_levels(name: str) -> dict[str, list[str] | None]:
    """Columns of a codebook in order, with the declared levels of those that have any."""
    with codebook_path(name).open(newline="", encoding="utf-8") as file:
        return {
            row["name"]: row["levels"].split("|") if row["levels"] else None
            for row in csv.DictReader(file)
        }


def with_declared_levels(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The codebook's columns of ``frame``, labels turned into declared categories."""
    import pandas as pd

    columns = {
        column: frame[column]
        if levels is None
        else frame[column].astype(pd.CategoricalDtype(levels))
        for column, levels in read_levels(name).items()
    }
    return pd.DataFrame(columns)


def make_dataset(
    name: str, frame: pd.DataFrame, *, formula: str, source: str, license: str, note: str
) -> Dataset:
    """Put a frame together with the codebook and the description that lie beside this file."""
    from dpbinagg.public.domain import Domain

    return Dataset(
        frame=with_declared_levels(frame, name),
        codebook=Domain.from_csv(codebook_path(name)),
        description=(FOLDER / f"{name}.md").read_text(encoding="utf-8"),
        formula=formula,
        name=name,
        source=source,
        license=license,
        note=note,
    )
