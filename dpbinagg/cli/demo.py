"""``dpbinagg demo``: the main job on bundled data."""

from __future__ import annotations

import argparse
from typing import Any

from dpbinagg.cli.fit import REPORT, check_folder, save
from dpbinagg.cli.show import print_json, print_results, results_as_plain

LOADERS = {"wages": "load_wages", "school": "load_school"}
TRUTHS = {"wages": "WAGE_COEFFICIENTS", "school": "SCHOOL_COEFFICIENTS"}


def run(options: argparse.Namespace) -> None:
    """Fit the bundled data privately and show the truth beside it."""
    from dpbinagg import datasets
    from dpbinagg.api import dp_ols

    if options.out:
        check_folder(options.out)
    data = getattr(datasets, LOADERS[options.data])()
    results = dp_ols(data.formula, data.frame, options.mu, bounds=data.codebook, rng=options.rng)
    folder = save(results, options.out, [], options.rng) if options.out else None
    if options.json:
        print_json({**results_as_plain(results), "folder": folder and str(folder)})
        return
    print_results(results, options.compare)
    print()
    print(beside_ordinary(results, data, getattr(datasets, TRUTHS[options.data])))
    if folder:
        print(f"\nSaved in {folder}; open {folder / REPORT} in a browser.")


def beside_ordinary(results: Any, data: Any, truth: Any) -> str:
    """The private coefficients beside the ordinary ones: possible because nobody here is real."""
    import numpy as np
    import pandas as pd
    import statsmodels.formula.api as smf
    from patsy import EvalEnvironment

    names = EvalEnvironment([{"np": np}])
    ordinary = smf.ols(data.formula, data.frame, eval_env=names).fit()
    table = pd.DataFrame(
        {
            "truth": pd.Series({name: truth.get(name) for name in results.params.index}),
            "ordinary": ordinary.params,
            "(s.e.)": ordinary.bse,
            "private": results.params,
            "(s.e.) ": results.bse,
        }
    ).loc[results.params.index]
    lines = [
        "These people are invented, so the ordinary regression may be shown as well:",
        "",
        table.to_string(float_format=lambda value: f"{value:.4g}"),
    ]
    return "\n".join(lines)
