"""The estimate after the last round: coefficients, covariance, and which of them are identified.

``cov = S + N + H``: sampling, ``A^-1 (sum u u') A^-1`` as HC1 has it; privacy, the second moment of
the ensemble's errors; and what the last clip may hide.

`Steps` leads there, from what a release holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpbinagg.analyst.linalg import inverse_root, project_psd, spectrum, symmetric
from dpbinagg.analyst.ols import tails
from dpbinagg.analyst.ols.coordinates import Plan
from dpbinagg.analyst.ols.rounds import RATIO, TAIL_CELL, clipped_sd, tail_place, update
from dpbinagg.analyst.ols.start import (
    TOLERATED,
    State,
    away,
    constant_of,
    leaning,
    rewhitened,
    start,
)
from dpbinagg.analyst.types import Array, Estimate
from dpbinagg.public.rounds import RoundAnswer, RoundRequest

NAME = "refined"
LEAST_DIRECTION = 0.2
"""Least variance of the residuals in a direction, in that over all."""
CLIPPED = "Contributions of single records were cut"
"""How the note on clipping begins."""
LEAST_SHARE = 1e-4
"""Share of cut contributions below which a note says "hardly any"."""


@dataclass(frozen=True)
class Fitted:
    """The estimator's end.

    Attributes
    ----------
    state : State
        After the last round.
    request, answer, scales
        Of the last round.
    before : Tail
        The tail as the round before it saw it.
    """

    state: State
    request: RoundRequest
    answer: RoundAnswer
    scales: RoundAnswer
    before: tails.Tail

    @cached_property
    def tail(self) -> tails.Tail:
        """The tail, by both last rounds."""
        edges, usual = self.request.edges, math.sqrt(self.state.size) * self._clipped_sd
        place = tail_place(edges, TAIL_CELL * usual)
        counts, sd = self.answer.counts[place:], float(self.scales.counts[0])
        return tails.both(self.before, tails.fit(counts, edges[place:], sd))

    @cached_property
    def _clipped_sd(self) -> float:
        return clipped_sd(self.state, self.request, self.answer)

    @cached_property
    def _lifted(self) -> Array:
        return spectrum(self.state.gram, self.state.noise).lifted

    @cached_property
    def bread(self) -> Array:
        """``A^-1``."""
        return np.asarray(np.linalg.inv(self._lifted))

    @cached_property
    def number_cut(self) -> float:
        """Expected number of contributions cut."""
        assert self.answer.direction is not None
        assert self.scales.direction is not None
        sd = float(self.scales.direction[0])
        return self.tail.number_cut(self.request.clip, self.answer.direction, sd)

    @cached_property
    def _inside(self) -> Array:
        """``sum u u'`` inside the clip: size from the squares, shape from the released matrix.

        In coordinates in which A is n times the identity the matrix departs from a multiple of it
        where an eigenvalue stands out of the edge of the noise. Its trace is the sum of ``|u|^2``.
        """
        answer, state = self.answer, self.state
        assert answer.meat is not None
        assert self.scales.meat is not None
        forth, back = inverse_root(self._lifted, 1e-9)
        spread = symmetric(forth @ answer.meat @ forth)
        edge = math.sqrt(2.0 * state.size) * float(self.scales.meat[0, 0]) / state.nobs
        mean = max(float(np.trace(spread)) / state.size, edge / 10.0)
        values, vectors = np.linalg.eigh(spread - mean * np.eye(state.size))
        values = np.where(np.abs(values) > edge, values / mean, 0.0)
        shape = (vectors * np.maximum(1.0 + values, LEAST_DIRECTION)) @ vectors.T
        meat = symmetric(back @ shape @ back)
        return np.asarray(meat * (self._inside_size / float(np.trace(meat))))

    @property
    def _inside_size(self) -> float:
        return self._clipped_sd**2 * self.state.size * self.state.nobs

    @cached_property
    def _cut_size(self) -> float:
        """What is seen beyond the clip of the sum of ``|u|^2``.

        What may be there unseen is not added: it is never negative, and would only ever add.
        """
        edges, sd = self.request.edges, float(self.scales.counts[0])
        end = tails.run_end(self.answer.counts, edges, sd, tails.STANDS)
        seen = np.where(edges < end, self.answer.counts, 0.0)
        return max(float(seen @ np.maximum(edges**2 * RATIO - self.request.clip**2, 0.0)), 0.0)

    @cached_property
    def _cut(self) -> Array:
        """Its matrix: half in the shape inside the clip, half along the directions of the cut."""
        own, along = self._inside / self._inside_size, self._cut_directions
        size = float(np.trace(along))
        # Where nothing was cut there are no directions of it.
        along = along / size if size > 0.0 else own
        return np.asarray(self._cut_size * (own + along) / 2.0)

    @property
    def meat(self) -> Array:
        """``sum u u'``, as far as it is seen."""
        return np.asarray(self._inside + self._cut)

    @cached_property
    def _cut_directions(self) -> Array:
        """Second moment of the sum of the directions of what was cut."""
        assert self.answer.direction is not None
        assert self.scales.direction is not None
        sd = float(self.scales.direction[0])
        return tails.directions(self.answer.direction, sd, self.number_cut)

    @cached_property
    def sampling(self) -> Array:
        """``n/(n - k) A^-1 meat A^-1``."""
        n, k = self.state.nobs, self.state.size
        return symmetric(self.bread @ self.meat @ self.bread) * n / max(n - k, 1.0)

    @cached_property
    def privacy(self) -> Array:
        """Mean of ``e e'`` over the ensemble."""
        errors = self.state.errors
        return np.asarray(errors.T @ errors / len(errors))

    @cached_property
    def hidden(self) -> Array:
        """What the last clip hides: mean excess of what was cut, along the directions that were.

        The score lacks what was cut: the noise of that is not in it, but its mean is. So the two
        are not added. HC1 has the first, and only by what the second exceeds it, it is more.
        """
        mean = self.tail.mean_excess(self.request.clip)
        more = project_psd(symmetric(mean**2 * self._cut_directions - self._cut))
        return symmetric(self.bread @ more @ self.bread)

    @cached_property
    def cov(self) -> Array:
        """Of the whitened coefficients."""
        return np.asarray(self.sampling + self.privacy + self.hidden)

    @cached_property
    def scale(self) -> float:
        """Error variance: ``sum |u|^2 / sum |w|^2``, as far as it is seen, less its lean."""
        return self._weighted * self.lean[0]

    @property
    def _weighted(self) -> float:
        return (self._inside_size + self._cut_size) / float(np.trace(self._lifted))

    @cached_property
    def lean(self) -> tuple[float, float]:
        """Mean square of residuals over that weighed by leverage, and its noise; 1 if not seen.

        With o the constant, ``w'o = 1``, the first is ``o'M o/o'A o`` and the second
        ``tr(A^-1 M)/k``, M the matrix of squares: where people far out vary more the second is
        larger. The ratio counts where it departs from 1 by more than its noise may.
        """
        answer, scales = self.answer, self.scales
        assert answer.meat is not None
        assert scales.meat is not None
        one = constant_of(self.state)
        if one is None:
            return 1.0, 0.0
        size = float(one @ self._lifted @ one)
        mean = float(np.trace(self.bread @ answer.meat)) / self.state.size
        least = float(scales.meat[0, 0]) / self.state.nobs
        noise2 = scales.meat**2 * np.outer(one**2, one**2)
        sd = math.sqrt(2.0 * float(noise2.sum()) - float(np.trace(noise2))) / size
        ratio, sd = float(one @ answer.meat @ one) / size / max(mean, least), sd / max(mean, least)
        if abs(ratio - 1.0) <= tails.STANDS * sd:
            return 1.0, 0.0
        return max(ratio, LEAST_DIRECTION), sd

    @cached_property
    def start(self) -> Array:
        """Second moment of what is left of the start, in design coefficients, (p, p).

        Combinations that no record had are left to the start altogether.
        """
        state, null = self.state, self.state.public.null
        second = leaning(state, state.start, state.whitening.T)
        if len(null):
            second = second + away(state) * null.T @ null
        return symmetric(second)

    def estimate(self) -> Estimate:
        """In the coefficients of the design."""
        state, back = self.state, self.state.whitening.T
        cov = symmetric(back @ self.cov @ back.T)
        left = np.sqrt(np.diag(self.start))
        found = (left <= TOLERATED * np.sqrt(np.diag(cov))) & ~state.public.lost
        return Estimate(
            name=NAME,
            params=state.params,
            cov=cov,
            noise_cov=symmetric(back @ (self.privacy + self.hidden) @ back.T),
            scale=self.scale,
            df_resid=max(state.nobs - state.size, 1.0),
            nobs=state.nobs,
            cov_type="HC1",
            notes=(self.note(),),
            identified=bool(found.all()),
            identified_terms=found,
            dependence=self.start,
        )

    def note(self) -> str:
        """How far records may pull, and how many of them pull less than they would."""
        usual = self.request.clip / (math.sqrt(self.state.size) * math.sqrt(self._weighted))
        share = self.number_cut / self.state.nobs
        count = f"about {100 * share:.2g}%" if share >= LEAST_SHARE else "hardly any"
        size = f"{usual:.1f}" if usual < 10.0 else f"about {float(f'{usual:.2g}'):,.0f}"
        return (
            f"{CLIPPED} at {size} times their usual size: {count} of them. What that may hide is "
            "in the standard errors."
        )


SAME = 1e-5
"""Relative difference of coordinates that rounding on another machine may make."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Where the moments and the rounds so far led.

    Attributes
    ----------
    plan : Plan
    first, state : State
        After the moments, and now.
    fitted : Fitted or None
        The end, once the last round is over.
    """

    plan: Plan
    first: State
    state: State
    fitted: Fitted | None = None

    @classmethod
    def start(
        cls,
        plan: Plan,
        products: Array,
        sd: Array,
        count: tuple[float, float],
        alone: bool = False,
    ) -> Steps:
        """After the moments, of which rounds follow or which stand alone."""
        state = start(plan.layout, plan.public, plan.moments, products, sd, count, alone)
        return cls(plan, state, state)

    def taken(
        self, state: State, request: RoundRequest, answer: RoundAnswer, scales: RoundAnswer
    ) -> Steps:
        """One round on, from the state in whose coordinates it was asked."""
        after = update(state, request, answer, scales)
        fitted = None
        if request.last and state.tail is not None:
            fitted = Fitted(after, request, answer, scales, state.tail)
        return replace(self, state=after, fitted=fitted)

    def replayed(self, request: RoundRequest, answer: RoundAnswer, scales: RoundAnswer) -> Steps:
        """One round on, from a request that was saved."""
        state = rewhitened(self.state)
        expected = state.whitening @ self.plan.layout.design_map.T
        size = np.abs(expected).max()
        if request.whitening.shape != expected.shape or not np.allclose(
            request.whitening, expected, rtol=0.0, atol=SAME * size
        ):
            raise ValueError("a round was asked in other coordinates than its release leads to")
        return self.taken(state, request, answer, scales)
