"""The rounds of the refinement: how many, and how the budget is spread over them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbinagg.public.rounds import GroupWeights


@dataclass(frozen=True, slots=True)
class Round:
    """Constants of one round: share of the budget, clip in sds, weights of the groups."""

    share: float
    clip: float
    weights: GroupWeights


Schedule = tuple[Round, ...]

LONG: Schedule = (
    Round(0.05, 2.5, GroupWeights(hessian=1.0, norms=0.3)),
    Round(0.07, 2.5, GroupWeights(hessian=1.0, norms=0.3)),
    Round(0.10, 2.5, GroupWeights(hessian=1.0, tails=0.8, norms=0.4)),
    Round(0.18, 2.5, GroupWeights(hessian=0.7, tails=0.8)),
    Round(0.60, 2.0, GroupWeights(hessian=0.4)),
)
"""Two rounds to approach, two that also probe the tails, one to finish (its clip is the least
one).  Early rounds are cheap: each divides the error of prediction by 5 to 25, and what they
learn is kept."""

ONE: Schedule = (Round(1.0, 50.0, GroupWeights(hessian=0.4, tails=0.8)),)
"""Where noise allows a clip so wide that it hides next to nothing: no need to look at the tails
before. With lognormal errors and 1e8 records a few hundredths of a standard error are hidden."""

AMPLE = 2.0
"""How much wider still noise must allow that clip to be: the spread of the residuals is not well
known before the first round."""

NEAR = 0.01
"""Error of prediction, in error variances, under which one round may be enough: the average
hides directions that the first estimate does not resolve."""


def round_mus(mu: float, schedule: Schedule) -> tuple[float, ...]:
    """Split the mu of the scores over the rounds."""
    total = sum(r.share for r in schedule)
    return tuple(mu * math.sqrt(r.share / total) * (1.0 - 2.0**-50) for r in schedule)
