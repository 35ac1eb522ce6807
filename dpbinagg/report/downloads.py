"""Files that a page carries within itself: those of the release folder, byte by byte."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from dpbinagg.release.readme import FILES

MOST_BYTES = 8_000_000
"""Size beyond which a file stays beside the page: browsers open pages of some 20 MB slowly."""

OFFERED = (
    "synthetic.csv",
    "synthetic.parquet",
    "codebook.csv",
    "codebook.json",
    "coefficients.csv",
    "vcov.csv",
    "bins.csv",
    "moments.csv",
    "release.json",
    "transcript.json",
)
MEDIA = {".csv": "text/csv", ".json": "application/json"}


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


def downloads(files: Mapping[str, bytes]) -> tuple[list[Download], list[Download]]:
    """What a page offers of the files of a folder, and what is too large for it."""
    found = [_download(name, files[name]) for name in OFFERED if name in files]
    small = [file for file in found if len(file.content) <= MOST_BYTES]
    return small, [file for file in found if file not in small]


def _download(name: str, content: bytes) -> Download:
    about = f"{FILES[name][0].upper()}{FILES[name][1:]}."
    media = MEDIA.get(PurePath(name).suffix, "application/octet-stream")
    return Download(name, about, media, content)
