"""Which coefficients a release tells, and what is shown of those that it does not.

An estimate keeps numbers for all its terms, which predictions and synthetic records need.
What a reader may take for an estimate is NaN where the release does not tell it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.errors import IdentificationWarning, NotIdentifiedError
from dpbinagg.report.tables import listed

Flags = NDArray[np.bool_]

MOST_DEPENDENCE = 0.5
"""Standard errors of a contrast that the start may have left in it.

In simulations, contrasts below it were covered as they claim, those above were not."""

TINY = 1e-12
"""Share of the largest variance below which a direction has none."""

ROUNDING = 1.0 + 1e-9
"""A limit that is met up to rounding is met."""

MOST_TERMS = 8
"""Terms that a sentence lists."""

PASSED_OVER = ("dpbinagg.", "statsmodels.")
"""Modules whose lines a warning does not point to."""

CELL = "not identified"
"""What a table has in place of a coefficient."""


def identified(estimate: Estimate) -> Flags:
    """Whether the release tells each coefficient, (p,); all of them where nobody judged."""
    if estimate.identified_terms is None:
        return np.ones(estimate.params.shape, dtype=bool)
    return np.asarray(estimate.identified_terms, dtype=bool)


def masked(estimate: Estimate) -> Estimate:
    """The estimate with NaN for what is not identified."""
    known = identified(estimate)
    if known.all():
        return estimate
    params = np.where(known, estimate.params, np.nan)
    return replace(
        estimate, params=params, cov=np.where(np.outer(known, known), estimate.cov, np.nan)
    )


def contrasts_identified(estimate: Estimate, contrasts: Array) -> Flags:
    """Whether the release tells each contrast, (k,) for the rows of a (k, p) matrix.

    With D what the start left in the estimate, a covariance, row L is identified where
    ``sqrt(L D L') <= sqrt(L V L') / 2``. Where D is not known, a contrast of a term that is
    not identified is not.
    """
    rows = np.atleast_2d(contrasts)
    if estimate.dependence is None:
        return np.asarray(~(rows[:, ~identified(estimate)] != 0.0).any(axis=1))
    left = np.einsum("ij,jk,ik->i", rows, estimate.dependence, rows)
    whole = np.einsum("ij,jk,ik->i", rows, estimate.cov, rows)
    return np.asarray(left <= MOST_DEPENDENCE**2 * np.maximum(whole, 0.0) * ROUNDING)


def jointly_identified(estimate: Estimate, contrasts: Array) -> bool:
    """Whether every combination of the rows is identified, as a joint test needs."""
    rows = np.atleast_2d(contrasts)
    if not contrasts_identified(estimate, rows).all():
        return False
    if estimate.dependence is None or len(rows) == 1:
        return True
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, estimate.cov, rows), 0.0))
    rows = rows / np.where(errors > 0.0, errors, 1.0)[:, None]
    values, vectors = np.linalg.eigh(rows @ estimate.cov @ rows.T)
    kept = values > TINY * max(values.max(initial=0.0), 0.0)
    root = vectors[:, kept] / np.sqrt(values[kept])
    left = root.T @ (rows @ estimate.dependence @ rows.T) @ root
    return bool(np.linalg.eigvalsh(left).max(initial=0.0) <= MOST_DEPENDENCE**2 * ROUNDING)


def require_identified(
    estimate: Estimate, contrasts: Array, names: Sequence[str], joint: bool = False
) -> None:
    """Refuse tests of what the release does not tell."""
    rows = np.atleast_2d(contrasts)
    known = contrasts_identified(estimate, rows)
    if not known.all():
        texts = [contrast_text(row, names) for row in rows[~known]]
        raise NotIdentifiedError(
            f"the release does not identify {listed(texts, MOST_TERMS)}, so there is nothing to "
            "test; test other terms, or make a release with more mu, more records or fewer terms"
        )
    if joint and not jointly_identified(estimate, rows):
        raise NotIdentifiedError(
            "the release identifies each of these contrasts, but not some combination of them, so "
            "they cannot be tested together; test them one by one"
        )


def contrast_text(row: Array, names: Sequence[str]) -> str:
    """A contrast in words, as in ``educ - 2 exper``."""
    text = ""
    for weight, name in zip(row, names, strict=True):
        if weight == 0.0:
            continue
        sign = ("- " if weight < 0 else "+ ") if text else ("-" if weight < 0 else "")
        size = "" if abs(weight) == 1.0 else f"{abs(weight):.4g} "
        text += f"{' ' if text else ''}{sign}{size}{name}"
    return text or "0"


def sentences(estimate: Estimate, names: Sequence[str], public_rows: Array) -> list[str]:
    """Terms that are not identified, why, and what would help: one sentence for each reason."""
    unknown = ~identified(estimate)
    if not unknown.any():
        return []
    kernel = null_space(public_rows / np.maximum(np.abs(public_rows).max(axis=0), 1e-300))
    aliased = (np.abs(kernel) > 1e-6).any(axis=1) & unknown
    found = []
    if aliased.any():
        found.append(
            f"CAUTION: not identified: {_named(names, aliased)}. By the formula itself these "
            "columns are combinations of others, so that no data tell them apart; remove terms "
            "until none is."
        )
    if (unknown & ~aliased).any():
        found.append(
            f"CAUTION: not identified: {_named(names, unknown & ~aliased)}. The noise leaves too "
            "little: more than half a standard error would be where the computation started, not "
            "what the records say. What else is shown holds. More mu, more records, tighter "
            "bounds, or fewer terms or levels would help."
        )
    return found


def _named(names: Sequence[str], chosen: Flags) -> str:
    return listed([name for name, flag in zip(names, chosen, strict=True) if flag], MOST_TERMS)


def warn_of_predictions(estimate: Estimate, columns: Array) -> None:
    """Say how many predictions lean on what the release does not tell."""
    finite = columns[np.isfinite(columns).all(axis=1)]
    weak = int((~contrasts_identified(estimate, finite)).sum())
    if weak:
        warnings.warn(
            f"{weak} of {len(columns)} predictions lean on coefficients that the release does not "
            "identify: they are partly where the computation started, and their intervals need "
            "not cover as they say. `identified` tells which terms.",
            IdentificationWarning,
            stacklevel=callers_level(),
        )


def callers_level() -> int:
    """Stack level, seen from the function that warns, of the code that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(PASSED_OVER):
        level, frame = level + 1, frame.f_back
    return level
