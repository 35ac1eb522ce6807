"""The category that the coefficients of a factor compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbinagg.formula import Design
from dpbinagg.report.labels import label, readable
from dpbinagg.report.tables import listed

MOST_FACTORS = 12
"""Factors that a note lists."""


def references(design: Design) -> dict[str, Any]:
    """The reference level of each factor that has one, by the factor's readable name.

    A factor has one where its columns are indicators of all levels but that one, so that a
    row of its contrast matrix is zero.
    """
    found: dict[str, Any] = {}
    info = design.design_info
    for subterms in info.term_codings.values():
        for subterm in subterms:
            for factor, contrast in subterm.contrast_matrices.items():
                matrix = np.asarray(contrast.matrix)
                empty = np.flatnonzero(~matrix.any(axis=1))
                if len(empty) == 1 and np.isin(matrix, (0.0, 1.0)).all():
                    level = info.factor_infos[factor].categories[empty[0]]
                    found.setdefault(readable(factor.name()), level)
    return found


def balanced(design: Design) -> list[str]:
    """Readable names of factors whose levels are compared with the mean over levels."""
    contrasts = [
        (readable(factor.name()), np.asarray(contrast.matrix))
        for subterms in design.design_info.term_codings.values()
        for subterm in subterms
        for factor, contrast in subterm.contrast_matrices.items()
    ]
    return list(
        dict.fromkeys(name for name, matrix in contrasts if (matrix == -1.0).all(axis=1).any())
    )


def reference_notes(design: Design) -> list[str]:
    """What the coefficients of categories mean; nothing of comparisons, false by default."""
    texts = [
        f"{name} = {label(design.domain, name, level)}"
        for name, level in references(design).items()
        if level is not False
    ]
    found = []
    if texts:
        kind = "category" if len(texts) == 1 else "categories"
        shown = listed(texts, MOST_FACTORS)
        found.append(f"Reference {kind}, with which the others are compared: {shown}.")
    means = balanced(design)
    if means:
        found.append(f"Levels of {listed(means)} are compared with the mean over all levels.")
    return found
