"""From a results object to the folder that leaves the house."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbinagg.analyst.synthesis.supports import SIDECAR, find_tag, in_words, tag_of
from dpbinagg.errors import ArgumentError, ReleaseError
from dpbinagg.public.arguments import remedy
from dpbinagg.release.about import About
from dpbinagg.release.package import package_files
from dpbinagg.release.readme import readme
from dpbinagg.release.saving import check_target, save_release
from dpbinagg.release.transcript import Choice
from dpbinagg.report.origin import Origin
from dpbinagg.report.page import MOST_ROWS, render

if TYPE_CHECKING:
    import pandas as pd

    from dpbinagg.report.results import DPResults

REPORT = "report.html"
FORMATS = ("parquet", "dta")
KIND = "calibrated"
PICKLES = (".pickle", ".pkl", ".p")


def save_results(
    results: DPResults,
    folder: str | Path,
    overwrite: bool = False,
    *,
    copies: int = 1,
    formats: Sequence[str] = (),
    report: bool = True,
    synthetic: pd.DataFrame | None = None,
    rng: Any = None,
    **about: Any,
) -> Path:
    """Write the release with this estimate; see `DPResults.save`."""
    said = check_request(folder, overwrite, copies, formats, **about)
    if results.release.origin is not results.release:
        results.release.save(folder)
    if synthetic is not None and synthetic.attrs.get("kind", KIND) != KIND:
        raise ReleaseError(
            f"synthetic must be of the kind {KIND!r}, which the scripts fit, got "
            f"{synthetic.attrs['kind']!r}; leave it out to have it drawn"
        )
    chosen = replace(results.release, choice=choice_of(results))
    with warnings.catch_warnings():
        # What a warning would say stands in the README.
        warnings.simplefilter("ignore")
        table = results.synthesize(rng=rng) if synthetic is None else synthetic
        many = results.synthesize(copies=copies, rng=rng) if copies != 1 else None
        files = package_files(chosen, results, table, many, formats)
        if report:
            origin = Origin.of(said.title, said.steward, said.date)
            # Rows are in random order, so the first ones stand for all in the pictures.
            shown = table.head(MOST_ROWS)
            files[REPORT] = render(results, about=origin, synthetic=shown, files=files).encode()
    tag = find_tag(table if many is None else many) or tag_of(
        chosen, KIND, 1, len(table), results.design
    )
    files[SIDECAR] = (tag.to_json(indent=1) + "\n").encode()
    names = [*files, "README.md", "manifest.json"]
    drawn = "with a seed" if rng is not None else "without a seed"
    files["README.md"] = readme(
        chosen,
        results,
        names,
        said,
        copies,
        drawn if synthetic is None else "beforehand",
        in_words(tag.frame, chosen.rules),
    )
    return save_release(chosen, folder, overwrite=overwrite, files=files)


def check_request(
    folder: str | Path,
    overwrite: bool = False,
    copies: int = 1,
    formats: Sequence[str] = (),
    **about: Any,
) -> About:
    """Refuse what `save_results` would refuse, before anything is computed or spent.

    Returns
    -------
    About
        What the publisher says.
    """
    if Path(folder).suffix.lower() in PICKLES:
        raise ReleaseError(
            f"save writes a folder that others can read, not a pickle, got {str(folder)!r}; name a "
            "folder, or write pickle.dump(results, file)"
        )
    if isinstance(formats, str) or not set(formats) <= set(FORMATS):
        raise ReleaseError(
            f"formats must list some of {', '.join(map(repr, FORMATS))}, got {formats!r}; CSV is "
            "always written"
        )
    if isinstance(copies, bool) or not isinstance(copies, int) or copies < 1:
        raise ReleaseError(
            f"copies must be a whole number of at least 1, got {copies!r}; 20 give honest errors"
        )
    said = _about(about)
    Origin.of(said.title, said.steward, said.date)
    check_target(folder, overwrite)
    return said


def choice_of(results: DPResults) -> Choice:
    """What must be asked of the release to get this estimate again."""
    own = results.design.formula == results.release.formula
    # Only the estimate from bins has two covariances.
    by_model = results.estimator == "corrected" and results.estimate.cov_type == "model"
    return Choice(
        formula=None if own else results.design.formula,
        estimator=results.estimator,
        cov_type="model" if by_model else None,
    )


def _about(given: dict[str, Any]) -> About:
    try:
        return About(**given)
    except TypeError:
        wrong = next(name for name in given if name not in About.__slots__)
        known = [*list(signature(save_results).parameters)[1:-1], *About.__slots__]
        raise ArgumentError(f"save has no argument {wrong!r}; {remedy(wrong, known)}") from None
