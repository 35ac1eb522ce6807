"""Audits: attacks on releases that bound their privacy from below.

>>> from dpbinagg.audit import audit_release
>>> report = audit_release("wage ~ educ", mu=1, bounds=domain)     # doctest: +SKIP
>>> print(report)                                                  # doctest: +SKIP
"""

from dpbinagg.audit.bounds import Errors, clopper_pearson_upper, gaussian_bound, largest_bound
from dpbinagg.audit.report import AuditReport, Finding
from dpbinagg.audit.run import audit_release
from dpbinagg.audit.tables import KINDS

__all__ = [
    "KINDS",
    "AuditReport",
    "Errors",
    "Finding",
    "audit_release",
    "clopper_pearson_upper",
    "gaussian_bound",
    "largest_bound",
]
