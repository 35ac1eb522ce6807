"""Row maps with their public scales, as they are handed to the curator."""

from __future__ import annotations

from functools import lru_cache

from dpbinagg.formula import Design
from dpbinagg.formula.scaling import column_scaling, row_layout
from dpbinagg.kernel.view import Rows


@lru_cache(maxsize=16)
def rows_of(design: Design) -> Rows:
    """The row map of a design, columns scaled to [-1, 1] over its domain."""
    scaling = column_scaling(design)
    return Rows(design.row_map(), scaling.centre, scaling.scale, scaling.centre_y, scaling.scale_y)


@lru_cache(maxsize=16)
def coded_rows(design: Design) -> Rows:
    """The row map with factors as codes, numbers scaled to [-1, 1] over the design's domain."""
    layout, scaling = row_layout(design), row_layout(design).scaling
    return Rows(
        layout.row_map,
        scaling.centre,
        scaling.scale,
        scaling.centre_y,
        scaling.scale_y,
        layout.levels,
    )
