"""Small pictures as SVG, drawn without matplotlib; colours come from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbinagg.report.inference import CELL
from dpbinagg.report.margins import Counts, Margin
from dpbinagg.report.markup import (
    LEAST_ROOM,
    LETTER,
    Markup,
    Scale,
    el,
    join,
    line,
    mark,
    number,
    rect,
    shorten,
    svg,
    text,
    ticks,
)
from dpbinagg.report.pictures import Axis, Coefficients, Density, Floats, Means, Series
from dpbinagg.report.tables import significant

LEVELS = 9
"""Shades of the densities."""


def _marks(axis: Axis, scale: Scale) -> list[tuple[float, str]]:
    """Coordinates and words of an axis."""
    if axis.labels is not None:
        return [(scale(x), label) for x, label in zip(axis.centres, axis.labels, strict=True)]
    values = ticks(float(axis.edges[0]), float(axis.edges[-1]), 5, axis.integer)
    return [(scale(value), significant(value)) for value in values]


def _below(axis: Axis, scale: Scale, y: float) -> list[Markup]:
    """Words under a picture; where there is no room for all levels, some of them."""
    marks = _marks(axis, scale)
    room = abs(scale.end - scale.start) / max(len(marks), 1)
    if axis.labels is None:
        return [mark(x, y, word, scale.end + 8.0) for x, word in marks]
    step = max(math.ceil(LEAST_ROOM / room), 1)
    return [text(x, y, shorten(word, room * step - 4.0), "middle") for x, word in marks[::step]]


def coefficient_chart(shown: Coefficients) -> Markup:
    """One row for each coefficient: its name, then one interval below the other."""
    width, pad, top = 400.0, 12.0, 6.0
    row = 26.0 + 13.0 * len(shown.series)
    ends = np.array([[series.low, series.high] for series in shown.series])
    ends = ends[np.isfinite(ends)]
    low, high = (min(0.0, ends.min()), max(0.0, ends.max())) if ends.size else (0.0, 1.0)
    spare = 0.03 * (high - low or 1.0)
    scale = Scale(low - spare, high + spare, pad, width - pad)
    bottom = top + row * len(shown.names)
    parts = []
    for value in ticks(scale.low, scale.high, 7):
        parts.append(
            line(scale(value), top, scale(value), bottom, "zero" if value == 0 else "grid")
        )
        parts.append(mark(scale(value), bottom + 16.0, significant(value), width))
    for place, name in enumerate(shown.names):
        y = top + row * place
        parts.append(text(pad, y + 14.0, shorten(name, width - 2 * pad), class_="name"))
        for i, series in enumerate(shown.series):
            kind = "naive" if series.name == "naive" else "private"
            middle, start, end = (series.estimate[place], series.low[place], series.high[place])
            level = y + 25.0 + 13.0 * i
            parts.append(interval_mark(scale, level, float(middle), float(start), float(end), kind))
    spoken = "; ".join(
        f"{name}: " + ", ".join(_spoken(series, place) for series in shown.series)
        for place, name in enumerate(shown.names)
    )
    title = f"Coefficients with {100 * shown.level:g}% intervals"
    return svg(width, bottom + 24.0, title, spoken, *parts, class_="chart big")


def _spoken(series: Series, place: int) -> str:
    values = (series.estimate[place], series.low[place], series.high[place])
    if math.isnan(values[0]):
        return f"{series.name} {CELL}"
    middle, low, high = (significant(float(value), 3) for value in values)
    return f"{series.name} {middle} ({low} to {high})"


def interval_mark(
    scale: Scale, y: float, middle: float, low: float, high: float, kind: str
) -> Markup:
    """An interval with its middle: a dot, or an open square for what is naive."""
    if not all(map(math.isfinite, (middle, low, high))):
        return Markup("")
    x = scale(middle)
    mark = (
        el("rect", x=x - 3.5, y=y - 3.5, width=7, height=7, class_="mark")
        if kind == "naive"
        else el("circle", cx=x, cy=y, r=4, class_="mark")
    )
    tip = f"{kind}: {significant(middle)} ({significant(low)} to {significant(high)})"
    return el("g", el("title", tip), line(scale(low), y, scale(high), y, "bar"), mark, class_=kind)


def density_chart(shown: Density) -> Markup:
    """Bins over two variables, shaded by the noisy count per area."""
    width, height, left, top, right = 300.0, 262.0, 46.0, 20.0, 8.0
    if shown.y.labels is not None:
        longest = max(len(label) for label in shown.y.labels)
        left = min(12.0 + LETTER * longest, 92.0)
    bottom = 200.0
    x = Scale(float(shown.x.edges[0]), float(shown.x.edges[-1]), left, width - right)
    y = Scale(float(shown.y.edges[0]), float(shown.y.edges[-1]), bottom, top)
    shades = (shown.values / shown.top) ** shown.power * LEVELS
    shades = np.clip(np.ceil(shades) - 1, 0, LEVELS - 1).astype(int)
    cells = [""] * LEVELS
    xs = [x(float(edge)) for edge in shown.x.edges]
    ys = [y(float(edge)) for edge in shown.y.edges]
    for i in range(shades.shape[0]):
        for j in range(shades.shape[1]):
            cells[shades[i, j]] += (
                f"M{number(xs[i])} {number(ys[j])}H{number(xs[i + 1])}"
                f"V{number(ys[j + 1])}H{number(xs[i])}Z"
            )
    edges = " edged" if max(shades.shape) <= 40 else ""
    parts = [el("path", d=d, class_=f"q{k}{edges}") for k, d in enumerate(cells) if d]
    parts += _below(shown.x, x, bottom + 15.0)
    parts.append(text((left + width - right) / 2.0, bottom + 31.0, shown.x.name, "middle", "name"))
    parts += [
        text(left - 5.0, at + 4.0, shorten(word, left - 6.0), "end")
        for at, word in _marks(shown.y, y)
    ]
    parts.append(text(left, 13.0, shorten(shown.y.name, width - left), class_="name"))
    parts.append(_key(left, bottom + 42.0, shown.top))
    spoken = f"Noisy counts per unit of area, up to {_short(float(shown.values.max()))}."
    return svg(width, height, f"Bins over {shown.x.name} and {shown.y.name}", spoken, *parts)


def _key(x: float, y: float, most: float) -> Markup:
    boxes = [rect(x + 12.0 + 11.0 * k, y, 11.0, 9.0, f"q{k}") for k in range(LEVELS)]
    after = x + 16.0 + 11.0 * LEVELS
    return join([text(x, y + 9.0, "0"), *boxes, text(after, y + 9.0, f"{_short(most)} per unit")])


def _short(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= value < 1e15 else significant(value, 3)


def means_chart(shown: Means) -> Markup:
    """Noisy means of the response over one variable, and the fitted ones."""
    width, height, left, top, bottom = 300.0, 222.0, 46.0, 20.0, 180.0
    values = [shown.mean - shown.half, shown.mean + shown.half]
    if shown.fitted is not None:
        values.append(shown.fitted)
    found = np.concatenate(values)
    found = found[np.isfinite(found)]
    low, high = (float(found.min()), float(found.max())) if found.size else (0.0, 1.0)
    spare = 0.06 * (high - low or 1.0)
    x = Scale(float(shown.x.edges[0]), float(shown.x.edges[-1]), left, width - 8.0)
    y = Scale(low - spare, high + spare, bottom, top)
    parts = []
    for value in ticks(y.low, y.high, 5):
        parts.append(line(left, y(value), width - 8.0, y(value), "grid"))
        parts.append(text(left - 5.0, y(value) + 4.0, significant(value), "end"))
    for i, (mean, half) in enumerate(zip(shown.mean, shown.half, strict=True)):
        if math.isfinite(mean) and math.isfinite(half):
            parts.append(_mean(shown, i, x, y))
    parts += _below(shown.x, x, bottom + 15.0)
    parts.append(text((left + width) / 2.0, bottom + 31.0, shown.x.name, "middle", "name"))
    parts.append(text(left, 13.0, shorten(f"mean of {shown.response}", width - left)))
    spoken = f"Means of {shown.response} over {shown.x.name} with 95% intervals for the noise."
    return svg(width, height, f"{shown.response} by {shown.x.name}", spoken, *parts)


def _mean(shown: Means, i: int, x: Scale, y: Scale) -> Markup:
    mean, half = float(shown.mean[i]), float(shown.half[i])
    start, end = x(float(shown.x.edges[i])), x(float(shown.x.edges[i + 1]))
    middle = (start + end) / 2.0
    parts = [
        el("title", f"mean {significant(mean)}, noise ±{significant(half, 2)}"),
        line(middle, y(mean - half), middle, y(mean + half), "bar"),
    ]
    if not shown.x.categorical:
        parts.append(line(start, y(mean), end, y(mean), "bar"))
    parts.append(el("circle", cx=middle, cy=y(mean), r=3.2, class_="mark"))
    group = el("g", *parts, class_="private")
    if shown.fitted is None or not math.isfinite(shown.fitted[i]):
        return group
    at = y(float(shown.fitted[i]))
    diamond = f"M{number(middle)} {number(at - 5)}l5 5l-5 5l-5 -5Z"
    return join([group, el("g", el("path", d=diamond, class_="mark"), class_="naive")])


def margin_chart(shown: Margin) -> Markup:
    """Synthetic records as bars, what was released as line and band."""
    width, height, left, right, top, bottom = 300.0, 182.0, 8.0, 292.0, 22.0, 158.0
    x = Scale(float(shown.edges[0]), float(shown.edges[-1]), left, right)
    y = Scale(0.0, shown.top, bottom, top)
    parts = [text(left, 13.0, shorten(shown.name, width - 16.0), class_="name")]
    parts += _bars(shown, x, y)
    if shown.counts is not None:
        draw = _step if shown.labels is None else _points
        parts += draw(shown.counts, x, y)
    if shown.mean is not None:
        value, half = shown.mean
        start, end = x(value - half), x(value + half)
        parts.append(rect(start, top, max(end - start, 0.5), bottom - top, "band"))
        parts.append(line(x(value), top, x(value), bottom, "released"))
    parts.append(line(left, bottom, right, bottom, "axis"))
    axis = Axis(shown.name, shown.edges, shown.labels, np.empty((0, 0)), shown.integer)
    parts += _below(axis, x, bottom + 15.0)
    return svg(width, height, f"{shown.name}: synthetic and released", _margin_words(shown), *parts)


def _margin_words(shown: Margin) -> str:
    if shown.mean is not None:
        return (
            f"Released mean {significant(shown.mean[0])}, noise ±{significant(shown.mean[1], 2)}."
        )
    if shown.labels is None or shown.counts is None:
        return "Histogram of the synthetic records against the shares from noisy bin counts."
    pairs = zip(shown.labels, shown.counts.spread, shown.synthetic, strict=True)
    return "; ".join(f"{label}: released {a:.0%}, synthetic {b:.0%}" for label, a, b in pairs)


def _bars(shown: Margin, x: Scale, y: Scale) -> list[Markup]:
    gap = 0.1 if shown.labels is not None else 0.0
    bars = []
    for i, value in enumerate(shown.synthetic):
        low, high = shown.edges[i], shown.edges[i + 1]
        start, end = x(float(low + gap * (high - low))), x(float(high - gap * (high - low)))
        share = float(value * (high - low))
        where = (
            shown.labels[i]
            if shown.labels is not None
            else f"{significant(float(low))} to {significant(float(high))}"
        )
        top = y(float(value))
        tip = f"{where}: {share:.1%} of synthetic records"
        bars.append(rect(start, top, end - start, y(0.0) - top, "synthetic", tip))
    return bars


def _step(shown: Counts, x: Scale, y: Scale) -> list[Markup]:
    across = [x(float(edge)) for edge in np.repeat(shown.edges, 2)[1:-1]]

    def path(values: Floats) -> list[str]:
        heights = [_height(float(value), y) for value in np.repeat(values, 2)]
        return [f"{number(a)} {number(b)}" for a, b in zip(across, heights, strict=True)]

    band = "M" + "L".join([*path(shown.high), *path(shown.low)[::-1]]) + "Z"
    steps = "M" + "L".join(path(shown.spread))
    return [el("path", d=band, class_="band"), el("path", d=steps, class_="released")]


def _points(shown: Counts, x: Scale, y: Scale) -> list[Markup]:
    parts = []
    rows = zip(shown.low, shown.spread, shown.high, strict=True)
    for i, (low, value, high) in enumerate(rows):
        bottom, at, top = (_height(float(share), y) for share in (low, value, high))
        start, end = x(i + 0.35), x(i + 0.65)
        parts.append(rect(start, top, end - start, max(bottom - top, 1.0), "band"))
        parts.append(line(start, at, end, at, "released"))
    return parts


def _height(value: float, y: Scale) -> float:
    """Where a share is drawn, within the picture."""
    return y(min(max(value, 0.0), y.high))


def curve_chart(
    points: Sequence[tuple[float, float]], at: tuple[float, float]
) -> tuple[Markup, list[tuple[float, float]]]:
    """The curve of epsilon over log10 delta, and the coordinates of its points.

    `at` is the point where the marker stands.
    """
    width, height, left, right, top, bottom = 400.0, 262.0, 50.0, 390.0, 24.0, 214.0
    most = max(epsilon for _, epsilon in points)
    x = Scale(0.0, most * 1.03 or 1.0, left, right)
    y = Scale(min(exponent for exponent, _ in points), 0.0, bottom, top)
    parts = [text(8.0, 13.0, "delta")]
    for value in ticks(0.0, x.high, 6):
        parts.append(line(x(value), top, x(value), bottom, "grid"))
        parts.append(text(x(value), bottom + 16.0, significant(value), "middle"))
    for exponent in range(int(y.low), 1, 2):
        parts.append(line(left, y(exponent), right, y(exponent), "grid"))
        word = "1" if exponent == 0 else f"1e{exponent}"
        parts.append(text(left - 6.0, y(exponent) + 4.0, word, "end"))
    parts.append(text((left + right) / 2.0, bottom + 36.0, "epsilon", "middle"))
    places = [(x(epsilon), y(exponent)) for exponent, epsilon in points]
    d = "M" + "L".join(f"{number(a)} {number(b)}" for a, b in places)
    parts.append(el("path", d=d, class_="curve"))
    a, b = x(at[1]), y(at[0])
    cross = f"M{number(a)} {number(bottom)}V{number(b)}H{number(left)}"
    parts.append(el("path", d=cross, class_="cross", id="cross"))
    parts.append(el("circle", cx=a, cy=b, r=6, class_="spot", id="spot"))
    spoken = "; ".join(f"delta 1e{e:.0f}: epsilon {v:.3g}" for e, v in points if e == round(e))
    title = "Epsilon and delta of this release"
    return svg(width, height, title, spoken, *parts, class_="chart big"), places
