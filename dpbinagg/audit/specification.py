"""What is audited: a release as `dp_release` would make it, for any table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbinagg import api
from dpbinagg.accounting.budget import Allocation
from dpbinagg.audit.tape import ReplayCurator, TapeCurator, Transcript
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.union import union_design
from dpbinagg.kernel.questions import Engine
from dpbinagg.protocol import conduct as pipeline
from dpbinagg.protocol.settings import Settings, allocate, declared_domain, named_formulas
from dpbinagg.reading import open_source
from dpbinagg.report.verbs import Release

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Specification:
    """A release before it meets a table: formula, domain, partition, calibration, budget.

    Make one with `Specification.of`, which takes the arguments of `dp_release`
    or of `dp_study` except the data.
    """

    formula: str
    settings: Settings
    design: Design
    constants: Mapping[str, float] | None
    arguments: Mapping[str, Any]
    formulas: Mapping[str, str] | None = None

    @classmethod
    def of(
        cls,
        formula: str | Mapping[str, str] | Sequence[str],
        mu: float | None = None,
        **arguments: Any,
    ) -> Specification:
        """Specify a release by the arguments of `dp_release`, a study by those of `dp_study`."""
        formulas = None if isinstance(formula, str) else named_formulas(formula, None)
        given = dict(arguments)
        constants, variables = given.pop("constants", None), given.pop("variables", ())
        settings = Settings.from_arguments(mu=mu, models=len(formulas or [formula]), **given)
        text = str(formula) if formulas is None else "; ".join(formulas.values())
        arguments = {**arguments, "mu": mu}
        if formulas is None:
            design = build_design(text, settings.domain, constants)
        else:
            design = union_design([*formulas.values()], variables, settings.domain, constants)
        return cls(text, settings, design, constants, arguments, formulas)

    @property
    def variables(self) -> tuple[str, ...]:
        """Raw variables of both sides."""
        return tuple(self.design.domain)

    def release(self, table: pd.DataFrame | str, rng: Any) -> Release:
        """A complete run of `dp_release` or `dp_study`."""
        if self.formulas is not None:
            return api.dp_study(self.formulas, table, rng=rng, **self.arguments).release
        return api.dp_release(self.formula, table, rng=rng, **self.arguments)

    def prepare(
        self, table: pd.DataFrame | str
    ) -> tuple[Design, Allocation, dict[str, Design] | None]:
        """Design, allocation and models as `dp_release` or `dp_study` makes them for a table."""
        declared = declared_domain(self.settings.domain, open_source(table))
        if self.formulas is None:
            design, models = build_design(self.formula, declared, self.constants), None
        else:
            texts, variables = [*self.formulas.values()], self.arguments.get("variables", ())
            design = union_design(texts, variables, declared, self.constants)
            models = {
                name: build_design(one, declared, self.constants)
                for name, one in self.formulas.items()
            }
        return design, allocate(self.settings, design), models

    def engine(self, table: pd.DataFrame | str, design: Design | None = None) -> Engine:
        """What sums over a table, for the variables of a design; of its own by default."""
        return pipeline.open_table(table, design or self.design, self.settings.missing)

    def record(self, table: pd.DataFrame | str, rng: Any) -> tuple[Transcript, Release]:
        """Run on `table` and record every mechanism."""
        design, allocation, models = self.prepare(table)
        curator = TapeCurator(self.engine(table, design), rng)
        release = pipeline.conduct(curator, design, allocation, self.settings, models)
        return curator.transcript, release

    def replay(
        self, table: pd.DataFrame | str, script: Transcript, rng: Any
    ) -> tuple[Transcript, Release]:
        """Live through the answers of `script` on another table."""
        design, allocation, models = self.prepare(table)
        curator = ReplayCurator(self.engine(table, design), rng, script)
        release = pipeline.conduct(curator, design, allocation, self.settings, models)
        return curator.transcript, release
