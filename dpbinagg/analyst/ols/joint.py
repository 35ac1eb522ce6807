"""Rounds of several models at once: their contributions are one vector, cut as a whole.

With ``v_b = u_b/s_b``, the contribution of model b over its residual standard deviation, a record
has ``v = (v_1, ..., v_B)``. One clip T of |v| gives every score noise in proportion to
``T ~ c (k_1 + ... + k_B)^(1/2)``, as if each model had ``mu/sqrt(B)``; but c may be smaller, since
a record that is far out in one model is seldom so in all. Tails, what a clip hides, and directions
of what was cut are those of v; matrices are asked for model by model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dpbinagg.analyst.linalg import project_psd, symmetric
from dpbinagg.analyst.ols import tails
from dpbinagg.analyst.ols.finish import SAME, Fitted, Steps
from dpbinagg.analyst.ols.rounds import (
    CELLS,
    CLIP,
    FIRST_CELL,
    FIRST_ROUND,
    LEAST_LEFT,
    LONG,
    MEAT_CLIP,
    RATIO,
    REACH,
    SAMPLING,
    SHARES,
    SMALL,
    TAIL_CELL,
    WIDEST,
    plan_round,
    stepped,
    tail_place,
)
from dpbinagg.analyst.types import Array
from dpbinagg.kernel.questions import Answer
from dpbinagg.public.rounds import (
    BEYOND as BEYOND_WEIGHT,
)
from dpbinagg.public.rounds import (
    FAR,
    GRAM,
    JointAnswer,
    JointRequest,
    RoundAnswer,
    RoundRequest,
    joint_norm,
)
from dpbinagg.release.questions import matrix_answer

MATRICES, MEATS = 0.45, 0.11
"""Shares of a round's mu^2 that matrices get, while rounds approach and in the last: what the
weights of a round of one model give them. Models of one design have one matrix of w between them:
with D designs of B models it gets sqrt(D/B) of the share, for what is asked of all scores together
grows with B, and of matrices with D."""
ROUND = 1.6
"""Norm of a round of one model that approaches, over whose parts `rounds._radius` divides mu."""
SQUARES = 3.0
"""T_s in usual lengths of v: their noise grows with its square, and what is beyond is counted."""
GUESSED, CHANGES = 0.5, 0.15
"""Relative doubt in the variance of residuals before a look at them: after the moments, and by how
much a step may change it."""
LAST_CLIP = 2.0
"""T of the last round in usual lengths of v, at least: v varies less than the contributions that it
is made of."""

Matrices = Mapping[str, tuple[dict[str, Array], dict[str, Array]]]
"""By model, the answer about its matrices and its noise; empty where they were not asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One round: what is asked of all models together, and of each.

    Attributes
    ----------
    steps : dict of Steps
        In the coordinates of the requests.
    joint : JointRequest
    each : dict of RoundRequest
        By model; `radius` is None where no matrix is asked for.
    whose : dict of str
        By model, the one whose matrices are asked for in its place: of w the first of its design,
        of contributions itself.
    """

    steps: dict[str, Steps]
    joint: JointRequest
    each: dict[str, RoundRequest]
    whose: dict[str, str]


@dataclass(frozen=True, slots=True)
class Together:
    """The models of a study between rounds.

    Attributes
    ----------
    steps : dict of Steps
        By model.
    tail : Tail or None
        Of |v|, in the units of now.
    tail_end : float
    clip : float
        T of the round before, likewise.
    doubt : (B,) array or None
        Relative, in the variances of residuals.
    """

    steps: dict[str, Steps]
    tail: tails.Tail | None = None
    tail_end: float = 0.0
    clip: float = 0.0
    doubt: Array | None = None

    @property
    def size(self) -> int:
        """Length of v."""
        return sum(steps.state.size for steps in self.steps.values())

    @property
    def nobs(self) -> float:
        """Number of records."""
        return next(iter(self.steps.values())).state.nobs

    def plan(self, mu: float) -> tuple[Asked, float, float]:
        """What to ask next, and the mu's of the joint question and of each about matrices."""
        whose, models = self._whose(), len(self.steps)
        designs = len(set(whose.values()))
        share = MEATS / models if self._last else MATRICES / math.sqrt(models * designs)
        own = mu * math.sqrt(share) * (1.0 - 2.0**-50)
        # Rounds are planned for a mu that the score and its matrices share.
        alone = own * ROUND / math.sqrt(GRAM**2 + BEYOND_WEIGHT**2 + FAR**2)
        planned = {name: plan_round(steps.state, alone) for name, steps in self.steps.items()}
        steps = {
            name: replace(self.steps[name], state=state) for name, (state, _) in planned.items()
        }
        each = {
            name: replace(request, meat_clip=MEAT_CLIP * state.usual)
            for name, (state, request) in planned.items()
        }
        asking = sum(each[name].last or each[name].radius is not None for name in {*whose.values()})
        joint = math.sqrt(mu**2 - asking * own**2) * (1.0 - 2.0**-50)
        return Asked(steps, self._joint(steps, each, joint), each, whose), joint, own

    def _whose(self) -> dict[str, str]:
        """See `Asked`."""
        first: dict[bytes, str] = {}
        maps = {name: one.plan.layout.design_map for name, one in self.steps.items()}
        found = {name: first.setdefault(of_one.tobytes(), name) for name, of_one in maps.items()}
        return {name: name for name in found} if self._last else found

    @property
    def _last(self) -> bool:
        return next(iter(self.steps.values())).state.done == len(SHARES) - 1

    def _joint(
        self, steps: Mapping[str, Steps], each: Mapping[str, RoundRequest], mu: float
    ) -> JointRequest:
        usual, first = math.sqrt(self.size), next(iter(steps.values())).state.done == 0
        begin = FIRST_CELL * (FIRST_ROUND if first else 1.0)
        return JointRequest(
            coefficients=np.stack([request.coefficients for request in each.values()]),
            whitening=np.vstack([request.whitening for request in each.values()]),
            blocks=tuple(one.state.size for one in steps.values()),
            units=tuple(one.state.sd_clipped for one in steps.values()),
            clip=self._clip(mu),
            square_clip=SQUARES * usual,
            edges=np.asarray(usual * begin * RATIO ** np.arange(CELLS)),
            last=self._last,
        )

    def _clip(self, mu: float) -> float:
        """T: as `rounds._clip` and `rounds._last_clip` choose it, for v."""
        k, usual = self.size, math.sqrt(self.size)
        unit = mu * math.sqrt(self.nobs) / joint_norm(self._last)
        if not self._last:
            return max(CLIP * usual, min(self.tail_end, WIDEST * unit))
        reach = REACH * usual
        # Long records are long in one model at least; usual lengths are those of one model.
        longest = math.sqrt(k / len(self.steps))
        least = max(
            LAST_CLIP * usual, min(SAMPLING * unit, reach), min(SMALL * unit, LONG * longest)
        )
        if self.tail is None:
            return least
        candidates = least * np.exp(np.arange(0.0, 3.0, 0.1))
        cost = [
            k * (clip * joint_norm(True) / mu) ** 2 + self.tail.alike(clip, reach) ** 2
            for clip in candidates
        ]
        return float(candidates[int(np.argmin(cost))])

    def taken(
        self, asked: Asked, answer: JointAnswer, scales: JointAnswer, matrices: Matrices
    ) -> Together:
        """One round on."""
        request, start = asked.joint, 0
        variances, found = Residuals.of(asked, answer, scales, self.doubt), {}
        seen = Seen.of(request, answer, scales, self.size, self.nobs)
        hidden = 0.0
        if request.last and self.tail is not None:
            reach = REACH * math.sqrt(self.size)
            hidden = self.tail.alike(self.clip, reach) - self.tail.alike(request.clip, reach)
        moved = []
        for b, (name, steps) in enumerate(asked.steps.items()):
            state, own = steps.state, asked.each[name]
            block, unit = slice(start, start + state.size), state.sd_clipped
            start += state.size
            values, noise = (
                RoundAnswer(score=one.score[block] * unit, inside=0.0, counts=one.counts, **more)
                for one, more in zip((answer, scales), matrices[name], strict=True)
            )
            after, step = stepped(state, own, values, noise, hidden * unit)
            drop = max(float(step @ after.gram @ step), 0.0) / state.nobs
            inner = max(variances.of_model[b] - drop, LEAST_LEFT * variances.of_model[b])
            moved.append(inner / unit**2)
            sd = math.sqrt(inner + unit**2 * seen.outer)
            after = replace(after, sd=sd, sd_clipped=math.sqrt(inner))
            fitted = None
            if request.last and self.tail is not None:
                end = End(request, answer, scales, self.tail, variances)
                clip = request.clip * unit * math.sqrt(state.size / self.size)
                fitted = JointFitted(
                    after, replace(own, clip=clip), values, noise, self.tail, end, block, unit
                )
            found[name] = replace(steps, state=after, fitted=fitted)
        weights = np.array(request.blocks) / self.size
        # The units of v are those of the next round: residuals that are smaller than they were
        # taken for make what is far out further out.
        inner = float(weights @ np.array(moved))
        place = tail_place(request.edges, TAIL_CELL * math.sqrt(self.size * inner))
        now = math.sqrt(inner)
        tail = tails.fit(answer.counts[place:], request.edges[place:] / now, seen.sd)
        return Together(found, tail, seen.end / now, request.clip / now, variances.doubt)

    def replayed(
        self,
        mu: float,
        request: JointRequest,
        limits: Mapping[str, dict[str, object]],
        answers: tuple[JointAnswer, JointAnswer],
        about_matrices: Mapping[str, Answer],
    ) -> Together:
        """One round on, from a request that was saved."""
        asked, _, _ = self.plan(mu)
        expected, size = asked.joint.whitening, np.abs(asked.joint.whitening).max()
        if request.whitening.shape != expected.shape or not np.allclose(
            request.whitening, expected, rtol=0.0, atol=SAME * size
        ):
            raise ValueError("a round was asked in other coordinates than its release leads to")
        # No limits, no matrix.
        each = {
            name: replace(one, **{"radius": None, **limits.get(asked.whose[name], {})})  # type: ignore[arg-type]
            for name, one in asked.each.items()
        }
        matrices = {
            name: matrix_answer(one, about_matrices.get(asked.whose[name]))
            for name, one in each.items()
        }
        return self.taken(Asked(asked.steps, request, each, asked.whose), *answers, matrices)


@dataclass(frozen=True, slots=True)
class Residuals:
    """Variances of residuals before a step, by model, in units of the response.

    Attributes
    ----------
    of_model : (B,) array
    doubt : (B,) array
        Relative.
    """

    of_model: Array
    doubt: Array

    @classmethod
    def of(
        cls, asked: Asked, answer: JointAnswer, scales: JointAnswer, doubt: Array | None
    ) -> Residuals:
        """From the squared lengths of blocks, weighed against what was known before."""
        states = [steps.state for steps in asked.steps.values()]
        units = np.array([state.sd_clipped for state in states])
        each = np.array(asked.joint.blocks) * states[0].nobs
        # In units of what they are taken for: 1 is what was known before.
        found, noise = answer.shares / each, scales.shares / each
        before = np.full(len(units), GUESSED) if doubt is None else np.hypot(doubt, CHANGES)
        gain = before**2 / (before**2 + noise**2)
        known = np.maximum(1.0 + gain * (found - 1.0), LEAST_LEFT)
        return cls(known * units**2, np.sqrt(1.0 - gain) * before / known)


@dataclass(frozen=True, slots=True)
class Seen:
    """What counts of |v| tell: where they end, and the mean square beyond T_s by coordinate.

    Attributes
    ----------
    end, outer, sd : float
    """

    end: float
    outer: float
    sd: float

    @classmethod
    def of(
        cls,
        request: JointRequest,
        answer: JointAnswer,
        scales: JointAnswer,
        size: int,
        nobs: float,
    ) -> Seen:
        """From the cells that stand out of the noise."""
        sd = float(scales.counts[0])
        end = tails.run_end(answer.counts, request.edges, sd, tails.STANDS)
        seen = np.where(request.edges < end, answer.counts, 0.0)
        beyond = np.maximum(request.edges**2 * RATIO - request.square_clip**2, 0.0)
        return cls(end, max(float(seen @ beyond), 0.0) / size / nobs, sd)


@dataclass(frozen=True)
class End:
    """The end of the last round, for all models.

    Attributes
    ----------
    request, answer, scales
        Of the last round.
    before : Tail
        The tail as the round before it saw it.
    residuals : Residuals
    """

    request: JointRequest
    answer: JointAnswer
    scales: JointAnswer
    before: tails.Tail
    residuals: Residuals

    @property
    def size(self) -> int:
        """Length of v."""
        return len(self.answer.score)

    @cached_property
    def tail(self) -> tails.Tail:
        """The tail, by both last rounds."""
        edges = self.request.edges
        place = tail_place(edges, TAIL_CELL * math.sqrt(self.size))
        sd = float(self.scales.counts[0])
        last = tails.fit(self.answer.counts[place:], edges[place:], sd)
        # Two looks that have no law in common: the last one is nearer.
        agree = float(self.before.weight @ last.weight) > np.finfo(float).tiny
        return tails.both(self.before, last) if agree else last

    @cached_property
    def number_cut(self) -> float:
        """Expected number of records cut."""
        assert self.answer.direction is not None
        assert self.scales.direction is not None
        sd = float(self.scales.direction[0])
        return self.tail.number_cut(self.request.clip, self.answer.direction, sd)

    def directions(self, place: int, block: slice) -> Array:
        """Second moment of one model's part of the sum of the directions of what was cut.

        As `Fitted` has it; the models share in it as in what is cut.
        """
        assert self.answer.direction is not None
        assert self.scales.direction is not None
        own, sd = self.answer.direction[block], float(self.scales.direction[0])
        return tails.directions(own, sd, self.number_cut, float(self.cut_shares[place]))

    @cached_property
    def cut_shares(self) -> Array:
        """Shares of the models in what is seen beyond T_s, (B,); as far as noise hides it, even."""
        assert self.answer.beyond is not None
        assert self.scales.beyond is not None
        even = np.array(self.request.blocks) / self.size
        found = np.maximum(self.answer.beyond, 0.0) + float(self.scales.beyond[0]) * even
        return np.asarray(found / found.sum())

    @cached_property
    def cut_size(self) -> float:
        """What is seen beyond T_s of the sum of ``|v|^2``."""
        edges, sd = self.request.edges, float(self.scales.counts[0])
        end = tails.run_end(self.answer.counts, edges, sd, tails.STANDS)
        seen = np.where(edges < end, self.answer.counts, 0.0)
        return max(
            float(seen @ np.maximum(edges**2 * RATIO - self.request.square_clip**2, 0.0)), 0.0
        )


@dataclass(frozen=True)
class JointFitted(Fitted):
    """The estimator's end for one model of a study.

    Attributes
    ----------
    end : End
        Of all models together.
    block : slice
        Its part of v.
    unit : float
        u over v.
    """

    end: End
    block: slice
    unit: float

    @property
    def place(self) -> int:
        """Of the model among all."""
        return [0, *np.cumsum(self.end.request.blocks)].index(self.block.start)

    @cached_property
    def tail(self) -> tails.Tail:
        return self.end.tail

    @cached_property
    def _clipped_sd(self) -> float:
        return float(math.sqrt(self.end.residuals.of_model[self.place]))

    @cached_property
    def number_cut(self) -> float:
        return self.end.number_cut

    @cached_property
    def _cut_size(self) -> float:
        return float(np.trace(self._cut))

    @cached_property
    def _cut(self) -> Array:
        """Half in the shape inside the clip, half along the directions of the cut."""
        size = self.end.cut_size * self.end.cut_shares[self.place] * self.unit**2
        own, along = self._inside / self._inside_size, self._cut_directions
        whole = float(np.trace(along))
        return np.asarray(size * (own + (along / whole if whole > 0.0 else own)) / 2.0)

    @cached_property
    def _cut_directions(self) -> Array:
        return self.end.directions(self.place, self.block)

    @cached_property
    def hidden(self) -> Array:
        """What the last clip hides; see `Fitted`."""
        mean = self.tail.mean_excess(self.end.request.clip)
        more = (mean * self.unit) ** 2 * self._cut_directions - self._cut
        return symmetric(self.bread @ project_psd(symmetric(more)) @ self.bread)
