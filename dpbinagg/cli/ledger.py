"""``dpbinagg ledger``: what was spent on a data set."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpbinagg.cli.show import print_json
from dpbinagg.errors import BudgetError


def run(options: argparse.Namespace) -> None:
    """Show a ledger, or make one."""
    from dpbinagg.accounting import Ledger
    from dpbinagg.accounting.budget import RELATIONS

    exists = Path(options.ledger).exists()
    if options.create:
        if exists:
            raise BudgetError(
                f"ledger {options.ledger!r} exists already; a total is a promise and is not "
                "changed. Leave --create out to see it."
            )
        if options.mu is None:
            raise BudgetError("--create needs the total of the new ledger, such as --mu 2")
    elif not exists:
        raise BudgetError(
            f"ledger {options.ledger!r} does not exist; make it: "
            f"dpbinagg ledger {options.ledger} --create --mu 2"
        )
    ledger = Ledger(options.ledger, options.mu, options.name, neighbours=options.neighbours)
    entries = ledger.entries()
    if options.json:
        print_json(
            {
                "name": ledger.name,
                "total": ledger.total,
                "neighbours": ledger.neighbours,
                "spent": ledger.spent,
                "remaining": ledger.remaining,
                "entries": entries.to_dict("records"),
            }
        )
        return
    relation = RELATIONS[ledger.neighbours]
    print(f"Ledger of {ledger.name}: total mu = {ledger.total:.6g} against {relation}")
    print(f"spent {ledger.spent:.6g}, left {ledger.remaining:.6g}")
    if (entries["neighbours"] == ledger.neighbours).all():
        entries = entries.drop(columns=["neighbours", "counted"])
    else:
        print(f"mu: as it was charged; counted: what it is against {relation}")
    if len(entries):
        print()
        print(entries.to_string(index=False))
