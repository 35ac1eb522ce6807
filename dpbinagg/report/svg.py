"""Primitives of the SVG pictures: scales, ticks, lines and words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbinagg.report.markup import Markup, el, number

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
