"""Public rules between raw variables: identities and inequalities that hold for every record.

A rule is a comparison in the language of formulas, ``"exper <= age - 6"``; nothing of it is run by
Python. It is a fact that the caller knows, not one that is learnt: synthetic rows are made to keep
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import FormulaError
from dpbinagg.formula.functions import is_boolean, text_of
from dpbinagg.formula.parse import Parser, syntax
from dpbinagg.formula.rows import Arrays, Call, Expression, variables
from dpbinagg.public.domain import Categorical, Domain, Numeric, Rows, spread_rows

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

POINTS = 512
"""Public points on which a rule is looked at, besides the corners of its variables' bounds."""
MOST_CORNERS = 4096
NEAR = 1e-9
"""Both sides of an identity may differ by so much of their size: arithmetic rounds."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes
    ----------
    text : str
    expression : Call
        False or true of every record.
    """

    text: str
    expression: Call

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of its raw variables."""
        return variables(self.expression)

    @property
    def identity(self) -> bool:
        """Whether it says that two numbers are equal."""
        sides = self.expression.arguments
        return self.expression.operation == "eq" and not any(map(is_boolean, sides))

    def _value(self, expression: Expression, rows: Rows, domain: Domain) -> Any:
        arrays = Arrays(rows, domain, len(rows[self.variables[0]]), clip=False)
        with np.errstate(all="ignore"):
            return arrays.value(expression)

    def gap(self, rows: Rows, domain: Domain) -> Floats:
        """Left side less right side of an identity, (n,)."""
        left, right = (self._value(side, rows, domain) for side in self.expression.arguments)
        return np.asarray(left - right, dtype=np.float64)

    def holds(self, rows: Rows, domain: Domain) -> Flags:
        """Which rows keep it, (n,)."""
        if not self.identity:
            return np.asarray(self._value(self.expression, rows, domain), dtype=bool)
        left, right = (self._value(side, rows, domain) for side in self.expression.arguments)
        size = 1.0 + np.abs(left) + np.abs(right)
        return np.asarray(np.abs(left - right) <= NEAR * size, dtype=bool)


def read_rules(
    rules: object,
    domain: Domain,
    names: Iterable[str],
    constants: Mapping[str, float] | None = None,
) -> tuple[Rule, ...]:
    """Parse rules, and refuse what cannot be one, from public facts alone.

    Parameters
    ----------
    rules : list of str
    domain : Domain
        The declared variables.
    names : iterable of str
        Variables that are released: others are in no row.
    constants : mapping, optional
        Numbers that rules may call by name.

    Raises
    ------
    FormulaError
        Naming the rule and what is wrong with it.
    """
    texts = [rules] if isinstance(rules, str) else rules
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise FormulaError(
            f'rules must be a list of comparisons, ["exper <= age - 6"], got {type(rules).__name__}'
        )
    known = tuple(names)
    parser = Parser(domain, dict(constants or {}))
    found = tuple(_read(text, parser, domain, known) for text in texts)
    solved_in_turn(found, domain)
    return found


def _read(text: str, parser: Parser, domain: Domain, known: tuple[str, ...]) -> Rule:
    try:
        expression = parser.expression(syntax(text.strip()))
    except FormulaError as error:
        raise FormulaError(f"rule {text!r}: {error}") from None
    if not isinstance(expression, Call) or not is_boolean(expression):
        raise FormulaError(
            f"rule {text!r} must be a comparison of variables, such as x <= y or z == x + y"
        )
    rule = Rule(text.strip(), expression)
    foreign = [name for name in rule.variables if name not in known]
    if foreign:
        raise FormulaError(
            f"rule {text!r}: variable {foreign[0]!r} is not released; what is, is "
            f"{', '.join(known)}. Add it to variables=, or leave the rule out"
        )
    if not rule.identity and not rule.holds(_points(rule, domain), domain).any():
        raise FormulaError(
            f"rule {text!r} holds nowhere within the bounds of its variables; correct it, or them"
        )
    return rule


def _points(rule: Rule, domain: Domain) -> Rows:
    """Public points of the variables of a rule: corners of their bounds, and spread over them.

    Where no bounds are declared, numbers around nought stand for them.
    """
    held = Domain({name: _bounded(domain, name) for name in rule.variables})
    spread = spread_rows(held, POINTS, np.random.default_rng(0))
    ends = []
    for variable in held.values():
        if isinstance(variable, Categorical):
            ends.append(tuple(float(code) for code in range(len(variable.levels))))
        else:
            ends.append((variable.lower, variable.upper))
    corners = [corner for corner, _ in zip(product(*ends), range(MOST_CORNERS), strict=False)]
    table = np.array(corners, dtype=np.float64).reshape(-1, len(ends))
    return {
        name: np.concatenate([np.asarray(spread[name], dtype=np.float64), table[:, place]])
        for place, name in enumerate(held)
    }


def _bounded(domain: Domain, name: str) -> Numeric | Categorical:
    variable = domain.get(name, Numeric(-1e3, 1e3))
    if isinstance(variable, Numeric) and not variable.bounded:
        return Numeric(-1e3, 1e3, integer=variable.integer)
    return variable


def solvable(rule: Rule, domain: Domain) -> list[str]:
    """The numbers that an identity determines: it is linear in them, with one slope everywhere.

    Those that stand alone on a side come first. A whole number must follow as one.
    """
    rows = _points(rule, domain)
    found = []
    for name in rule.variables:
        variable = _bounded(domain, name)
        if isinstance(variable, Categorical):
            continue
        value = solved(rule, name, rows, domain)
        if value is None:
            continue
        with np.errstate(invalid="ignore"):
            off = np.abs(value - np.rint(value))
        if variable.integer and not (off <= NEAR * (1.0 + np.abs(value))).all():
            continue
        found.append(name)
    alone = [text_of(side) for side in rule.expression.arguments if not isinstance(side, Call)]
    return sorted(found, key=lambda name: name not in alone)


def solved(rule: Rule, name: str, rows: Rows, domain: Domain) -> Floats | None:
    """What a variable must be for an identity to hold; None where that is not linear in it."""
    gaps = [
        rule.gap({**rows, name: np.full(len(rows[name]), value)}, domain)
        for value in (0.0, 1.0, 3.0)
    ]
    slope = gaps[1] - gaps[0]
    with np.errstate(all="ignore"):
        again = (gaps[2] - gaps[1]) / 2.0
        even = np.abs(slope - again) <= 1e-6 * np.abs(slope)
        value = -gaps[0] / slope
    usable = np.isfinite(value).all() and even.all() and (slope != 0.0).all()
    return np.asarray(value) if usable else None


def solved_in_turn(
    rules: Sequence[Rule], domain: Domain, last: Sequence[str] = ()
) -> list[tuple[Rule, str]]:
    """Identities with the variable that each determines, in an order in which they can be.

    Parameters
    ----------
    rules : sequence of Rule
    domain : Domain
    last : sequence of str
        Variables that are left to themselves where there is a choice, the first most of all.
    """
    chosen: list[tuple[Rule, str]] = []
    for rule in rules:
        if not rule.identity:
            continue
        taken = {name for _, name in chosen}
        free = [name for name in solvable(rule, domain) if name not in taken]
        if not free:
            raise FormulaError(
                f"rule {rule.text!r} must determine one of its numbers by the others, as hours == "
                "paid + unpaid does; an identity that does not, or that follows from others, "
                "cannot be kept"
            )
        chosen.append((rule, min(free, key=lambda n: last[::-1].index(n) + 1 if n in last else 0)))
    ordered: list[tuple[Rule, str]] = []
    while chosen:
        waiting = {name for _, name in chosen}
        ready = [(r, n) for r, n in chosen if not (waiting - {n}) & set(r.variables)]
        if not ready:
            raise FormulaError(
                f"rules {' and '.join(repr(r.text) for r, _ in chosen)} determine each other; "
                "write them so that one follows after the other"
            )
        ordered += ready
        chosen = [one for one in chosen if one not in ready]
    return ordered
