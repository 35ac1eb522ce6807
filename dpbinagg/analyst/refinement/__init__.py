"""Refinement: rounds of residual scores, and the estimate that they lead to."""
