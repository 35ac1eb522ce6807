"""What a plan takes the records to be: made-up ones, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from dpbinagg.analyst.types import Array
from dpbinagg.errors import DataError, DPBinAggError
from dpbinagg.formula import Design
from dpbinagg.inputs import Data
from dpbinagg.kernel.view import parted
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
        (beta, own), errors = _level(design), None
        records = None if example is None else _complete(design, example)
        if records is not None and set(design.response_variables) <= set(records):
            beta, own, errors = _fitted(design, records)
        return cls(design, _told(design, beta, coefficients), float(sd or own), records, errors)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Array]]:
        """Made-up records, and what HC1 of least squares on them is, (p,), by the formula."""
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
        return frame.assign(**{inverse[0]: inverse[1]}), {design.formula: _hc1(x, y)}

    def words(self, sd: object, coefficients: object) -> str:
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


@dataclass(frozen=True)
class AssumedStudy:
    """A law of records for several models: of each outcome, that of the first model that has it.

    Attributes
    ----------
    whole : Assumed
        Of the design that holds all columns; only its example is used.
    laws : dict of Assumed
        By the formula of the model.
    """

    whole: Assumed
    laws: Mapping[str, Assumed]

    @classmethod
    def of(
        cls,
        whole: Design,
        models: Mapping[str, Design],
        sd: Mapping[str, float],
        coefficients: Mapping[str, Mapping[str, float]],
        example: Data | None,
    ) -> AssumedStudy:
        """As `Assumed.of`, with guesses by the name of the model."""
        outcomes = {name for one in models.values() for name in one.response_variables}
        records = None if example is None else _complete(whole, example, outcomes)
        laws = {}
        for name, design in models.items():
            given = set(records or {})
            has = set(design.names) <= given
            beta, own = _level(design)
            if records is not None and has:
                beta, own, _ = _fitted(design, records)
            beta = _told(design, beta, coefficients.get(name))
            laws[design.formula] = Assumed(design, beta, float(sd.get(name) or own))
        return cls(Assumed(whole, np.zeros(0), 0.0, records), laws)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, Array]]:
        """Made-up records, and what HC1 of least squares on them is, (p,), by the formula."""
        whole, example = self.whole.design, self.whole.example or {}
        names = whole.names
        rows = spread_rows(whole.domain.subset(names), n, rng)
        if example:
            drawn = rng.integers(0, _length(example), n)
            rows |= {name: column[drawn] for name, column in example.items()}
        made = set(example)
        for law in self.laws.values():
            design, outcome = law.design, law.design.response_variables
            if made.issuperset(outcome):
                continue
            with np.errstate(all="ignore"):
                y = design.columns(rows) @ law.beta + law.sd * rng.normal(size=n)
            found = design.invert_response(np.clip(y, *design.response_bounds()))
            if found is None:
                continue
            variable = whole.domain[found[0]]
            if not isinstance(variable, Categorical):
                rows[found[0]] = np.rint(found[1]) if variable.integer else found[1]
                made |= {found[0]}
        with np.errstate(all="ignore"):
            known = np.isfinite(whole.columns(rows)).all(axis=1) & np.isfinite(whole.response(rows))
        rows = {name: column[known] for name, column in rows.items()}
        ordinary = {
            formula: _hc1(law.design.columns(rows), law.design.response(rows))
            for formula, law in self.laws.items()
        }
        columns = {name: column_of(rows[name], whole.domain[name]) for name in names}
        return pd.DataFrame(columns), ordinary

    @property
    def sd(self) -> float:
        """Of the errors of the first model."""
        return next(iter(self.laws.values())).sd

    def words(self, sd: object, coefficients: object) -> str:
        """The assumptions as sentences."""
        if self.whole.example is not None:
            given = set(self.whole.example)
            if all(given.issuperset(law.design.response_variables) for law in self.laws.values()):
                return "Assumed: records as in the example."
        told = "; ".join(f"{law.design.response_name} {law.sd:.4g}" for law in self.laws.values())
        covariates = "spread evenly over their bounds"
        if self.whole.example is not None:
            covariates = "as in the example where it has them, else spread evenly over their bounds"
        return (
            f"Assumed: variables {covariates}; each outcome by the first model that has it, with "
            f"normal errors of these standard deviations: {told}; slopes "
            f"{'as given, else zero' if coefficients else 'zero'}. Narrower covariates and errors "
            "with heavier tails mean larger standard errors; an example that has all variables "
            "tells."
        )

    def risk(self, n: int, needed: int) -> str:
        """What rare levels may do."""
        return self.whole.risk(n, needed)


def _complete(design: Design, example: Data, outcomes: Iterable[str] = ()) -> Records:
    """The example's complete records, held to the bounds, with what the formula uses.

    Variables in `outcomes` may be lacking.
    """
    source = open_source(example)
    needed = [v for v in design.variables if v not in outcomes]
    lacking = [v for v in needed if v not in source.columns]
    if lacking:
        raise DataError(
            f"example has no column {lacking[0]!r}, which the formula uses; it needs "
            f"{', '.join(needed)}"
        )
    names = [name for name in design.domain if name in source.columns]
    batches = [*source.batches(design.domain, names)]
    records = {name: np.concatenate([batch[name] for batch in batches]) for name in names}
    for name in names:
        variable = design.domain[name]
        if not isinstance(variable, Categorical):
            records[name] = np.clip(records[name], variable.lower, variable.upper)
    whole, _ = parted(records)
    known = np.ones(_length(whole), dtype=bool)
    with np.errstate(all="ignore"):
        if set(design.variables) <= set(whole):
            known &= np.isfinite(design.columns(whole)).all(axis=1)
        if set(design.response_variables) <= set(whole):
            known &= np.isfinite(design.response(whole))
    if not known.any():
        raise DataError("example has no complete record within the declared levels")
    return {name: column[known] for name, column in whole.items()}


def _length(records: Records) -> int:
    return len(next(iter(records.values())))


def _level(design: Design) -> tuple[Array, float]:
    """Coefficients of a response that is level within its bounds, and its standard deviation."""
    low, high = design.response_bounds()
    beta = np.zeros(len(design.column_names))
    if design.intercept is not None:
        beta[design.intercept] = (low + high) / 2.0
    return beta, (high - low) / RANGE_IN_SDS


def _fitted(design: Design, example: Records) -> tuple[Array, float, Array]:
    """Least squares on the example: coefficients, standard deviation and residuals over it."""
    x, y = design.columns(example), design.response(example)
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    residuals = y - x @ beta
    sd = math.sqrt(float(residuals @ residuals) / max(len(y) - len(beta), 1))
    # Rounding leaves about 1e-16 of the response's spread where the fit is exact.
    if sd <= 1e-12 * float(np.std(y)):
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
