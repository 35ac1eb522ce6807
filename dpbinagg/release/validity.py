"""Whether what was read from a folder can be a release: shapes, and finite numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dpbinagg.errors import ReleaseError
from dpbinagg.public.rounds import RoundAnswer, RoundRequest
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
    if "products" in release.statistics:
        products = np.shape(release.statistics["products"])
        _check("products", release.statistics["products"], products)
        _check("noise of products", release.noise_scales["products"], products)
    if "scores" in release.statistics:
        _check_rounds(release.statistics, release.noise_scales["scores"])


def _check(what: str, value: Any, shape: tuple[int, ...]) -> None:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ReleaseError(f"{what} must be finite numbers of shape {shape}, got {array.shape}")


def _check_rounds(statistics: Mapping[str, Any], scales: Any) -> None:
    rounds, requests = statistics["scores"], statistics.get("requests", ())
    if not len(rounds) == len(scales) == len(requests):
        raise ReleaseError("rounds of scores, their noise and what was asked differ in number")
    groups = {field.name for field in fields(RoundAnswer)}
    names = {field.name for field in fields(RoundRequest)}
    for answer, noise, request in zip(rounds, scales, requests, strict=True):
        if not isinstance(request, Mapping) or set(request) != names:
            raise ReleaseError(f"a request for scores must hold {', '.join(sorted(names))}")
        if not isinstance(answer, Mapping) or not set(answer) <= groups:
            raise ReleaseError(f"a round of scores must hold some of {', '.join(sorted(groups))}")
        if set(answer) != set(noise):
            raise ReleaseError("a round of scores and its noise differ in what they hold")
        width = np.shape(request["coefficients"])
        k = np.shape(request["whitening"])[0]
        _check("whitening of a request for scores", request["whitening"], (k, *width))
        _check("coefficients of a request for scores", request["coefficients"], width)
        square = dict.fromkeys(("gram", "beyond", "meat"), (k, k))
        shapes: dict[str, tuple[int, ...]] = {"score": (k,), "direction": (k,), "inside": ()}
        shapes |= square
        for name in answer:
            shape = shapes.get(name, np.shape(noise[name]))
            _check(f"{name} of a round of scores", answer[name], shape)
            _check(f"noise of {name} of a round of scores", noise[name], shape)
