"""Several synthetic copies: coefficients drawn for each, and the rule that combines fits.

Copy l of a calibrated table reproduces coefficients ``b_l`` drawn from N(b, V), V the
released covariance, privacy noise included. The spread of the fits over copies is
then V, whatever standard error the software prints for one copy: that one knows
nothing of the noise and is not used. The draws are matched: their mean is b and
their sample covariance V (if there are at most as many coefficients as copies less
one; else each variance), so that combining them loses nothing to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.errors import ReleaseError
from dpbinagg.kernel.questions import Answer
from dpbinagg.release.questions import COUNTS, MARGINS, RESPONSES, SUMS
from dpbinagg.release.transcript import Released, Transcript

DRAWN = (MARGINS, COUNTS, SUMS, RESPONSES)
"""Questions whose answers each copy draws anew."""


def draw_params(estimate: Estimate, copies: int, rng: np.random.Generator) -> Array:
    """Coefficients for every copy, (m, p), with sample mean b and sample covariance V."""
    d = np.sqrt(np.maximum(np.diag(estimate.cov), 0.0))
    unit = np.where(d > 0, d, 1.0)
    values, vectors = np.linalg.eigh(symmetric(estimate.cov / np.outer(unit, unit)))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    e = rng.standard_normal((copies, len(d)))
    e -= e.mean(axis=0)
    if copies > len(d):
        u, _, vt = np.linalg.svd(e, full_matrices=False)
        drawn = np.sqrt(copies - 1.0) * (u @ vt) @ root.T
    else:
        drawn = e @ root.T
        sd = drawn.std(axis=0, ddof=1)
        drawn = drawn / np.where(sd > 0, sd, 1.0) * np.sqrt(np.sum(root**2, axis=1))
    return np.asarray(estimate.params + drawn * unit)


def redrawn(release: Released, rng: np.random.Generator) -> Released:
    """The release with fresh noise, of the released scales, on its counts and its sums in bins.

    The second moments are drawn anew from the ensemble of the estimator.
    """
    entries = [
        replace(entry, answer=_again(entry.answer, rng)) if entry.question.name in DRAWN else entry
        for entry in release.transcript
    ]
    held = {field.name: getattr(release, field.name) for field in fields(Released)}
    return Released(**held | {"transcript": Transcript(entries)})


def drawn_noise(ensemble: Array, rng: np.random.Generator) -> Array:
    """A matrix of the law of the noise in second moments, from an ensemble of them, (M, k, k)."""
    z = rng.standard_normal(len(ensemble)) / np.sqrt(len(ensemble))
    return np.asarray(np.tensordot(z, ensemble, axes=1))


def _again(answer: Answer, rng: np.random.Generator) -> Answer:
    noisy = [
        v + s * rng.standard_normal(v.shape)
        for v, s in zip(answer.values, answer.scales, strict=True)
    ]
    return replace(answer, values=tuple(noisy))


@dataclass(frozen=True)
class CombinedCopies:
    """What the fits on m copies say together.

    Attributes
    ----------
    params : Series
        Mean of the coefficients.
    cov : DataFrame
        Their covariance over the copies.
    n_copies : int
    df_resid : float
        Degrees of freedom of the t intervals.
    """

    params: pd.Series
    cov: pd.DataFrame
    n_copies: int
    df_resid: float

    @property
    def bse(self) -> pd.Series:
        """Standard errors, sampling and privacy noise included."""
        return pd.Series(np.sqrt(np.diag(self.cov)), index=self.params.index, name="bse")

    @property
    def tvalues(self) -> pd.Series:
        """Coefficients over standard errors."""
        return self.params / self.bse

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values."""
        return pd.Series(
            2.0 * stats.t.sf(np.abs(self.tvalues), self.df_resid), index=self.params.index
        )

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the coefficients."""
        return self.cov

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals that cover with probability ``1 - alpha``."""
        half = stats.t.ppf(1.0 - alpha / 2.0, self.df_resid) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def __repr__(self) -> str:
        table = pd.DataFrame({"coef": self.params, "std err": self.bse})
        return f"{self.n_copies} copies combined\n{table}"


def combine_copies(fits: Sequence[Any], df_resid: float = np.inf) -> CombinedCopies:
    """Combine the same regression fitted on every copy of a calibrated table.

    ``params = mean_l b_l`` and ``cov = sum_l (b_l - params)(b_l - params)' / (m - 1)``:
    the standard errors that the fits print for one copy are left out, because each copy
    was made to vary by the whole released covariance.

    Parameters
    ----------
    fits : sequence
        Fitted models (anything with `params`) or vectors of coefficients, one for
        each copy.
    df_resid : float
        Degrees of freedom for intervals: those of the release where it states them.

    Returns
    -------
    CombinedCopies

    Examples
    --------
    >>> import statsmodels.formula.api as smf
    >>> from dpbinagg import dp_ols
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> res = dp_ols("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> copies = res.synthesize(copies=5)
    >>> fits = [smf.ols("score ~ pretest", copy).fit() for _, copy in copies.groupby("copy")]
    >>> combined = combine_copies(fits)
    >>> bool(abs(combined.bse / res.bse - 1).max() < 0.05)
    True
    """
    try:
        vectors = [fit.params if hasattr(fit, "params") else fit for fit in fits]
    except TypeError:
        raise ReleaseError(
            f"fits must be a list with one fitted model for each copy, got {type(fits).__name__}"
        ) from None
    if len(vectors) < 2:
        raise ReleaseError(
            f"fits must have at least two entries, got {len(vectors)}; make the table with "
            "copies=20 and fit every copy"
        )
    first = vectors[0]
    names = first.index if isinstance(first, pd.Series) else range(len(np.atleast_1d(first)))
    if any(isinstance(v, pd.Series) and list(v.index) != list(names) for v in vectors) or any(
        np.shape(v) != np.shape(first) for v in vectors
    ):
        raise ReleaseError(
            "fits must all have the same coefficients; fit one formula to every copy"
        )
    table = np.array([np.asarray(vector, dtype=np.float64) for vector in vectors])
    index = pd.Index(names)
    cov = np.atleast_2d(np.cov(table, rowvar=False))
    return CombinedCopies(
        pd.Series(table.mean(axis=0), index=index, name="params"),
        pd.DataFrame(cov, index=index, columns=index),
        len(table),
        float(df_resid),
    )
