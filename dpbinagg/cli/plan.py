"""``dpbinagg plan``: the standard errors to expect, from public facts alone."""

from __future__ import annotations

import argparse

from dpbinagg.cli.fit import public_domain
from dpbinagg.cli.show import print_json


def run(options: argparse.Namespace) -> None:
    """Plan for one or more mu."""
    from dpbinagg.protocol.planning import plan

    domain = public_domain(options.bounds, options.bound)
    plans = [
        plan(
            options.formula,
            options.n,
            mu,
            domain,
            sd=options.sd,
            example=options.example,
            rng=options.rng,
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
