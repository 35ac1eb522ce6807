"""The README of a release folder, in the order that social-science data editors ask for.

And what the people who publish a release say about it, there and on its page.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dpbinagg.accounting.budget import RELATIONS
from dpbinagg.errors import ReleaseError
from dpbinagg.public.domain import Categorical, Variable
from dpbinagg.release.scripts import template
from dpbinagg.release.transcript import Released

NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class About:
    """Facts for the README that only its publisher knows; what is not given is not stated.

    Attributes
    ----------
    title : str
        Of the data or of the study.
    unit_of_observation : str
        What one record is: "one person aged 18 or older".
    description : str
        What the data are about, how and when they were collected.
    provenance : str
        Where the records come from and who may apply for them.
    steward : str
        Who is responsible for the data.
    contact : str
        Whom to ask, with an address.
    licence : str
        Under which the files of the folder are published.
    date : str or date
        Of the publication.
    """

    title: str | None = None
    unit_of_observation: str | None = None
    description: str | None = None
    provenance: str | None = None
    steward: str | None = None
    contact: str | None = None
    licence: str | None = None
    date: str | datetime.date | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, datetime.datetime):
                value = value.date()
            if field.name == "date" and isinstance(value, datetime.date):
                value = value.isoformat()
            if value is not None and not isinstance(value, str):
                raise ReleaseError(
                    f"{field.name} must be a text, got {type(value).__name__}; write it as it "
                    "should stand in the README, or leave it out"
                )
            plain = " ".join((value or "").split())
            object.__setattr__(self, field.name, plain or None)

    def said(self, name: str) -> str:
        """A fact, or that it is not stated.

        Examples
        --------
        >>> About(steward="Office of Statistics").said("steward")
        'Office of Statistics'
        >>> About().said("licence")
        'not stated'
        """
        return getattr(self, name) or NOT_STATED


LONGEST = 300
"""Letters that fit where these facts are shown."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Facts about the data that only their steward knows; all public."""

    data: str = ""
    steward: str = ""
    date: str = ""

    @classmethod
    def of(cls, data: str | None, steward: str | None, date: str | datetime.date | None) -> Origin:
        """Check what a caller passed."""
        day = date.isoformat()[:10] if isinstance(date, datetime.date) else date
        return cls(_text("data", data), _text("steward", steward), _text("date", day))

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Heading and text of what is known."""
        known = (("Data", self.data), ("Steward", self.steward), ("Date", self.date))
        return [(name, text) for name, text in known if text]

    @property
    def citation(self) -> str:
        """How to cite the data, as far as they are named."""
        if not self.data:
            return ""
        year = f" ({self.date[:4]})" if self.date[:4].isdigit() else ""
        who = f"{self.steward}{year}. " if self.steward else ""
        return f"{who}{self.data}{'' if self.steward else year}."


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        kind = "a table or number" if not isinstance(value, str) else "empty or too long a text"
        raise ReleaseError(
            f"{name} must be a text of at most {LONGEST} letters for the page, such as "
            f"'Wage survey 2024', got {kind}"
        )
    return " ".join(value.split())


STATISTICS = ("bins.csv", "moments.csv", "release.json", "transcript.json")
SOFTWARE = ("numpy", "scipy", "pandas", "patsy", "statsmodels", "opendp")
"""Packages whose version may show in the last digits, or in the noise."""

MOST_LEVELS = 8
"""Levels of a category that its row of the README lists; the codebook has all."""

FILES = {
    "README.md": "this file",
    "privacy.txt": "the privacy guarantee, in words and by mechanism",
    "report.html": "the report: tables and pictures in one page, to open in a browser",
    "coefficients.csv": "the released regression: coefficients, standard errors, intervals",
    "vcov.csv": "the covariance of the coefficients, privacy noise included",
    "model.csv": "the released regression as a whole: size, fit, privacy, estimator",
    "synthetic.csv": "synthetic records on which least squares returns the coefficients",
    "synthetic.parquet": "the synthetic records as a Parquet file",
    "synthetic.dta": "the synthetic records as a Stata file",
    "synthetic_design.csv": "response and design columns of the synthetic records",
    "synthetic_copies.csv": "several synthetic tables, numbered by the column copy",
    "synthetic_copies.parquet": "several synthetic tables, numbered by the column copy",
    "supports.json": "what the synthetic records support, for programs; the README has it in words",
    "codebook.csv": "the variables of the synthetic records: type, bounds, levels, description",
    "codebook.json": "the variables of the synthetic records: type, bounds, levels, description",
    "dpbinagg.R": "reads the regression in R: coef, vcov, confint, summary, tidy, glance",
    "dpbinagg.ado": "reads the regression in Stata: posts e(b) and e(V)",
    "replicate.R": "reproduces the coefficients with R",
    "replicate.do": "reproduces the coefficients with Stata",
    "replicate.py": "reproduces the coefficients with Python",
    "bins.csv": "the released bins: boxes, noisy counts and sums, scale of the noise",
    "moments.csv": "the released second moments and the scale of their noise",
    "release.json": "the release: formula, bounds, partition, budget, privacy",
    "transcript.json": "every question that was asked of the records, and its noisy answer",
    "manifest.json": "format, version, sizes and checksums",
}
"""Every file that a folder may have, in the order of the README."""

COPIES = (
    "`{file}` has {number} synthetic tables. Fit the model to each: the mean of a coefficient over "
    "the copies is the released one, its standard deviation its honest standard error. For other "
    "linear models of released columns, the squared error is u + (1 + 1/m) b, u the mean of the "
    "squared standard errors that the m fits print and b the variance over the copies "
    "(`combine_copies` in `dpbinagg.R` and in the package)."
)
NO_COPIES = (
    "With several synthetic copies (`synthesize(copies=20)`), the standard deviation of a "
    "coefficient over the copies is its honest standard error."
)


def readme(
    release: Released,
    results: Any,
    names: Sequence[str],
    about: About,
    copies: int = 1,
    drawn: str = "without a seed",
    supports: str = "",
) -> bytes:
    """The README of a folder with the files `names`."""
    held = set(names)
    table = next((n for n in ("synthetic.csv", "synthetic.parquet") if n in held), "none")
    many = next((n for n in names if n.startswith("synthetic_copies.")), None)
    by_csv = table == "synthetic.csv"
    text = template("README.md").substitute(
        title=_cell(about.title) if about.title else f"`{results.design.formula}`",
        cautions=_cautions(results),
        formula=results.design.formula,
        estimator=results.estimator,
        nobs=f"{results.nobs:.0f}",
        n_bins=release.n_bins,
        mu=f"{release.mu:.4g}",
        epsilon=f"{results.epsilon:.3g}",
        delta=f"{results.delta:.0e}".replace("e-0", "e-"),
        relation=RELATIONS[release.privacy.neighbours],
        unit=_cell(about.said("unit_of_observation")),
        **{
            name: _cell(about.said(name))
            for name in ("description", "provenance", "steward", "contact", "licence", "date")
        },
        statistics=_listed([f"`{name}`" for name in STATISTICS if name in held]),
        statement=results.privacy.statement,
        variables=_variables(release, results),
        files="\n".join(f"| `{n}` | {meaning} |" for n, meaning in FILES.items() if n in held),
        table=table,
        codebook=next(n for n in ("codebook.csv", "codebook.json") if n in held),
        copies=COPIES.format(file=many, number=copies) if many else NO_COPIES,
        r_packages="no packages" if by_csv else "with the package arrow",
        python_packages="pandas and statsmodels" + ("" if by_csv else " and pyarrow"),
        software=software(),
        drawn=drawn,
        supports=supports,
        version=version_of("dpbinagg"),
    )
    return text.encode()


def readme_of_statistics(release: Released, names: Sequence[str]) -> bytes:
    """The README of a release from which nothing can be estimated."""
    files = "\n".join(f"- `{name}`: {FILES[name]}" for name in FILES if name in names)
    text = (
        f"# Differentially private release: `{release.formula}`\n\n"
        "This folder holds released statistics from which the regression cannot be estimated.\n\n"
        f"{release.privacy.statement}\n\n{files}\n\nMade with {software()}.\n"
    )
    return text.encode()


def _cautions(results: Any) -> str:
    """What must be read first: noise that was not secret, a model that is not determined."""
    urgent = [
        n for n in results.summary().notes if n.startswith(("NOT FOR PUBLICATION", "CAUTION"))
    ]
    return "".join(f"**{note}**\n\n" for note in urgent)


def _variables(release: Released, results: Any) -> str:
    """A table of the variables with their descriptions."""
    names = dict.fromkeys([*results.design.response_variables, *release.design.variables])
    rows = [_variable(name, release.domain[name]) for name in names if name in release.domain]
    return "\n".join(["| variable | values | unit | description |", "|---|---|---|---|", *rows])


def _variable(name: str, variable: Variable) -> str:
    if isinstance(variable, Categorical):
        pairs = variable.label_of.items()
        shown = [str(lv) if str(lv) == label else f"{lv} = {label}" for lv, label in pairs]
        values = ", ".join(shown[:MOST_LEVELS])
        if len(shown) > MOST_LEVELS:
            values += f", and {len(shown) - MOST_LEVELS} more"
    else:
        kind = ", whole numbers" if variable.integer else ""
        values = f"{variable.lower:.6g} to {variable.upper:.6g}{kind}"
    cells = (name, values, variable.unit or "", variable.description or NOT_STATED)
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    """Text within a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def software(packages: Iterable[str] = SOFTWARE) -> str:
    """The versions of what made a folder."""
    python = f"Python {platform.python_version()}"
    return ", ".join(
        [f"dpbinagg {version_of('dpbinagg')}", python, *(f"{n} {version_of(n)}" for n in packages)]
    )


def version_of(package: str) -> str:
    """The version of an installed package."""
    if package == "dpbinagg":
        from dpbinagg import __version__

        return __version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
