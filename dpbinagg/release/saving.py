"""Releases on disk: folders that another language can read."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dpbinagg.accounting.budget import Privacy
from dpbinagg.errors import DPBinAggError, ReleaseError
from dpbinagg.public.partition import Partition
from dpbinagg.release.folder import FORMAT, SCHEMA, check_target, read_folder, write_folder
from dpbinagg.release.plain import (
    release_from_plain,
    release_to_plain,
    to_json,
    tree_from_plain,
    tree_to_plain,
)
from dpbinagg.release.readme import readme_of_statistics
from dpbinagg.release.tables import MOMENTS, bins_to_csv, moments_to_csv
from dpbinagg.release.transcript import Entry, Released, Transcript
from dpbinagg.release.validity import check_release

__all__ = ["check_target", "privacy_file", "read_release", "save_release", "statistics_files"]

TRANSCRIPT = "transcript.json"
DAMAGE = (
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    csv.Error,
)
"""What content that is no release may lead to when it is read."""


def save_release(
    release: Released,
    folder: str | Path,
    *,
    overwrite: bool = False,
    files: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a release as a folder of JSON and CSV files, all or nothing.

    `DPResults.save` and `Release.save` are the doors to it: they add the estimate and what a
    replicator needs.

    Parameters
    ----------
    release : Released
    folder : path
        Made if it does not exist.
    overwrite : bool
        Whether a release that is there is replaced, in one step; any other folder is left alone.
    files : mapping of file names to contents, optional
        All files but the manifest; `statistics_files` and a README by default.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    ReleaseError
        If the folder cannot be written or must not be replaced.
    """
    from dpbinagg import __version__

    if not isinstance(release, Released):
        raise ReleaseError(f"release must be a Release, got {type(release).__name__}")
    if files is None:
        made = {**statistics_files(release), "privacy.txt": privacy_file(release.privacy)}
        files = {**made, "README.md": readme_of_statistics(release, [*made, "README.md"])}
    write_folder(folder, files, __version__, overwrite)
    return Path(folder)


def read_release(folder: str | Path) -> Released:
    """What `save_release` wrote, equal to the last bit; see `dpbinagg.load_release`."""
    files = read_folder(folder)
    try:
        plain = json.loads(files["release.json"])
        release = release_from_plain(plain)
        transcript = _transcript(files[TRANSCRIPT], release.partition)
        release = replace(release, transcript=transcript)
        check_release(release)
        return release
    except DPBinAggError as error:
        raise ReleaseError(f"{str(folder)!r} cannot be understood: {error}") from error
    except DAMAGE as error:
        raise ReleaseError(
            f"{str(folder)!r} has the right checksums but not the content of a release "
            f"({type(error).__name__}); save the release again"
        ) from None


def statistics_files(release: Released) -> dict[str, bytes]:
    """Public facts and the transcript, and tables of it that are easy to read elsewhere."""
    plain = {"format": FORMAT, "schema": SCHEMA, **release_to_plain(release)}
    files = {
        "release.json": to_json(plain),
        TRANSCRIPT: to_json([tree_to_plain(e.to_plain()) for e in release.transcript], indent=None),
        "bins.csv": bins_to_csv(release),
    }
    if MOMENTS in release.statistics:
        files["moments.csv"] = moments_to_csv(release)
    return files


def _transcript(content: bytes, partition: Partition) -> Transcript:
    entries = (tree_from_plain(entry) for entry in json.loads(content))
    return Transcript([Entry.from_plain(entry, partition) for entry in entries])


def privacy_file(privacy: Privacy) -> bytes:
    """The guarantee, in words and by mechanism."""
    return f"{privacy.statement}\n\n{privacy}\n".encode()
