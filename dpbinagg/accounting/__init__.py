"""Privacy arithmetic: Gaussian differential privacy, the budget and the ledger."""

from dpbinagg.accounting import gdp
from dpbinagg.accounting.budget import Allocation, Budget, mu_against, per_record_mu
from dpbinagg.accounting.ledger import Ledger

__all__ = ["Allocation", "Budget", "Ledger", "gdp", "mu_against", "per_record_mu"]
