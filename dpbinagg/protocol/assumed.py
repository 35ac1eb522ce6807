"""What a plan takes the records to be: made-up ones, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpbinagg.analyst.types import Array
from dpbinagg.errors import DataError, DPBinAggError
from dpbinagg.formula import Design
from dpbinagg.inputs import Data
from dpbinagg.kernel.view import complete
from dpbinagg.public.domain import Categorical, column_of, spread_rows
from dpbinagg.public.variables import Records
from dpbinagg.reading import open_source

RANGE_IN_SDS = 8.0
"""Width of the response's bounds in standard deviations of the error, if none is given."""
NAMED = 8
"""Rare levels that are named; more would hide the point."""


@dataclass(frozen=True)
class Assumed:
    """A law of records: covariates, coefficients, errors.

    Attributes
    ----------
    design : Design
    beta : (p,) array
    sd : float
        Of the errors.
    example : dict of arrays or None
        Complete public records; without them covariates are spread evenly over their bounds.
    errors : (m,) array or None
        Of the example's records, in standard deviations; None for the normal law.
    """

    design: Design
    beta: Array
    sd: float
    example: Records | None = None
    errors: Array | None = None

    @classmethod
    def of(
        cls,
        design: Design,
        sd: float | None,
        coefficients: Mapping[str, float] | None,
        example: Data | None,
    ) -> Assumed:
        """From the caller's guesses; what is not guessed is the example's, if it has the response.

        Parameters
        ----------
        design : Design
        sd : float or None
        coefficients : mapping or None
        example : table, path or None
        """
        if sd is not None and not float(sd) > 0.0:
            raise DataError("sd must be a number above 0")
        low, high = design.response_bounds()
        beta, own, errors = np.zeros(len(design.column_names)), (high - low) / RANGE_IN_SDS, None
        if design.intercept is not None:
            beta[design.intercept] = (low + high) / 2.0
        records = None if example is None else _complete(design, example)
        if records is not None and set(design.response_variables) <= set(records):
            beta, own, errors = _fitted(design, records)
        return cls(design, _told(design, beta, coefficients), float(sd or own), records, errors)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, Array]:
        """Made-up records, and what HC1 of least squares on them is, (p,)."""
        design, domain = self.design, self.design.domain.subset(self.design.variables)
        if self.example is None:
            rows, drawn = spread_rows(domain, n, rng), np.arange(n)
        else:
            drawn = rng.integers(0, _length(self.example), n)
            rows = {name: self.example[name][drawn] for name in domain}
        x = design.columns(rows)
        known = np.flatnonzero(np.isfinite(x).all(axis=1))
        x = x[known]
        errors = rng.normal(size=n) if self.errors is None else self.errors[drawn]
        y = np.clip(x @ self.beta + self.sd * errors[known], *design.response_bounds())
        inverse = design.invert_response(y)
        if inverse is None:
            raise DPBinAggError(
                f"plan cannot invert the response {design.response_name!r}; plan for the raw "
                "variable"
            )
        frame = pd.DataFrame({name: column_of(v[known], domain[name]) for name, v in rows.items()})
        return frame.assign(**{inverse[0]: inverse[1]}), _hc1(x, y)

    def words(self, sd: float | None, coefficients: Mapping[str, float] | None) -> str:
        """The assumptions as sentences."""
        covariates = "spread evenly over their bounds"
        if self.example is not None:
            covariates = "as in the example"
        law, slopes, source = "normal errors", "zero", "an eighth of the response's range"
        if self.errors is not None:
            law, slopes, source = "errors", "those of the example", "that of the example's"
        text = (
            f"Assumed: covariates {covariates}; {law} with standard deviation {self.sd:.4g} "
            f"({source if sd is None else 'as given'}); slopes "
            f"{'as given' if coefficients else slopes}."
        )
        if self.example is None:
            text += " Narrower covariates mean larger standard errors."
        if self.errors is None:
            text += (
                " So do errors with heavier tails than the normal law's, as of money in levels or "
                "of counts, up to twofold: an example that has the response tells."
            )
        return text

    def risk(self, n: int, needed: int) -> str:
        """What rare levels may do: which are rare is not public, but an example hints at it."""
        domain = self.design.domain
        factors = [v for v in self.design.variables if isinstance(domain[v], Categorical)]
        if not factors:
            return ""
        text = (
            f"A level of {', '.join(factors)} with fewer than about {needed} records will often "
            "not be identified"
        )
        if self.example is None:
            return f"{text}; which levels are rare is not public, so nothing here can tell."
        rare = []
        for name in factors:
            variable = domain[name]
            assert isinstance(variable, Categorical)
            counts = np.bincount(self.example[name], minlength=len(variable.levels))
            expected = n * counts / counts.sum()
            rare += [
                f"{name} {level} (about {count:.0f})"
                for level, count in zip(variable.levels, expected, strict=True)
                if count < needed
            ]
        more = f" and {len(rare) - NAMED} more" if len(rare) > NAMED else ""
        hint = (
            f"by the example: {', '.join(rare[:NAMED])}{more}" if rare else "the example has none"
        )
        return f"{text}; {hint}. Which are rare in your records is not public."


def _complete(design: Design, example: Data) -> Records:
    """The example's complete records, held to the bounds, with what the formula uses."""
    source = open_source(example)
    lacking = [v for v in design.variables if v not in source.columns]
    if lacking:
        raise DataError(
            f"example has no column {lacking[0]!r}, which the formula uses; it needs "
            f"{', '.join(design.variables)}"
        )
    names = [*dict.fromkeys((*design.variables, *design.response_variables))]
    names = [name for name in names if name in source.columns]
    batches = [*source.batches(design.domain, names)]
    records = {name: np.concatenate([batch[name] for batch in batches]) for name in names}
    for name in names:
        variable = design.domain[name]
        if not isinstance(variable, Categorical):
            records[name] = np.clip(records[name], variable.lower, variable.upper)
    whole = complete(records)
    with np.errstate(all="ignore"):
        known = np.isfinite(design.columns(whole)).all(axis=1)
        if set(design.response_variables) <= set(whole):
            known &= np.isfinite(design.response(whole))
    if not known.any():
        raise DataError("example has no complete record within the declared levels")
    return {name: column[known] for name, column in whole.items()}


def _length(records: Records) -> int:
    return len(next(iter(records.values())))


def _fitted(design: Design, example: Records) -> tuple[Array, float, Array]:
    """Least squares on the example: coefficients, standard deviation and residuals over it."""
    x, y = design.columns(example), design.response(example)
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    residuals = y - x @ beta
    sd = math.sqrt(float(residuals @ residuals) / max(len(y) - len(beta), 1))
    if sd == 0.0:
        raise DataError("example determines its response exactly: nothing tells what errors are")
    return np.asarray(beta), sd, np.asarray(residuals / sd)


def _told(design: Design, beta: Array, given: Mapping[str, float] | None) -> Array:
    """Coefficients, those that are given in place of the others."""
    beta = beta.copy()
    for name, value in (given or {}).items():
        if name not in design.column_names:
            raise DPBinAggError(
                f"coefficients names {name!r}, which is no term of the formula; its terms are "
                f"{', '.join(design.column_names)}"
            )
        beta[design.column_names.index(name)] = value
    return beta


def _hc1(x: Array, y: Array) -> Array:
    """``diag(n/(n - p) (X'X)^+ X' diag(e^2) X (X'X)^+)^(1/2)``."""
    bread = np.linalg.pinv(x.T @ x)
    scores = x * (y - x @ (bread @ (x.T @ y)))[:, None]
    freedom = max(len(y) - x.shape[1], 1)
    return np.asarray(np.linalg.norm(scores @ bread, axis=0) * math.sqrt(len(y) / freedom))
