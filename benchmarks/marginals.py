"""AIM and MST, the marginal-based peers, on mbi 2.0 or later (``pip install "mbi>=2"``).

Both are rho-zCDP and are given the rho that implies (epsilon, delta). How columns are cut into
cells decides much of their error: `Cells` knows two ways, and `synthetic.py` gives each method the
one that serves it best.

McKenna, Mullins, Sheldon, Miklau (2022), AIM; McKenna, Miklau, Sheldon (2021), MST.
"""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from projections import two_way_marginals
from scipy.optimize import brentq

Array = NDArray[np.float64]
Bounds = dict[str, tuple[float, float]]
MODEL_MEGABYTES = 80.0
ITERATIONS = 1000
MST_ITERATIONS = 5000
"""Of MST's last estimate, as in its authors' code; all other estimates take `ITERATIONS`."""


def installed() -> bool:
    """Whether mbi 2.0 or later can be used."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from mbi.estimation import MirrorDescent  # noqa: F401
    except ImportError:
        return False
    return True


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho for which rho-zCDP implies (epsilon, delta)-DP.

    ``delta = min_a exp((a - 1)(a rho - epsilon)) (1 - 1/a)^a / (a - 1)``.
    """
    orders = 1.0 + np.logspace(-3, 4, 4000)

    def log_delta(rho: float) -> float:
        value = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders)
        return float(np.min(value - np.log(orders - 1)))

    return float(brentq(lambda rho: log_delta(rho) - math.log(delta), 1e-12, epsilon + 10))


@dataclass(frozen=True, slots=True)
class Scheme:
    """How columns are cut: evenly over their range, or in parts that hold as many records."""

    cells: int
    even: bool = False


class Cells:
    """Cuts columns into cells and draws values within them.

    Whole numbers with at most as many values as there may be cells have a cell for each value.
    Other columns are cut evenly over their public range, or, in favour of the peers, at the
    quantiles of the records as if these were public: a value that holds more than its share of
    them is a cell of its own, and a cell reaches from the smallest of its values to the largest.
    """

    def __init__(
        self, frame: pd.DataFrame, bounds: Bounds, whole: set[str], scheme: Scheme
    ) -> None:
        self.names, self.whole = list(frame.columns), whole
        self.low: dict[str, Array] = {}
        self.high: dict[str, Array] = {}
        for name in self.names:
            low, high = bounds[name]
            if name in whole and high - low + 1 <= scheme.cells:
                values = np.arange(low, high + 1)
                self.low[name] = self.high[name] = values
            elif scheme.even:
                edges = np.linspace(low, high, scheme.cells + 1)
                self.low[name], self.high[name] = edges[:-1], edges[1:]
            else:
                column = frame[name].to_numpy(float)
                self.low[name], self.high[name] = equal_parts(column, scheme.cells)

    def codes(self, frame: pd.DataFrame) -> dict[str, NDArray[np.int64]]:
        """The cell of every value: a cut lies half way between two cells."""
        return {
            name: np.searchsorted(
                (self.high[name][:-1] + self.low[name][1:]) / 2, frame[name], side="right"
            )
            for name in self.names
        }

    def sizes(self) -> dict[str, int]:
        """Number of cells of each column."""
        return {name: len(low) for name, low in self.low.items()}

    def values(self, codes: Any, rng: np.random.Generator) -> pd.DataFrame:
        """Values drawn uniformly within cells."""
        columns = {}
        for name in self.names:
            code = np.asarray(codes[name])
            low, high = self.low[name][code], self.high[name][code]
            value = low + (high - low) * rng.random(len(code))
            columns[name] = np.rint(value) if name in self.whole else value
        return pd.DataFrame(columns)


def equal_parts(column: Array, cells: int) -> tuple[Array, Array]:
    """Lowest and highest value of at most about `cells` parts that hold as many records."""
    values, counts = np.unique(column, return_counts=True)
    share = len(column) / cells
    starts, held = [0], 0
    for index, count in enumerate(counts):
        if index > starts[-1] and (held + count / 2 > share or max(count, held) > share):
            starts.append(index)
            held = 0
        held += count
    ends = [*(start - 1 for start in starts[1:]), len(values) - 1]
    return values[starts], values[ends]


class _Marginals:
    """One run of a marginal-based method: exact marginals, noisy ones, and the model."""

    def __init__(self, codes: Any, sizes: dict[str, int], rng: np.random.Generator) -> None:
        from mbi import Dataset, Domain
        from mbi.estimation import MirrorDescent

        self.domain = Domain.fromdict(sizes)
        self.data = Dataset(codes, self.domain)
        self.rng, self.measured, self.model = rng, [], None
        self.engine = MirrorDescent()

    def exact(self, clique: tuple[str, ...]) -> Array:
        return np.asarray(self.data.project(clique).datavector(), dtype=np.float64)

    def estimated(self, clique: tuple[str, ...]) -> Array:
        assert self.model is not None
        return np.asarray(self.model.project(clique).datavector(), dtype=np.float64)

    def measure(self, clique: tuple[str, ...], sigma: float) -> None:
        from mbi import LinearMeasurement

        exact = self.exact(clique)
        noisy = exact + sigma * self.rng.standard_normal(exact.size)
        self.measured.append(LinearMeasurement(noisy, clique, sigma))

    def estimate(self, iterations: int = ITERATIONS) -> None:
        self.model = self.engine.estimate(
            self.domain, self.measured, iters=iterations, warm_start=self.model
        )

    def choose(self, scores: Array, epsilon: float, sensitivity: float) -> int:
        """The exponential mechanism, by Gumbel noise."""
        gumbel = self.rng.gumbel(size=scores.size)
        return int(np.argmax(0.5 * epsilon / sensitivity * scores + gumbel))

    def draw(self, rows: int, cells: Cells) -> pd.DataFrame:
        assert self.model is not None
        # The sampler of mbi uses numpy's global state.
        np.random.seed(int(self.rng.integers(2**32)))  # noqa: NPY002
        return cells.values(self.model.synthetic_data(rows=rows).to_dict(), self.rng)


def mst(
    frame: pd.DataFrame,
    bounds: Bounds,
    whole: set[str],
    scheme: Scheme,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Maximum spanning tree of two-way marginals: a third of rho each on one-way marginals,
    the choice of the tree and its marginals.

    Before the tree is chosen the columns of the model are independent, so that its two-way
    marginals are products; mbi would compile a projection for each of them.
    """
    cells = Cells(frame, bounds, whole, scheme)
    run = _Marginals(cells.codes(frame), cells.sizes(), rng)
    rho = zcdp_rho(epsilon, delta)
    names = list(frame.columns)
    for name in names:
        run.measure((name,), math.sqrt(3 * len(names) / (2 * rho)))
    run.estimate()
    pairs = list(itertools.combinations(names, 2))
    one_way = {name: run.estimated((name,)) for name in names}
    gain = {}
    for one, other in pairs:
        independent = np.outer(one_way[one], one_way[other]).ravel() / one_way[other].sum()
        gain[one, other] = float(np.abs(run.exact((one, other)) - independent).sum())
    part = {name: name for name in names}
    step = math.sqrt(8 * rho / 3 / max(len(names) - 1, 1))
    tree = []
    for _ in range(len(names) - 1):
        open_pairs = [pair for pair in pairs if part[pair[0]] != part[pair[1]]]
        scores = np.array([gain[pair] for pair in open_pairs])
        one, other = open_pairs[run.choose(scores, step, 1.0)]
        tree.append((one, other))
        old, new = part[other], part[one]
        part = {name: new if root == old else root for name, root in part.items()}
    for pair in tree:
        run.measure(pair, math.sqrt(3 * len(tree) / (2 * rho)))
    run.estimate(MST_ITERATIONS)
    return run.draw(len(frame), cells)


def aim(
    frame: pd.DataFrame,
    bounds: Bounds,
    whole: set[str],
    scheme: Scheme,
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Adaptive and iterative mechanism with the workload of all two-way marginals.

    In every round all candidates are projected from a new model, here by `two_way_marginals`,
    which gives what mbi's own projections give in a small part of their time: with those AIM did
    not end on wide tables.
    """
    from mbi.junction_tree import hypothetical_model_size

    cells = Cells(frame, bounds, whole, scheme)
    run = _Marginals(cells.codes(frame), cells.sizes(), rng)
    rho, names = zcdp_rho(epsilon, delta), list(frame.columns)
    pairs = list(itertools.combinations(names, 2))
    weight = {pair: sum(len({*pair} & {*other}) for other in pairs) for pair in pairs}
    weight |= {(name,): len(names) - 1 for name in names}
    exact = {clique: run.exact(clique) for clique in weight}
    rounds = 16 * len(names)
    sigma, step = math.sqrt(rounds / (1.8 * rho)), math.sqrt(0.8 * rho / rounds)
    for name in names:
        run.measure((name,), sigma)
    used = len(names) / (2 * sigma**2)
    run.estimate()
    model = two_way_marginals(run.model)
    while used < rho * (1 - 1e-9):
        left = rho - used
        if left < 2 * (1 / (2 * sigma**2) + step**2 / 8):
            sigma, step = math.sqrt(1 / (1.8 * left)), math.sqrt(0.8 * left)
        used += 1 / (2 * sigma**2) + step**2 / 8
        known = [measurement.clique for measurement in run.measured]
        limit = MODEL_MEGABYTES * used / rho
        fitting = [
            clique
            for clique in weight
            if clique in known
            or len(clique) == 1
            or hypothetical_model_size(run.domain, [*known, clique]) <= limit
        ]
        bias = math.sqrt(2 / math.pi) * sigma
        scores = np.array(
            [
                weight[c] * (np.abs(exact[c] - model[c]).sum() - bias * exact[c].size)
                for c in fitting
            ]
        )
        chosen = fitting[run.choose(scores, step, max(weight[c] for c in fitting))]
        before = model[chosen]
        run.measure(chosen, sigma)
        run.estimate()
        model = two_way_marginals(run.model)
        change = float(np.abs(model[chosen] - before).sum())
        if change <= bias * exact[chosen].size:
            sigma, step = sigma / 2, 2 * step
    run.estimate()
    return run.draw(len(frame), cells)
