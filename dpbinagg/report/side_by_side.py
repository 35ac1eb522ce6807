"""Several models side by side, as a table to hand in."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd

from dpbinagg.errors import ReleaseError
from dpbinagg.report import tables
from dpbinagg.report.extras import require

TITLE = "Differentially private regressions"


@dataclass(frozen=True)
class RegressionTable:
    """Models side by side; prints as text, and has `to_latex`, `to_html`, `to_markdown`, `to_word`.

    Attributes
    ----------
    title : str
    labels : tuple of str
        Headings of the models.
    body : list of rows
        Of each term its estimates, and below them standard errors or intervals.
    foot : list of rows
        Facts about the models.
    notes : list of str
        One paragraph each, in plain words.
    """

    title: str
    labels: tuple[str, ...]
    body: list[list[str]] = field(repr=False)
    foot: list[list[str]] = field(repr=False)
    notes: list[str] = field(repr=False)

    @property
    def header(self) -> list[str]:
        """The heading of every column."""
        return ["", *self.labels]

    @property
    def frame(self) -> pd.DataFrame:
        """The table as a DataFrame of text."""
        rows = [*self.body, *self.foot]
        index = pd.Index([row[0] for row in rows])
        return pd.DataFrame([row[1:] for row in rows], index=index, columns=list(self.labels))

    def __str__(self) -> str:
        lines = tables.aligned([self.header, *self.body, *self.foot], tables.WIDTH)
        width = max(map(len, lines))
        lines = [line.rstrip() for line in lines]
        first, body, foot = lines[0], lines[1 : 1 + len(self.body)], lines[1 + len(self.body) :]
        double, single = "=" * width, "-" * width
        notes = [line for note in self.notes for line in tables.wrapped(note, width)]
        title = self.title.center(width).rstrip()
        return "\n".join([title, double, first, single, *body, single, *foot, double, *notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_markdown(self) -> str:
        """The table as Markdown."""
        notes = [tables.markdown_text(note) for note in self.notes]
        rows = [*self.body, *self.foot]
        return "\n\n".join([tables.markdown(self.header, rows), *notes]) + "\n"

    def to_html(self) -> str:
        """The table as HTML, which word processors take when it is pasted."""
        notes = "".join(f"\n<p>{html.escape(note)}</p>" for note in self.notes)
        rows = [*self.body, *self.foot]
        return tables.html_table(self.header, rows, self.title) + notes

    def to_latex(self, label: str = "", notes: bool = True) -> str:
        """The table as LaTeX, for the packages booktabs and graphicx.

        Parameters
        ----------
        label : str
            To refer to the table by.
        notes : bool
            Whether the notes are below the table.
        """
        columns = "l" + "c" * len(self.labels)
        tabular = tables.booktabs([[self.header], self.body, self.foot], columns)
        shown = self.notes if notes else []
        return tables.latex_float(tabular, self.title, label, shown)

    def to_maketables(self) -> Any:
        """The table for the package maketables, which makes Word, Typst and great_tables of it."""
        maketables = require(
            "maketables", "tables", "Word tables", "to_html() and to_latex() do not"
        )
        return maketables.MTable(self.frame, notes=" ".join(self.notes), caption=self.title)

    def to_word(self, path: str | Path) -> Path:
        """Write the table as a Word document; needs the extra ``dpbinagg[tables]``."""
        target = Path(path)
        self.to_maketables().make(type="docx").save(str(target))
        return target


def choose_terms(
    terms: Sequence[str],
    keep: str | Iterable[str] | None,
    drop: str | Iterable[str] | None,
    names: Mapping[str, str],
) -> list[str]:
    """Terms to show, in the order of `keep` where it is given.

    A term goes by its name in ``params`` or by the one that is shown.
    """
    known = {**{shown: term for term, shown in names.items()}, **{term: term for term in terms}}
    wanted = list(terms) if keep is None else [_term(one, known) for one in _listed(keep)]
    unwanted = [] if drop is None else [_term(one, known) for one in _listed(drop)]
    return [term for term in dict.fromkeys(wanted) if term not in unwanted]


def _listed(chosen: str | Iterable[str]) -> list[str]:
    return [chosen] if isinstance(chosen, str) else list(chosen)


def _term(name: str, known: Mapping[str, str]) -> str:
    if name in known:
        return known[name]
    near = get_close_matches(str(name), list(known), n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}?" if near else f"the terms are {', '.join(known.values())}"
    raise ReleaseError(f"{name!r} is not a term of the models; {hint}")
