"""What the pictures show, as numbers: drawn by matplotlib in `plots`, as SVG in `charts`.

Everything is computed from the release. A bin's noisy count is spread evenly over its
box, so with ``s_ki`` the share of box k in cell i of an axis the noisy count of the
cell is ``sum_k s_ki c_k``, and its noise has the variance ``sd^2 sum_k s_ki^2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbinagg.analyst.fit import released_bins
from dpbinagg.analyst.types import Bins
from dpbinagg.errors import FormulaError, NotReleasedError
from dpbinagg.public.domain import Categorical, rows_of
from dpbinagg.release.transcript import Released
from dpbinagg.report.compare import interval
from dpbinagg.report.inference import CELL, identified, masked
from dpbinagg.report.side_by_side import choose_terms
from dpbinagg.report.tables import readable

if TYPE_CHECKING:
    from dpbinagg.report.results import DPResults

Floats = NDArray[np.float64]

MOST_CELLS = 64
"""Cells of an axis; where the bins have more cuts, equal cells are used."""

STANDS_OUT = 4.0
"""A mean is shown where the noisy count exceeds this many standard deviations of its noise."""

UNEQUAL = 12.0
"""Intervals whose lengths differ by more are shown per standard deviation of the column."""

MOST_SYNTHETIC = 20_000
"""Synthetic records for fitted means."""

QUANTILE = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Series:
    """Estimates by one estimator: value and interval of every coefficient shown."""

    name: str
    estimate: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Coefficients of one model, by the estimator of the results and the naive one."""

    names: tuple[str, ...]
    series: tuple[Series, ...]
    standardised: bool
    response: str
    level: float


@dataclass(frozen=True)
class Axis:
    """A variable cut into cells.

    Attributes
    ----------
    name : str
    edges : (n + 1,) array
        Edges of the cells; categories take one unit each, whole numbers the unit
        around them.
    labels : tuple of str or None
        Levels of a category.
    shares : (K, n) array
        Share of every box in every cell.
    integer : bool
        Whether the variable is a whole number.
    """

    name: str
    edges: Floats
    labels: tuple[str, ...] | None
    shares: Floats
    integer: bool = False

    @property
    def categorical(self) -> bool:
        return self.labels is not None

    @cached_property
    def widths(self) -> Floats:
        return np.diff(self.edges)

    @cached_property
    def centres(self) -> Floats:
        return np.asarray((self.edges[:-1] + self.edges[1:]) / 2.0)


@dataclass(frozen=True, slots=True)
class Density:
    """Noisy count per area over two variables, (nx, ny)."""

    x: Axis
    y: Axis
    values: Floats

    @property
    def top(self) -> float:
        """Value of the darkest shade: the largest, or twice the mean where all are alike."""
        area = np.outer(self.x.widths, self.y.widths)
        mean = float((self.values * area).sum() / area.sum())
        return max(float(self.values.max(initial=0.0)), 2.0 * mean) or 1.0

    @property
    def power(self) -> float:
        """Exponent from values to shades; below 1 where few cells hold most."""
        return 0.5 if np.median(self.values) < 0.25 * self.top else 1.0


@dataclass(frozen=True, slots=True)
class Means:
    """Noisy means of the response over the cells of one variable, and the fitted ones.

    `half` is half the length of an interval of 95% for the noise; means that drown in
    it are NaN.
    """

    x: Axis
    mean: Floats
    half: Floats
    fitted: Floats | None
    response: str


def coefficients(
    results: DPResults,
    standardise: bool | None = None,
    intercept: bool = False,
    alpha: float = 0.05,
    *,
    naive: bool = True,
    keep: str | Iterable[str] | None = None,
    drop: str | Iterable[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Coefficients:
    """Coefficients with intervals, the naive ones beside those of the results.

    Terms are chosen and named as in `summary_table`; `keep` may name the intercept.
    """
    shown = [results.estimate]
    other = results.compare(alpha).estimates.get("naive")
    if naive and other is not None and results.estimator != "naive":
        shown.append(other)
    terms = results.design.column_names
    domain = results.design.domain
    labels = {term: readable(term, domain) for term in terms} | dict(names or {})
    chosen = choose_terms(terms, keep, drop, labels)
    columns = np.array([terms.index(term) for term in chosen], dtype=np.intp)
    if not intercept and keep is None and len(columns) > 1:
        columns = columns[columns != results.design.intercept]
    if standardise is None:
        lengths = masked(results.estimate).bse[columns]
        lengths = lengths[lengths > 0.0]
        standardise = len(lengths) > 1 and bool(lengths.max() > UNEQUAL * lengths.min())
    unit = _spread(results) if standardise else np.ones(len(terms))
    series = []
    for estimate in map(masked, shown):
        ends = interval(estimate, alpha) * unit[:, None]
        values = (estimate.params * unit)[columns]
        series.append(Series(estimate.name, values, ends[columns, 0], ends[columns, 1]))
    known = identified(results.estimate)
    return Coefficients(
        tuple(labels[terms[j]] + ("" if known[j] else f" ({CELL})") for j in columns),
        tuple(series),
        standardise,
        readable(results.design.response_name),
        1.0 - alpha,
    )


def _spread(results: DPResults) -> Floats:
    """Standard deviation of every column in synthetic records; 1 for constants and dummies."""
    design = results.design
    columns = design.columns(rows_of(results.model.data.frame, results.release.domain))
    dummy = np.isin(columns, (0.0, 1.0)).all(axis=0)
    deviation = columns.std(axis=0)
    return np.where(dummy | (deviation == 0.0), 1.0, deviation)


def axis(release: Released, name: str, most: int = MOST_CELLS) -> Axis:
    """The cells into which the bins cut a variable."""
    if name not in release.partition.variables:
        raise FormulaError(
            f"{name!r} is not a variable of the bins; choose from "
            f"{', '.join(map(repr, release.partition.variables))}"
        )
    boxes, variable = release.partition.boxes, release.domain[name]
    if isinstance(variable, Categorical):
        members = boxes.members[name].astype(np.float64)
        shares = members / members.sum(axis=1, keepdims=True)
        labels = tuple(variable.label_of.values())
        return Axis(name, np.arange(len(labels) + 1.0), labels, shares)
    margin = 0.5 if variable.integer else 0.0
    low, high = boxes.lower[name] - margin, boxes.upper[name] + margin
    edges = np.unique(np.concatenate([low, high]))
    if len(edges) > most + 1:
        edges = np.linspace(edges[0], edges[-1], most + 1)
    return Axis(name, edges, None, _overlap(low, high, edges), variable.integer)


def _overlap(low: Floats, high: Floats, edges: Floats) -> Floats:
    """Share of each interval that lies in each cell, (K, n)."""
    ends = np.minimum(high[:, None], edges[None, 1:])
    starts = np.maximum(low[:, None], edges[None, :-1])
    return np.asarray(np.maximum(ends - starts, 0.0) / (high - low)[:, None])


def bins_of(release: Released) -> Bins:
    """What the release says of its bins."""
    bins = released_bins(release)
    if bins is None:
        raise NotReleasedError(
            "the release has no bin counts, so there are no bins to show; give Budget(count=...) "
            "a share"
        )
    return bins


def density(release: Released, x: str, y: str) -> Density:
    """Noisy count per area: ``sum_k c_k s_ki t_kj`` over the size of cell (i, j), or 0."""
    across, up = axis(release, x), axis(release, y)
    counts = bins_of(release).counts
    mass = across.shares.T @ (counts[:, None] * up.shares)
    values = np.maximum(mass, 0.0) / np.outer(across.widths, up.widths)
    return Density(across, up, values)


def pairs(release: Released) -> list[tuple[str, str]]:
    """Pairs of covariates, those of numeric ones first."""
    names = sorted(
        release.partition.variables, key=lambda name: isinstance(release.domain[name], Categorical)
    )
    return list(combinations(names, 2))


def means(source: DPResults | Released, x: str, synthetic: pd.DataFrame | None = None) -> Means:
    """Means of the response over the cells of `x`.

    With D and C the noisy sums of ``y - centre`` and counts in a cell, the mean is
    ``centre + D/C`` and the variance of its noise ``(sd_D^2 + (D/C)^2 sd_C^2)/C^2``.
    The fitted mean takes the mean prediction for the synthetic records of every bin,
    and spreads it over the cells in the same way.
    """
    release = source if isinstance(source, Released) else source.release
    bins, across = bins_of(release), axis(release, x)
    count = bins.counts @ across.shares
    size = np.sqrt((across.shares**2).sum(axis=0))
    clear = count > STANDS_OUT * bins.sd_count * size
    safe = np.where(clear, count, np.nan)
    offset = ((bins.sum_y - bins.centre_y * bins.counts) @ across.shares) / safe
    noise = size * np.sqrt(bins.sd_y**2 + (offset * bins.sd_count) ** 2) / safe
    fitted = None
    if not isinstance(source, Released):
        fitted = np.where(clear, _fitted(source, bins, across, synthetic), np.nan)
    response = readable(release.design.response_name)
    return Means(across, bins.centre_y + offset, QUANTILE * noise, fitted, response)


def _fitted(results: DPResults, bins: Bins, across: Axis, synthetic: pd.DataFrame | None) -> Floats:
    """Mean prediction for the synthetic records of every bin, spread over cells like counts."""
    release = results.release
    if synthetic is None:
        size = int(min(max(results.nobs, len(results.params) + 2), MOST_SYNTHETIC))
        synthetic = results.synthesize(size=size, rng=0)
    records = rows_of(synthetic, release.domain)
    predicted = results.design.columns(records) @ results.estimate.params
    bin_of = release.partition.locate(records)
    rows = np.bincount(bin_of, minlength=bins.n_bins)
    mean = np.bincount(bin_of, predicted, minlength=bins.n_bins) / np.maximum(rows, 1)
    weights = np.where(rows > 0, np.maximum(bins.counts, 0.0), 0.0)[:, None] * across.shares
    total = weights.sum(axis=0)
    return np.asarray((mean @ weights) / np.where(total > 0.0, total, np.nan))
