"""The curator: answers public requests about private records with noisy numbers.

Every method but the constructor releases something: it names a mechanism,
spends its mu, and returns noisy statistics with the scale of their noise.
Requests (designs, partitions, scalings, residual rounds) are public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.accounting.budget import Allocation
from dpbinagg.accounting.privacy import Mechanism
from dpbinagg.curator.engines import Engine, open_engine
from dpbinagg.curator.noise import Noise, noise_source
from dpbinagg.curator.privatise import FACTOR_BITS, GRID_BITS, NOISE_BITS, gaussian_mechanism
from dpbinagg.curator.privtree import SCORE_GRID, laplace_scale, n_nodes, privtree
from dpbinagg.curator.ranges import (
    FIRST_SHARE,
    histogram_edges,
    second_range,
    too_coarse,
    working_range,
)
from dpbinagg.formula import Design
from dpbinagg.public.domain import Domain, Numeric
from dpbinagg.public.partition import Partition
from dpbinagg.public.paths import Paths
from dpbinagg.public.rounds import WEIGHT_UNITS, NoisyScores, ScoreRequest, pair_weight
from dpbinagg.public.scaling import bin_scaling, column_scaling, moment_sensitivity

Floats = NDArray[np.float64]
GRID = 2.0**-GRID_BITS
PRODUCT_GRID = 2.0 ** (-2 * FACTOR_BITS)


@dataclass(frozen=True)
class Noisy:
    """Noisy statistics by name, and the standard deviation of the noise of each."""

    statistics: Mapping[str, Any]
    noise_scales: Mapping[str, Any]


class Curator:
    """Guards one private table.

    Parameters
    ----------
    data : table
        The private records.
    design : Design
        Tells which variables are needed and how they are declared.
    missing : {"drop", "raise"}
    rng : None, seed or Generator
        None for secure noise.
    """

    def __init__(self, data: Any, design: Design, missing: str, rng: Any) -> None:
        self._noise: Noise = noise_source(rng)
        self._engine: Engine = open_engine(data, design, missing)
        self._mechanisms: list[Mechanism] = []
        self._later = 0

    def __reduce__(self) -> Any:
        raise TypeError("a curator guards private records and is not pickled")

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """What was released so far, per record added or removed."""
        return tuple(self._mechanisms)

    @property
    def secure(self) -> bool:
        """Whether the noise comes from the secure source."""
        return self._noise.secure

    def _spend(self, name: str, mu: float, law: str = "gaussian") -> None:
        self._mechanisms.append(Mechanism(name, mu, law))

    def _privatise(self, sums: NDArray[np.generic], sensitivity: float, mu: float) -> Floats:
        return gaussian_mechanism(sums, sensitivity, mu, self._noise)

    def expect(self, n_sums: int) -> None:
        """Say that at least so many sums will be asked for after the next ones."""
        self._later = n_sums

    def _begin(self, n_sums: int) -> None:
        """Begin to draw noise for sums that are about to be computed, and for later ones."""
        for size in (n_sums, n_sums + self._later):
            self._noise.expect("gaussian", size, 2.0**NOISE_BITS)

    def ranges(
        self,
        design: Design,
        variables: tuple[str, ...],
        mu: float,
        announce: Callable[[float], None],
    ) -> tuple[Domain, float]:
        """Working ranges of numeric variables, and the noisy number of records.

        A record falls in one interval of each of the v histograms and adds 1
        to the total. Sensitivity: ``sqrt(v + 1)``, jointly. Where a variable
        lacks a bound, a second look, with a smaller part of mu^2, resolves
        the w ranges that the first one found too coarse; sensitivity:
        ``sqrt(w)``. If there are none it counts the records again, with
        sensitivity 1. Privacy: mu-GDP in all.

        The first noisy number of records is told to `announce` before the rest
        is computed.
        """
        known = {
            name: variable
            for name in variables
            if isinstance(variable := design.domain[name], Numeric)
        }
        unbounded = tuple(name for name, variable in known.items() if not variable.bounded)
        first = mu * math.sqrt(FIRST_SHARE) if unbounded else mu
        edges, counts, total, sd = self._histograms(known, first, with_total=True)
        announce(total)
        found = {
            name: working_range(edges[name], counts[name], sd, variable, total)
            for name, variable in known.items()
        }
        if unbounded:
            coarse = tuple(n for n in unbounded if too_coarse(edges[n], found[n], known[n]))
            narrowed = {name: known[name].within(*found[name]) for name in coarse}
            rest = mu * math.sqrt(1.0 - FIRST_SHARE) * (1.0 - 2.0**-50)
            edges, counts, again, sd_again = self._histograms(narrowed, rest, with_total=not coarse)
            for name in coarse:
                found[name] = second_range(
                    edges[name], counts[name], sd_again, narrowed[name], total
                )
            if not coarse:
                weights = (sd**-2, sd_again**-2)
                total = (weights[0] * total + weights[1] * again) / sum(weights)
        working = {n: known[n].within(*found[n]) for n in known}
        return design.domain.updated(working), total

    def _histograms(
        self, variables: Mapping[str, Numeric], mu: float, with_total: bool
    ) -> tuple[dict[str, Floats], dict[str, Floats], float, float]:
        """Edges and noisy histograms of variables, the noisy total, and the noise."""
        self._spend("ranges", mu)
        edges = {name: histogram_edges(variable) for name, variable in variables.items()}
        sensitivity = math.sqrt(len(edges) + with_total)
        size = sum(len(of_one) - 1 for of_one in edges.values()) + with_total
        self._begin(size)
        histograms = self._engine.histograms(edges) if edges else {}
        exact = [histograms[name] for name in variables]
        extra = [[self._engine.total()]] if with_total else []
        counts = np.concatenate([*exact, *extra]).astype(object) * 2**GRID_BITS
        noisy = self._privatise(counts, sensitivity / GRID, mu) * GRID
        parts = np.split(noisy, np.cumsum([len(part) for part in exact]))
        total = float(parts[-1][0]) if with_total else math.nan
        return edges, dict(zip(variables, parts, strict=False)), total, sensitivity / mu

    def total(self, mu: float) -> float:
        """Noisy number of records.

        Sensitivity: 1 under adding or removing a record. Privacy: mu-GDP.
        """
        self._spend("number of records", mu)
        one = float(2**GRID_BITS)
        exact = np.array([self._engine.total() * 2**GRID_BITS], dtype=object)
        return float(self._privatise(exact, one, mu)[0] * GRID)

    def expect_nodes(self, total: float, mu: float, theta: float) -> None:
        """Say that a partition of about `total` records will be asked for."""
        self._noise.expect("laplace", n_nodes(total, mu, theta), laplace_scale(mu) * SCORE_GRID)

    def partition(self, design: Design, mu: float, theta: float, max_depth: int) -> Partition:
        """PrivTree over the raw variables of the right side; see `privtree`."""
        self._spend("partition", mu, "laplace")
        paths = Paths(design.domain.subset(design.variables), design.variables, max_depth)
        return privtree(paths, self._engine.code_counts(paths), mu, self._noise, theta)

    def expect_bins(
        self, design: Design, partition: Partition, calibration: str, before: int
    ) -> None:
        """Say that `bins` will be asked for, and before them so many other sums."""
        scaling = bin_scaling(design, partition, calibration)
        self._engine.expect_bins(design, partition, scaling)
        self.expect(2 * partition.n_bins + int(np.count_nonzero(scaling.unit > 0.0)))
        self._begin(before)

    def bins(
        self, design: Design, partition: Partition, allocation: Allocation, calibration: str
    ) -> Noisy:
        """Noisy counts, covariate deviations and response deviations of every bin.

        Neighbours: one record added or removed changes one bin. Sensitivity,
        after scaling by public numbers: 1 for the count, at most
        `BinScaling.sensitivity_x` for all columns together, 1 for the
        response. Privacy: mu-GDP for each with its own mu, except that the
        published calibration divides by ``mu`` as if `sensitivity_x` were 1
        and is ``sensitivity_x * mu``-GDP.
        """
        scaling = bin_scaling(design, partition, calibration)
        self.expect(0)
        count, dev_x, dev_y = self._engine.bin_sums(design, partition, scaling)
        one = float(2**GRID_BITS)
        self._spend("bin counts", allocation.count)
        noisy_count = self._privatise(count.astype(object) * 2**GRID_BITS, one, allocation.count)
        released = scaling.unit > 0.0
        noisy_x = np.zeros(scaling.unit.shape)
        if released.any():
            self._spend("bin sums of covariates", scaling.sensitivity_x * allocation.sum_x)
            noisy_x[released] = self._privatise(dev_x[released], one, allocation.sum_x)
        self._spend("bin sums of the response", allocation.sum_y)
        noisy_y = self._privatise(dev_y, one, allocation.sum_y)
        return Noisy(
            {
                "count": noisy_count * GRID,
                "dev_x": noisy_x * GRID * scaling.unit,
                "dev_y": noisy_y * GRID * scaling.unit_y,
            },
            {
                "count": np.full(len(count), 1.0 / allocation.count),
                "dev_x": scaling.unit / allocation.sum_x,
                "dev_y": np.full(len(count), scaling.unit_y / allocation.sum_y),
            },
        )

    def moments(self, design: Design, mu: float) -> Noisy:
        """Noisy second moments of f = (1, z*, y*), columns scaled to [-1, 1].

        Released are the count, ``sum f_j``, ``sum f_j f_k`` and
        ``sum (f_j^2 - 1/2)``; squares are completed by half the noisy count.
        Sensitivity: `moment_sensitivity`, jointly. Privacy: mu-GDP.
        """
        self._spend("second moments", mu)
        scaling = column_scaling(design)
        sensitivity = moment_sensitivity(scaling.size)
        upper = np.triu_indices(scaling.size)
        self._begin(len(upper[0]))
        exact = self._engine.moment_sums(design, scaling)
        squares = np.arange(1, scaling.size)
        # 2^(2 FACTOR_BITS) is even, so half the count is a whole number of units.
        exact[squares, squares] -= exact[0, 0] // 2
        noisy = self._privatise(exact[upper], sensitivity / PRODUCT_GRID, mu)
        matrix = np.zeros(exact.shape)
        matrix[upper] = noisy * PRODUCT_GRID
        matrix = matrix + np.triu(matrix, 1).T
        matrix[squares, squares] += matrix[0, 0] / 2.0
        return Noisy({"moments": matrix}, {"moments": np.full(matrix.shape, sensitivity / mu)})

    def scores(self, design: Design, request: ScoreRequest, mu: float) -> NoisyScores:
        """One round of residual scores; see `ScoreRequest`.

        Sensitivity: `ScoreRequest.sensitivity` for all groups together, each
        multiplied by its weight. Privacy: mu-GDP, given the earlier releases
        that the request depends on (composition is adaptive).
        """
        self._spend("residual scores", mu)
        sensitivity = request.sensitivity * WEIGHT_UNITS / PRODUCT_GRID
        self._begin(request.n_values)
        sums = self._engine.score_sums(design, column_scaling(design), request)
        weights, radius2 = request.weights, request.radius**2
        one = 2 ** (2 * FACTOR_BITS)
        pairs = np.triu_indices(len(request.whitening), 1)
        groups = (
            (sums.score, 1.0),
            (sums.hessian[pairs], pair_weight(weights.hessian)),
            (sums.hessian.diagonal(), weights.hessian),
            (sums.spread[pairs], pair_weight(weights.spread)),
            (sums.spread.diagonal(), weights.spread),
            (sums.inside, weights.inside),
            (sums.tails.ravel() * one, weights.tails),
            (sums.norms * one, weights.norms),
        )
        asked = [(exact, round(weight * WEIGHT_UNITS)) for exact, weight in groups if weight]
        noisy = self._privatise(
            np.concatenate([exact * units for exact, units in asked]), sensitivity, mu
        )
        parts = iter(np.split(noisy, np.cumsum([len(exact) for exact, _ in asked])[:-1]))
        score, hessian_pairs, hessian, spread_pairs, spread, inside, tails, norms = (
            next(parts) * (PRODUCT_GRID / round(weight * WEIGHT_UNITS))
            if weight
            else np.zeros(len(exact))
            for exact, weight in groups
        )

        def symmetric(above: Floats, diagonal: Floats) -> Floats:
            matrix = np.zeros((len(diagonal), len(diagonal)))
            matrix[pairs] = above
            return (matrix + matrix.T + np.diag(diagonal)) * radius2

        return NoisyScores(
            score=score * (request.radius * request.clip),
            hessian=symmetric(hessian_pairs, hessian),
            spread=symmetric(spread_pairs, spread),
            inside=float(inside[0]),
            tails=tails.reshape(sums.tails.shape),
            norms=norms,
        )
