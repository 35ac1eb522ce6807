"""HTML and SVG from nested calls; text is escaped unless it is markup already."""

from __future__ import annotations

from collections.abc import Iterable
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
