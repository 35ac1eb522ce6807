"""Scripts that fit the released model to the synthetic records in R, Stata and Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from string import Template

import numpy as np
import pandas as pd

from dpbinagg.formula import Design
from dpbinagg.public.domain import Categorical, Domain, rows_of
from dpbinagg.release.dialects import (
    CONSTANT,
    Dialect,
    Untranslatable,
    r_dialect,
    r_variables,
    stata_dialect,
    stata_variables,
    strip,
    word_columns,
)
from dpbinagg.release.exports import frame_to_csv

CSV_TABLE, COLUMNS = "synthetic.csv", "synthetic_design.csv"
SHARE, WHOLE_SHARE = 1e-6, 0.05
"""What scripts allow, as a share of the standard error; the second where responses are whole."""

STATA_SHARE, STATA_DIGITS = 1e-5, 1e-8
"""What the do-file allows, as a share of the standard error and of the coefficient: ten times what
R and Python do, since `regress` works on cross products."""


@dataclass(frozen=True)
class Job:
    """A model, its synthetic records and the coefficients that a script must find.

    Attributes
    ----------
    design : Design
    domain : Domain
    table : DataFrame
        Calibrated records: the response, raw or transformed, and the raw covariates.
    formula : str
        The formula that fits them in Python.
    file : str
        Name of the file that holds them.
    estimates, errors : sequence of float
        Coefficients and standard errors; NaN where one is not identified.
    """

    design: Design
    domain: Domain
    table: pd.DataFrame
    formula: str
    file: str
    estimates: Sequence[float]
    errors: Sequence[float]

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the table."""
        return [str(name) for name in self.table.columns]

    @property
    def is_raw(self) -> bool:
        """Whether the table holds the response untransformed."""
        return self.columns[0] in self.design.response_variables

    @property
    def share(self) -> float:
        """Standard errors by which least squares may miss: whole numbers meet few regressions."""
        return WHOLE_SHARE if self.table.iloc[:, 0].dtype.kind == "i" else SHARE

    def response(self, dialect: Dialect) -> str:
        """The response as an expression."""
        return dialect.response(self.design) if self.is_raw else dialect.variable(self.columns[0])


def template(name: str) -> Template:
    """A template of this room."""
    return Template((resources("dpbinagg.release") / "templates" / name).read_text("utf-8"))


def scripts(job: Job) -> dict[str, bytes]:
    """The three scripts, and the design columns where a language cannot write them."""
    made = {"replicate.py": _python(job)}
    needs_columns = False
    for name, write, write_numbered in (
        ("replicate.R", _r, _r_numbered),
        ("replicate.do", _stata, _stata_numbered),
    ):
        try:
            made[name] = write(job)
        except Untranslatable:
            made[name] = write_numbered(job)
            needs_columns = True
    if needs_columns:
        made[COLUMNS] = _design_columns(job)
    return made


# Python.


def _python(job: Job) -> bytes:
    words = word_columns(job.columns, job.domain)
    levels = {
        name: [str(level) for level in variable.levels] if name in words else list(variable.levels)
        for name, variable in job.domain.items()
        if isinstance(variable, Categorical)
        and variable.levels != (False, True)
        and name in job.columns
    }
    if job.file.endswith(".csv"):
        read = f'data = pd.read_csv("{job.file}", keep_default_na=False, dtype={_strings(words)!r})'
    else:
        read = _template_lines("read_parquet.py.txt", table=job.file, csv=CSV_TABLE)
    text = template("replicate.py.txt").substitute(
        read=read,
        constants="".join(f"{k} = {v!r}\n" for k, v in job.design.constants.items()),
        levels=repr(levels),
        formula=repr(job.formula),
        share=f"{job.share:g}",
    )
    return text.encode()


def _strings(words: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(words, "str")


def _template_lines(name: str, **parts: str) -> str:
    return template(name).substitute(**parts).rstrip("\n")


# R.


def _r(job: Job) -> bytes:
    dialect = r_dialect(job.domain, job.columns)
    response, terms = job.response(dialect), _r_terms(job.design, dialect)
    if not job.file.endswith(".csv"):
        read = _template_lines("read_parquet.R", table=job.file)
    else:
        read = _r_read(job.file, [_r_class(job, name) for name in job.columns])
    return _r_script(job, "\n".join([read, *_r_renames(job.columns)]), response, terms)


def _r_numbered(job: Job) -> bytes:
    """The script that reads the design columns."""
    terms = [name for _, name in numbered(job.design)]
    classes = ["numeric"] * (1 + len(terms))
    if job.design.intercept is None:
        terms.append("0")
    return _r_script(job, _r_read(COLUMNS, classes), "dp_y", terms)


def _r_read(table: str, classes: Sequence[str]) -> str:
    quoted = ", ".join(f'"{kind}"' for kind in classes)
    return (
        f'd <- read.csv("{table}", check.names = FALSE, encoding = "UTF-8",\n'
        f"  na.strings = character(0), colClasses = c({quoted}))"
    )


def _r_class(job: Job, name: str) -> str:
    if name in word_columns([name], job.domain):
        return "character"
    return "logical" if job.table[name].dtype == bool else "numeric"


def _r_renames(columns: Sequence[str]) -> list[str]:
    """Lines that rename columns whose name is not read in every locale."""
    written = r_variables(columns)
    return [
        f'names(d)[{place}] <- "{written[name]}"'
        for place, name in enumerate(columns, start=1)
        if written[name] not in (name, f"`{name}`")
    ]


def _r_terms(design: Design, dialect: Dialect) -> list[str]:
    columns = dialect.columns(design)
    terms = [
        text if text == name else f"I({strip(text)})"
        for j, (text, name) in enumerate(zip(columns, design.column_names, strict=True))
        if j != design.intercept
    ]
    return [*terms, *([] if design.intercept is not None else ["0"])]


def _r_script(job: Job, read: str, response: str, terms: Sequence[str]) -> bytes:
    text = template("replicate.R").substitute(
        read=read,
        response=response,
        right=" + ".join(terms) if terms else "1",
        share=f"{job.share:g}",
    )
    return text.encode()


# Stata.


def _stata(job: Job) -> bytes:
    dialect = stata_dialect(job.domain, job.columns)
    written = dialect.columns(job.design)
    lines = [f"generate double dp_y = {job.response(dialect)}"]
    lines += [f"generate double {name} = {strip(written[j])}" for j, name in numbered(job.design)]
    words = set(word_columns(job.columns, job.domain))
    texts = [name for name in job.columns if name in words or job.table[name].dtype == bool]
    return _stata_script(job, job.file, job.columns, texts, lines)


def _stata_numbered(job: Job) -> bytes:
    """The script that reads the design columns."""
    columns = ["dp_y", *(name for _, name in numbered(job.design))]
    return _stata_script(job, COLUMNS, columns, [], [])


def _stata_script(
    job: Job, file: str, columns: Sequence[str], texts: Sequence[str], lines: list[str]
) -> bytes:
    names = stata_variables(columns)
    places = {name: str(place) for place, name in enumerate(columns, start=1)}
    kinds = {
        "numericcols": [places[name] for name in columns if name not in texts],
        "stringcols": [places[name] for name in texts],
    }
    note = "" if file.endswith(".csv") else _template_lines("read_parquet.do", csv=CSV_TABLE)
    read = template("read.do").substitute(
        note=f"{note}\n" if note else "",
        table=file if file.endswith(".csv") else CSV_TABLE,
        kinds=" ".join(f"{kind}({' '.join(found)})" for kind, found in kinds.items() if found),
        old=" ".join(f"v{place}" for place in places.values()),
        new=" ".join(names.values()),
    )
    text = template("replicate.do").substitute(
        read=read.rstrip("\n"),
        generate="".join(f"{line}\n" for line in [*lines, *_labels(job.design, names)]),
        columns=" ".join(name for _, name in numbered(job.design)),
        constant="" if job.design.intercept is not None else ", noconstant",
        checks="\n".join(_checks(job)),
    )
    return text.encode()


def _labels(design: Design, variables: dict[str, str]) -> list[str]:
    """Labels of renamed variables and of design columns, where Stata can quote them."""
    named = [(new, old) for old, new in variables.items() if old != new]
    named += [(name, design.column_names[j]) for j, name in numbered(design)]
    return [
        # Stata cuts labels at 80 characters.
        f'label variable {name} "{text[:80]}"'
        for name, text in named
        if not set('"`$') & set(text)
    ]


def _checks(job: Job) -> Iterator[str]:
    names = dict(numbered(job.design))
    for j, (value, error) in enumerate(zip(job.estimates, job.errors, strict=True)):
        if math.isfinite(value):
            name = names.get(j, CONSTANT)
            most = max(STATA_SHARE, job.share) * float(error) + STATA_DIGITS * abs(float(value))
            yield f"assert abs(_b[{name}] - ({float(value)!r})) <= {most:.3g}"


def numbered(design: Design) -> Iterator[tuple[int, str]]:
    """Index and short name of every design column but the intercept."""
    others = (j for j in range(len(design.column_names)) if j != design.intercept)
    return ((j, f"dp_x{place}") for place, j in enumerate(others, start=1))


def _design_columns(job: Job) -> bytes:
    """Response and design columns of synthetic rows, for formulas beyond other languages."""
    import patsy

    left = job.formula.split("~")[0]
    response = np.asarray(patsy.dmatrix("0 + " + left, job.table))[:, -1]
    columns = job.design.columns(rows_of(job.table, job.domain, job.design.variables))
    frame = pd.DataFrame({"dp_y": response})
    for j, name in numbered(job.design):
        frame[name] = columns[:, j]
    return frame_to_csv(frame)
