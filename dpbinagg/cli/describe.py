"""``dpbinagg describe``: Table 1 from a saved release, free of charge."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from dpbinagg.cli.show import print_json


def run(options: argparse.Namespace) -> None:
    """Print Table 1, a two-way table or correlations."""
    from dpbinagg.report.verbs import load_release

    release = load_release(options.release)
    if options.corr:
        table = release.corr(options.alpha)
    elif options.crosstab:
        one, other = options.crosstab
        table = release.crosstab(one, other, options.alpha)
    else:
        table = release.describe(options.by, options.alpha)
    if options.json:
        print_json({"title": table.title, "numbers": table.frame.to_dict("records")})
        return
    forms: dict[str, Callable[[], str]] = {
        "text": lambda: str(table),
        "markdown": table.to_markdown,
        "latex": table.to_latex,
        "html": table.to_html,
        "csv": lambda: table.frame.to_csv(index=False),
    }
    print(forms[options.form]().rstrip("\n"))
