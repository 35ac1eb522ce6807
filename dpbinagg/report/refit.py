"""The steward's regression again, from a synthetic table and the public part of a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbinagg.analyst.synthesis.binagg import require_bins, table_names
from dpbinagg.analyst.synthesis.tables import BIN
from dpbinagg.errors import ReleaseError
from dpbinagg.release.questions import MOMENTS, SCORES
from dpbinagg.release.transcript import Transcript, with_bins
from dpbinagg.report.verbs import Release

if TYPE_CHECKING:
    from dpbinagg.inputs import CovType
    from dpbinagg.report.results import DPResults


def refit(
    formula: str | None, synthetic: pd.DataFrame, release: Release, cov_type: CovType = "sandwich"
) -> DPResults:
    """Fit a regression to a synthetic table made with ``kind="binagg", bin_id=True``.

    The rows are summed by bin; their sums are the released ones. With the counts,
    bounds and noise scales of the release, the corrected estimator then gives the
    numbers that the steward got.

    Parameters
    ----------
    formula : str or None
        The released formula, or a smaller one; None for the released one.
    synthetic : DataFrame
        As made, or read back from a file.
    release : Release
        Its noisy sums are not used.
    cov_type : {"sandwich", "model"}

    Returns
    -------
    results
        The corrected estimate, as `Release.ols` gives it.

    Examples
    --------
    >>> from dpbinagg import dp_release
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> release = dp_release("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> table = release.synthesize(kind="binagg", bin_id=True)
    >>> steward = release.ols(estimator="corrected")
    >>> bool(abs(refit(None, table, release).params - steward.params).max() < 1e-9)
    True
    """
    _require(synthetic, release)
    bins = require_bins(release)
    names, response = table_names(release.design)
    missing = [name for name in (BIN, response, *names.values()) if name not in synthetic.columns]
    if missing:
        raise ReleaseError(
            f"synthetic lacks the column {missing[0]!r}; make it with "
            'synthesize(kind="binagg", bin_id=True)'
        )
    number = synthetic[BIN].to_numpy()
    if not np.issubdtype(number.dtype, np.integer) or set(np.unique(number)) != set(
        range(bins.n_bins)
    ):
        raise ReleaseError(
            f"synthetic[{BIN!r}] must number the {bins.n_bins} bins of the release, with at least "
            "one row each; use the table and the release that belong together, whole"
        )

    def total(name: str) -> Any:
        return np.bincount(number, weights=synthetic[name].to_numpy(dtype=np.float64))

    sum_x = bins.centre * bins.counts[:, None]
    for j, name in names.items():
        sum_x[:, j] = total(name)
    statistics = {
        "count": bins.counts,
        "dev_x": np.where(bins.sd_x > 0, sum_x - bins.centre * bins.counts[:, None], 0.0),
        "dev_y": total(response) - bins.centre_y * bins.counts,
    }
    again = replace(release, transcript=bins_alone(release, statistics))
    return again.ols(formula, estimator="corrected", cov_type=cov_type)


def bins_alone(release: Release, statistics: Mapping[str, Any]) -> Transcript:
    """The transcript with these sums in bins, and without what was asked beside them."""
    bins = release.transcript.without(MOMENTS, SCORES)
    facts = release.design, release.partition, release.calibration
    return with_bins(bins, *facts, statistics, release.noise_scales)


def _require(synthetic: object, release: object) -> None:
    """Refuse what is no table or no release."""
    if not isinstance(release, Release):
        raise ReleaseError(
            f"release must be a Release, got {type(release).__name__}; pass results.release, or "
            "load_release(folder)"
        )
    if not isinstance(synthetic, pd.DataFrame):
        raise ReleaseError(
            f"synthetic must be a pandas DataFrame, got {type(synthetic).__name__}; pass what "
            'synthesize(kind="binagg", bin_id=True) made, or that table read back from its file'
        )
