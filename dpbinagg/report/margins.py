"""Margins of a release and of synthetic records, side by side, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbinagg.analyst.fit import released_bins, released_moments
from dpbinagg.domain import Categorical, Numeric
from dpbinagg.errors import FormulaError
from dpbinagg.release import Release
from dpbinagg.report.labels import readable
from dpbinagg.report.pictures import MOST_CELLS, QUANTILE, Floats, as_records, axis, bins_of

if TYPE_CHECKING:
    from dpbinagg.report.base import ReleaseResults

FINE_CELLS = 24
"""Cells of the histogram of a continuous variable."""


@dataclass(frozen=True, slots=True)
class Margin:
    """One variable: shares per unit from noisy counts, and in the synthetic records.

    A category has one cell for each level. `released` is None for the response, whose
    noisy mean and the half-length of its interval are in `mean` instead.
    """

    name: str
    labels: tuple[str, ...] | None
    edges: Floats
    released: Floats | None
    half: Floats | None
    fine_edges: Floats
    synthetic: Floats
    mean: tuple[float, float] | None = None


def margins(
    results: ReleaseResults,
    variables: str | Sequence[str] | None = None,
    synthetic: pd.DataFrame | None = None,
    kind: str = "calibrated",
    rng: Any = 0,
) -> list[Margin]:
    """Released and synthetic shares of some variables, the response first by default."""
    release, response = results.release, results.release.design.response_name
    known = (response, *release.partition.variables)
    wanted = known if variables is None else variables
    wanted = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    for name in wanted:
        if name not in known:
            raise FormulaError(
                f"{name!r} is not a variable of the model; choose from "
                f"{', '.join(map(repr, known))}"
            )
    if synthetic is None:
        synthetic = results.synthesize(kind=kind, rng=rng)  # type: ignore[attr-defined]
    return [
        response_margin(release, synthetic)
        if name == response
        else margin(release, synthetic, name)
        for name in wanted
    ]


def margin(release: Release, synthetic: pd.DataFrame, name: str) -> Margin:
    """Released and synthetic shares of a covariate."""
    cut, bins = axis(release, name), bins_of(release)
    total = max(float(bins.counts.sum()), 1.0)
    released = (bins.counts @ cut.shares) / total / cut.widths
    noise = bins.sd_count * np.sqrt((cut.shares**2).sum(axis=0)) / total / cut.widths
    variable = release.domain[name]
    values = as_records(synthetic[[name]], release)[name].astype(np.float64)
    fine = _fine_edges(variable, cut.edges)
    if cut.categorical:
        values = values + 0.5
    return Margin(
        name,
        cut.labels,
        cut.edges,
        released,
        QUANTILE * noise,
        fine,
        _histogram(values, fine),
    )


def _fine_edges(variable: Numeric | Categorical, edges: Floats) -> Floats:
    if isinstance(variable, Categorical):
        return edges
    whole = variable.integer and edges[-1] - edges[0] <= MOST_CELLS
    cells = round(edges[-1] - edges[0]) if whole else FINE_CELLS
    return np.linspace(edges[0], edges[-1], cells + 1)


def _histogram(values: Floats, edges: Floats) -> Floats:
    counts, _ = np.histogram(values, edges)
    return np.asarray(counts / max(len(values), 1) / np.diff(edges))


def response_margin(release: Release, synthetic: pd.DataFrame) -> Margin:
    """The synthetic response, and its mean as it was released."""
    design = release.design
    if all(name in synthetic.columns for name in design.response_variables):
        values = design.response(as_records(synthetic, release))
    else:
        values = synthetic.iloc[:, 0].to_numpy(dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    edges = np.linspace(low, high if high > low else low + 1.0, FINE_CELLS + 1)
    return Margin(
        readable(design.response_name),
        None,
        edges,
        None,
        None,
        edges,
        _histogram(values, edges),
        _response_mean(release),
    )


def _response_mean(release: Release) -> tuple[float, float] | None:
    """Noisy mean of the response and half the length of its interval, from the better source."""
    found = []
    bins, moments = released_bins(release), released_moments(release)
    if bins is not None:
        count, size = float(bins.counts.sum()), np.sqrt(bins.n_bins)
        offset = float(bins.sum_y.sum()) / count - bins.centre_y if count > 0 else np.nan
        noise = size * np.hypot(bins.sd_y, offset * bins.sd_count) / count if count > 0 else np.nan
        found.append((bins.centre_y + offset, QUANTILE * float(noise)))
    if moments is not None and moments.matrix[0, 0] > 0:
        count, offset = moments.matrix[0, 0], moments.matrix[0, -1] / moments.matrix[0, 0]
        noise = np.hypot(moments.sd[0, -1], offset * moments.sd[0, 0]) / count
        centre, scale = moments.response_map[0], moments.response_map[-1]
        found.append((float(centre + scale * offset), QUANTILE * float(scale * noise)))
    found = [pair for pair in found if np.isfinite(pair).all()]
    return min(found, key=lambda pair: pair[1]) if found else None
