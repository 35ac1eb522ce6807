"""Differentially private linear regression that shows its work."""
