"""Row maps: what the curator computes from a clean record, handed to it from outside."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpbinagg.formula import Design
from dpbinagg.formula.coded import CodedDesign
from dpbinagg.formula.layout import coded_scaling
from dpbinagg.kernel.view import Rows
from dpbinagg.public.boxes import Records
from dpbinagg.public.scaling import column_scaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class DesignRows:
    """Design columns and response of clean records."""

    design: Design

    def __call__(self, records: Records) -> tuple[Floats, Floats, Integers]:
        columns, response = self.design.columns(records), self.design.response(records)
        return columns, response, np.empty((0, len(response)), dtype=np.int64)


@lru_cache(maxsize=16)
def rows_of(design: Design) -> Rows:
    """The row map of a design, columns scaled to [-1, 1] over its domain."""
    scaling = column_scaling(design)
    return Rows(
        DesignRows(design), scaling.centre, scaling.scale, scaling.centre_y, scaling.scale_y
    )


@lru_cache(maxsize=16)
def coded_rows(design: Design) -> Rows:
    """The row map with factors as codes, numbers scaled to [-1, 1] over the design's domain."""
    coded, scaling = CodedDesign(design), coded_scaling(design)
    return Rows(
        coded,
        scaling.centre,
        scaling.scale,
        scaling.centre_y,
        scaling.scale_y,
        tuple(len(matrix) for matrix, _ in coded.matrices),
    )
