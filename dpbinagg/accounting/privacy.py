"""What a release promises: mechanisms, their mu, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import RELATIONS

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
