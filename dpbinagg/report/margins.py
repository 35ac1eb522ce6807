"""Margins of a release and of synthetic records, side by side, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbinagg.analyst.fit import released_bins, released_moments
from dpbinagg.errors import FormulaError
from dpbinagg.public.domain import Categorical, Numeric, rows_of
from dpbinagg.release.transcript import Released
from dpbinagg.report.pictures import MOST_CELLS, QUANTILE, Floats, axis, bins_of
from dpbinagg.report.tables import readable

if TYPE_CHECKING:
    from dpbinagg.inputs import SyntheticKind
    from dpbinagg.report.results import DPResults

FINE_CELLS = 24
"""Cells of the histogram of a continuous variable."""

TOUCH = 1e-9
"""A smaller share of a box in a cell is rounding."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Shares per unit that the noisy counts give in the cells between `edges`.

    `spread` has each count spread evenly over its bin; from `low` to `high` is what the
    counts allow however the records lie within the bins.
    """

    edges: Floats
    spread: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Margin:
    """One variable: shares per unit in the synthetic records, and as released.

    A category has one cell for each level. There are no counts of the response, whose
    noisy mean and the half-length of its interval are in `mean` instead.
    """

    name: str
    labels: tuple[str, ...] | None
    edges: Floats
    synthetic: Floats
    counts: Counts | None = None
    integer: bool = False
    mean: tuple[float, float] | None = None

    @property
    def top(self) -> float:
        """Where the picture ends; what the counts allow may reach further."""
        tallest = float(self.synthetic.max(initial=0.0))
        if self.counts is not None:
            tallest = max(tallest, float(self.counts.spread.max(initial=0.0)))
        return 1.15 * tallest or 1.0


def margins(
    results: DPResults,
    variables: str | Sequence[str] | None = None,
    synthetic: pd.DataFrame | None = None,
    kind: SyntheticKind = "calibrated",
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
        synthetic = results.synthesize(kind=kind, rng=rng)
    return [
        response_margin(release, synthetic)
        if name == response
        else margin(release, synthetic, name)
        for name in wanted
    ]


def margin(release: Released, synthetic: pd.DataFrame, name: str) -> Margin:
    """Released and synthetic shares of a covariate.

    A cell holds at least the records of the I bins inside it and at most those of the J
    bins that reach into it, so its count lies between ``sum_I c_k - z sd sqrt(I)`` and
    ``sum_J c_k + z sd sqrt(J)`` with a probability of at least 95%.
    """
    cut, bins = axis(release, name), bins_of(release)
    inside = (cut.shares > 1.0 - TOUCH).astype(np.float64)
    touching = (cut.shares > TOUCH).astype(np.float64)
    noise = [QUANTILE * bins.sd_count * np.sqrt(some.sum(axis=0)) for some in (inside, touching)]
    unit = max(float(bins.counts.sum()), 1.0) * cut.widths
    variable = release.domain[name]
    values = rows_of(synthetic, release.domain, [name])[name].astype(np.float64)
    fine = _fine_edges(variable, cut.edges)
    counts = Counts(
        cut.edges,
        (bins.counts @ cut.shares) / unit,
        np.maximum(bins.counts @ inside - noise[0], 0.0) / unit,
        np.maximum(bins.counts @ touching + noise[1], 0.0) / unit,
    )
    synthetic_shares = _histogram(values + (0.5 if cut.categorical else 0.0), fine)
    return Margin(name, cut.labels, fine, synthetic_shares, counts, cut.integer)


def _fine_edges(variable: Numeric | Categorical, edges: Floats) -> Floats:
    if isinstance(variable, Categorical):
        return edges
    whole = variable.integer and edges[-1] - edges[0] <= MOST_CELLS
    cells = round(edges[-1] - edges[0]) if whole else FINE_CELLS
    return np.linspace(edges[0], edges[-1], cells + 1)


def _histogram(values: Floats, edges: Floats) -> Floats:
    counts, _ = np.histogram(values, edges)
    return np.asarray(counts / max(len(values), 1) / np.diff(edges))


def response_margin(release: Released, synthetic: pd.DataFrame) -> Margin:
    """The synthetic response, and its mean as it was released."""
    design = release.design
    if all(name in synthetic.columns for name in design.response_variables):
        values = design.response(rows_of(synthetic, release.domain))
    else:
        values = synthetic.iloc[:, 0].to_numpy(dtype=np.float64)
    low, high = float(values.min()), float(values.max())
    edges = np.linspace(low, high if high > low else low + 1.0, FINE_CELLS + 1)
    name, mean = readable(design.response_name), _response_mean(release)
    return Margin(name, None, edges, _histogram(values, edges), mean=mean)


def _response_mean(release: Released) -> tuple[float, float] | None:
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
