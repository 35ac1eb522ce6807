"""HTML and SVG from nested calls; text is escaped unless it is markup already.

Scales, ticks, lines and words of the pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

VOID = frozenset({"meta", "link", "input", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Iterable[str]


def el(tag: str, *children: Child, **attributes: str | float | bool) -> Markup:
    """An element.

    A plain string among `children` is escaped, `Markup` is not, and an iterable is
    joined. Attributes are escaped; ``class_`` is class, ``aria_label`` aria-label, a
    value of True has the name alone, False leaves the attribute out.

    Examples
    --------
    >>> el("p", "a < b ", el("b", "c"), class_="note")
    '<p class="note">a &lt; b <b>c</b></p>'
    """
    parts = []
    for name, value in attributes.items():
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {key}")
        elif value is not False:
            text = number(value) if isinstance(value, int | float) else escape(value)
            parts.append(f' {key}="{text}"')
    opening = f"<{tag}{''.join(parts)}>"
    return Markup(opening if tag in VOID else f"{opening}{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other."""
    texts = []
    for child in children:
        if isinstance(child, Markup):
            texts.append(child)
        elif isinstance(child, str):
            texts.append(Markup(escape(child)))
        else:
            texts.append(join(child))
    return Markup("".join(texts))


def number(value: float) -> str:
    """A coordinate, to a hundredth."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def table(
    header: Iterable[Child], rows: Iterable[Iterable[Child]], caption: Child, class_: str = ""
) -> Markup:
    """A table whose first column heads its rows, in a frame that scrolls by itself."""
    head = el("tr", [el("th", cell, scope="col") for cell in header])
    body = []
    for first, *others in rows:
        body.append(el("tr", el("th", first, scope="row"), [el("td", cell) for cell in others]))
    whole = el("table", el("caption", caption), el("thead", head), el("tbody", body), class_=class_)
    return el("div", whole, class_="scroll", tabindex="0")


def section(name: str, title: str, *children: Child) -> Markup:
    """A section with a heading."""
    heading = el("h2", title, id=f"{name}-title")
    return el("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


LETTER = 6.4
"""Width of a letter at the size that the style gives axis text."""

LEAST_ROOM = 34.0
"""Room for the name of a level."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight line from values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (self.end - self.start) * (value - self.low) / (span or 1.0)


def ticks(low: float, high: float, most: int = 5, integer: bool = False) -> list[float]:
    """Round numbers between `low` and `high`, at most about `most` of them."""
    span = high - low
    if not (span > 0.0 and math.isfinite(span)):
        return [low]
    raw = span / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1.0, 2.0, 2.5, 5.0, 10.0) if power * m >= raw * 0.999)
    if integer:
        step = max(step, 1.0)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def svg(
    width: float, height: float, title: str, text: str, *children: Markup, class_: str = "chart"
) -> Markup:
    """A picture with a title and a description for those who do not see it."""
    return el(
        "svg",
        el("title", title),
        el("desc", text),
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        class_=class_,
    )


def text(x: float, y: float, words: str, anchor: str = "start", class_: str = "") -> Markup:
    """Words at a place."""
    return el("text", words, x=x, y=y, text_anchor=anchor, class_=class_)


def mark(x: float, y: float, words: str, width: float) -> Markup:
    """Words under a tick, moved inside a picture of some width."""
    half = LETTER * len(words) / 2.0
    return text(min(max(x, half), width - half), y, words, "middle")


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """A straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(x: float, y: float, width: float, height: float, class_: str, title: str = "") -> Markup:
    """A rectangle, with a tip for the pointer."""
    inner = [el("title", title)] if title else []
    return el("rect", inner, x=x, y=y, width=width, height=height, class_=class_)


def shorten(words: str, room: float) -> str:
    """`words`, cut with an ellipsis where they need more than `room`."""
    most = max(int(room / LETTER), 2)
    return words if len(words) <= most else words[: most - 1] + "…"
