"""What the clip of the last round hides, and in which direction.

Residuals cut at C lose the mean h(x) = E[(r - C)+ - (-r - C)+ | x].  Where h is the same for
all x only the intercept moves.  Where errors differ in scale h follows it, and slopes move
as well: by the projection of h on the design.  The tails tell the mean of h, the
squares of the residuals in which direction their scale grows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbinagg.analyst.refinement.state import State
from dpbinagg.analyst.refinement.tails import Excess
from dpbinagg.analyst.types import Array

STEEPNESS = 2.5
"""Relative slope of h in units of that of the mean clipped square.

For skewed errors whose scale is linear in a covariate: h is in the tail, which grows faster.
"""

ELSEWHERE, ALONG, DOUBT = 0.8, 1.5, 1.0
"""Standard deviations of what is left of the bias, in whitened units: for a hidden mean known to
1, in any direction and in the expected one; and for a hidden mean of 1 that was corrected."""

ANYWHERE = 1.3
"""The same for a hidden mean of 1 where the model has no intercept and nothing is corrected."""


def reveal(state: State, excess: Excess) -> State:
    """Correct the estimate for what the last clip is expected to hide.

    With d the projection of ``h / E[h]`` (see `direction`) and m the expected hidden mean, the
    estimate moves by m d; what is left has covariance
    ``Var[m] (ELSEWHERE^2 I + ALONG^2 d d') + DOUBT^2 m^2 I``.
    """
    identity = np.eye(state.theta.size)
    expected, square = excess.hidden(state.clip), float(excess.hidden2(state.clip))
    along = direction(state)
    if along is None:
        return replace(state, hidden=ANYWHERE**2 * square * identity)
    doubt = max(square - expected**2, 0.0)
    left = doubt * (ELSEWHERE**2 * identity + ALONG**2 * np.outer(along, along))
    return replace(
        state,
        theta=state.theta + expected * (state.whitening.T @ along),
        hidden=left + (DOUBT * expected) ** 2 * identity,
    )


def direction(state: State) -> Array | None:
    """Expected projection of ``h / E[h]`` on the whitened columns; None without an intercept.

    With ``c'w = 1`` for every record and D the departure of the mean clipped squares from their
    overall mean (see `Directions`), ``c + STEEPNESS D c / mean`` in coordinates in which the
    matrix is n times the identity.
    """
    found = state.directions
    if found is None or np.linalg.norm(state.q[0]) < 1.0 - 1e-6:
        return None
    constant = np.linalg.solve(state.whitening.T, state.q[0])
    root = found.inverse_root * np.sqrt(state.nobs)
    centred = found.root @ constant / np.sqrt(state.nobs)
    departure = (found.vectors * (found.means - found.mean)) @ found.vectors.T
    return np.asarray(root @ (centred + STEEPNESS * (departure @ centred) / found.mean))
