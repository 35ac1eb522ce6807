"""``dpbinagg audit``: attack a release as it would be made, without any private table."""

from __future__ import annotations

import argparse

from dpbinagg.cli.fit import parse_budget, public_domain
from dpbinagg.cli.show import print_json
from dpbinagg.errors import BudgetError, ReleaseError


def run(options: argparse.Namespace) -> None:
    """Audit, show, and fail where a claim does not hold."""
    from dpbinagg.audit import audit_release

    if options.mu is None and options.epsilon is None and options.delta is None:
        raise BudgetError("say what is claimed: --mu 1, or --epsilon 2 --delta 1e-6")
    report = audit_release(
        options.formula,
        options.mu,
        epsilon=options.epsilon,
        delta=options.delta,
        bounds=public_domain(options.bounds, options.bound),
        budget=parse_budget(options.budget),
        partition=options.partition,
        calibration=options.calibration,
        neighbours=options.neighbours,
        trials=options.trials,
        trees=options.trees,
        runs=options.runs,
        confidence=options.confidence,
        through="csv" if options.csv else "frame",
        rng=options.rng,
        seed=options.seed,
    )
    if options.json:
        findings = report.to_frame().to_dict("records")
        print_json({"mu": report.mu, "passed": report.passed, "findings": findings})
    else:
        print(report if options.all else report.table())
        if not options.all:
            print(f"Lower bounds hold with {report.confidence:.0%} confidence each.")
            print(report.verdict())
    if not report.passed:
        raise ReleaseError(f"{report.verdict()} Please tell the authors; do not publish")
