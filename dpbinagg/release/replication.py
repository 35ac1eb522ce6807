"""What a replicator needs: synthetic rows, coefficients, a codebook, scripts and a README."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib.resources import files as resources
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from dpbinagg.formula import Design
from dpbinagg.public.codebook import CODEBOOK_COLUMNS, codebook_text, row_of_variable
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.public.rows import rows_of
from dpbinagg.release.dialects import Untranslatable, r_dialect, stata_dialect, strip, word_columns
from dpbinagg.release.release import Release

TABLE, COLUMNS = "synthetic.csv", "synthetic_design.csv"
STATISTICS = ("bins.csv", "moments.csv", "release.json", "transcript.json")
FILES = {
    "README.md": "this file",
    "privacy.txt": "the privacy guarantee, in words and by mechanism",
    "coefficients.csv": "the released regression: coefficients, standard errors, intervals",
    "synthetic.csv": "synthetic records on which least squares returns the coefficients",
    "report.html": "the report: tables and pictures in one page, to open in a browser",
    "synthetic.parquet": "the synthetic records as a Parquet file",
    "synthetic.dta": "the synthetic records as a Stata file",
    "synthetic_design.csv": "response and design columns of the synthetic records",
    "codebook.csv": "the variables of the synthetic records: type, bounds, levels",
    "replicate.R": "reproduces the coefficients with R",
    "replicate.do": "reproduces the coefficients with Stata",
    "replicate.py": "reproduces the coefficients with Python",
    "bins.csv": "the released bins: boxes, noisy counts and sums, scale of the noise",
    "moments.csv": "the released second moments and the scale of their noise",
    "release.json": "the release: formula, bounds, partition, budget, privacy",
    "transcript.json": "every question that was asked of the records, and its noisy answer",
    "manifest.json": "format, version, sizes and checksums",
}


def replication_files(release: Release, results: Any, table: pd.DataFrame) -> dict[str, bytes]:
    """The files that let somebody else reproduce the regression.

    Parameters
    ----------
    release : Release
    results : results object
        The regression of the release.
    table : DataFrame
        Calibrated synthetic rows of it.
    """
    formula = results.formula_for(table)
    made = {
        "coefficients.csv": _frame_to_csv(results.tidy()),
        TABLE: _frame_to_csv(table),
        "codebook.csv": codebook(release.domain, list(table.columns)),
        "replicate.py": _python(release, table, formula),
    }
    scripts, needs_columns = _scripts(release, table)
    made |= scripts
    if needs_columns:
        made[COLUMNS] = _design_columns(release, table, formula)
    return made


def _listed(words: list[str]) -> str:
    """One, two and three."""
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def readme(release: Release, results: Any, names: list[str], version: str) -> bytes:
    """The README, listing the files `names`."""
    listed = "\n".join(
        f"| `{name}` | {meaning} |" for name, meaning in FILES.items() if name in names
    )
    text = _template("README.md").substitute(
        formula=release.formula,
        cautions=_cautions(results),
        files=listed,
        statistics=_listed([f"`{name}`" for name in STATISTICS if name in names]),
        estimator="none" if results is None else results.estimator,
        nobs="unknown" if results is None else f"{results.nobs:.0f}",
        n_bins=release.n_bins,
        version=version,
    )
    return text.encode()


def _cautions(results: Any) -> str:
    """What must be read first: noise that was not secret, a model that is not determined."""
    notes = [] if results is None else results.summary().notes
    urgent = [note for note in notes if note.startswith(("NOT FOR PUBLICATION", "CAUTION"))]
    return "".join(f"**{note}**\n\n" for note in urgent)


def codebook(domain: Domain, columns: list[str]) -> bytes:
    """The columns of a synthetic table in the form that `Domain.from_csv` reads."""
    rows = []
    for name in columns:
        if name in domain:
            rows.append(row_of_variable(name, domain[name]))
        else:
            about = {"name": name, "type": "numeric", "description": "transformed response"}
            rows.append(dict.fromkeys(CODEBOOK_COLUMNS, "") | about)
    return codebook_text(rows).encode()


def _frame_to_csv(frame: pd.DataFrame) -> bytes:
    """A frame as CSV, booleans as R writes them."""
    text = io.StringIO()
    plain = frame.copy()
    for name in plain.columns:
        if plain[name].dtype == bool:
            plain[name] = np.where(plain[name], "TRUE", "FALSE")
    plain.to_csv(text, index=False, lineterminator="\n")
    return text.getvalue().encode()


def _template(name: str) -> Template:
    return Template((resources("dpbinagg.release") / "templates" / name).read_text("utf-8"))


def _python(release: Release, table: pd.DataFrame, formula: str) -> bytes:
    levels = {
        name: list(variable.levels)
        for name, variable in release.domain.items()
        if isinstance(variable, Categorical)
        and variable.levels != (False, True)
        and name in table.columns
    }
    text = _template("replicate.py.txt").substitute(
        table=TABLE,
        constants="".join(f"{k} = {v!r}\n" for k, v in release.design.constants.items()),
        levels=repr(levels),
        words=repr(dict.fromkeys(word_columns(list(table.columns), release.domain), "str")),
        formula=repr(formula),
    )
    return text.encode()


def _scripts(release: Release, table: pd.DataFrame) -> tuple[dict[str, bytes], bool]:
    """The scripts for R and Stata, and whether they need the table of design columns."""
    design, needs_columns = release.design, False
    try:
        dialect = r_dialect(release.domain)
        words = [
            f'{dialect.variable(name)} = "character"'
            for name in word_columns(list(table.columns), release.domain)
        ]
        script = _r(TABLE, _response(dialect, design, table), _r_terms(design), words)
    except Untranslatable:
        needs_columns = True
        names = [name for _, name in _numbered(design)]
        terms = [*names, *([] if design.intercept is not None else ["0"])]
        script = _r(COLUMNS, "dp_y", terms, [])
    made = {"replicate.R": script}
    try:
        written = stata_dialect(release.domain).columns(design)
        response = _response(stata_dialect(release.domain), design, table)
        generate = [f"generate double dp_y = {response}"]
        generate += [
            f"generate double {name} = {strip(written[j])}" for j, name in _numbered(design)
        ]
        made["replicate.do"] = _stata(design, TABLE, generate, _stata_words(release, table))
    except Untranslatable:
        needs_columns = True
        made["replicate.do"] = _stata(design, COLUMNS, [], [])
    return made, needs_columns


def _stata_words(release: Release, table: pd.DataFrame) -> list[int]:
    """Positions of columns that Stata must read as words; booleans are words to it."""
    words = set(word_columns(list(table.columns), release.domain))
    return [
        place
        for place, name in enumerate(table.columns, start=1)
        if name in words or table[name].dtype == bool
    ]


def _response(dialect: Any, design: Design, table: pd.DataFrame) -> str:
    if table.columns[0] in design.response_variables:
        return str(dialect.response(design))
    return str(dialect.variable(table.columns[0]))


def _r_terms(design: Design) -> list[str]:
    columns = r_dialect(design.domain).columns(design)
    terms = [
        text if text == name else f"I({strip(text)})"
        for j, (text, name) in enumerate(zip(columns, design.column_names, strict=True))
        if j != design.intercept
    ]
    return [*terms, *([] if design.intercept is not None else ["0"])]


def _r(table: str, response: str, terms: list[str], words: list[str]) -> bytes:
    text = _template("replicate.R").substitute(
        table=table,
        response=response,
        right=" + ".join(terms) if terms else "1",
        words=f", colClasses = c({', '.join(words)})" if words else "",
    )
    return text.encode()


def _stata(design: Design, table: str, generate: list[str], words: list[int]) -> bytes:
    places = f" stringcols({' '.join(map(str, words))})" if words else ""
    names = dict(_numbered(design))
    labels = [
        f'label variable {name} "{design.column_names[j][:80]}"'
        for j, name in names.items()
        if '"' not in design.column_names[j] and "`" not in design.column_names[j]
    ]
    text = _template("replicate.do").substitute(
        table=table,
        words=places,
        generate="\n".join([*generate, *labels]),
        columns=" ".join(names.values()),
        constant="" if design.intercept is not None else ", noconstant",
    )
    return text.encode()


def _numbered(design: Design) -> Iterator[tuple[int, str]]:
    """Index and short name of every design column but the intercept."""
    others = (j for j in range(len(design.column_names)) if j != design.intercept)
    return ((j, f"dp_x{place}") for place, j in enumerate(others, start=1))


def _design_columns(release: Release, table: pd.DataFrame, formula: str) -> bytes:
    """Response and design columns of synthetic rows, for formulas beyond other languages."""
    import patsy

    response = np.asarray(patsy.dmatrix("0 + " + formula.split("~")[0], table))[:, -1]
    rows = rows_of(table, release.domain, release.design.variables)
    columns = release.design.columns(rows)
    frame = pd.DataFrame({"dp_y": response})
    for j, name in _numbered(release.design):
        frame[name] = columns[:, j]
    return _frame_to_csv(frame)
