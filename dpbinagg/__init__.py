"""Differentially private linear regression that shows its work.

>>> from dpbinagg import dp_ols                                # doctest: +SKIP
>>> res = dp_ols("wage ~ educ + exper", data, mu=1)            # doctest: +SKIP
>>> print(res.summary())                                       # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dpbinagg import audit as audit
    from dpbinagg import baselines as baselines
    from dpbinagg import datasets as datasets
    from dpbinagg import gdp as gdp
    from dpbinagg.accounting import Budget as Budget
    from dpbinagg.accounting import Ledger as Ledger
    from dpbinagg.api import dp_ols as dp_ols
    from dpbinagg.api import dp_release as dp_release
    from dpbinagg.domain import Domain as Domain
    from dpbinagg.partition import Partition as Partition
    from dpbinagg.planning import plan as plan
    from dpbinagg.release import Release as Release

_EXPORTS = {
    "dp_ols": "dpbinagg.api",
    "dp_release": "dpbinagg.api",
    "plan": "dpbinagg.planning",
    "Domain": "dpbinagg.domain",
    "Budget": "dpbinagg.accounting",
    "Ledger": "dpbinagg.accounting",
    "Partition": "dpbinagg.partition",
    "Release": "dpbinagg.release",
    "DPBinAggError": "dpbinagg.errors",
    "DomainError": "dpbinagg.errors",
    "FormulaError": "dpbinagg.errors",
    "BudgetError": "dpbinagg.errors",
    "ReleaseError": "dpbinagg.errors",
    "DataError": "dpbinagg.errors",
    "DPBinAggWarning": "dpbinagg.errors",
    "IdentificationWarning": "dpbinagg.errors",
}
_MODULES = ("audit", "baselines", "datasets", "gdp", "errors")

__all__ = [*_EXPORTS, *_MODULES, "__version__"]


def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        value: object = getattr(import_module(_EXPORTS[name]), name)
    elif name in _MODULES:
        value = import_module(f"dpbinagg.{name}")
    else:
        raise AttributeError(f"module 'dpbinagg' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
