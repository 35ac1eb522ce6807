"""Differentially private linear regression that shows its work.

Examples
--------
>>> from dpbinagg import dp_ols
>>> from dpbinagg.datasets import load_wages
>>> wages = load_wages()
>>> res = dp_ols("np.log(wage) ~ educ + exper", wages.frame, mu=1, bounds=wages.codebook)
>>> print(res.summary())                                       # doctest: +ELLIPSIS
                Differentially Private OLS Regression Results
...
>>> res.privacy.mu
1.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0.dev0"

if TYPE_CHECKING:
    from dpbinagg import audit as audit
    from dpbinagg import baselines as baselines
    from dpbinagg import datasets as datasets
    from dpbinagg import errors as errors
    from dpbinagg import gdp as gdp
    from dpbinagg.accounting import Budget as Budget
    from dpbinagg.accounting import Ledger as Ledger
    from dpbinagg.analyst.synthesis.copies import combine_copies as combine_copies
    from dpbinagg.api import dp_ols as dp_ols
    from dpbinagg.api import dp_release as dp_release
    from dpbinagg.api import dp_study as dp_study
    from dpbinagg.api import open_table as open_table
    from dpbinagg.errors import ArgumentError as ArgumentError
    from dpbinagg.errors import BudgetError as BudgetError
    from dpbinagg.errors import DataError as DataError
    from dpbinagg.errors import DomainError as DomainError
    from dpbinagg.errors import DPBinAggError as DPBinAggError
    from dpbinagg.errors import DPBinAggWarning as DPBinAggWarning
    from dpbinagg.errors import FormulaError as FormulaError
    from dpbinagg.errors import IdentificationWarning as IdentificationWarning
    from dpbinagg.errors import MissingExtraError as MissingExtraError
    from dpbinagg.errors import NothingLeftError as NothingLeftError
    from dpbinagg.errors import NotIdentifiedError as NotIdentifiedError
    from dpbinagg.errors import NotReleasedError as NotReleasedError
    from dpbinagg.errors import PrivacyWarning as PrivacyWarning
    from dpbinagg.errors import ReleaseError as ReleaseError
    from dpbinagg.errors import SupportWarning as SupportWarning
    from dpbinagg.protocol.conduct import show_progress as show_progress
    from dpbinagg.protocol.planning import plan as plan
    from dpbinagg.public.domain import Domain as Domain
    from dpbinagg.public.partition import Partition as Partition
    from dpbinagg.report.refit import refit as refit
    from dpbinagg.report.side_by_side import summary_table as summary_table
    from dpbinagg.report.study import Study as Study
    from dpbinagg.report.verbs import Release as Release
    from dpbinagg.report.verbs import load_release as load_release

_EXPORTS = {
    "dp_ols": "dpbinagg.api",
    "dp_release": "dpbinagg.api",
    "dp_study": "dpbinagg.api",
    "plan": "dpbinagg.protocol.planning",
    "load_release": "dpbinagg.report.verbs",
    "open_table": "dpbinagg.api",
    "refit": "dpbinagg.report.refit",
    "combine_copies": "dpbinagg.analyst.synthesis.copies",
    "show_progress": "dpbinagg.protocol.conduct",
    "Domain": "dpbinagg.public.domain",
    "Budget": "dpbinagg.accounting",
    "Ledger": "dpbinagg.accounting",
    "Partition": "dpbinagg.public.partition",
    "Release": "dpbinagg.report.verbs",
    "Study": "dpbinagg.report.study",
    "summary_table": "dpbinagg.report.side_by_side",
    "DPBinAggError": "dpbinagg.errors",
    "DomainError": "dpbinagg.errors",
    "FormulaError": "dpbinagg.errors",
    "BudgetError": "dpbinagg.errors",
    "ReleaseError": "dpbinagg.errors",
    "DataError": "dpbinagg.errors",
    "ArgumentError": "dpbinagg.errors",
    "MissingExtraError": "dpbinagg.errors",
    "NotIdentifiedError": "dpbinagg.errors",
    "NotReleasedError": "dpbinagg.errors",
    "NothingLeftError": "dpbinagg.errors",
    "DPBinAggWarning": "dpbinagg.errors",
    "IdentificationWarning": "dpbinagg.errors",
    "PrivacyWarning": "dpbinagg.errors",
    "SupportWarning": "dpbinagg.errors",
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
