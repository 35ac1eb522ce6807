"""Rows after the published law, given what was released.

The published algorithm draws, for a bin with c rows, ``x_i = (s + sqrt(c) sd e_i)/c``
with independent standard normal ``e_i``: the bin sum is ``s + sd sum(e)/sqrt(c)``, the
exact sum with noise of standard deviation sd, and is a release. Given that sum z, the
rows are ``x_i = z/c + (e_i - mean e) sd/sqrt(c)``. They may leave their box, as the
noise does.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpbinagg.analyst.fit import released_bins
from dpbinagg.analyst.synthesis.apportion import largest_remainder
from dpbinagg.analyst.synthesis.carriers import Continuous, carriers
from dpbinagg.analyst.types import Array, Bins
from dpbinagg.errors import ReleaseError
from dpbinagg.formula import Design
from dpbinagg.release.transcript import Released


def conditional_rows(
    noisy_sum: Array, sd: Array, n_rows: NDArray[np.int64], rng: np.random.Generator
) -> Array:
    """Rows of all bins given their noisy sums: ``z/c + (e_i - mean e) sd/sqrt(c)``.

    Parameters
    ----------
    noisy_sum, sd : (K, q) arrays
    n_rows : (K,) array
        At least 1 each; the rows of a bin are consecutive.

    Returns
    -------
    (sum(n_rows), q) array
    """
    bin_of = np.repeat(np.arange(len(n_rows)), n_rows)
    e = rng.standard_normal((len(bin_of), noisy_sum.shape[1]))
    start = np.concatenate([[0], np.cumsum(n_rows)[:-1]])
    mean = np.add.reduceat(e, start, axis=0) / n_rows[:, None]
    scale = sd / np.sqrt(n_rows)[:, None]
    rows = (noisy_sum / n_rows[:, None])[bin_of] + (e - mean[bin_of]) * scale[bin_of]
    # The sums are exact up to rounding; the last row of each bin takes the rounding.
    off = noisy_sum - np.add.reduceat(rows, start, axis=0)
    rows[start + n_rows - 1] += off
    return np.asarray(rows)


def require_bins(release: Released) -> Bins:
    """The bins of a release, or an error that says why there are none."""
    bins = released_bins(release)
    if bins is None:
        raise ReleaseError(
            'kind="binagg" needs bin counts and sums, which this release does not contain; '
            "give Budget.count, sum_x and sum_y a share, or use another kind"
        )
    return bins


def table_names(design: Design) -> tuple[dict[int, str], str]:
    """Column index to name in a "binagg" table, and the name of the response.

    A column that is a raw variable has the variable's name, any other patsy's name;
    constant columns are left out.
    """
    plain = {
        carrier.column: carrier.name
        for carrier in carriers(design)
        if isinstance(carrier, Continuous) and carrier.identity and carrier.column is not None
    }
    names = {
        j: plain.get(j, name) for j, name in enumerate(design.column_names) if j != design.intercept
    }
    return names, design.response_name


def binagg_rows(
    release: Released, size: int | None, rng: np.random.Generator
) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """A table of design columns whose bin sums equal the release, and the bin of each row.

    Every bin has at least one row, or its sums would be lost; otherwise bin k has
    as many rows as its rounded count, or its share of `size`.
    """
    bins = require_bins(release)
    if size is None:
        n_rows = np.maximum(np.rint(bins.counts), 1.0).astype(np.int64)
    else:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < bins.n_bins:
            raise ReleaseError(
                f"size must be a whole number of at least {bins.n_bins}, the number of bins, for "
                f'kind="binagg"'
            )
        spare = int(size) - bins.n_bins
        n_rows = 1 + largest_remainder(np.maximum(bins.counts - 1.0, 0.0), spare)
    names, response = table_names(release.design)
    index = np.array(list(names), dtype=np.intp)
    sums = np.column_stack([bins.sum_x[:, index], bins.sum_y])
    sd = np.column_stack([bins.sd_x[:, index], np.full(bins.n_bins, bins.sd_y)])
    rows = conditional_rows(sums, sd, n_rows, rng)
    columns = {response: rows[:, -1]}
    columns |= {name: rows[:, place] for place, name in enumerate(names.values())}
    bin_of = np.repeat(np.arange(bins.n_bins), n_rows)
    return pd.DataFrame(columns), bin_of
