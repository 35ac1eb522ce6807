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
        check_folder(options)
    data = getattr(datasets, LOADERS[options.data])()
    results = dp_ols(data.formula, data.frame, options.mu, bounds=data.codebook, rng=options.rng)
    folder = save(results, options) if options.out else None
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
    import statsmodels.formula.api as smf
    from patsy import EvalEnvironment

    from dpbinagg.report import tables

    names = EvalEnvironment([{"np": np}])
    ordinary = smf.ols(data.formula, data.frame, eval_env=names).fit()
    rows = []
    for term in results.params.index:
        fits = [(fit.params[term], fit.bse[term]) for fit in (ordinary, results)]
        decimals = tables.decimals_for(min(error for _, error in fits))
        shown = [tables.number(value, decimals) for fit in fits for value in fit]
        rows.append([term, f"{truth[term]:g}" if term in truth else "", *shown])
    header = ["", "truth", "ordinary", "std err", "private", "std err"]
    title = "The ordinary regression, which may be shown because these people are invented"
    return tables.plain(header, rows, title)
