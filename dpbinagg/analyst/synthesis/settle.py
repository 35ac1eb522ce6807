"""All declared outcomes of one table at once, and rules that hold in every row.

Outcomes are moved in turn until least squares of each returns its coefficients: one that is a
covariate of another moves its columns, so that turns are repeated. What an identity determines
follows from the other variables of a row; a row that breaks a rule gives its outcome to another,
or is replaced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbinagg.analyst.synthesis.keeper import Keeper
from dpbinagg.analyst.synthesis.outcome import Basis, Outcome
from dpbinagg.analyst.types import Array
from dpbinagg.errors import ReleaseError
from dpbinagg.formula import Design
from dpbinagg.public.domain import Rows

Flags = NDArray[np.bool_]

TURNS = 20
"""Turns of all outcomes; one is enough unless outcomes are covariates of each other."""
CLOSE, CLOSE_WHOLE = 1e-9, 0.02
"""Standard errors that coefficients may be off before an outcome is moved again; whole numbers
cannot come nearer than their steps allow."""
EXCHANGES = 40
"""Partners that a row is offered before it is replaced."""


@dataclass(frozen=True)
class Target:
    """An outcome and the coefficients that least squares shall return.

    Attributes
    ----------
    outcome : Outcome
        On the design of the model.
    params : (p,) array
    scale : float
        Released error variance.
    """

    outcome: Outcome
    params: Array
    scale: float

    @property
    def design(self) -> Design:
        """Of the model."""
        return self.outcome.design

    @property
    def close(self) -> float:
        """How near coefficients shall come, in standard errors."""
        return CLOSE_WHOLE if self.outcome.law.whole else CLOSE

    def moved(self, rows: Rows, keeper: Keeper, rng: np.random.Generator) -> Rows:
        """Rows in which least squares returns the coefficients, as nearly as rules allow.

        The same rows where it does so already.
        """
        name, sd = self.outcome.name, float(np.sqrt(max(self.scale, 1e-300)))
        raw, columns = rows[name].astype(np.float64), self.design.columns(rows)
        basis, fitted = Basis.of(columns), columns @ self.params
        gap = basis.score(fitted) - basis.score(self.outcome.forward(raw))
        if np.abs(basis.errors(gap)).max(initial=0.0) <= self.close * sd:
            return rows

        def allowed(values: Array, place: NDArray[np.intp] | None = None) -> Flags:
            if not keeper.rules:
                return np.ones(len(values), dtype=bool)
            held = rows if place is None else {key: held[place] for key, held in rows.items()}
            return keeper.holds(keeper.with_value(held, name, values))

        free = name not in keeper.names
        moved = self.outcome.moved(raw, fitted, basis, sd, rng, allowed, free)
        return keeper.with_value(rows, name, moved)


def settled(
    rows: Rows, targets: Sequence[Target], keeper: Keeper, rng: np.random.Generator
) -> Rows:
    """Rows that keep all rules, on which least squares returns the coefficients of all targets."""
    rows = keeper.derived(rows)
    if keeper.rules:
        rows = repaired(rows, [target.outcome.name for target in targets], keeper, rng)
    for _ in range(TURNS):
        before = rows
        for target in targets:
            rows = target.moved(rows, keeper, rng)
        if rows is before:
            break
    return rows


def repaired(rows: Rows, outcomes: Sequence[str], keeper: Keeper, rng: np.random.Generator) -> Rows:
    """Rows that keep all rules: broken ones exchange an outcome with another row.

    Exchanges leave the law of the outcome as it is. Rows that find no partner become copies of
    others.
    """
    kept = keeper.holds(rows)
    n = len(kept)
    if not kept.any():
        raise ReleaseError(keeper.refusal())
    for name in outcomes:
        if name not in keeper.names:
            continue
        for _ in range(EXCHANGES):
            broken = np.flatnonzero(~kept)
            if not broken.size:
                return rows
            partner = rng.permutation(n)[: broken.size]
            usable = ~np.isin(partner, broken)
            one, other = broken[usable[: broken.size]], partner[usable]
            values = rows[name].copy()
            values[one], values[other] = values[other], values[one]
            after = keeper.with_value(rows, name, values)
            fine = keeper.holds(after)
            swap = fine[one] & fine[other]
            one, other = one[swap], other[swap]
            values = rows[name].copy()
            values[one], values[other] = values[other], values[one]
            rows = keeper.with_value(rows, name, values)
            kept = keeper.holds(rows)
    broken = np.flatnonzero(~kept)
    donor = rng.choice(np.flatnonzero(kept), broken.size)
    found = {name: values.copy() for name, values in rows.items()}
    for values in found.values():
        values[broken] = values[donor]
    return found
