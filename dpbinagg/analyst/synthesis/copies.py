"""Several synthetic copies: coefficients drawn for each, and the rule that combines fits.

Copy l of a calibrated table reproduces coefficients ``b_l`` drawn from N(b, V), V the
released covariance, privacy noise included. The spread of the fits over copies is
then V, whatever standard error the software prints for one copy: that one knows
nothing of the noise and is not used. The draws are matched: their mean is b and
their sample covariance V (if there are at most as many coefficients as copies less
one; else each variance), so that combining them loses nothing to chance.

All else in a copy rests on fresh noise of the released scales, so that copies differ by the noise
of the release, but not by sampling: for other models the errors are ``T = u + (1 + 1/m) b``, u the
mean of the squared standard errors that the fits print and b the variance over copies.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from dpbinagg.analyst.linalg import symmetric
from dpbinagg.analyst.synthesis.supports import BINS, EXACT, NOISE, TAG, Tag, Verdict, find_tag
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.errors import ReleaseError, SupportWarning
from dpbinagg.kernel.questions import Answer
from dpbinagg.release.questions import CLOSER, COUNTS, MARGINS, MOMENTS, RESPONSES, SUMS
from dpbinagg.release.transcript import Released, Transcript

DRAWN = (MARGINS, CLOSER, MOMENTS, COUNTS, SUMS, RESPONSES)
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


RULES = {
    EXACT: "T = b: copies vary by the whole released covariance",
    NOISE: "T = u + (1 + 1/m) b",
    BINS: "T = u + (1 + 1/m) b",
}
"""Variance of a coefficient by what the copies say of its model."""

UNKNOWN = "unknown"
CANONICAL = ("Logit", "Poisson")
"""Models that rest on sums of the response times columns, which were released for linear ones."""


@dataclass(frozen=True)
class CombinedCopies:
    """What the fits on m copies say together.

    Attributes
    ----------
    params : Series
        Mean of the coefficients.
    cov : DataFrame
        Their covariance.
    n_copies : int
    df_resid : float or Series
        Degrees of freedom of the t intervals.
    support : str
        How far the copies support the model: "exact", "known noise", "as far as bins show", or
        "unknown".
    rule : str
        How the covariance follows from the copies.
    """

    params: pd.Series
    cov: pd.DataFrame
    n_copies: int
    df_resid: float | pd.Series
    support: str = EXACT
    rule: str = RULES[EXACT]

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
        df = np.asarray(self.df_resid)
        return pd.Series(2.0 * stats.t.sf(np.abs(self.tvalues), df), index=self.params.index)

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the coefficients."""
        return self.cov

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals that cover with probability ``1 - alpha``."""
        half = stats.t.ppf(1.0 - alpha / 2.0, np.asarray(self.df_resid)) * self.bse
        return pd.DataFrame({0: self.params - half, 1: self.params + half})

    def __repr__(self) -> str:
        table = pd.DataFrame({"coef": self.params, "std err": self.bse})
        return f"{self.n_copies} copies combined ({self.support}; {self.rule})\n{table}"


def combine_copies(
    fits: Sequence[Any],
    table: Any = None,
    *,
    formula: str | None = None,
    unsupported: str = "refuse",
    df_resid: float = np.inf,
) -> CombinedCopies:
    """Combine the same regression fitted on every copy of a calibrated table.

    The rule follows from what the table says of the model, see `Release.supports`. With
    ``params = mean_l b_l``, b the covariance of the ``b_l`` over copies, and u the mean of the
    covariances that the fits print:

    - models for which the table was made: ``cov = b``, for each copy was made to vary by the whole
      released covariance;
    - other linear models of what was released: ``cov = u + (1 + 1/m) b``, with Rubin's degrees of
      freedom;
    - interactions, curves, thresholds and subgroups, of which bins alone tell, are refused: where
      bins do not show them all copies lack them alike, and their scatter says nothing.

    Parameters
    ----------
    fits : sequence
        Fitted models, one for each copy; vectors of coefficients will do for models for which the
        table was made.
    table : DataFrame, path or release, optional
        The copies as `synthesize` made them; the path of their file, or of its folder, where
        ``supports.json`` lies; or the release. Not needed where the fits hold a table that
        `synthesize` made.
    formula : str, optional
        What was fitted; needed where the fits do not say.
    unsupported : {"refuse", "warn"}
        What to do where bins alone tell: "warn" combines as for other models, to look at.
    df_resid : float
        Degrees of freedom for models for which the table was made: those of the release where it
        states them.

    Returns
    -------
    CombinedCopies

    Raises
    ------
    ReleaseError
        Where the copies cannot tell of the model.

    Warns
    -----
    SupportWarning
        Where copies are fewer than the coefficients, do not say what they are, or were to be
        combined all the same.

    Examples
    --------
    >>> import statsmodels.formula.api as smf
    >>> from dpbinagg import dp_ols
    >>> from dpbinagg.datasets import load_school
    >>> school = load_school()
    >>> res = dp_ols("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> copies = res.synthesize(copies=5)
    >>> fits = [smf.ols("score ~ pretest", copy).fit() for _, copy in copies.groupby("copy")]
    >>> combined = combine_copies(fits, copies)
    >>> bool(abs(combined.bse / res.bse - 1).max() < 0.05)
    True
    """
    if unsupported not in ("refuse", "warn"):
        raise ReleaseError(f"unsupported must be 'refuse' or 'warn', got {unsupported!r}")
    each, index = _coefficients(fits)
    tag = _tag_of_fit(fits[0]) if table is None else find_tag(table)
    verdict = _verdict(fits[0], tag, formula)
    if tag is not None:
        _refuse(tag, len(each))
    if verdict.support == BINS and unsupported == "refuse":
        raise ReleaseError(
            f"{verdict.why}; unsupported='warn' combines it all the same, to look at"
        )
    m, size = each.shape
    said = [] if verdict.support in (EXACT, NOISE) else [verdict.why]
    if m <= size:
        said.append(
            f"{m} copies are too few for {size} coefficients together: standard errors hold one by "
            f"one, joint tests do not; make at least {size + 1} copies"
        )
    for text in said:
        warnings.warn(text, SupportWarning, stacklevel=2)
    between = np.atleast_2d(np.cov(each, rowvar=False))
    params = pd.Series(each.mean(axis=0), index=index, name="params")
    if verdict.support not in (NOISE, BINS):
        cov = pd.DataFrame(between, index=index, columns=index)
        return CombinedCopies(params, cov, m, float(df_resid), verdict.support)
    within = _within(fits, size) * (tag.rows / tag.records if tag and tag.rows else 1.0)
    spread = (1.0 + 1.0 / m) * between
    cov = pd.DataFrame(within + spread, index=index, columns=index)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = (m - 1.0) * (1.0 + np.diag(within) / np.diag(spread)) ** 2
    freedom = pd.Series(df, index=index)
    return CombinedCopies(params, cov, m, freedom, verdict.support, RULES[verdict.support])


def _coefficients(fits: Sequence[Any]) -> tuple[Array, pd.Index[Any]]:
    """Coefficients of all fits, (m, p), and their names."""
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
    return table, pd.Index(names)


def _within(fits: Sequence[Any], size: int) -> Array:
    """Mean of the covariances that the fits print."""
    try:
        found = [np.asarray(fit.cov_params(), dtype=np.float64) for fit in fits]
    except AttributeError:
        found = []
    if not found or any(one.shape != (size, size) for one in found):
        raise ReleaseError(
            "fits must be fitted models with cov_params(), whose standard errors the rule needs "
            "for a model that the table was not made for; pass the fits, not their coefficients"
        )
    return np.asarray(np.mean(found, axis=0))


def _tag_of_fit(fit: Any) -> Tag | None:
    """The tag of the table that a fit of statsmodels holds."""
    frame = getattr(getattr(getattr(fit, "model", None), "data", None), "frame", None)
    return find_tag(frame) if isinstance(frame, pd.DataFrame) and TAG in frame.attrs else None


def _verdict(fit: Any, tag: Tag | None, formula: str | None) -> Verdict:
    """How far copies support what was fitted."""
    if tag is None:
        return Verdict(
            UNKNOWN,
            "the fits do not say of which table they are: their errors are right only for the "
            "regression that the table was made for; pass table=, the copies as synthesize made "
            "them, the path of their file, or the release",
        )
    model = getattr(fit, "model", None)
    asked = formula or getattr(model, "formula", None) or _formula_by_names(model)
    if asked is None:
        return Verdict(
            UNKNOWN,
            "the fits do not say which regression they are: their errors are right only for "
            f"{' and '.join(tag.models)}; pass formula=",
        )
    verdict = tag.judge(asked)
    kind, nobs = type(model).__name__, getattr(fit, "nobs", None)
    if verdict.support == BINS:
        return _beyond(f"{asked}: {verdict.why}")
    if nobs is not None and tag.rows and nobs < tag.rows:
        return _beyond(f"{asked} was fitted to {nobs:.0f} of {tag.rows} rows, a subgroup")
    if model is not None and kind not in ("OLS", *CANONICAL) and not _is_canonical(model):
        return _beyond(f"{asked} was fitted by {kind}, not by least squares")
    return verdict if kind == "OLS" or model is None else Verdict(NOISE)


def _beyond(what: str) -> Verdict:
    return Verdict(
        BINS,
        "the copies support this only as far as bins show, which may be nothing: "
        f"{what}. Declare it in a release",
    )


def _is_canonical(model: Any) -> bool:
    """Whether a GLM of statsmodels has the link of its family by default."""
    family = getattr(model, "family", None)
    if family is None:
        return False
    return type(family.link) is type(type(family)().link)


def _formula_by_names(model: Any) -> str | None:
    """The formula of a model of named columns; None where columns are not variables."""
    response, columns = (getattr(model, name, None) for name in ("endog_names", "exog_names"))
    if not isinstance(response, str) or not isinstance(columns, list):
        return None
    constant = "const" in columns
    names = [f"Q({name!r})" for name in columns if name != "const"]
    return f"Q({response!r}) ~ {' + '.join([str(int(constant)), *names])}"


def _refuse(tag: Tag, number: int) -> None:
    """Refuse copies that do not vary as the release does, and some of them."""
    if tag.kind != "calibrated":
        raise ReleaseError(
            f"copies of the kind {tag.kind!r} do not vary by the noise of the release, and tell no "
            'errors; make them with kind="calibrated"'
        )
    if tag.copies > 1 and number != tag.copies:
        raise ReleaseError(
            f"fits must have one entry for each of the {tag.copies} copies, which vary together, "
            f"got {number}; fit all of them, or make fewer copies"
        )
