"""Colours of the pictures: Okabe and Ito's, which colour-blind readers can tell apart."""

from __future__ import annotations

PRIVATE, NAIVE, SYNTHETIC, RELEASED = "#0072B2", "#D55E00", "#56B4E9", "#000000"
"""Estimates with the noise accounted for, without; synthetic records, released numbers."""

INK, GRID = "#333333", "#D9D9D9"

SEQUENTIAL = (
    "#F4F8FC",
    "#DCE9F5",
    "#BFD8EC",
    "#98C4E0",
    "#68A9D0",
    "#3F8BBE",
    "#1F6BA6",
    "#0B4A82",
    "#062C54",
)
"""From nothing to most, light to dark."""

SEQUENTIAL_DARK = (
    "#17202A",
    "#1B2F42",
    "#1F435F",
    "#265B80",
    "#3277A2",
    "#4A95C2",
    "#74B4DA",
    "#A8D3EC",
    "#E2F2FB",
)
"""The same on a dark ground: dark to light."""
