"""What is audited: a release as `dp_release` would make it, for any table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbinagg import api
from dpbinagg.accounting.budget import Allocation
from dpbinagg.audit.tape import ReplayCurator, TapeCurator, Transcript
from dpbinagg.formula import Design, build_design
from dpbinagg.kernel.questions import Engine
from dpbinagg.protocol import conduct as pipeline
from dpbinagg.protocol.settings import Settings, allocate
from dpbinagg.reading import open_source
from dpbinagg.report.verbs import Release

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Specification:
    """A release before it meets a table: formula, domain, partition, calibration, budget.

    Make one with `Specification.of`, which takes the arguments of `dp_release`
    except the data.
    """

    formula: str
    settings: Settings
    design: Design
    constants: Mapping[str, float] | None
    arguments: Mapping[str, Any]

    @classmethod
    def of(cls, formula: str, mu: float | None = None, **arguments: Any) -> Specification:
        """Specify a release by the arguments of `dp_release`."""
        given = {**_DEFAULTS, **arguments, "mu": mu}
        constants = given.pop("constants")
        settings = Settings.from_arguments(**given)
        design = build_design(formula, settings.domain, constants)
        return cls(formula, settings, design, constants, {**arguments, "mu": mu})

    @property
    def variables(self) -> tuple[str, ...]:
        """Raw variables of both sides."""
        return tuple(dict.fromkeys((*self.design.variables, *self.design.response_variables)))

    def release(self, table: pd.DataFrame | str, rng: Any) -> Release:
        """A complete run of `dp_release`."""
        return api.dp_release(self.formula, table, rng=rng, **self.arguments)

    def prepare(self, table: pd.DataFrame | str) -> tuple[Design, Allocation]:
        """Design and allocation as `dp_release` makes them for a table."""
        declared = api.declared_domain(self.settings.domain, open_source(table))
        design = build_design(self.formula, declared, self.constants)
        return design, allocate(self.settings, design)

    def _engine(self, table: pd.DataFrame | str, design: Design) -> Engine:
        return pipeline.open_table(table, design, self.settings.missing)

    def record(self, table: pd.DataFrame | str, rng: Any) -> tuple[Transcript, Release]:
        """Run on `table` and record every mechanism."""
        design, allocation = self.prepare(table)
        curator = TapeCurator(self._engine(table, design), rng)
        release = pipeline.conduct(curator, design, allocation, self.settings)
        return curator.transcript, release

    def replay(
        self, table: pd.DataFrame | str, script: Transcript, rng: Any
    ) -> tuple[Transcript, Release]:
        """Live through the answers of `script` on another table."""
        design, allocation = self.prepare(table)
        curator = ReplayCurator(self._engine(table, design), rng, script)
        release = pipeline.conduct(curator, design, allocation, self.settings)
        return curator.transcript, release


_DEFAULTS: dict[str, Any] = {
    "epsilon": None,
    "delta": None,
    "bounds": None,
    "budget": None,
    "partition": "privtree",
    "calibration": "joint",
    "estimator": "refined",
    "missing": "drop",
    "neighbours": "add-remove",
    "constants": None,
}
