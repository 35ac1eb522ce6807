"""From what a release holds back to the estimate, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpbinagg.analyst.ols.coordinates import Coordinates, coordinates
from dpbinagg.analyst.ols.finish import Fitted
from dpbinagg.analyst.ols.margins import Margin, product_records
from dpbinagg.analyst.ols.moments import MomentPlan, plan_moments, variance_of
from dpbinagg.analyst.ols.rounds import update
from dpbinagg.analyst.ols.start import start
from dpbinagg.analyst.ols.state import State, rewhitened
from dpbinagg.analyst.types import Array
from dpbinagg.formula import Design
from dpbinagg.formula.scaling import RowLayout, row_layout
from dpbinagg.formula.union import combinations
from dpbinagg.public.domain import Domain
from dpbinagg.public.rounds import RoundAnswer, RoundRequest

SAME = 1e-5
"""Relative difference of coordinates that rounding on another machine may make."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Public facts that follow from one-way counts: coordinates, and what moments are asked for.

    Attributes
    ----------
    layout : RowLayout
    public : Coordinates
    moments : MomentPlan
    records : (n, p + 1) array
        Columns and response of records of the product of the margins.
    """

    layout: RowLayout
    public: Coordinates
    moments: MomentPlan
    records: Array


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
    moments = plan_moments(layout, columns, response)
    return Plan(layout, public, moments, np.column_stack([columns, response]))


def plan_of(whole: Plan, outer: Design, model: Design) -> Plan:
    """The plan of a model whose columns and response `outer` has, of which `whole` is the plan."""
    return model_plan(whole, *combinations(outer, model), model.intercept)


def model_plan(whole: Plan, columns: Array, response: Array, intercept: int | None) -> Plan:
    """The plan of a model whose columns and response are combinations of those of another plan.

    Its moments are those that the other plan asks for, seen in its own columns: ``x = L'z``,
    ``y = l'z``, with z the columns and the response of the other plan.

    Parameters
    ----------
    whole : Plan
        With p columns.
    columns : (p + 1, q) array
        L.
    response : (p + 1,) array
        l.
    intercept : int or None
    """
    of_f = np.column_stack([whole.layout.design_map, whole.layout.response])
    layout = replace(
        whole.layout,
        design_map=of_f @ columns,
        numeric=np.empty(0, dtype=np.intp),
        intercept=intercept,
        offset=whole.layout.response - of_f @ response,
    )
    of_g = np.column_stack([whole.moments.g_map, whole.moments.y_map])
    records, values = whole.records @ columns, whole.records @ response
    guess = np.zeros(columns.shape[1])
    if intercept is not None:
        guess[intercept] = values.mean()
    moments = MomentPlan(
        whole.moments.request,
        of_g @ columns,
        of_g @ response,
        guess,
        variance_of(values, float(np.abs(of_f[1:] @ response).sum())),
    )
    made = np.column_stack([records, values])
    return Plan(layout, coordinates(records, intercept), moments, made)
