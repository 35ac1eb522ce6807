"""Fast ways to count give the counts of the plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from histograms import bin_index
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg.kernel import curator as module
from dpbinagg.kernel.curator import PrefixCounts, privtree
from dpbinagg.kernel.maps import NumberCells, PrefixCells
from dpbinagg.kernel.noise import SeededNoise
from dpbinagg.kernel.view import Part, View
from dpbinagg.protocol.ranges import histogram_edges
from dpbinagg.public.bins import Paths, TreeLocator
from dpbinagg.public.domain import Domain, Numeric

VARIABLES = [
    Numeric(),
    Numeric(0, 1),
    Numeric(-3, 5),
    Numeric(0),
    Numeric(upper=7.3),
    Numeric(0, 100_000, integer=True),
    Numeric(-1e300, 1e300),
    Numeric(1e-300, 1e-290),
]


@pytest.mark.parametrize("variable", VARIABLES, ids=repr)
def test_histogram_is_that_of_a_search(variable: Numeric) -> None:
    edges = histogram_edges(variable)
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 1e308, -1e308, 5e-324, -5e-324, np.inf, -np.inf]
    values = np.concatenate(
        [
            edges,
            np.nextafter(edges, np.inf),
            np.nextafter(edges, -np.inf),
            special,
            rng.normal(size=20_000) * 10.0,
            np.exp(rng.normal(size=20_000) * 30.0),
            rng.random(20_000),
        ]
    )
    expected = np.bincount(bin_index(edges, values), minlength=len(edges) - 1)
    rng.shuffle(values)
    found = NumberCells("x", edges).counts(View(Part({"x": values}), None, {}))
    np.testing.assert_array_equal(found, expected)
    values[::7] = np.nan
    view, missing, within = View(Part({"x": values}), None, {}), np.isnan(values), len(edges) - 1
    for outside in (False, True):
        cells = NumberCells("x", edges, missing=True, outside=outside)
        index = np.where(missing, cells.n_cells - 1, bin_index(edges, values))
        if outside:
            index[values <= edges[0]], index[values > edges[-1]] = within, within + 1
        by_search = np.bincount(index, minlength=cells.n_cells)
        np.testing.assert_array_equal(cells.counts(view), by_search)


@examples(60)
@given(
    depth=st.integers(0, 32),
    n_starts=st.integers(1, 300),
    power=st.sampled_from([1, 3, 12]),
    seed=st.integers(0, 1000),
)
def test_tables_find_the_bin_of_a_code(depth: int, n_starts: int, power: int, seed: int) -> None:
    """Whatever ascending codes bins begin with."""
    rng = np.random.default_rng(seed)
    size = 2**depth
    starts = np.unique((rng.random(n_starts) ** power * size).astype(np.int64))
    starts[0] = 0
    codes = np.concatenate(
        [starts, np.maximum(starts - 1, 0), (rng.random(4096) ** power * size).astype(np.int64)]
    )
    paths = Paths(Domain({"x": (0, 1), "z": (0, 1)}), ("x", "z"), depth)
    assert paths.depth == depth
    tree = TreeLocator(paths, np.full(len(starts), depth), starts)
    expected = np.searchsorted(starts, codes, side="right") - 1
    np.testing.assert_array_equal(tree.locate_codes(codes), expected)


@pytest.mark.parametrize("first_bits", [1, 4, 20])
def test_counts_found_on_demand_give_the_same_tree(
    first_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_BITS", first_bits)
    rng = np.random.default_rng(1)
    domain = Domain({"x": (0, 1), "g": ["a", "b", "c"], "k": range(37)})
    paths = Paths(domain, tuple(domain), 24)
    n = 5000
    records = {
        "x": rng.random(n) ** 6,
        "g": rng.integers(0, 3, n),
        "k": rng.integers(0, 37, n) * 1.0,
    }
    passes = 0

    def count(cells: PrefixCells) -> np.ndarray:
        nonlocal passes
        passes += 1
        return cells.counts(View(Part(records), None, {}))

    class Sorted:
        def of(self, depth: int, nodes: np.ndarray) -> np.ndarray:
            ends = np.stack([nodes, nodes + 1]) << (paths.depth - depth)
            start, stop = np.searchsorted(ordered, ends)
            return stop - start

    ordered = np.sort(paths.codes(records))
    trees = [
        privtree(paths, counts.of, 2.0, SeededNoise(np.random.default_rng(2)), theta=3.0)
        for counts in (Sorted(), PrefixCounts(paths, count))
    ]
    assert trees[0].leaf_depth.tolist() == trees[1].leaf_depth.tolist()
    assert trees[0].leaf_prefix.tolist() == trees[1].leaf_prefix.tolist()
    assert 1 <= passes <= 24
