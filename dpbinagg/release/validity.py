"""Whether what was read from a folder can be a release: shapes, and finite numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbinagg.errors import ReleaseError
from dpbinagg.release.transcript import Released


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
