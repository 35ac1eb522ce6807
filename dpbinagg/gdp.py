"""Gaussian differential privacy for users: see `dpbinagg.accounting.gdp`."""

from dpbinagg.accounting.gdp import (
    compose,
    delta,
    epsilon,
    log_delta,
    mu,
    mu_from_pure,
    pure_from_mu,
)

__all__ = ["compose", "delta", "epsilon", "log_delta", "mu", "mu_from_pure", "pure_from_mu"]
