"""Releases as plain values, and back: every float to the last bit."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from dpbinagg.accounting import Allocation
from dpbinagg.accounting.budget import Mechanism, Privacy
from dpbinagg.errors import ReleaseError
from dpbinagg.formula import build_design
from dpbinagg.public.domain import Categorical, Domain, Numeric, Variable
from dpbinagg.public.partition import Partition
from dpbinagg.release.transcript import Choice, Released, Transcript

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
