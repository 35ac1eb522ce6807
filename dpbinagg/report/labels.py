"""Names of coefficients that a reader need not know patsy for."""

from __future__ import annotations

import re

_OPEN, _CLOSE = "([{", ")]}"
_SUPERSCRIPT = {"2": "²", "3": "³", "4": "⁴"}
_LEVEL = re.compile(r"^(?P<factor>.+?)\[(?:T\.|S\.)?(?P<level>.*)\]$", re.DOTALL)
_CATEGORY = re.compile(r"^C\((?P<inner>.*)\)$", re.DOTALL)
_IDENTITY = re.compile(r"^I\((?P<inner>.*)\)$", re.DOTALL)
_QUOTED = re.compile(r"""^Q\((['"])(?P<inner>.*)\1\)$""", re.DOTALL)
_POWER = re.compile(r"(?P<base>\w|\))\s*\*\*\s*(?P<exponent>[234])(?![\w.])")


def readable(name: str) -> str:
    """A column's name in plain words.

    Examples
    --------
    >>> readable("C(region)[T.south]"), readable("I(exper ** 2)"), readable("np.log(wage)")
    ('region: south', 'exper²', 'log(wage)')
    >>> readable("C(sex)[T.female]:educ")
    'sex: female × educ'
    """
    return " × ".join(_factor(part) for part in split(name, ":"))


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


def _factor(name: str) -> str:
    found = _LEVEL.match(name)
    if found is None:
        return _expression(name)
    return f"{_expression(found['factor'])}: {found['level']}"


def _expression(code: str) -> str:
    code = code.strip()
    for pattern in (_CATEGORY, _IDENTITY, _QUOTED):
        found = pattern.match(code)
        if found is not None:
            inner = found["inner"]
            return _expression(split(inner, ",")[0] if pattern is _CATEGORY else inner)
    code = re.sub(r"\bnp\.", "", code)
    return _POWER.sub(lambda m: m["base"] + _SUPERSCRIPT[m["exponent"]], code)
