"""Folders written all or nothing and read back only if nothing was changed."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dpbinagg.errors import ReleaseError

MANIFEST = "manifest.json"
FORMAT = "dpbinagg release"
SCHEMA = 2
EXCHANGE = 2
"""RENAME_EXCHANGE of Linux' renameat2: two names swap in one step."""


def write_folder(
    folder: str | Path, files: Mapping[str, bytes], package: str, overwrite: bool = False
) -> None:
    """Write `files` and their manifest as a folder, all or nothing.

    Everything is written to a new folder beside `folder` and reaches the disk before
    one rename puts it in place. A release that was there is replaced only if `overwrite`
    says so; any other folder is left alone.

    Parameters
    ----------
    folder : path
    files : mapping of file names to contents
    package : str
        Version of the package.
    overwrite : bool
    """
    target = check_target(folder, overwrite)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.new-", dir=target.parent))
    except OSError as error:
        raise ReleaseError(_cannot("written", target, error)) from None
    try:
        for name, content in {**files, MANIFEST: manifest(files, package)}.items():
            _write(fresh / name, content)
        _sync(fresh)
        umask = os.umask(0)
        os.umask(umask)
        fresh.chmod(0o777 & ~umask)
        _put_in_place(fresh, target, overwrite)
        _sync(target.parent)
    except OSError as error:
        raise ReleaseError(_cannot("written", target, error)) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def read_folder(folder: str | Path) -> dict[str, bytes]:
    """Read the files of a release folder; refuse one that is damaged or edited.

    Returns
    -------
    dict of file names to contents
        Those that the manifest lists. Other files in the folder are not looked at.
    """
    source = Path(folder)
    listed = _read_manifest(source)
    files: dict[str, bytes] = {}
    for name, entry in listed.items():
        content = _read(source, name)
        if len(content) != entry["bytes"]:
            raise ReleaseError(
                f"{name} in {str(source)!r} has {len(content)} bytes instead of "
                f"{entry['bytes']}: it was cut short or edited; copy the folder again"
            )
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            raise ReleaseError(
                f"{name} in {str(source)!r} does not have the checksum of the manifest: it was "
                "changed after the release was saved; use the original folder"
            )
        files[name] = content
    return files


def manifest(files: Mapping[str, bytes], package: str) -> bytes:
    """The manifest of `files`: format, version, sizes and checksums."""
    listed = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in sorted(files.items())
    }
    content = {
        "format": FORMAT,
        "schema": SCHEMA,
        "package": package,
        "files": listed,
        "digest": _digest(listed),
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def _digest(listed: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"{entry['sha256']}  {entry['bytes']}  {name}" for name, entry in listed.items()]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _read_manifest(source: Path) -> dict[str, dict[str, Any]]:
    if not source.is_dir():
        what = "is not a folder" if source.exists() else "does not exist"
        raise ReleaseError(f"{str(source)!r} {what}; give the folder that Release.save wrote")
    if not (source / MANIFEST).is_file():
        raise ReleaseError(
            f"{str(source)!r} has no {MANIFEST}, so it is not a release or lost a file; "
            "give the folder that Release.save wrote"
        )
    try:
        content = json.loads(_read(source, MANIFEST))
        is_release = content["format"] == FORMAT
        schema, listed, digest = content["schema"], content["files"], content["digest"]
        complete = _digest(listed) == digest and all(_is_entry(*item) for item in listed.items())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise ReleaseError(
            f"{MANIFEST} in {str(source)!r} is damaged; use the original folder"
        ) from None
    if not is_release:
        raise ReleaseError(f"{str(source)!r} is not a release; its {MANIFEST} says so")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        remedy = "upgrade dpbinagg" if newer else "open it with dpbinagg 0.1, which saved it"
        raise ReleaseError(
            f"{str(source)!r} has version {str(schema)[:20]} of the release format, this package "
            f"reads version {SCHEMA}; {remedy}"
        )
    if not complete:
        raise ReleaseError(
            f"{MANIFEST} in {str(source)!r} was changed after the release was saved; "
            "use the original folder"
        )
    return dict(listed)


def _is_entry(name: str, entry: Mapping[str, Any]) -> bool:
    plain = Path(name).name == name and name not in (".", "..", MANIFEST)
    return plain and isinstance(entry["bytes"], int) and isinstance(entry["sha256"], str)


def _read(source: Path, name: str) -> bytes:
    try:
        return (source / name).read_bytes()
    except FileNotFoundError:
        raise ReleaseError(
            f"{name} is missing from {str(source)!r}; copy the whole folder again"
        ) from None
    except OSError as error:
        raise ReleaseError(_cannot("read", source / name, error)) from None


def _cannot(verb: str, path: Path, error: OSError) -> str:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return f"{str(path)!r} cannot be {verb}: {reason}"


def check_target(folder: str | Path, overwrite: bool) -> Path:
    """The folder to write, absolute; refuse to replace what must stay.

    That is anything that is not a release, a release with files that are not of it, and any
    release unless `overwrite` says so.
    """
    target = Path(folder).absolute()
    if not target.exists() and not target.is_symlink():
        return target
    if target.is_symlink() or not target.is_dir():
        raise ReleaseError(
            f"{str(target)!r} exists and is not a folder; choose another name for the release"
        )
    held = {path.name for path in target.iterdir()}
    if not held:
        return target
    try:
        content = json.loads((target / MANIFEST).read_bytes())
        ours = content["format"] == FORMAT
        known = {*content["files"], MANIFEST}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        ours, known = False, set()
    if not ours:
        raise ReleaseError(
            f"{str(target)!r} exists and is not a release, so it is not replaced; "
            "choose another folder or empty it"
        )
    if held - known:
        raise ReleaseError(
            f"{str(target)!r} holds {sorted(held - known)[0]!r}, which is not part of the release "
            "there, so the folder is not replaced; move that file or choose another folder"
        )
    if not overwrite:
        raise ReleaseError(
            f"{str(target)!r} holds a release, which is not replaced unless you say so; pass "
            "overwrite=True (--overwrite on the command line), or choose another folder"
        )
    return target


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    with suppress(OSError, AttributeError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _put_in_place(fresh: Path, target: Path, overwrite: bool) -> None:
    """Rename `fresh` to `target`; what was there ends up under the name of `fresh` or is gone."""
    if not overwrite and target.exists():
        # Fails on a folder that came meanwhile and is not empty.
        target.rmdir()
    if not target.exists():
        fresh.rename(target)
    elif not _exchange(fresh, target):
        old = fresh.with_name(fresh.name.replace(".new-", ".old-"))
        target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here = -100  # AT_FDCWD
    return bool(rename(here, os.fsencode(one), here, os.fsencode(other), EXCHANGE) == 0)
