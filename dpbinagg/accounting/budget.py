"""How a total mu is divided over the components of a release, and what the release promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Literal

from dpbinagg.accounting import gdp
from dpbinagg.accounting.gdp import (
    as_number,
    compose,
    sqrt_down,
    sqrt_up,
    sum_of_squares,
)
from dpbinagg.errors import BudgetError
from dpbinagg.public.arguments import explains_arguments

__all__ = [
    "COMPONENTS",
    "DEFAULT_SHARES",
    "RELATIONS",
    "Allocation",
    "Budget",
    "Neighbours",
    "as_neighbours",
    "mu_against",
    "per_record_mu",
]

Neighbours = Literal["add-remove", "replace"]

RELATIONS: Mapping[str, str] = MappingProxyType(
    {
        "add-remove": "adding or removing one record",
        "replace": "replacing one record by another",
    }
)
"""The neighbouring relations, as sentences name them."""

COMPONENTS = ("ranges", "partition", "count", "sum_x", "sum_y", "moments", "scores")

DEFAULT_SHARES: Mapping[str, float] = MappingProxyType(
    {
        "ranges": 0.12,
        "partition": 0.02,
        "count": 0.03,
        "sum_x": 0.025,
        "sum_y": 0.025,
        "moments": 0.20,
        "scores": 0.58,
    }
)
"""The package default, as shares of mu squared."""


SCORES_POWER = 0.75
"""How the share of the scores grows with the number of models: at 1 little is left for what they
share, at 0 each model gets a share that falls with their number."""


@dataclass(frozen=True, slots=True)
class Components:
    """A number of at least zero for each component of a release."""

    ranges: float
    partition: float
    count: float
    sum_x: float
    sum_y: float
    moments: float
    scores: float

    def __post_init__(self) -> None:
        for name, value in self.as_dict().items():
            checked = as_number(value, f"{type(self).__name__}.{name}", "nonnegative")
            object.__setattr__(self, name, checked)

    def as_dict(self) -> dict[str, float]:
        """Return the number of every component by name."""
        return {name: getattr(self, name) for name in COMPONENTS}


@dataclass(frozen=True, slots=True)
class Allocation(Components):
    """The absolute mu of each component; zero means that the component is off.

    Made by `Budget.split`; its parts compose to the total that was split, never to more.
    """

    @property
    def total(self) -> float:
        """The composition of the parts, `sqrt(sum mu_i^2)`, rounded up."""
        return compose(*self.as_dict().values())


@explains_arguments
@dataclass(frozen=True, slots=True)
class Budget(Components):
    """Relative mu's of the components of a release, as in the paper's 1 : 3 : 3 : 3.

    A component that is not named keeps the package default (`DEFAULT_SHARES` holds its
    square); zero switches a component off, and what it would have used goes to the rest.
    The numbers are relative mu's, not shares of mu squared: twice the number is half the noise.

    Parameters
    ----------
    ranges : float
        Counts of each variable: where records are, coordinates, and ranges where none is declared.
    partition : float
        PrivTree.
    count, sum_x, sum_y : float
        Per bin: the count, the sums of the design columns, the sum of the response.
    moments : float
        The matrix of second moments.
    scores : float
        Rounds of residual scores.

    Examples
    --------
    >>> Budget(moments=2, scores=3, ranges=0).ranges
    0.0
    >>> parts = Budget.paper().split(1.0)
    >>> round(parts.count / parts.partition, 9)
    3.0
    """

    ranges: float = math.sqrt(DEFAULT_SHARES["ranges"])
    partition: float = math.sqrt(DEFAULT_SHARES["partition"])
    count: float = math.sqrt(DEFAULT_SHARES["count"])
    sum_x: float = math.sqrt(DEFAULT_SHARES["sum_x"])
    sum_y: float = math.sqrt(DEFAULT_SHARES["sum_y"])
    moments: float = math.sqrt(DEFAULT_SHARES["moments"])
    scores: float = math.sqrt(DEFAULT_SHARES["scores"])

    def __post_init__(self) -> None:
        Components.__post_init__(self)
        if not any(self.as_dict().values()):
            raise BudgetError(
                "Budget must have at least one component above zero; all were zero. "
                "Budget() is the default and Budget.paper() the published split."
            )
        if (self.sum_x > 0.0 or self.sum_y > 0.0) and self.count == 0.0:
            raise BudgetError(
                "Budget.count must be greater than zero when sum_x or sum_y is: the sums of a bin "
                "are of no use without its count. Set count, or set sum_x=0 and sum_y=0."
            )

    @classmethod
    def paper(cls) -> Budget:
        """Return the published split: partition 1, count 3, sum_x 3, sum_y 3, nothing else."""
        return cls(
            ranges=0.0, partition=1.0, count=3.0, sum_x=3.0, sum_y=3.0, moments=0.0, scores=0.0
        )

    @classmethod
    def of_study(cls, models: int) -> Budget:
        """Return the split for a study of so many models.

        What they share (counts, moments, bins) costs the same for one and for ten; the rounds of
        scores, which are their own, get the share of mu squared of `models` to the power of
        `SCORES_POWER` models.

        Examples
        --------
        >>> Budget.of_study(1) == Budget()
        True
        """
        scores = DEFAULT_SHARES["scores"] * models**SCORES_POWER
        return cls(scores=math.sqrt(scores))

    def split(self, mu_total: float) -> Allocation:
        """Return the mu of each component for a total of `mu_total`.

        `mu_i = mu_total * r_i / sqrt(sum_j r_j^2)`, r the relative mu's, each part computed
        without intermediate rounding and rounded down to a float. The exact root of the sum of
        squares is therefore at most `mu_total`, and below it by less than one part in 1e15.

        Parameters
        ----------
        mu_total : float

        Returns
        -------
        Allocation

        Examples
        --------
        >>> Budget().split(1.0).total <= 1.0
        True
        """
        total = as_number(mu_total, "mu_total", "positive")
        squares = sum_of_squares(self.as_dict().values())
        parts = {
            name: sqrt_down((Fraction(total) * Fraction(relative)) ** 2 / squares)
            for name, relative in self.as_dict().items()
        }
        for name, relative in self.as_dict().items():
            if relative > 0.0 and parts[name] == 0.0:
                raise BudgetError(
                    f"mu_total={total} leaves nothing for Budget.{name}, whose part is below the "
                    f"smallest float; raise mu_total or set {name}=0."
                )
        return Allocation(**parts)

    def without(self, *components: str) -> Budget:
        """Return this budget with the named components switched off.

        `split` then gives their part to the components that are left.

        Parameters
        ----------
        *components : str

        Returns
        -------
        Budget

        Examples
        --------
        >>> Budget().without("scores").scores
        0.0
        """
        for name in components:
            if name not in COMPONENTS:
                raise BudgetError(
                    f"a component of Budget must be one of {', '.join(COMPONENTS)}, "
                    f"but {name!r} was passed."
                )
        return replace(self, **dict.fromkeys(components, 0.0))


def per_record_mu(mu_total: float, neighbours: str) -> float:
    """Return the add-remove mu to calibrate to, for a promise of `mu_total` to `neighbours`.

    A replaced record is one removed and one added. A mechanism that is mu-GDP when one record is
    added or removed is 2 mu-GDP for two such steps (group privacy), hence for a replacement. So
    `"add-remove"` gives `mu_total` and `"replace"` gives `mu_total / 2`.
    """
    total = as_number(mu_total, "mu_total", "positive")
    if as_neighbours(neighbours) == "add-remove":
        return total
    return sqrt_down(Fraction(total) ** 2 / 4)


def mu_against(mu: float, promised: str, asked: str) -> float:
    """Return the mu against `asked` neighbours of a release made for `mu` against `promised` ones.

    Such a release is m-GDP when one record is added or removed, ``m = per_record_mu(mu,
    promised)``, and hence 2m-GDP when one is replaced (group privacy for two steps). So a promise
    against adding or removing counts twice against replacing, and one against replacing counts
    half against adding or removing; the half is rounded up.

    The second conversion uses how the promise was kept, not the promise alone. From privacy
    against replacement by itself nothing follows about adding or removing: the exact number of
    records has mu = 0 against the one and no finite mu against the other.

    Examples
    --------
    >>> mu_against(1.0, "add-remove", "replace"), mu_against(1.0, "replace", "add-remove")
    (2.0, 0.5)
    """
    value = as_number(mu, "mu", "positive")
    if as_neighbours(promised) == as_neighbours(asked):
        return value
    if asked == "replace":
        return as_number(2.0 * value, "mu against replacing one record", "positive")
    return sqrt_up(Fraction(value) ** 2 / 4)


def as_neighbours(value: object) -> Neighbours:
    """Return `value` if it names a neighbouring relation."""
    if value == "add-remove":
        return "add-remove"
    if value == "replace":
        return "replace"
    got = repr(value) if isinstance(value, str) else f"a {type(value).__name__}"
    raise BudgetError(f'neighbours must be "add-remove" or "replace", but {got} was passed.')


EXACT_BIT = (
    "That no record lacked a value was asked for (missing='raise') and is told by the release "
    "itself: one exact fact about the records, which the guarantee does not cover."
)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One mechanism of a release.

    Attributes
    ----------
    name : str
        What was released.
    mu : float
        Its true privacy, mu-GDP, under the release's neighbouring relation.
    law : str
        "gaussian" or "laplace".
    """

    name: str
    mu: float
    law: str = "gaussian"


@dataclass(frozen=True, slots=True)
class Privacy:
    """The privacy of a release.

    Attributes
    ----------
    mechanisms : tuple of Mechanism
        Everything that looked at the records.
    neighbours : str
        "add-remove" or "replace".
    secure : bool
        Whether the noise came from the secure source.
    claimed_mu : float
        What the caller asked for; `mu` exceeds it only where the published
        calibration was chosen.
    missing : str
        The public rule for incomplete records, "drop" or "raise". Under "raise" there is a
        release only if every record is complete. That bit is exact: no finite mu covers it.
    shown_delta : float
        The delta at which the statement gives epsilon; a choice of presentation.
    """

    mechanisms: tuple[Mechanism, ...]
    neighbours: str
    secure: bool
    claimed_mu: float
    missing: str = "drop"
    shown_delta: float = field(default=1e-6, compare=False)

    @property
    def mu(self) -> float:
        """True mu of the whole release: the composition of its mechanisms."""
        composed = gdp.compose(*(mechanism.mu for mechanism in self.mechanisms))
        # The parts were split from the total with a shaved ulp; composing rounds up again.
        close = abs(composed - self.claimed_mu) <= 1e-12 * self.claimed_mu
        return self.claimed_mu if close else composed

    @property
    def components(self) -> tuple[Mechanism, ...]:
        """The mechanisms, those of one name (rounds of residual scores) composed."""
        names = dict.fromkeys(mechanism.name for mechanism in self.mechanisms)
        groups = {name: [m for m in self.mechanisms if m.name == name] for name in names}
        return tuple(
            group[0] if len(group) == 1 else self._composed(group) for group in groups.values()
        )

    @staticmethod
    def _composed(group: list[Mechanism]) -> Mechanism:
        name = f"{group[0].name}, {len(group)} rounds"
        return Mechanism(name, gdp.compose(*(m.mu for m in group)), group[0].law)

    def epsilon(self, delta: float) -> float:
        """The epsilon of the equivalent (epsilon, delta) guarantee."""
        return gdp.epsilon(self.mu, delta)

    def delta(self, epsilon: float) -> float:
        """The delta of the equivalent (epsilon, delta) guarantee."""
        return gdp.delta(self.mu, epsilon)

    @property
    def statement(self) -> str:
        """One paragraph for a methods section."""
        relation = RELATIONS[self.neighbours]
        delta = self.shown_delta
        shown = f"{delta:.0e}".replace("e-0", "e-")
        parts = ", ".join(f"{m.name} ({m.mu:.3g})" for m in self.components)
        text = (
            f"The released statistics satisfy {self.mu:.4g}-Gaussian differential privacy with "
            f"respect to {relation}, which implies ({self.epsilon(delta):.3g}, {shown})-"
            f"differential privacy. The guarantee composes the mechanisms {parts} (mu of each in "
            "brackets). "
            "Coefficients, standard errors and synthetic data are computed from the released "
            "statistics alone."
        )
        if self.missing == "raise":
            text += f" {EXACT_BIT}"
        if not self.secure:
            text += (
                " The noise came from a seeded generator: these numbers are not for publication."
            )
        return text

    def __str__(self) -> str:
        lines = [f"{self.mu:.6g}-GDP ({self.neighbours} neighbours)"]
        lines += [f"  {m.name:<28} mu = {m.mu:.6g}" for m in self.components]
        if self.missing == "raise":
            lines.append("  besides, exactly: every record was complete (missing='raise')")
        return "\n".join(lines)
