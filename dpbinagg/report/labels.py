"""Names of coefficients that a reader need not know patsy for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.report.tables import listed

if TYPE_CHECKING:
    import pandas as pd

MOST_LABELS = 12
"""Labels of one variable that a note lists."""

_OPEN, _CLOSE = "([{", ")]}"
_SUPERSCRIPT = {"2": "²", "3": "³", "4": "⁴"}
_LEVEL = re.compile(r"^(?P<factor>.+?)\[(?:T\.|S\.)?(?P<level>.*)\]$", re.DOTALL)
_CATEGORY = re.compile(r"^C\((?P<inner>.*)\)$", re.DOTALL)
_IDENTITY = re.compile(r"^I\((?P<inner>.*)\)$", re.DOTALL)
_QUOTED = re.compile(r"""^Q\((['"])(?P<inner>.*)\1\)$""", re.DOTALL)
_POWER = re.compile(r"(?P<base>\w|\))\s*\*\*\s*(?P<exponent>[234])(?![\w.])")


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
    return " × ".join(_factor(part, domain) for part in split(name, ":"))


def label(domain: Domain | None, factor: str, level: object) -> str:
    """The label of a level of a factor, by its name in plain words; else the level itself."""
    variable = domain.get(factor) if domain is not None else None
    if not isinstance(variable, Categorical):
        return str(level)
    known = {str(code): text for code, text in variable.label_of.items()}
    return known.get(str(level), str(level))


def label_note(domain: Domain, names: Iterable[str]) -> list[str]:
    """What the codes of the variables `names` stand for, where they have labels."""
    texts = []
    for name in names:
        variable = domain.get(name)
        if isinstance(variable, Categorical) and variable.labels:
            pairs = [f"{code} = {text}" for code, text in variable.label_of.items()]
            texts.append(f"{name}: {listed(pairs, MOST_LABELS)}")
    return [f"Labels of codes: {'; '.join(texts)}."] if texts else []


def with_labels(frame: pd.DataFrame, domain: Domain) -> pd.DataFrame:
    """A table with labels in place of codes, in the order of the levels."""
    import pandas as pd

    shown = frame.copy()
    for name in frame.columns:
        variable = domain.get(name)
        if isinstance(variable, Categorical) and variable.labels:
            codes = pd.Categorical(frame[name], categories=list(variable.levels))
            shown[name] = codes.rename_categories(variable.label_of)
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


def _factor(name: str, domain: Domain | None) -> str:
    found = _LEVEL.match(name)
    if found is None:
        return _expression(name)
    factor = _expression(found["factor"])
    return f"{factor}: {label(domain, factor, found['level'])}"


def _expression(code: str) -> str:
    code = code.strip()
    for pattern in (_CATEGORY, _IDENTITY, _QUOTED):
        found = pattern.match(code)
        if found is not None:
            inner = found["inner"]
            return _expression(split(inner, ",")[0] if pattern is _CATEGORY else inner)
    code = re.sub(r"\bnp\.", "", code)
    return _POWER.sub(lambda m: m["base"] + _SUPERSCRIPT[m["exponent"]], code)
