"""What counts of cells usually are, by those of the cells beside them."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dpttrf, dpttrs

from dpbinagg.analyst.synthesis.heaps import BESIDE, heap_at_end, without_heaps
from dpbinagg.analyst.types import Array

FEW_CELLS = 8
"""Fewer cells say too little of how densities wander."""

OWN = (0.0, 0.1, 0.2, 0.4, 0.8)
"""Spread of the counts of cells around a smooth density, in these counts, that are tried. With the
largest, cells are values with gaps between them, of which a normal law says nothing."""

WANDERS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Spread of a density from a cell to the next, in the density, that are tried."""


def usual_counts(
    noisy: Array, weight: Array, width: Array, sd: float
) -> tuple[Array, Array] | None:
    """Counts that follow from those beside, and how far counts usually lie from these, (B,) each.

    A density d wanders from cell to cell; records fall into cells by chance, and prefer some:

        d_{k+1} = d_k + tau d_k e_k,
        t_k = w_k d_k + sqrt(w_k d_k + phi^2 (w_k d_k)^2) e'_k,    y_k = t_k + s e''_k,

    e, e', e'' standard normal. tau and phi are those under which noisy counts y are most likely;
    d has its mean given y; variances, in which d stands too, are those of a first look at it.
    Heaps say nothing of other cells, and others nothing of them.

    Parameters
    ----------
    noisy, weight : (B,) arrays
        y, and counts without noise as far as they are known, which show heaps.
    width : (B,) array
        w.
    sd : float
        s.

    Returns
    -------
    (counts, spread) or None
        None where cells tell nothing of each other.
    """
    if len(noisy) < FEW_CELLS or sd <= 0.0 or (width <= 0.0).any():
        return None
    apart = without_heaps(weight, width, sd) < weight
    apart[[0, -1]] |= [heap_at_end(weight, width, sd, end) for end in (0, -1)]
    around = np.pad(np.where(apart, 0.0, noisy), BESIDE, mode="edge")
    kernel = np.full(2 * BESIDE + 1, 1.0 / (2 * BESIDE + 1))
    pilot = np.maximum(np.convolve(around, kernel, "valid"), sd)
    step = (pilot / width)[1:] / 2.0 + (pilot / width)[:-1] / 2.0
    density, best, chosen = noisy / width, -np.inf, None
    for phi in OWN:
        own = pilot + (phi * pilot) ** 2
        precision = np.where(apart, 0.0, width**2 / (own + sd**2))
        weighed, known = precision * density, float(np.sum(np.log(precision[~apart])))
        for tau in WANDERS:
            link = (tau * step) ** -2.0
            diagonal = precision.copy()
            diagonal[1:] += link
            diagonal[:-1] += link
            # The precision of d given y, L D L', and what it makes of y.
            *root, failed = dpttrf(diagonal, -link)
            if failed:
                continue
            mean, _ = dpttrs(*root, weighed)
            # The logarithm of the likelihood of y, d integrated out, up to a constant, twice.
            value = known - 2.0 * len(step) * math.log(tau)
            value -= float(np.sum(np.log(root[0]))) + float(weighed @ (density - mean))
            if value > best:
                best, chosen = value, (phi, np.maximum(mean * width, 0.0), np.sqrt(own))
    if chosen is None or chosen[0] == OWN[-1]:
        return None
    return chosen[1], np.where(apart, np.inf, chosen[2])
