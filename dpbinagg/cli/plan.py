"""``dpbinagg plan``: the standard errors to expect, from public facts alone."""

from __future__ import annotations

import argparse
from typing import Any

from dpbinagg.cli.fit import public_domain
from dpbinagg.cli.show import print_json
from dpbinagg.cli.study import StudyFile


def run(options: argparse.Namespace) -> None:
    """Plan for one or more mu."""
    from dpbinagg.protocol.planning import plan

    domain, formula = public_domain(options.bounds, options.bound), options.formula
    more: dict[str, Any] = {}
    if formula.endswith(".toml"):
        file = StudyFile.read(formula)
        formula, domain = file.values["formulas"], file.domain().updated(dict(domain))
        said = {key: file.values.get(key) for key in ("variables", "constants")}
        said["budget"] = file.budget()
        more = {key: value for key, value in said.items() if value is not None}
    plans = [
        plan(
            formula,
            options.n,
            mu,
            domain,
            sd=options.sd,
            example=options.example,
            rng=options.rng,
            **more,
        )
        for mu in options.mu
    ]
    if options.json:
        print_json(
            [
                {
                    "n": found.n,
                    "mu": found.mu,
                    "sd": found.sd,
                    "assumptions": found.assumptions,
                    "notes": found.notes(),
                    "coefficients": found.frame.reset_index().to_dict("records"),
                }
                for found in plans
            ]
        )
    else:
        *first, last = plans
        print("\n\n".join([*(found.table() for found in first), str(last)]))
