"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from typing import Any

DELTAS = (1e-5, 1e-6, 1e-9)


def print_results(results: Any, compare: bool) -> None:
    """The regression table and, if asked for, the estimators side by side."""
    print(results.summary())
    if compare:
        print()
        print(results.compare())


def results_as_plain(results: Any) -> dict[str, Any]:
    """A regression as JSON values; everything in it is public."""
    release = results.release
    return {
        "formula": results.design.formula,
        "estimator": results.estimator,
        "coefficients": results.tidy().to_dict("records"),
        "model": results.glance().to_dict("records")[0],
        "privacy": {
            "mu": release.mu,
            "neighbours": release.privacy.neighbours,
            "for_publication": release.privacy.secure,
            "epsilon": {f"{delta:g}": release.privacy.epsilon(delta) for delta in DELTAS},
            "mechanisms": [
                {"name": part.name, "mu": part.mu} for part in release.privacy.mechanisms
            ],
            "statement": results.privacy.statement,
        },
        "notes": list(results.summary().notes),
    }


def print_json(value: Any) -> None:
    """Print JSON that every program reads: no NaN, no infinities."""
    print(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
