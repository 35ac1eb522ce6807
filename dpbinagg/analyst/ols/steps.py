"""From what a release holds back to the estimate, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpbinagg.analyst.ols.coordinates import Coordinates, coordinates
from dpbinagg.analyst.ols.finish import Fitted
from dpbinagg.analyst.ols.margins import Margin, product_records
from dpbinagg.analyst.ols.moments import MomentPlan, plan_moments
from dpbinagg.analyst.ols.rounds import update
from dpbinagg.analyst.ols.start import start
from dpbinagg.analyst.ols.state import State, rewhitened
from dpbinagg.analyst.types import Array
from dpbinagg.formula import Design
from dpbinagg.formula.scaling import RowLayout, row_layout
from dpbinagg.public.domain import Domain
from dpbinagg.public.rounds import RoundAnswer, RoundRequest

SAME = 1e-5
"""Relative difference of coordinates that rounding on another machine may make."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Public facts that follow from one-way counts: coordinates, and what moments are asked for."""

    layout: RowLayout
    public: Coordinates
    moments: MomentPlan


@dataclass(frozen=True, slots=True)
class Steps:
    """Where the moments and the rounds so far led.

    Attributes
    ----------
    plan : Plan
    first, state : State
        After the moments, and now.
    fitted : Fitted or None
        The end, once the last round is over.
    """

    plan: Plan
    first: State
    state: State
    fitted: Fitted | None = None

    @classmethod
    def start(cls, plan: Plan, products: Array, sd: Array, count: tuple[float, float]) -> Steps:
        """After the moments."""
        state = start(plan.layout, plan.public, plan.moments, products, sd, count)
        return cls(plan, state, state)

    def taken(
        self, state: State, request: RoundRequest, answer: RoundAnswer, scales: RoundAnswer
    ) -> Steps:
        """One round on, from the state in whose coordinates it was asked."""
        after = update(state, request, answer, scales)
        fitted = None
        if request.last and state.tail is not None:
            fitted = Fitted(after, request, answer, scales, state.tail)
        return replace(self, state=after, fitted=fitted)

    def replayed(self, request: RoundRequest, answer: RoundAnswer, scales: RoundAnswer) -> Steps:
        """One round on, from a request that was saved."""
        state = rewhitened(self.state)
        expected = state.whitening @ self.plan.layout.design_map.T
        size = np.abs(expected).max()
        if request.whitening.shape != expected.shape or not np.allclose(
            request.whitening, expected, rtol=0.0, atol=SAME * size
        ):
            raise ValueError("a round was asked in other coordinates than its release leads to")
        return self.taken(state, request, answer, scales)


def begin(design: Design, working: Domain, margins: Mapping[str, Margin]) -> Plan:
    """Coordinates of a design, and the moments to ask for, from one-way counts.

    Parameters
    ----------
    design : Design
        On the bounds that records are held to.
    working : Domain
        Where records were seen to lie.
    margins : mapping of Margin
    """
    records = product_records(design.domain, working, margins)
    with np.errstate(all="ignore"):
        columns, response = design.columns(records), design.response(records)
    known = np.isfinite(columns).all(axis=1) & np.isfinite(response)
    columns, response = columns[known], response[known]
    layout = row_layout(design)
    public = coordinates(columns, design.intercept)
    return Plan(layout, public, plan_moments(layout, columns, response))
