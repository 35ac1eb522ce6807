"""Privacy arithmetic: Gaussian differential privacy, the budget and the ledger."""

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import Allocation, Budget, per_record_mu

__all__ = ["Allocation", "Budget", "gdp", "per_record_mu"]
