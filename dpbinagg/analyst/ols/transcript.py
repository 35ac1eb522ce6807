"""From what a release holds back to the estimate, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from dpbinagg.analyst.ols.coordinates import Coordinates, coordinates
from dpbinagg.analyst.ols.ensemble import members_of, symmetric_noise
from dpbinagg.analyst.ols.finish import Fitted
from dpbinagg.analyst.ols.layout import row_layout
from dpbinagg.analyst.ols.margins import SEED, Margin, product_records
from dpbinagg.analyst.ols.moments import MomentPlan, RowLayout, complete, plan_moments
from dpbinagg.analyst.ols.rounds import update
from dpbinagg.analyst.ols.start import start
from dpbinagg.analyst.ols.state import State, rewhitened
from dpbinagg.analyst.types import Array
from dpbinagg.formula import Design
from dpbinagg.public.domain import Domain
from dpbinagg.public.rounds import MomentRequest, RoundAnswer, RoundRequest
from dpbinagg.public.scaling import column_scaling


@dataclass(frozen=True, slots=True)
class Plan:
    """Public facts that follow from one-way counts: coordinates, and what moments are asked for."""

    layout: RowLayout
    public: Coordinates
    moments: MomentPlan

    def to_dict(self) -> dict[str, Any]:
        """Arrays and numbers by name: another machine would find other signs of eigenvectors."""
        return {"public": asdict(self.public), "moments": asdict(self.moments)}

    @classmethod
    def from_dict(cls, layout: RowLayout, values: Mapping[str, Any]) -> Plan:
        """The plan that `to_dict` gave."""
        moments = dict(values["moments"])
        request = MomentRequest.from_dict(moments.pop("request"))
        return cls(layout, Coordinates(**values["public"]), MomentPlan(request, **moments))


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


def column_moments(design: Design, plan: Plan, products: Array, sd: Array) -> tuple[Array, Array]:
    """Second moments of ``f = (1, z*, y*)``, columns scaled to [-1, 1] over a design's domain.

    They follow from the released products, for whoever wants design columns; so do the standard
    deviations of their noise, entry by entry.
    """
    scaling = column_scaling(design)
    g_map, y_map = plan.moments.g_map, plan.moments.y_map
    one = np.eye(len(g_map))[0]
    varying = scaling.varying
    centred = g_map[:, varying] - np.outer(one, scaling.centre[varying])
    response = (y_map - one * scaling.centre_y) / scaling.scale_y
    into = np.column_stack([one, centred / scaling.scale[varying], response])
    copies = symmetric_noise(np.random.default_rng(SEED), sd, members_of(len(sd)))
    noise = into.T @ complete(plan.moments, copies) @ into
    matrix = into.T @ complete(plan.moments, products) @ into
    return np.asarray(matrix), np.asarray(np.sqrt(np.mean(noise**2, axis=0)))


def present(answer: RoundAnswer) -> dict[str, Any]:
    """The groups of an answer that were asked for, by name."""
    named = {field.name: getattr(answer, field.name) for field in fields(answer)}
    return {name: value for name, value in named.items() if value is not None}


def replay(
    outer: Design, statistics: Mapping[str, Any], scales: Mapping[str, Any]
) -> tuple[State, Fitted | None]:
    """The state after the moments, and the end of the rounds; None where there were none."""
    plan = Plan.from_dict(row_layout(outer), statistics["plan"])
    count = (statistics["total"], scales["total"])
    if np.isnan(count[0]):
        count = (0.0, np.inf)
    state = first = start(
        plan.layout, plan.public, plan.moments, statistics["products"], scales["products"], count
    )
    fitted = None
    for asked, found, noise in zip(
        statistics.get("requests", ()),
        statistics.get("scores", ()),
        scales.get("scores", ()),
        strict=True,
    ):
        request, answer = RoundRequest.from_dict(asked), RoundAnswer(**found)
        its_sd, before = RoundAnswer(**noise), state.tail
        state = update(rewhitened(state), request, answer, its_sd)
        if request.last and before is not None:
            fitted = Fitted(state, request, answer, its_sd, before)
    return first, fitted
