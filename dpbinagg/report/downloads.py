"""Files that a page carries within itself."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from dpbinagg import __version__
from dpbinagg.errors import DomainError
from dpbinagg.public.domain import Domain
from dpbinagg.release.plain import domain_to_plain, release_to_plain, to_json
from dpbinagg.release.release import Release
from dpbinagg.release.tables import bins_to_csv, moments_to_csv

DIGITS = "%.9g"
"""Of the synthetic values: least squares on them gives the coefficients to as many."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file: its name, what it is, its media type and content."""

    name: str
    about: str
    media: str
    content: bytes

    @property
    def uri(self) -> str:
        """The content as a data: address."""
        return f"data:{self.media};base64,{base64.b64encode(self.content).decode()}"

    @property
    def size(self) -> str:
        """The size in words."""
        size = len(self.content)
        if size < 1000:
            return f"{size} bytes"
        return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def downloads(release: Release, synthetic: pd.DataFrame) -> list[Download]:
    """Synthetic records, codebook, and everything that was released."""
    rows = f"{len(synthetic):,} rows"
    files = [
        Download(
            "synthetic.csv",
            f"Synthetic records, {rows}. Ordinary least squares gives the coefficients back.",
            "text/csv",
            synthetic.to_csv(index=False, float_format=DIGITS, lineterminator="\n").encode(),
        ),
        _codebook(release.domain),
    ]
    if "count" in release.statistics:
        about = f"The {release.n_bins:,} bins: boxes, noisy counts and sums, size of the noise."
        files.append(Download("bins.csv", about, "text/csv", bins_to_csv(release)))
    if "moments" in release.statistics:
        about = "Noisy second moments and the size of their noise."
        files.append(Download("moments.csv", about, "text/csv", moments_to_csv(release)))
    facts = to_json({"package": f"dpbinagg {__version__}", **release_to_plain(release)})
    about = "Formula, ranges, partition, and the mu of each mechanism."
    files.append(Download("release.json", about, "application/json", facts))
    return files


def _codebook(domain: Domain) -> Download:
    """The codebook as CSV, or as JSON where its levels are no words."""
    about = "Codebook: ranges and levels of the variables."
    with TemporaryDirectory() as folder:
        path = Path(folder) / "codebook.csv"
        try:
            domain.to_csv(path)
        except DomainError:
            plain = to_json(domain_to_plain(domain))
            return Download("codebook.json", about, "application/json", plain)
        return Download("codebook.csv", about, "text/csv", path.read_bytes())
