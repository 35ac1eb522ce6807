"""Privacy arithmetic: Gaussian differential privacy, the budget and the ledger."""

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import Allocation, Budget, per_record_mu
from dpbinagg.accounting.ledger import Ledger

__all__ = ["Allocation", "Budget", "Ledger", "gdp", "per_record_mu"]
