"""Whether what was read from a folder can be a release: shapes, and finite numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dpbinagg.errors import ReleaseError
from dpbinagg.public.rounds import NoisyScores, ScoreRequest
from dpbinagg.release.release import Release


def check_release(release: Release) -> None:
    """Refuse statistics that do not fit the design and the partition.

    Checksums find damage; this finds content that was written with the right
    checksums but is no release.
    """
    if not np.isfinite(release.mu):
        raise ReleaseError("the mu of its mechanisms is not a finite number")
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
    if "scores" in release.statistics:
        _check_scores(release.statistics["scores"], release.noise_scales["scores"])
        _check_requests(release.statistics.get("requests", ()), release.statistics["scores"])


def _check(what: str, value: Any, shape: tuple[int, ...], finite: bool = True) -> None:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or np.isnan(array).any() or (finite and np.isinf(array).any()):
        raise ReleaseError(f"{what} must be finite numbers of shape {shape}, got {array.shape}")


def _check_scores(rounds: Any, scales: Any) -> None:
    if len(rounds) != len(scales):
        raise ReleaseError("rounds of scores and their noise differ in number")
    names = {field.name for field in fields(NoisyScores)}
    for answer, noise in zip(rounds, scales, strict=True):
        for part in (answer, noise):
            if not isinstance(part, Mapping) or set(part) != names:
                raise ReleaseError(f"a round of scores must hold {', '.join(sorted(names))}")
        k = len(answer["score"])
        shapes = {"score": (k,), "hessian": (k, k), "spread": (k, k), "inside": ()}
        for name in names:
            shape = shapes.get(name, np.shape(noise[name]))
            _check(f"{name} of a round of scores", answer[name], shape)
            # Groups that a round leaves out have infinite noise.
            _check(f"noise of {name} of a round of scores", noise[name], shape, finite=False)


def _check_requests(requests: Any, rounds: Any) -> None:
    if len(requests) != len(rounds):
        raise ReleaseError("rounds of scores and what was asked for in them differ in number")
    names = {field.name for field in fields(ScoreRequest)}
    for request, answer in zip(requests, rounds, strict=True):
        if not isinstance(request, Mapping) or set(request) != names:
            raise ReleaseError(f"a request for scores must hold {', '.join(sorted(names))}")
        k = len(answer["score"])
        width = np.shape(request["coefficients"])
        _check("whitening of a request for scores", request["whitening"], (k, *width))
        _check("coefficients of a request for scores", request["coefficients"], width)
        ScoreRequest.from_dict(request)
