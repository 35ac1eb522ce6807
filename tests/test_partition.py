"""Partitions cover every point of the domain exactly once."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from properties import examples

from dpbinagg.errors import DomainError
from dpbinagg.formula import build_design
from dpbinagg.kernel.curator import privtree
from dpbinagg.kernel.noise import SeededNoise
from dpbinagg.public.bins import IntervalAxis, Paths
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.public.partition import Partition, boxes_of_nodes
from dpbinagg.public.partition import edges as edges_of

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


class SortedCodes:
    """Counts of path codes that are all at hand, ascending."""

    def __init__(self, codes, bits):
        self.codes, self.bits = codes, bits

    def of(self, depth, nodes):
        start, stop = np.stack([nodes, nodes + 1]) << (self.bits - depth)
        return np.searchsorted(self.codes, stop) - np.searchsorted(self.codes, start)


@st.composite
def domains(draw):
    spec = {}
    for index in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["numeric", "integer", "category"]))
        if kind == "numeric":
            low = draw(FINITE)
            spec[f"x{index}"] = (low, low + draw(st.floats(1e-3, 1e6)))
        elif kind == "integer":
            low = draw(st.integers(-50, 50))
            many = st.integers(2, 40) | st.integers(1000, 10**6)
            spec[f"x{index}"] = range(low, low + draw(many))
        else:
            spec[f"x{index}"] = [f"level {i}" for i in range(draw(st.integers(1, 9)))]
    return Domain(spec)


def points_of(domain, partition, rng, n=400):
    """Random points, all edges of boxes, their neighbours, and all levels."""
    records = {}
    for name, variable in domain.items():
        if isinstance(variable, Categorical):
            records[name] = rng.integers(0, len(variable.levels), n)
        elif variable.integer:
            records[name] = rng.integers(variable.lower, variable.upper, n, endpoint=True) * 1.0
        else:
            boxes = partition.boxes
            edges = np.concatenate([boxes.lower[name], boxes.upper[name]])
            near = np.concatenate(
                [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
            )
            values = np.concatenate([near, rng.uniform(variable.lower, variable.upper, n)])
            records[name] = np.clip(rng.choice(values, n), variable.lower, variable.upper)
    return records


def membership(domain, boxes, records):
    """(n, K): whether a record lies in a box by the definition of boxes."""
    n = len(next(iter(records.values())))
    inside = np.ones((n, len(boxes)), dtype=bool)
    for name, variable in domain.items():
        values = records[name]
        if isinstance(variable, Categorical):
            inside &= boxes.members[name][:, values].T
            continue
        low, high = boxes.lower[name], boxes.upper[name]
        above = values[:, None] >= low
        if variable.integer:
            inside &= above & (values[:, None] <= high)
        else:
            last = high == variable.upper
            inside &= above & ((values[:, None] < high) | (last & (values[:, None] == high)))
    return inside


def assert_covers_once(domain, partition, seed=0):
    records = points_of(domain, partition, np.random.default_rng(seed))
    inside = membership(domain, partition.boxes, records)
    located = partition.locate(records)
    assert (inside.sum(axis=1) == 1).all()
    assert (inside.argmax(axis=1) == located).all()
    # What the design says of a box holds for the records in it: nothing is cut there.
    design = build_design("y ~ " + " + ".join(domain), Domain({**domain, "y": (0, 1)}))
    lower, upper = design.column_bounds(partition.boxes)
    columns = design.columns(records)
    assert (lower[located] <= columns).all()
    assert (columns <= upper[located]).all()


@given(domains(), st.integers(0, 2**32), st.floats(0.3, 20.0))
@examples(60)
def test_privtree_covers_once(domain, seed, mu):
    rng = np.random.default_rng(seed)
    paths = Paths(domain, tuple(domain))
    codes = np.sort(rng.integers(0, 2, (300, paths.depth)) @ (2 ** np.arange(paths.depth)))
    counts = SortedCodes(codes.astype(np.int64), paths.depth)
    tree = Partition.of_tree(privtree(paths, counts.of, mu, SeededNoise(rng)))
    assert_covers_once(domain, tree, seed)
    again = Partition.from_dict(domain, tuple(domain), tree.to_dict())
    assert again == tree


@given(domains(), st.integers(1, 5), st.integers(0, 2**32))
@examples(60)
def test_grid_covers_once_and_its_boxes_are_a_partition(domain, cells, seed):
    grid = Partition.grid(domain, cells)
    assert_covers_once(domain, grid, seed)
    table = Partition.from_boxes(domain, grid.boxes)
    assert_covers_once(domain, table, seed)
    records = points_of(domain, grid, np.random.default_rng(seed))
    assert (table.locate(records) == grid.locate(records)).all()
    assert Partition.from_dict(domain, tuple(domain), table.to_dict()) == table


@given(FINITE, st.floats(1e-6, 1e6), st.integers(1, 65536))
@example(-184839.0, 446982.3140655458, 5433)
@examples(200)
def test_edges_are_where_the_cell_changes(low, width, n_cells):
    axis = IntervalAxis(low, low + width, n_cells)
    index = np.unique(np.linspace(1, max(n_cells - 1, 1), 50).astype(np.int64))
    index = index[index < n_cells]
    edges = edges_of(axis, index)
    reachable = axis.cells(edges) == index
    below = axis.cells(np.nextafter(edges, -np.inf))
    assert (below[reachable] < index[reachable]).all()
    assert reachable.all() or width < 1e-9 * abs(low) * n_cells


def test_codes_agree_with_boxes_at_every_depth():
    domain = Domain({"x": (0, 1), "k": range(7), "c": ["a", "b", "c"]})
    paths = Paths(domain, tuple(domain))
    rng = np.random.default_rng(3)
    records = {
        "x": rng.random(500),
        "k": rng.integers(0, 7, 500) * 1.0,
        "c": rng.integers(0, 3, 500),
    }
    codes = paths.codes(records)
    for depth in range(paths.depth + 1):
        prefix = np.unique(codes >> (paths.depth - depth))
        boxes = boxes_of_nodes(paths, np.full(len(prefix), depth), prefix)
        inside = membership(domain, boxes, records)
        own = np.searchsorted(prefix, codes >> (paths.depth - depth))
        assert inside[np.arange(500), own].all()


def test_relative_widths_decide_the_split_not_units():
    domain = Domain({"small": (0, 1), "large": (0, 1e9)})
    assert Paths(domain, tuple(domain), 4).order == (0, 1, 0, 1)


def test_depth_is_capped_on_repeated_values():
    domain = Domain({"x": (0, 1)})
    paths = Paths(domain, ("x",))
    codes = SortedCodes(paths.codes({"x": np.full(100_000, 0.3)}), paths.depth)
    tree = privtree(paths, codes.of, 1.0, SeededNoise(np.random.default_rng(0)))
    assert tree.n_bins <= paths.depth + 30


@pytest.mark.parametrize(
    ("boxes", "problem"),
    [
        ([{"x": (0, 0.5)}, {"x": (0.4, 1)}], "overlap"),
        ([{"x": (0, 0.4), "c": ["a"]}, {"x": (0.4, 1)}], "leave a gap"),
        ([{"x": (0, 0.5)}], "span its bounds"),
        ([{"x": (0, 2)}], "span its bounds"),
        ([{"x": (0.5, 0.5)}, {"x": (0, 1)}], "lower < upper"),
        ([{"c": ["z"]}], "not declared"),
        ([{"q": (0, 1)}], "not in the domain"),
    ],
)
def test_boxes_that_are_no_partition_are_refused(boxes, problem):
    with pytest.raises(DomainError, match=problem):
        Partition.from_boxes(Domain({"x": (0, 1), "c": ["a", "b"]}), boxes)


def test_a_grid_needs_bounds_and_whole_numbers():
    with pytest.raises(DomainError, match="finite bounds"):
        Partition.grid(Domain({"x": (0, None)}), 3)
    with pytest.raises(DomainError, match="at least 1"):
        Partition.grid(Domain({"x": (0, 1)}), 0)
    with pytest.raises(DomainError, match="fewer bins"):
        Partition.grid(Domain({f"x{i}": (0, 1) for i in range(30)}), 4)
