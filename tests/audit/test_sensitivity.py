"""No record moves the exact sums by more than its mechanism accounts for.

This needs no noise and no luck: the same public answers are replayed on two
neighbouring tables, and the exact whole-number sums that the mechanisms were
given are compared.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from properties import examples

from dpbinagg import Budget
from dpbinagg.audit.gaussian import pair_up, theory
from dpbinagg.audit.run import Auditor
from dpbinagg.audit.specification import Specification
from dpbinagg.audit.tables import KINDS, neighbour_of

SLACK = 1.0 + 1e-9
LIMIT = 12 if os.environ.get("DPBINAGG_FULL") else 2
"""Records of each kind."""
BOUNDS: dict[str, Any] = {
    "x": (0, 1),
    "z": (-3, 5),
    "k": range(12),
    "g": ["a", "b", "c", "d"],
    "b": [False, True],
    "y": (1, 9),
}
FORMULAS = (
    "y ~ x",
    "y ~ x + z + k + C(g) + b",
    "y ~ x*z + I(k**2)",
    "y ~ C(g):z + np.exp(x)",
    "np.log(y) ~ C(g, Sum) + I(x**3) + np.sqrt(k)",
    "y ~ (x + z + C(g))**2 - 1",
    "y ~ C(k) + b:x",
)
SETTINGS: dict[str, dict[str, Any]] = {
    "all": {},
    "grid": {"partition": "grid", "budget": Budget(ranges=0)},
    "published": {"calibration": "paper"},
    "replacement": {"neighbours": "replace"},
    "small mu": {"mu": 0.01},
    "large mu": {"mu": 40.0},
}


def assert_within(auditor: Auditor, pairs: list[Any], what: object) -> None:
    stated = auditor.release.privacy.mechanisms
    for entry, mechanism in enumerate(stated):
        moved = theory([pair for pair in pairs if pair.entry == entry])
        assert moved <= mechanism.mu * SLACK, (mechanism.name, moved / mechanism.mu, what)
    assert theory(pairs) <= auditor.release.mu * SLACK


def auditor(formula: str, name: str) -> Auditor:
    arguments = {"mu": 1.0, "bounds": BOUNDS, **SETTINGS[name]}
    return Auditor(Specification.of(formula, **arguments), 3, 50, 1)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("name", ["all", "grid"])
def test_worst_records(formula: str, name: str) -> None:
    if name == "grid" and formula.count("+") > 2:
        pytest.skip("the grid would have thousands of bins")
    one = auditor(formula, name)
    for neighbour in one.neighbours(KINDS, LIMIT):
        assert not neighbour.leaks
        assert_within(one, neighbour.pairs, (neighbour.kind, neighbour.table.iloc[-1].to_dict()))


@pytest.mark.parametrize("name", ["published", "replacement", "small mu", "large mu"])
def test_worst_records_of_other_settings(name: str) -> None:
    one = auditor("y ~ x*z + C(g)", name)
    for neighbour in one.neighbours(KINDS, LIMIT):
        assert not neighbour.leaks
        assert_within(one, neighbour.pairs, neighbour.kind)


def test_worst_records_of_a_study() -> None:
    models = {"y": FORMULAS[4], "k": "k ~ x + C(g)", "b": "x ~ z + b"}
    one = Auditor(Specification.of(models, mu=1.0, bounds=BOUNDS, variables=["z"]), 3, 50, 1)
    for neighbour in one.neighbours(KINDS, LIMIT):
        assert not neighbour.leaks
        assert_within(one, neighbour.pairs, (neighbour.kind, neighbour.table.iloc[-1].to_dict()))


def anything(low: float, high: float) -> st.SearchStrategy[float]:
    width = high - low
    return st.one_of(
        st.floats(low, high),
        st.sampled_from([low, high, low + width / 2, low + width / 4]),
        st.floats(allow_nan=True, allow_infinity=True),
    )


RECORD = st.fixed_dictionaries(
    {
        "x": anything(0, 1),
        "z": anything(-3, 5),
        "k": anything(0, 11),
        "g": st.sampled_from(["a", "b", "c", "d", "?", None]),
        "b": st.sampled_from([False, True, None, 7]),
        "y": anything(1, 9),
    }
)
AUDITORS: dict[str, Auditor] = {}


@pytest.mark.parametrize("formula", [FORMULAS[1], FORMULAS[3]])
@examples(25, suppress_health_check=list(HealthCheck))
@given(record=RECORD)
def test_any_record(formula: str, record: dict[str, Any]) -> None:
    one = AUDITORS.setdefault(formula, auditor(formula, "all"))
    spec = one.specification
    held = {name: record[name] for name in spec.variables}
    table = neighbour_of(one.table, held, "add-remove").astype(
        {name: object for name in ("g", "b") if name in held}
    )
    assert isinstance(table, pd.DataFrame)
    transcript, _ = spec.replay(table, one.script, np.random.default_rng(0))
    assert_within(one, pair_up(one.script.calls, transcript.calls), record)
