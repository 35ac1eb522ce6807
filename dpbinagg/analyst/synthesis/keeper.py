"""Rules of a release, kept by the rows of a synthetic table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula.rules import Rule, read_rules, solved, solved_in_turn
from dpbinagg.public.domain import Domain, Numeric, Rows
from dpbinagg.release.transcript import Released

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Keeper:
    """Keeps the rules of a release.

    Attributes
    ----------
    rules : tuple of Rule
    order : list of (Rule, str)
        Identities, and what each determines.
    domain : Domain
        The declared bounds.
    """

    rules: tuple[Rule, ...]
    order: list[tuple[Rule, str]]
    domain: Domain

    @classmethod
    def of(cls, release: Released, last: Sequence[str] = ()) -> Keeper:
        """Of all rules; the variables `last` are determined by others only if need be."""
        design = release.outer
        names = (*design.response_variables, *design.variables)
        rules = read_rules(list(release.rules), design.domain, names, design.constants)
        return cls(rules, solved_in_turn(rules, design.domain, last), design.domain)

    def among(self, names: Sequence[str]) -> Keeper:
        """The rules that need no other variables than these."""
        held = set(names)
        rules = tuple(rule for rule in self.rules if set(rule.variables) <= held)
        order = [one for one in self.order if set(one[0].variables) <= held]
        return Keeper(rules, order, self.domain)

    @cached_property
    def names(self) -> frozenset[str]:
        """Variables of which a rule says something."""
        return frozenset(name for rule in self.rules for name in rule.variables)

    def derived(self, rows: Rows) -> Rows:
        """Rows with what identities determine."""
        found = dict(rows)
        for rule, name in self.order:
            value = solved(rule, name, found, self.domain)
            if value is None:
                continue
            variable = self.domain[name]
            whole = isinstance(variable, Numeric) and variable.integer
            found[name] = np.rint(value) if whole else value
        return found

    def holds(self, rows: Rows) -> Flags:
        """Which rows keep every rule, with what identities determine inside its bounds."""
        n = len(next(iter(rows.values())))
        kept = np.ones(n, dtype=bool)
        for rule in self.rules:
            kept &= rule.holds(rows, self.domain)
        for _, name in self.order:
            variable = self.domain[name]
            assert isinstance(variable, Numeric)
            value = np.asarray(rows[name], dtype=np.float64)
            kept &= (value >= variable.lower) & (value <= variable.upper)
        return kept

    def refusal(self) -> str:
        """What is said where no row keeps the rules."""
        texts = ", ".join(repr(rule.text) for rule in self.rules)
        return (
            f"no synthetic row keeps all of {texts}; they do not fit what was released: correct "
            "them, or leave one out"
        )

    def with_value(self, rows: Rows, name: str, values: NDArray[Any]) -> Rows:
        """Rows with other values of a variable, and what follows from it."""
        return self.derived(rows | {name: values})
