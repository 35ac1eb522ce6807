"""CSV tables of a release: bins with their boxes, and second moments."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpbinagg.public.domain import Categorical, Numeric
from dpbinagg.release.transcript import Released

BIN_KEYS = ("count", "dev_x", "dev_y")
MOMENTS = "moments"
SD = "sd "
"""Before the name of a column: the standard deviation of its noise."""


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A CSV file; floats as their shortest exact text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def from_csv(content: bytes) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV file."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    return rows[0], rows[1:]


def bin_keys(release: Released) -> tuple[str, ...]:
    """Statistics that go into the table of bins."""
    return tuple(key for key in BIN_KEYS if key in release.statistics)


def bins_to_csv(release: Released) -> bytes:
    """One row for each bin: its box, what was released, and the noise of each number."""
    header, columns = ["bin_id"], [list(range(release.n_bins))]
    for names, values in (_boxes(release), _statistics(release)):
        header += names
        columns += values
    return to_csv(header, zip(*columns, strict=True))


def _boxes(release: Released) -> tuple[list[str], list[list[Any]]]:
    boxes, names, columns = release.partition.boxes, [], []
    for name, variable in release.partition.domain.items():
        if isinstance(variable, Numeric):
            names += [f"{name} from", f"{name} to"]
            columns += [boxes.lower[name].tolist(), boxes.upper[name].tolist()]
        else:
            names.append(f"{name} levels")
            columns.append([_levels(variable, row) for row in boxes.members[name]])
    return names, columns


def _levels(variable: Categorical, members: Iterable[bool]) -> str:
    return "|".join(str(lv) for lv, held in zip(variable.levels, members, strict=True) if held)


def _statistics(release: Released) -> tuple[list[str], list[list[Any]]]:
    names, columns = [], []
    for key in bin_keys(release):
        labels = _labels(release, key)
        for prefix, source in (("", release.statistics), (SD, release.noise_scales)):
            table = np.asarray(source[key], dtype=np.float64).reshape(release.n_bins, -1)
            names += [prefix + label for label in labels]
            columns += table.T.tolist()
    return names, columns


def _labels(release: Released, key: str) -> list[str]:
    if key == "dev_x":
        return [f"dev {name}" for name in release.column_names]
    return ["count"] if key == "count" else [f"dev {release.design.response_name} (response)"]


def moments_to_csv(release: Released) -> bytes:
    """One row for each entry of the matrix of second moments."""
    scaling = release.column_scaling
    names = ["1", *(release.column_names[j] for j in scaling.varying)]
    names.append(f"{release.design.response_name} (response)")
    matrix, sd = release.statistics[MOMENTS], release.noise_scales[MOMENTS]
    rows = [
        (i, j, names[i], names[j], float(matrix[i, j]), float(sd[i, j]))
        for i in range(len(matrix))
        for j in range(len(matrix))
    ]
    return to_csv(["row", "column", "row name", "column name", "sum of products", "sd"], rows)
