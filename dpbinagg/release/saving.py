"""Releases on disk: folders that another language can read, every float to the last bit."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpbinagg.accounting import Allocation
from dpbinagg.accounting.budget import Mechanism, Privacy
from dpbinagg.errors import DPBinAggError, ReleaseError
from dpbinagg.formula import build_design
from dpbinagg.public.domain import Categorical, Domain, Numeric, Variable
from dpbinagg.public.partition import Partition
from dpbinagg.release.exports import MOMENTS, bins_to_csv, moments_to_csv
from dpbinagg.release.folder import FORMAT, SCHEMA, check_target, read_folder, write_folder
from dpbinagg.release.readme import readme_of_statistics
from dpbinagg.release.transcript import Choice, Entry, Released, Transcript

ARRAY = "array"
NONFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def release_to_plain(release: Released) -> dict[str, Any]:
    """Everything of a release but its transcript."""
    return {
        "formula": release.formula,
        "constants": dict(release.design.constants),
        "column_names": list(release.column_names),
        "response_name": release.design.response_name,
        "variables": list(release.design.variables),
        "declared": domain_to_plain(release.declared),
        "domain": domain_to_plain(release.domain),
        "partition": release.partition.to_dict(),
        "allocation": release.allocation.as_dict(),
        "calibration": release.calibration,
        "privacy": privacy_to_plain(release.privacy),
        "choice": asdict(release.choice),
        "models": dict(release.models),
        "rules": list(release.rules),
    }


def release_from_plain(plain: Mapping[str, Any]) -> Released:
    """The release that `release_to_plain` described, without its transcript."""
    declared = domain_from_plain(plain["declared"])
    design = build_design(plain["formula"], declared, plain["constants"], apart=False)
    design = design.with_domain(domain_from_plain(plain["domain"]))
    if list(design.column_names) != plain["column_names"]:
        raise ReleaseError(
            "the formula of the release gives other columns than it lists; it was saved by a "
            "version of the package, or of patsy, that reads formulas differently"
        )
    partition = Partition.from_dict(design.domain, design.variables, plain["partition"])
    return Released(
        design,
        declared,
        partition,
        Allocation(**plain["allocation"]),
        str(plain["calibration"]),
        privacy_from_plain(plain["privacy"]),
        Transcript(),
        Choice(**plain["choice"]),
        {str(name): str(formula) for name, formula in plain.get("models", {}).items()},
        tuple(str(rule) for rule in plain.get("rules", ())),
    )


def domain_to_plain(domain: Domain) -> list[dict[str, Any]]:
    """A list with one entry for each variable; an unknown bound is null."""
    return [{"name": name, **_variable_to_plain(domain[name])} for name in domain]


def _variable_to_plain(variable: Variable) -> dict[str, Any]:
    about: dict[str, Any] = {
        key: list(value) if isinstance(value, tuple) else value
        for key in ("labels", "missing", "unit", "description")
        if (value := getattr(variable, key, None))
    }
    if isinstance(variable, Categorical):
        return {"type": "categorical", "levels": list(variable.levels), **about}
    sides = [side if math.isfinite(side) else None for side in (variable.lower, variable.upper)]
    kind = "integer" if variable.integer else "numeric"
    return {"type": kind, "lower": sides[0], "upper": sides[1], **about}


def domain_from_plain(plain: list[dict[str, Any]]) -> Domain:
    """The domain that `domain_to_plain` described."""
    spec: dict[str, Variable] = {}
    for entry in plain:
        about: dict[str, Any] = {key: entry[key] for key in ("unit", "description") if key in entry}
        about["missing"] = tuple(entry.get("missing", ()))
        if entry["type"] == "categorical":
            labels = tuple(entry.get("labels", ()))
            spec[entry["name"]] = Categorical(tuple(entry["levels"]), labels, **about)
        else:
            lower, upper = entry["lower"], entry["upper"]
            spec[entry["name"]] = Numeric(
                -math.inf if lower is None else lower,
                math.inf if upper is None else upper,
                integer=entry["type"] == "integer",
                **about,
            )
    return Domain(spec)


def privacy_to_plain(privacy: Privacy) -> dict[str, Any]:
    """Mechanisms with the mu of each, and what they compose to."""
    return {
        "mu": privacy.mu,
        "claimed_mu": privacy.claimed_mu,
        "neighbours": privacy.neighbours,
        "secure": privacy.secure,
        "missing": privacy.missing,
        "mechanisms": [{"name": m.name, "mu": m.mu, "law": m.law} for m in privacy.mechanisms],
    }


def privacy_from_plain(plain: Mapping[str, Any]) -> Privacy:
    """The privacy that `privacy_to_plain` described."""
    mechanisms = tuple(Mechanism(m["name"], m["mu"], m["law"]) for m in plain["mechanisms"])
    return Privacy(
        mechanisms, plain["neighbours"], plain["secure"], plain["claimed_mu"], plain["missing"]
    )


def tree_to_plain(value: Any) -> Any:
    """Nested mappings, lists and arrays as JSON values."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            raise ReleaseError(f"an array of type {value.dtype} cannot be saved; use numbers")
        flat = [_number_to_plain(item) for item in value.ravel().tolist()]
        return {ARRAY: str(value.dtype), "shape": list(value.shape), "values": flat}
    if isinstance(value, np.generic):
        return tree_to_plain(value.item())
    if isinstance(value, Mapping):
        return {"mapping": [[str(key), tree_to_plain(item)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [tree_to_plain(item) for item in value]}
    if value is None or isinstance(value, bool | int | str):
        return {"value": value}
    if isinstance(value, float):
        return {"number": _number_to_plain(value)}
    raise ReleaseError(f"a {type(value).__name__} among the statistics cannot be saved")


def tree_from_plain(plain: Mapping[str, Any]) -> Any:
    """What `tree_to_plain` was given."""
    if ARRAY in plain:
        values = [_number_from_plain(item) for item in plain["values"]]
        return np.array(values, dtype=plain[ARRAY]).reshape(plain["shape"])
    if "mapping" in plain:
        return {key: tree_from_plain(item) for key, item in plain["mapping"]}
    if "list" in plain:
        return [tree_from_plain(item) for item in plain["list"]]
    if "tuple" in plain:
        return tuple(tree_from_plain(item) for item in plain["tuple"])
    if "number" in plain:
        return float(_number_from_plain(plain["number"]))
    return plain["value"]


def _number_to_plain(value: Any) -> Any:
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number_from_plain(value: Any) -> Any:
    return NONFINITE[value] if isinstance(value, str) else value


def to_json(plain: Any, indent: int | None = 1) -> bytes:
    """JSON without NaN and infinities, floats as their shortest exact text."""
    return (json.dumps(plain, indent=indent, allow_nan=False, ensure_ascii=False) + "\n").encode()


def check_release(release: Released) -> None:
    """Refuse statistics that do not fit the design and the partition.

    Checksums find damage; this finds content that was written with the right
    checksums but is no release. That answers fit their questions is checked
    when the transcript is read.
    """
    if not np.isfinite(release.mu):
        raise ReleaseError("the mu of its mechanisms is not a finite number")
    listed = [one.name for one in release.privacy.mechanisms if one.law == "gaussian"]
    if listed != [entry.question.name for entry in release.transcript]:
        raise ReleaseError("its transcript does not hold what its list of mechanisms says")
    for entry in release.transcript:
        for value in entry.answer.values:
            if not np.isfinite(value).all():
                raise ReleaseError(f"answers about {entry.question.name} must be finite numbers")
        if any(np.isnan(scale).any() for scale in entry.answer.scales):
            raise ReleaseError(f"noise of {entry.question.name} must be numbers")
    bins, columns = release.n_bins, len(release.column_names)
    size = release.column_scaling.size
    shapes = {
        "count": (bins,),
        "dev_x": (bins, columns),
        "dev_y": (bins,),
        "moments": (size, size),
    }
    for key, shape in shapes.items():
        if key in release.statistics:
            _check(key, release.statistics[key], shape)
            _check(f"noise of {key}", release.noise_scales[key], shape)


def _check(what: str, value: Any, shape: tuple[int, ...]) -> None:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ReleaseError(f"{what} must be finite numbers of shape {shape}, got {array.shape}")


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
