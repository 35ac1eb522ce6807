"""Releases on disk: folders that another language can read."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg.errors import DPBinAggError, IdentificationWarning, ReleaseError
from dpbinagg.public.partition import Partition
from dpbinagg.release.folder import FORMAT, SCHEMA, read_folder, write_folder
from dpbinagg.release.plain import (
    release_from_plain,
    release_to_plain,
    to_json,
    tree_from_plain,
    tree_to_plain,
)
from dpbinagg.release.release import Release
from dpbinagg.release.replication import readme, replication_files
from dpbinagg.release.tables import MOMENTS, bins_to_csv, moments_to_csv
from dpbinagg.release.transcript import Entry, Transcript
from dpbinagg.release.validity import check_release

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_release", "save_release"]

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
    release: Release,
    folder: str | Path,
    *,
    results: Any = None,
    synthetic: pd.DataFrame | None = None,
    extra: Mapping[str, bytes] | None = None,
    rng: Any = None,
) -> None:
    """Write a release as a folder of JSON and CSV files, all or nothing.

    The folder holds the release, a codebook, the privacy statement, the coefficients,
    calibrated synthetic records, and scripts for R, Stata and Python that
    reproduce the coefficients from them; its README says what is what.

    Parameters
    ----------
    release : Release
    folder : path
        Made if it does not exist. A release that is there is replaced in one step; any
        other folder is left alone.
    results : results object, optional
        The regression to write coefficients and synthetic records for; the
        best estimate of the release's own model by default.
    synthetic : DataFrame, optional
        Calibrated synthetic records of `results`; drawn here by default.
    extra : mapping of file names to contents, optional
        Further files of the folder, such as a report.
    rng : None, seed or Generator
        For the synthetic records.

    Raises
    ------
    ReleaseError
        If the folder cannot be written or must not be replaced.
    """
    from dpbinagg import __version__

    if not isinstance(release, Release):
        raise ReleaseError(f"release must be a Release, got {type(release).__name__}")
    files = {**_statistics_files(release), "privacy.txt": _privacy(release)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        if results is None:
            results = _best_fit(release)
        if results is not None:
            table = results.synthesize(rng=rng) if synthetic is None else synthetic
            files |= replication_files(release, results, table)
    files |= dict(extra or {})
    files["README.md"] = readme(
        release, results, [*files, "README.md", "manifest.json"], __version__
    )
    write_folder(folder, files, __version__)


def load_release(folder: str | Path) -> Release:
    """Read a release that `Release.save` wrote, equal to the last bit.

    Parameters
    ----------
    folder : path

    Returns
    -------
    Release

    Raises
    ------
    ReleaseError
        If the folder is damaged, was edited, or has another version; the message says
        what is wrong.

    Examples
    --------
    >>> import tempfile
    >>> from dpbinagg import dp_release
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> release = dp_release("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     release.save(f"{folder}/release")
    ...     again = load_release(f"{folder}/release")
    >>> bool((again.ols().params == release.ols().params).all())
    True
    """
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


def _best_fit(release: Release) -> Any:
    """The best estimate, None for a release without statistics to fit."""
    try:
        return release.ols()
    except ReleaseError:
        return None


def _statistics_files(release: Release) -> dict[str, bytes]:
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


def _privacy(release: Release) -> bytes:
    return f"{release.privacy.statement}\n\n{release.privacy}\n".encode()
