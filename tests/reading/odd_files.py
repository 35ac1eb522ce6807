"""Files of a small survey with one odd record, in every format."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg import Domain
from dpbinagg.reading import open_source

DOMAIN = Domain({"y": (0, 100), "code": {"levels": [1, 2, 3]}, "x": (0, 10), "g": ["a", "b"]})
NAMES = ("y", "code", "x", "g")
N = 40
MARK = "QQZZ"
"""What a byte pattern that is no text is put in the place of."""


def survey(n: int = N) -> pd.DataFrame:
    """Complete records: numbers, whole-number codes, words, and a column nobody asks for."""
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "y": np.round(rng.uniform(0, 100, n), 2),
            "code": rng.integers(1, 4, n),
            "x": np.round(rng.uniform(0, 10, n), 3),
            "g": rng.choice(["a", "b"], n),
            "when": "2020-01-31",
        }
    )


def place(n: int, where: str) -> int:
    """Where the odd record goes."""
    return {"first": 0, "middle": n // 2, "last": n}[where]


def lines_with(odd: bytes, where: str, newline: bytes = b"\n") -> bytes:
    """A CSV file with an odd line."""
    text = survey().to_csv(index=False, lineterminator="\n").encode().splitlines()
    text.insert(1 + place(N, where), odd)
    return newline.join(text) + newline


def frame_with(cells: dict[str, Any], where: str) -> pd.DataFrame:
    """A frame of objects with an odd record."""
    table = survey().astype(object)
    record = {"y": 50.0, "code": 2, "x": 5.0, "g": "a", "when": "2020-01-31", **cells}
    at = place(N, where)
    odd = pd.DataFrame([record], columns=table.columns).astype(object)
    return pd.concat([table[:at], odd, table[at:]], ignore_index=True)


def complete_records(data: Any, domain: Domain = DOMAIN, **options: Any) -> list[tuple[float, ...]]:
    """The complete records of a table, sorted: what everything else is computed from."""
    found = []
    for batch in open_source(data, **options).batches(domain, NAMES):
        columns = np.array([np.asarray(batch[name], dtype=float) for name in NAMES])
        lacking = np.isnan(columns).any(axis=0) | (columns[[1, 3]] < 0).any(axis=0)
        found += [tuple(row) for row in columns[:, ~lacking].T.tolist()]
    return sorted(found)


def expected_records() -> list[tuple[float, ...]]:
    """The complete records of the survey without an odd one."""
    table = survey()
    rows = zip(table["y"], table["code"] - 1.0, table["x"], table["g"] == "b", strict=True)
    return sorted((float(y), float(code), float(x), float(g)) for y, code, x, g in rows)


def gained(found: list[tuple[float, ...]]) -> int:
    """How many records there are beside the usual ones, all of which must be there unchanged."""
    rest = list(found)
    for record in expected_records():
        assert record in rest, "a record says something else than before"
        rest.remove(record)
    return len(rest)


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False)


def write_gz(frame: pd.DataFrame, path: Path) -> None:
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))


def write_tsv(frame: pd.DataFrame, path: Path) -> None:
    frame.to_csv(path, index=False, sep="\t")


def write_xlsx(frame: pd.DataFrame, path: Path) -> None:
    frame.to_excel(path, index=False)


def inferred(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the types that pandas learns from its values."""
    return frame.infer_objects()


def text_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns that hold anything but numbers as text, as most programs save them."""
    plain = inferred(frame)
    for name in plain.columns:
        if plain[name].dtype == object:
            plain[name] = plain[name].map(lambda cell: "" if cell is None else str(cell))
    return plain


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    text_of(frame).to_parquet(path)


def write_stata(frame: pd.DataFrame, path: Path) -> None:
    text_of(frame).to_stata(path, write_index=False, version=118)


def write_spss(frame: pd.DataFrame, path: Path) -> None:
    import pyreadstat

    pyreadstat.write_sav(text_of(frame), str(path))


WRITERS: dict[str, Callable[[pd.DataFrame, Path], None]] = {
    ".csv": write_csv,
    ".csv.gz": write_gz,
    ".tsv": write_tsv,
    ".xlsx": write_xlsx,
    ".parquet": write_parquet,
    ".dta": write_stata,
    ".sav": write_spss,
}
