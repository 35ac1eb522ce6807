"""From results, and from a study, to the folder that leaves the house; the page of a study."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbinagg.analyst.synthesis.supports import SIDECAR, find_tag, in_words, tag_of
from dpbinagg.errors import ArgumentError, ReleaseError
from dpbinagg.public.arguments import explains_arguments, remedy
from dpbinagg.release.exports import frame_to_csv, table_files
from dpbinagg.release.readme import FILES, About, Origin, readme, software
from dpbinagg.release.replication import TABLE, codebook_file, package_files
from dpbinagg.release.saving import check_target, privacy_file, save_release, statistics_files
from dpbinagg.release.transcript import Choice
from dpbinagg.report.markup import Markup, el
from dpbinagg.report.page import MOST_ROWS, document, page_target, render

if TYPE_CHECKING:
    from dpbinagg.report.results import DPResults
    from dpbinagg.report.study import Study

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


OWN_FILES = {
    "report.html": FILES["report.html"],
    "models.csv": "the declared models: coefficients, standard errors, intervals",
    "vcov.csv": "the covariance of the coefficients of each model, privacy noise included",
    "fits.csv": "the declared models as wholes: size, fit, privacy, estimator",
    "models.md": "the declared models side by side",
    "models.tex": "the declared models side by side, for LaTeX",
    "table1.csv": "Table 1: every number with its standard error and interval",
    "table1.md": "Table 1",
    "table1.tex": "Table 1, for LaTeX",
    "correlations.csv": "correlations with intervals",
    "synthetic.csv": "synthetic records of all variables",
    "synthetic.parquet": "synthetic records of all variables",
    "supports.json": FILES["supports.json"],
    **{
        name: FILES[name]
        for name in (
            *("codebook.csv", "codebook.json", "bins.csv", "moments.csv", "release.json"),
            *("transcript.json", "privacy.txt", "README.md", "manifest.json"),
        )
    },
}
"""Every file that the folder of a study may have, in the order of its README."""


@explains_arguments
def save_study(
    study: Study,
    folder: str | Path,
    overwrite: bool = False,
    *,
    title: str | None = None,
    steward: str | None = None,
    date: str | None = None,
    rng: Any = None,
) -> Path:
    """Write a study and all that follows from it to a folder; see `Study.save`."""
    check_target(folder, overwrite)
    origin, release = Origin.of(title, steward, date), study.release
    table_one, side_by_side, corr = study.describe(), study.summary(), study.corr()
    with warnings.catch_warnings():
        # What a warning would say stands in the tables.
        warnings.simplefilter("ignore")
        synthetic = study.synthesize(rng=rng)
    tag = find_tag(synthetic)
    assert tag is not None
    files = {
        **statistics_files(release),
        "privacy.txt": privacy_file(release.privacy),
        **model_files(study),
        "models.md": side_by_side.to_markdown().encode(),
        "models.tex": side_by_side.to_latex().encode(),
        "table1.csv": frame_to_csv(table_one.frame),
        "table1.md": table_one.to_markdown().encode(),
        "table1.tex": table_one.to_latex().encode(),
        "correlations.csv": frame_to_csv(corr.frame),
        **table_files(synthetic, TABLE),
        SIDECAR: (tag.to_json(indent=1) + "\n").encode(),
        **codebook_file(release.domain, list(synthetic.columns)),
        "report.html": render_study(study, title, origin).encode(),
    }
    files["README.md"] = readme_of_study(study, [*files, "README.md", "manifest.json"], title)
    return save_release(release, folder, overwrite=overwrite, files=files)


def model_files(study: Study) -> dict[str, bytes]:
    """Coefficients, covariances and facts of all declared models, one CSV file each."""
    coefficients, covariances, facts = [], [], []
    for name, results in study.items():
        tidy, fit = results.tidy(), results.glance()
        tidy.insert(0, "model", name)
        fit.insert(0, "model", name)
        fit["response"], fit["formula"] = results.design.response_name, results.design.formula
        cov = np.asarray(results.cov_params())
        terms = list(tidy["term"])
        covariances.append(
            pd.DataFrame(
                {
                    "model": name,
                    "term": np.repeat(terms, len(terms)),
                    "with": np.tile(terms, len(terms)),
                    "covariance": cov.ravel(),
                }
            )
        )
        coefficients.append(tidy)
        facts.append(fit)
    made = {"models.csv": coefficients, "vcov.csv": covariances, "fits.csv": facts}
    return {name: frame_to_csv(pd.concat(parts)) for name, parts in made.items()}


def readme_of_study(study: Study, names: list[str], title: str | None) -> bytes:
    """What the folder is, what is in it, and what it promises."""
    release = study.release
    formulas = "\n".join(f"- {name}: `{formula}`" for name, formula in release.models.items())
    files = "\n".join(f"| `{n}` | {what} |" for n, what in OWN_FILES.items() if n in names)
    supported = in_words(study.supports, release.rules)
    caution = "" if release.privacy.secure else "**NOT FOR PUBLICATION: the noise was seeded.**\n\n"
    text = (
        f"# {title or 'A study'}: differentially private release\n\n{caution}"
        "This folder holds one differentially private release and everything that follows from "
        "it: the declared models, Table 1, correlations and synthetic records. It contains no "
        "record of the data from which it was made, and nothing in it needs to be kept secret.\n\n"
        f"## Models\n\n{formulas}\n\n"
        "Any other linear model of the released variables, with any of them as response, follows "
        "at no cost:\n\n"
        "```python\nfrom dpbinagg import Study, load_release\n"
        'study = Study(load_release("."))\nstudy.ols("y ~ x").summary()\n```\n\n'
        f"## Privacy\n\n{release.privacy.statement}\n\n"
        f"## What the synthetic records can and cannot do\n\n{supported}\n\n"
        f"## Files\n\n| file | what it is |\n|---|---|\n{files}\n\nMade with {software()}.\n"
    )
    return text.encode()


def report_study(study: Study, path: str | Path, title: str | None, origin: Origin) -> Path:
    """Write the page of a study; see `Study.report`."""
    target = page_target(path)
    target.write_text(render_study(study, title, origin), encoding="utf-8")
    return target


def render_study(study: Study, title: str | None, origin: Origin) -> str:
    """One page that needs nothing from outside: all tables, and the guarantee."""
    headline = title or f"A study of {len(study)} models"
    said = [text for text in (origin.data, origin.steward, origin.date) if text]
    top = el("header", el("h1", headline), [el("p", text, class_="soft") for text in said])
    models = [
        el("details", el("summary", f"{name}: {one.design.formula}"), Markup(one.to_html()))
        for name, one in study.items()
    ]
    parts = [
        ("table1", "Table 1", _framed(study.describe().to_html())),
        ("models", "Models", _framed(study.summary().to_html())),
        ("each", "Each model", models),
        ("correlations", "Correlations", _framed(study.corr().to_html())),
        (
            "supports",
            "What the synthetic records support",
            _framed(_in_words(study.supports)),
        ),
        ("privacy", "Privacy", el("p", study.privacy.statement)),
    ]
    links = [el("li", el("a", name, href=f"#{key}")) for key, name, _ in parts]
    shown = [el("section", el("h2", name), body, id=key) for key, name, body in parts]
    main = el("main", el("nav", el("ul", links), aria_label="Contents"), shown)
    return document(headline, [top, main])


def _in_words(frame: pd.DataFrame) -> str:
    """A table of sentences, which are wrapped and start at the left."""
    return frame.to_html(index=False, classes="words", border=0, justify="left")


def _framed(html: str) -> Markup:
    """A table in a frame that scrolls by itself."""
    return el("div", Markup(html), class_="scroll", tabindex="0")
