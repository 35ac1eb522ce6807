"""``dpbinagg refit``: regressions from a saved release, free of charge."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpbinagg.cli.show import print_json, print_results, results_as_plain
from dpbinagg.errors import DataError, ReleaseError


def run(options: argparse.Namespace) -> None:
    """Fit a released model, or a smaller one, and show it."""
    from dpbinagg.report.verbs import load_release

    release = load_release(options.release)
    if release.models and not (options.formula or options.synthetic):
        print_study(release, options.json)
        return
    if options.synthetic:
        results = from_synthetic(options, release)
    else:
        results = release.ols(
            options.formula, estimator=options.estimator, cov_type=options.cov_type
        )
    if options.json:
        print_json(results_as_plain(results))
    else:
        print_results(results, options.compare)


def print_study(release: Any, as_json: bool) -> None:
    """All declared models of a study."""
    from dpbinagg.report.study import Study

    study = Study(release)
    if as_json:
        print_json({name: results_as_plain(one) for name, one in study.items()})
    else:
        print(study.summary())


def from_synthetic(options: argparse.Namespace, release: Any) -> Any:
    """The regression from a published table with bin numbers."""
    import pandas as pd

    from dpbinagg.report.refit import refit

    if options.estimator not in (None, "corrected"):
        raise ReleaseError(
            "--synthetic gives the corrected estimate; leave --estimator out, or leave "
            "--synthetic out to fit from the released sums"
        )
    readers: dict[str, Any] = {
        ".csv": pd.read_csv,
        ".parquet": pd.read_parquet,
        ".dta": pd.read_stata,
    }
    source = Path(options.synthetic)
    if source.suffix.lower() not in readers or not source.is_file():
        raise DataError(
            f"--synthetic must be an existing file that ends in {', '.join(readers)}, "
            f"got {str(source)!r}"
        )
    try:
        table = readers[source.suffix.lower()](source)
    except Exception as error:
        raise DataError(
            f"--synthetic {str(source)!r} cannot be read ({type(error).__name__})"
        ) from None
    return refit(options.formula, table, release, cov_type=options.cov_type or "sandwich")
