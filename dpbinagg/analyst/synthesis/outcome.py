"""Responses from their own law, on which least squares returns given coefficients.

The law is that of the released counts: zeros, heaps, whole numbers and tails are there. What
follows the covariates is the order of the responses: row i has the rank of

    x_i'b + misfit_i + sd_i e_i,    e_i standard normal,

and b is moved until least squares on the responses returns the coefficients that were released.
What is left of the difference is made up by small moves: of responses that lie between two values
of the law, or of whole numbers, by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from dpbinagg.analyst.synthesis.laws import Law
from dpbinagg.analyst.types import Array
from dpbinagg.formula import Design
from dpbinagg.public.domain import Domain, Numeric

Allowed = Callable[..., NDArray[np.bool_]]

INSIDE = (1e-12, 1.0 - 1e-12)
"""Places in a normal law that are drawn: beyond, quantiles are infinite."""
REFUSALS = 8
"""Times that rows which rules hold fast are left out before the rest is moved without them."""
SEARCHES = 8
"""Times that coefficients are moved before the rest is made up; two are enough for most."""
LADDER = 512
"""Whole numbers with more values than this are moved freely and rounded."""
CLOSE = 0.01
"""Standard errors of a coefficient that whole numbers may be off where there is a choice."""
FAR = 3
"""Steps that a single row goes at most."""
MOST_MOVES = 400
"""Single moves of whole numbers after those that are made together."""
MOST_PAIRS, PARTNERS = 60, 256
"""Moves of two rows at once after single ones, and rows that are looked at for each: among so many
pairs one comes near whatever is left."""
TOGETHER, FEW = 4, 0.3
"""Times that rows are moved together, and standard errors below which single ones are: those with
the most leverage, fewer by far, so that heaps stay."""
OFF = 0.1
"""Relative error of the variance of responses that a regression tells, between a 25th and a sixth
in the development populations at mu = 1."""
LOOSENED = (0.0, 0.03, 0.3, 1.0)
"""Shares of a heap at a bound that leave it where rows beside it are too few, tried in turn."""
LEAST_FREE = 1e-3
"""Share of a direction that must be free to move."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The raw variable of a response and its law.

    Attributes
    ----------
    design : Design
    name : str
    law : Law
    bounds : (float, float)
        Of the raw variable.
    """

    design: Design
    name: str
    law: Law
    bounds: tuple[float, float]

    @classmethod
    def of(cls, design: Design, laws: dict[str, Law], declared: Domain) -> Outcome | None:
        """None where the response is no function of one counted number that can be undone."""
        names = design.response_variables
        if len(names) != 1 or names[0] not in laws or names[0] in design.variables:
            return None
        variable = declared[names[0]]
        if not isinstance(variable, Numeric):
            return None
        if not variable.integer and design.invert_response(np.zeros(1)) is None:
            return None
        return cls(design, names[0], laws[names[0]], (variable.lower, variable.upper))

    def forward(self, raw: Array) -> Array:
        """The response where the variable takes these values."""
        return self.design.response({self.name: raw})

    def draw(
        self, columns: Array, params: Array, lean: Array, sd: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Raw values and responses on which least squares returns `params`.

        Parameters
        ----------
        columns : (n, p) array
        params : (p,) array
        lean : (n,) array
            What the bins say beyond the regression.
        sd : (n,) array
            Of the errors.
        """
        n = len(columns)
        fitted = columns @ params
        spread = float(np.var(fitted) + np.mean(sd**2))
        raw = self._spread_over(float(np.mean(fitted)), spread, n)
        value = self.forward(raw)
        order = np.argsort(value, kind="stable")
        raw, value = raw[order], value[order]
        basis = Basis.of(columns)
        noise = lean + sd * rng.standard_normal(n)
        wanted = basis.score(columns @ params)
        aim, rank = wanted.copy(), np.empty(n, dtype=np.int64)
        for _ in range(SEARCHES):
            rank[np.argsort(basis.fitted(aim) + noise, kind="stable")] = np.arange(n)
            aim += wanted - basis.score(value[rank])
        raw, value = raw[rank], value[rank]
        steps = self._ladder()
        if steps is not None:
            raw = self._walk(raw, steps, basis, wanted, float(np.mean(sd)), rng)
            return raw, self.forward(raw)
        value = self._nudged(raw, value, basis, wanted, rng)
        inverse = self.design.invert_response(value)
        raw = raw if inverse is None else inverse[1]
        return (np.rint(raw) if self.law.whole else raw), value

    def moved(
        self,
        raw: Array,
        fitted: Array,
        basis: Basis,
        sd: float,
        rng: np.random.Generator,
        allowed: Allowed,
        free: bool,
    ) -> Array:
        """Raw values moved as little as need be for least squares to return `fitted`.

        Parameters
        ----------
        raw : (n,) array
        fitted : (n,) array
            Combinations of columns.
        basis : Basis
            Of the columns.
        sd : float
            Of the errors.
        allowed : callable
            Which rows may have these raw values; all may have those that they have.
        free : bool
            Whether any row may have any value.
        """
        wanted, steps = basis.score(fitted), self._ladder()
        if steps is not None:
            if free:
                raw = self._reordered(raw, fitted, basis, wanted, sd, rng)
            return self._walk(raw, steps, basis, wanted, sd, rng, allowed)
        value, fixed = self.forward(raw), np.zeros(len(raw), dtype=bool)
        for _ in range(REFUSALS):
            moved = self._nudged(raw, value, basis, wanted, rng, fixed)
            inverse = self.design.invert_response(moved)
            if inverse is None:
                return raw
            found = np.rint(inverse[1]) if self.law.whole else inverse[1]
            # What was not moved is the same to the last bit.
            found = np.where(fixed | (moved == value), raw, found)
            broken = ~allowed(found) | (found < self.bounds[0]) | (found > self.bounds[1])
            broken &= ~fixed
            if not broken.any():
                return np.asarray(found)
            fixed |= broken
        return raw

    def _reordered(
        self,
        raw: Array,
        fitted: Array,
        basis: Basis,
        wanted: Array,
        sd: float,
        rng: np.random.Generator,
    ) -> Array:
        """Whole numbers given to other rows, so that heaps stay as large as they are.

        Row i has its value because ``fitted_i + sd e_i`` lies between two thresholds: e_i is drawn
        from the normal law between them, and b is moved as in `draw`.
        """
        value, share = np.sort(raw), np.arange(len(raw) + 1) / len(raw)
        below = share[np.searchsorted(value, raw, side="left")]
        above = share[np.searchsorted(value, raw, side="right")]
        whole = fitted + sd * rng.standard_normal(len(raw))
        edges = np.quantile(whole, np.stack([below, above]))
        low, high = ndtr((edges - fitted) / sd)
        low, high = np.where(below <= 0.0, 0.0, low), np.where(above >= 1.0, 1.0, high)
        place = np.clip(low + (high - low) * rng.random(len(raw)), *INSIDE)
        noise, values = sd * ndtri(place), self.forward(value)
        aim, rank = wanted.copy(), np.empty(len(raw), dtype=np.int64)
        best, found = np.inf, raw
        for _ in range(2 * SEARCHES):
            rank[np.argsort(basis.fitted(aim) + noise, kind="stable")] = np.arange(len(raw))
            gap = wanted - basis.score(values[rank])
            size = float(np.abs(basis.errors(gap)).max())
            if size < best:
                best, found = size, value[rank]
            aim += gap
        return np.asarray(found)

    def _spread_over(self, mean: float, variance: float, n: int) -> Array:
        """Quantiles of the law nearest to the released one with the mean and variance of responses.

        Counts say little of a tail; the regression says how far it reaches.
        """
        law = self.law
        if variance > 0.0:
            law = law.tilted(self.forward, mean, variance, OFF * variance)
        return law.quantiles((np.arange(n) + 0.5) / n)

    def _ladder(self) -> Array | None:
        """The values of the raw variable, where they are whole and few."""
        assert self.law.lower is not None
        assert self.law.upper is not None
        if not self.law.whole:
            return None
        steps = np.arange(np.ceil(self.law.lower[0]), np.floor(self.law.upper[-1]) + 1.0)
        steps = steps[np.isfinite(self.forward(steps))]
        return steps if 2 <= len(steps) <= LADDER else None

    def _nudged(
        self,
        raw: Array,
        value: Array,
        basis: Basis,
        wanted: Array,
        rng: np.random.Generator,
        fixed: NDArray[np.bool_] | None = None,
    ) -> Array:
        """Responses moved by ``w_i x_i'c``, w_i less near the bounds and 0 for heaps.

        If too few are free, some of a heap are; all, if need be.
        """
        low, high = self.bounds
        spread = float(np.std(raw)) or 1.0
        free = np.clip(np.minimum(raw - low, high - raw) / spread, 0.0, 1.0)
        free = np.where(np.isin(raw, self.law.heaps), 0.0, free)
        turn = rng.random(len(raw))
        for share in LOOSENED:
            weight = np.where(turn < share, 1.0, free)
            if fixed is not None:
                weight = np.where(fixed, 0.0, weight)
            moved = basis.towards(value, wanted, weight)
            if moved is not None:
                return moved
        return value

    def _walk(
        self,
        raw: Array,
        steps: Array,
        basis: Basis,
        wanted: Array,
        sd: float,
        rng: np.random.Generator,
        allowed: Allowed | None = None,
    ) -> Array:
        """Whole numbers moved to their neighbours until least squares is near enough."""
        ladder = self.forward(steps)
        place = np.searchsorted(steps, raw).clip(0, len(steps) - 1)
        gap = wanted - basis.score(ladder[place])
        for _ in range(TOGETHER):
            if np.abs(basis.errors(gap)).max() <= FEW * sd:
                break
            # As many moves as make up for the gap on average, wherever they are possible.
            tilt = basis.fitted(gap)
            for sign in (1, -1):
                there = np.clip(place + sign, 0, len(steps) - 1)
                size = ladder[there] - ladder[place]
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.where(size != 0.0, tilt / size, 0.0)
                share = np.clip(share, 0.0, 1.0)
                if allowed is not None:
                    share = np.where(allowed(steps[there]), share, 0.0)
                reach = np.cumsum(share) + rng.random()
                place = np.where(np.diff(np.floor(reach), prepend=0.0) >= 1.0, there, place)
            gap = wanted - basis.score(ladder[place])
        start, close, refused = place.copy(), CLOSE * sd, np.zeros((2, len(place)), dtype=bool)
        for _ in range(MOST_MOVES):
            if np.abs(basis.errors(gap)).max() <= close:
                break
            pull = basis.vectors @ gap
            best, gain = None, 0.0
            for side, sign in enumerate((1, -1)):
                there = np.clip(place + sign, 0, len(steps) - 1)
                size = ladder[there] - ladder[place]
                less = np.where(refused[side], 0.0, size * (2.0 * pull - size * basis.lengths))
                row = int(np.argmax(less))
                if less[row] > gain:
                    best, gain = (side, row, there[row], size[row]), float(less[row])
            if best is None:
                break
            side, row, to, size_of = best
            if allowed is not None and not allowed(steps[[to]], np.array([row]))[0]:
                refused[side, row] = True
                continue
            place[row] = to
            refused[side, row] = abs(to - start[row]) >= FAR
            gap = gap - size_of * basis.vectors[row]
        self._paired(place, gap, close, steps, basis, rng, allowed)
        return np.asarray(steps[place])

    def _paired(
        self,
        place: NDArray[np.intp],
        gap: Array,
        close: float,
        steps: Array,
        basis: Basis,
        rng: np.random.Generator,
        allowed: Allowed | None,
    ) -> None:
        """Move two rows at once, one up and one down: they come nearer where no single one does."""
        ladder = self.forward(steps)
        for _ in range(MOST_PAIRS):
            if np.abs(basis.errors(gap)).max() <= close:
                return
            some, moves = rng.permutation(len(place))[: 2 * PARTNERS], []
            for half, sign in ((some[::2], 1), (some[1::2], -1)):
                rows = half
                there = np.clip(place[rows] + sign, 0, len(steps) - 1)
                size = ladder[there] - ladder[place[rows]]
                fine = size != 0.0
                if allowed is not None:
                    fine &= allowed(steps[there], rows)
                moves.append(
                    (rows[fine], there[fine], size[fine, None] * basis.vectors[rows[fine]])
                )
            (up, to_up, by_up), (down, to_down, by_down) = moves
            if not len(up) or not len(down):
                return
            less = np.sum(by_up * (2.0 * gap - by_up), axis=1)[:, None]
            less = less + np.sum(by_down * (2.0 * gap - by_down), axis=1) - 2.0 * by_up @ by_down.T
            one, other = np.unravel_index(int(np.argmax(less)), less.shape)
            if less[one, other] > 0.0:
                place[up[one]], place[down[other]] = to_up[one], to_down[other]
                gap = gap - by_up[one] - by_down[other]


class Truth(Outcome):
    """A response that is false or true, such as ``I(wage > 20)``, as 0 and 1."""

    @classmethod
    def of_share(cls, design: Design, share: float) -> Truth | None:
        """None where the response is something else."""
        points = {
            name: np.linspace(variable.lower, variable.upper, LADDER)
            for name in design.response_variables
            if isinstance(variable := design.domain[name], Numeric)
        }
        if len(points) != 1 or len(design.response_variables) != 1:
            return None
        values = design.response(points)
        if not np.isin(values[np.isfinite(values)], (0.0, 1.0)).all():
            return None
        shares = np.array([1.0 - share, share]).clip(0.0, 1.0)
        law = Law(shares, np.array([-0.5, 0.5]), np.array([0.5, 1.5]), True)
        return cls(design, design.response_name, law, (0.0, 1.0))

    def forward(self, raw: Array) -> Array:
        """The values themselves."""
        return raw


@dataclass(frozen=True, slots=True)
class Basis:
    """Orthonormal basis U of the columns: least squares on y gives ``U'y``.

    Attributes
    ----------
    vectors : (n, r) array
        U.
    lengths : (n,) array
        Squared lengths of its rows.
    back : (p, r) array
        Coefficients from ``U'y``.
    scale : (p,) array
        Standard errors of coefficients where errors have variance 1.
    """

    vectors: Array
    lengths: Array
    back: Array
    scale: Array

    @classmethod
    def of(cls, columns: Array) -> Basis:
        length = np.linalg.norm(columns, axis=0)
        unit = np.where(length > 0.0, length, 1.0)
        q, r = np.linalg.qr(columns / unit)
        u, s, vt = np.linalg.svd(r)
        rank = int(np.sum(s > 1e-10 * s[0]))
        back = vt[:rank].T / s[:rank] / unit[:, None]
        vectors = np.ascontiguousarray(q @ u[:, :rank])
        return cls(vectors, np.sum(vectors**2, axis=1), back, np.linalg.norm(back, axis=1))

    def score(self, values: Array) -> Array:
        """``U'y``."""
        return np.asarray(self.vectors.T @ values)

    def fitted(self, score: Array) -> Array:
        """``U s``."""
        return np.asarray(self.vectors @ score)

    def errors(self, gap: Array) -> Array:
        """What a gap in ``U'y`` makes of coefficients, in standard errors for errors of size 1."""
        return np.asarray(self.back @ gap / np.where(self.scale > 0.0, self.scale, 1.0))

    def towards(self, values: Array, wanted: Array, weight: Array) -> Array | None:
        """``y + w U c`` with ``U'y = wanted``; None where the weights leave too little to move."""
        inner = (self.vectors * weight[:, None]).T @ self.vectors
        if np.linalg.eigvalsh(inner)[0] < LEAST_FREE:
            return None
        moved = values
        for _ in range(2):
            c = np.asarray(np.linalg.solve(inner, wanted - self.score(moved)))
            moved = np.asarray(moved + weight * self.fitted(c))
        return np.asarray(moved)
