"""Numbers, names and tables as text: the few formats that all printed forms share."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpbinagg.public.domain import Categorical, Domain

if TYPE_CHECKING:
    import pandas as pd

WIDTH = 78
"""Characters in a line of printed output."""

MOST_DECIMALS = 9
"""Where a number would need as many, it is shown in scientific notation."""

LATEX_LINE, LATEX_CHARACTER, LATEX_GAP = 345.0, 4.6, 8.0
"""A line of the class article, a character of its small size and a gap of columns, in points."""
LATEX_SEP = "\\setlength{\\tabcolsep}{4pt}"
"""Half of that gap: with the usual 6pt a table of seven columns is too wide for a page."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "²": r"\textsuperscript{2}",
    "³": r"\textsuperscript{3}",
    "⁴": r"\textsuperscript{4}",
    "×": r"$\times$",
}

_OPEN, _CLOSE = "([{", ")]}"
_SUPERSCRIPT = {"2": "²", "3": "³", "4": "⁴"}
_LEVEL = re.compile(r"^(?P<factor>.+?)\[(?:T\.|S\.)?(?P<level>.*)\]$", re.DOTALL)
_CATEGORY = re.compile(r"^C\((?P<inner>.*)\)$", re.DOTALL)
_IDENTITY = re.compile(r"^I\((?P<inner>.*)\)$", re.DOTALL)
_QUOTED = re.compile(r"""^Q\((['"])(?P<inner>.*)\1\)$""", re.DOTALL)
_POWER = re.compile(r"(?P<base>\w|\))\s*\*\*\s*(?P<exponent>[234])(?![\w.])")

_MINUS = re.compile(r"(?<![\w.)\]])-(?=\d)")
"""The sign of a number; a hyphen would be too short."""


def decimals_for(spread: float, least: int = 4) -> int:
    """Decimals that show two significant digits of `spread`, at least `least`."""
    if not math.isfinite(spread) or spread <= 0.0:
        return least
    return min(max(1 - math.floor(math.log10(spread)), least), MOST_DECIMALS)


def number(value: float, decimals: int) -> str:
    """`value` with fixed decimals; scientific where those would be too many or too long."""
    if not math.isfinite(value):
        return "" if math.isnan(value) else f"{value:g}"
    if abs(value) >= 1e7 or decimals >= MOST_DECIMALS:
        return f"{value:.3e}"
    if abs(value) >= 1e4:
        decimals = min(decimals, 1)
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def significant(value: float, digits: int = 4) -> str:
    """`value` to some significant digits, trailing zeros removed, thousands separated."""
    if not math.isfinite(value):
        return f"{value:g}"
    if 1e4 <= abs(value) < 1e15:
        return f"{float(f'{value:.{digits}g}'):,.0f}"
    return f"{value:.{digits}g}"


def power(value: float) -> str:
    """A power of ten, as in 1e-6."""
    return f"{value:.0e}".replace("e-0", "e-")


def whole(value: float) -> str:
    """`value` rounded to a whole number, thousands separated."""
    return f"{value:,.0f}" if math.isfinite(value) else f"{value:g}"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Names with commas and a last "and"; of more than `most` the first only."""
    if most is not None and len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and the others to the right."""
    cells = [[markdown_text(cell) for cell in row] for row in [list(header), *rows]]
    widths = [max(3, *(len(row[j]) for row in cells)) for j in range(len(header))]
    rule = ["-" * width if j == 0 else "-" * (width - 1) + ":" for j, width in enumerate(widths)]
    lines = []
    for row in [cells[0], rule, *cells[1:]]:
        padded = [
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"| {' | '.join(padded)} |")
    return "\n".join(lines)


def markdown_text(text: str) -> str:
    """`text` on one line with Markdown's special characters escaped."""
    text = " ".join(text.split())
    for mark in ("\\", "|", "*", "_", "`", "<"):
        text = text.replace(mark, f"\\{mark}")
    return text


def aligned(rows: Sequence[Sequence[str]], least: int = 0) -> list[str]:
    """Rows as lines of equal columns, the first to the left and the others to the right.

    Where the lines would be shorter than `least`, the room is shared between
    the columns.
    """
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    gaps = len(widths) - 1
    room = max(least - sum(widths) - 2 * gaps, 0)
    for j in range(1, gaps + 1):
        widths[j] += room // gaps + (j <= room % gaps)
    return [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def plain(header: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> str:
    """A text table between double rules, the first column to the left."""
    lines = aligned([list(header), *rows], len(title))
    width = len(lines[0])
    lines = [line.rstrip() for line in lines]
    double, single = "=" * width, "-" * width
    return "\n".join([title.center(width).rstrip(), double, lines[0], single, *lines[1:], double])


def pairs(left: Sequence[Sequence[str]], right: Sequence[Sequence[str]], width: int) -> list[str]:
    """Label and value in two blocks side by side, `width` characters wide or more."""
    gap = 3
    half = (width - gap) // 2
    first = aligned(left, half)
    second = aligned(right, width - gap - len(first[0]))
    blank = [" " * len(first[0])] * (len(second) - len(first))
    first, second = first + blank, second + [""] * (len(first) - len(second))
    return [f"{a}{' ' * gap}{b}".rstrip() for a, b in zip(first, second, strict=True)]


def wrapped(text: str, width: int, label: str = "") -> list[str]:
    """`text` in lines of at most `width` characters, indented by its label."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def html_table(header: Sequence[str] | None, rows: Sequence[Sequence[str]], title: str = "") -> str:
    """The table as HTML, of the class that statsmodels' tables have."""
    lines = ['<table class="simpletable">']
    if title:
        lines.append(f"<caption>{html.escape(title)}</caption>")
    if header is not None:
        lines.append(f"<tr>{_html_cells(header, 'th')}</tr>")
    # A row without a heading belongs to the one above: what is under an estimate.
    below = [header is not None and not row[0] for row in rows] + [False]
    for row, under, next_under in zip(rows, below, below[1:], strict=False):
        kind = ' class="below"' if under else ' class="above"' if next_under else ""
        cells = f"{_html_cells(row[:1], 'th')}{_html_cells(row[1:], 'td')}"
        lines.append(f"<tr{kind}>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _html_cells(cells: Sequence[str], tag: str) -> str:
    return "".join(f"<{tag}>{_indented(cell)}</{tag}>" for cell in cells)


def _indented(cell: str) -> str:
    """A cell whose blanks at the left are seen."""
    text = cell.lstrip(" ")
    return "&nbsp;" * (2 * (len(cell) - len(text))) + html.escape(text)


def latex(text: str) -> str:
    """`text` with LaTeX's special characters escaped."""
    return "".join(_LATEX.get(character, character) for character in text)


def booktabs(blocks: Sequence[Sequence[Sequence[str]]], columns: str) -> str:
    """A LaTeX tabular with the rules of the package booktabs, a rule between blocks of rows.

    One that would not fit on a page is scaled to its width, which needs the package graphicx.
    """
    rows = [row for block in blocks for row in block]
    characters = sum(max(len(row[j]) for row in rows) for j in range(len(rows[0])))
    wide = LATEX_CHARACTER * characters + LATEX_GAP * len(columns) > LATEX_LINE
    parts = [f"\\begin{{tabular}}{{{columns}}}", "\\toprule"]
    for block in filter(None, blocks):
        # A bracket or star after the end of a row would be taken for its argument.
        texts = [_MINUS.sub("$-$", " & ".join(map(latex, row))) for row in block]
        parts += [f"{'{}' * text.startswith(('[', '*'))}{text} \\\\" for text in texts]
        parts.append("\\midrule")
    tabular = "\n".join([*parts[:-1], "\\bottomrule", "\\end{tabular}"])
    return f"\\resizebox{{\\linewidth}}{{!}}{{%\n{tabular}}}" if wide else tabular


def latex_float(tabular: str, caption: str, label: str, notes: Sequence[str]) -> str:
    """A LaTeX table with a caption above and notes below."""
    parts = [
        "\\begin{table}[htbp]",
        f"\\centering\\small{LATEX_SEP}",
        f"\\caption{{{latex(caption)}}}",
    ]
    parts += [f"\\label{{{label}}}"] * bool(label)
    parts.append(tabular)
    if notes:
        texts = "\\par\n".join(map(latex, notes))
        parts.append(f"\n\\medskip\n\\begin{{minipage}}{{0.95\\linewidth}}\\footnotesize\n{texts}")
        parts.append("\\end{minipage}")
    return "\n".join([*parts, "\\end{table}"])


def readable(name: str, domain: Domain | None = None) -> str:
    """A column's name in plain words, levels by their labels in `domain`.

    Examples
    --------
    >>> readable("C(region)[T.south]"), readable("I(exper ** 2)"), readable("np.log(wage)")
    ('region: south', 'exper²', 'log(wage)')
    >>> readable("C(sex)[T.female]:educ")
    'sex: female × educ'
    >>> domain = Domain({"sex": {"levels": [1, 2], "labels": ["Man", "Woman"]}})
    >>> readable("C(sex)[T.2]", domain)
    'sex: Woman'
    """
    parts = []
    for part in split(name, ":"):
        found = _LEVEL.match(part)
        text = _expression(part if found is None else found["factor"])
        parts.append(text if found is None else f"{text}: {label(domain, text, found['level'])}")
    return " × ".join(parts)


def label(domain: Domain | None, factor: str, level: object) -> str:
    """The label of a level of a factor, by its name in plain words; else the level itself."""
    variable = domain.get(factor) if domain is not None else None
    if not isinstance(variable, Categorical) or not variable.labels:
        return str(level)
    known = {str(code): text for code, text in variable.label_of.items()}
    return known.get(str(level), str(level))


def with_labels(frame: pd.DataFrame, domain: Domain) -> pd.DataFrame:
    """A table with labels in place of codes, in the order of the levels."""
    shown = frame.copy()
    for name in frame.columns:
        variable = domain.get(name)
        if isinstance(variable, Categorical) and variable.labels:
            codes = frame[name].astype("category").cat.set_categories(list(variable.levels))
            shown[name] = codes.cat.rename_categories(variable.label_of)
    return shown


def split(text: str, mark: str) -> list[str]:
    """Parts of `text` between the marks that stand outside brackets and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == mark and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _expression(code: str) -> str:
    code = code.strip()
    for pattern in (_CATEGORY, _IDENTITY, _QUOTED):
        found = pattern.match(code)
        if found is not None:
            inner = found["inner"]
            return _expression(split(inner, ",")[0] if pattern is _CATEGORY else inner)
    code = re.sub(r"\bnp\.", "", code)
    return _POWER.sub(lambda m: m["base"] + _SUPERSCRIPT[m["exponent"]], code)
