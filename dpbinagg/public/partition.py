"""Partitions: boxes that cover the domain of some variables exactly once.

A box is a half-open interval for every numeric variable and a subset of the levels for every
categorical one: a region that a partition is made of, or that a cell stands for. `Boxes` holds K of
them as arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DomainError, ReleaseError
from dpbinagg.public.bins import (
    Axis,
    Bins,
    Cells,
    GridLocator,
    IntervalAxis,
    ListAxis,
    Locator,
    Paths,
    TableLocator,
    TreeLocator,
    list_length,
)
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.public.variables import Records, Variable


@dataclass(frozen=True, slots=True)
class Boxes:
    """K boxes over named variables; without any, one box, which is the whole domain.

    Attributes
    ----------
    lower, upper : dict of str to (K,) float arrays
        Closed hulls of the numeric intervals. A record belongs to the
        half-open interval ``lower <= x < upper``; where `upper` is the upper
        bound of the domain, it is included. An integer variable's box holds
        the whole numbers from `lower` to `upper`, both included.
    members : dict of str to (K, L) bool arrays
        Which of the L declared levels of a categorical variable a box holds.
    """

    lower: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    upper: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    members: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    def __len__(self) -> int:
        arrays = [*self.lower.values(), *self.members.values()]
        return len(arrays[0]) if arrays else 1


def edges(axis: IntervalAxis, index: Cells) -> NDArray[np.float64]:
    """Lower edge of each cell in `index`; ``n_cells`` stands for the top."""
    edge = np.where(index <= 0, axis.lower, axis.upper)
    inner = (index > 0) & (index < axis.n_cells)
    if inner.any():
        distinct, place = np.unique(index[inner], return_inverse=True)
        step = (axis.upper - axis.lower) / axis.n_cells
        near = axis.lower + distinct.astype(np.float64) * step
        edge[inner] = _first_number(axis, distinct, near)[place]
    return edge


def _first_number(
    axis: IntervalAxis, cell: Cells, near: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The smallest number in each cell, sought by bisection around `near`."""
    below, above = _bracket(axis, cell, np.clip(near, axis.lower, axis.upper))
    while True:
        middle = below + (above - below) / 2.0
        undecided = (below < middle) & (middle < above)
        if not undecided.any():
            return above
        reached = axis.cells(middle) >= cell
        above = np.where(undecided & reached, middle, above)
        below = np.where(undecided & ~reached, middle, below)


def _bracket(
    axis: IntervalAxis, cell: Cells, near: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Numbers ``below < first <= above`` around the first number of each (inner) cell.

    `cells` never decreases, is 0 at `lower` and ``n_cells - 1`` at `upper`. Doubled steps
    away from `near` therefore end on both sides, however large the rounding errors are.
    """
    below = above = near
    step = np.spacing(axis.upper - axis.lower)
    while (early := axis.cells(below) >= cell).any():
        below = np.where(early, np.maximum(below - step, axis.lower), below)
        step *= 2.0
    step = np.spacing(axis.upper - axis.lower)
    while (late := axis.cells(above) < cell).any():
        above = np.where(late, np.minimum(above + step, axis.upper), above)
        step *= 2.0
    return below, above


def add_boxes(name: str, axis: Axis, start: Cells, stop: Cells, boxes: Boxes) -> None:
    """Write the boxes that span cells ``start`` to ``stop - 1`` of one variable."""
    if isinstance(axis, IntervalAxis):
        lower, upper = np.split(edges(axis, np.append(start, stop)), 2)
        if axis.integer:
            # Boxes of whole numbers hold both ends; a cell may hold none.
            lower = np.ceil(lower)
            upper = np.maximum(np.where(stop >= axis.n_cells, upper, np.ceil(upper) - 1.0), lower)
        boxes.lower[name], boxes.upper[name] = lower, upper
        return
    bounds = np.append(axis.starts, axis.length)
    low, high = bounds[start], bounds[stop]
    if axis.first is None:
        position = np.arange(axis.length)
        boxes.members[name] = (position >= low[:, None]) & (position < high[:, None])
    else:
        boxes.lower[name] = np.asarray(axis.first + low, dtype=np.float64)
        boxes.upper[name] = np.asarray(axis.first + high - 1.0, dtype=np.float64)


def boxes_of_nodes(paths: Paths, depth: Cells, prefix: Cells) -> Boxes:
    """Boxes of nodes given by depth and prefix."""
    boxes = Boxes()
    full = prefix << (paths.depth - depth)
    for index, (name, axis) in enumerate(zip(paths.variables, paths.axes, strict=True)):
        total, cell = paths.own_cell(index, paths.depth, full)
        own_depth = np.searchsorted(np.array(paths.splits[index], dtype=np.int64), depth)
        width = np.int64(1) << (total - own_depth)
        cell = cell >> (total - own_depth)
        add_boxes(name, axis, cell * width, (cell + 1) * width, boxes)
    return boxes


def boxes_of(locator: TreeLocator | GridLocator) -> Boxes:
    """The boxes of bins, in the order of their numbers."""
    if isinstance(locator, TreeLocator):
        return boxes_of_nodes(locator.paths, locator.leaf_depth, locator.leaf_prefix)
    boxes = Boxes()
    number = np.arange(math.prod(locator.shape))
    after = len(number)
    for name, axis, cells in zip(locator.variables, locator.axes, locator.shape, strict=True):
        after //= cells
        cell = number // after % cells
        add_boxes(name, axis, cell, cell + 1, boxes)
    return boxes


MAX_TABLE = 2**22


class Partition(Bins):
    """Boxes that cover a domain exactly once, and the rule that finds a record's box.

    Numeric boxes are half-open, ``lower <= x < upper``; the last one holds
    the upper bound of the domain too. Boxes of integer variables are closed
    intervals of whole numbers, boxes of categories are subsets of the levels.

    Make one with `Partition.grid` or `Partition.from_boxes`; the curator makes
    PrivTree partitions.
    """

    def __init__(
        self,
        domain: Domain,
        variables: Sequence[str],
        locator: Locator,
        boxes: Boxes | None = None,
    ) -> None:
        super().__init__(locator)
        self.variables = tuple(variables)
        self.domain = domain.subset(self.variables)
        self._boxes = boxes

    @classmethod
    def of_tree(cls, locator: TreeLocator) -> Partition:
        """The partition of a tree, such as the curator finds."""
        return cls(Domain(locator.paths.domain), locator.paths.variables, locator)

    @property
    def boxes(self) -> Boxes:
        """The boxes, as arrays."""
        if self._boxes is None:
            assert isinstance(self.locator, TreeLocator | GridLocator)
            self._boxes = boxes_of(self.locator)
        return self._boxes

    @property
    def n_bins(self) -> int:
        """Number of boxes."""
        return self.locator.n_bins

    @property
    def kind(self) -> str:
        """How the partition was made: "privtree", "grid" or "boxes"."""
        return str(self.to_dict()["kind"])

    def locate(self, records: Records) -> Cells:
        """Bin of every record.

        Parameters
        ----------
        records : mapping of arrays
            Numeric values inside the domain, and codes into declared levels.
        """
        return self.locator.locate(records)

    def __len__(self) -> int:
        return self.n_bins

    def __repr__(self) -> str:
        return f"<Partition: {self.n_bins} bins over {', '.join(self.variables)} ({self.kind})>"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Partition)
            and self.domain == other.domain
            and self.variables == other.variables
            and self.to_dict() == other.to_dict()
        )

    def __hash__(self) -> int:
        return hash((self.domain, self.variables, self.n_bins))

    def to_dict(self) -> dict[str, Any]:
        """Plain values from which, with the domain, `from_dict` makes it again."""
        locator = self.locator
        if isinstance(locator, TreeLocator):
            return {
                "kind": "privtree",
                "max_depth": locator.paths.max_depth,
                "leaf_depth": locator.leaf_depth.tolist(),
                "leaf_prefix": locator.leaf_prefix.tolist(),
            }
        if isinstance(locator, GridLocator):
            bins = dict(zip(locator.variables, locator.shape, strict=True))
            return {"kind": "grid", "bins": bins}
        boxes = self.boxes
        return {
            "kind": "boxes",
            "lower": {name: array.tolist() for name, array in boxes.lower.items()},
            "upper": {name: array.tolist() for name, array in boxes.upper.items()},
            "members": {name: array.tolist() for name, array in boxes.members.items()},
        }

    @classmethod
    def from_dict(
        cls, domain: Domain, variables: Sequence[str], spec: Mapping[str, Any]
    ) -> Partition:
        """Make a partition again from what `to_dict` gave."""
        names = tuple(variables)
        kind = spec.get("kind")
        if kind == "privtree":
            paths = Paths(domain.subset(names), names, int(spec["max_depth"]))
            depth = np.array(spec["leaf_depth"], dtype=np.int64)
            prefix = np.array(spec["leaf_prefix"], dtype=np.int64)
            return cls(domain, names, TreeLocator(paths, depth, prefix))
        if kind == "grid":
            return cls.grid(domain.subset(names), spec["bins"])
        if kind == "boxes":
            boxes = Boxes(
                {name: np.array(value, dtype=float) for name, value in spec["lower"].items()},
                {name: np.array(value, dtype=float) for name, value in spec["upper"].items()},
                {name: np.array(value, dtype=bool) for name, value in spec["members"].items()},
            )
            return cls.from_boxes(domain.subset(names), boxes)
        raise ReleaseError("partition kind must be privtree, grid or boxes; the file is damaged")

    @classmethod
    def grid(cls, domain: Domain, bins_per_variable: int | Mapping[str, int]) -> Partition:
        """A fixed grid; it costs no budget.

        Parameters
        ----------
        domain : Domain
            The variables to cut, all of them bounded.
        bins_per_variable : int or mapping
            Number of cells of each variable. A variable with fewer values
            (levels, whole numbers) gets one cell for each.

        Examples
        --------
        >>> partition = Partition.grid(Domain({"x": (0, 1), "sex": ["f", "m"]}), 4)
        >>> partition.n_bins
        8
        """
        variables = tuple(domain)
        _require_bounded(domain)
        axes: list[Axis] = []
        for name in variables:
            cells = (
                bins_per_variable
                if isinstance(bins_per_variable, int)
                else bins_per_variable.get(name, 1)
            )
            if isinstance(cells, bool) or not isinstance(cells, int | np.integer) or cells < 1:
                raise DomainError(
                    f"bins_per_variable for {name!r} must be a whole number of at least 1, "
                    f"got {type(cells).__name__}"
                )
            axes.append(_equal_axis(domain[name], int(cells)))
        if np.prod([float(axis.n_cells) for axis in axes]) > MAX_TABLE:
            raise DomainError(
                f"bins_per_variable gives more than {MAX_TABLE} bins; use fewer bins per variable"
            )
        return cls(domain, variables, GridLocator(variables, tuple(axes)))

    @classmethod
    def from_boxes(cls, domain: Domain, boxes: Boxes | Sequence[Mapping[str, Any]]) -> Partition:
        """A partition of your own; it costs no budget.

        Parameters
        ----------
        domain : Domain
            The variables that the boxes cut.
        boxes : Boxes or sequence of mappings
            Each mapping gives ``(lower, upper)`` or a list of levels for some
            variables; a variable left out spans its whole domain.
        """
        _require_bounded(domain)
        if not isinstance(boxes, Boxes):
            boxes = _boxes_from_mappings(domain, boxes)
        return cls(domain, tuple(domain), _table_locator(domain, boxes), boxes)


def _equal_axis(variable: Variable, n_cells: int) -> Axis:
    """Cut one variable into `n_cells` cells (fewer where it has fewer values)."""
    length = list_length(variable)
    if isinstance(variable, Numeric) and length is None:
        return IntervalAxis(variable.lower, variable.upper, n_cells, variable.integer)
    assert length is not None
    n_cells = min(n_cells, length)
    starts = np.array([-(-index * length // n_cells) for index in range(n_cells)], dtype=np.int64)
    return ListAxis(starts, length, variable.lower if isinstance(variable, Numeric) else None)


def _require_bounded(domain: Domain) -> None:
    for name, variable in domain.items():
        if isinstance(variable, Numeric) and not variable.bounded:
            raise DomainError(f"variable {name!r} needs finite bounds before it can be cut")


def _boxes_from_mappings(domain: Domain, given: Sequence[Mapping[str, Any]]) -> Boxes:
    lower: dict[str, list[float]] = {}
    upper: dict[str, list[float]] = {}
    members: dict[str, list[list[bool]]] = {}
    for box in given:
        for name in box:
            domain[name]
        for name, variable in domain.items():
            if isinstance(variable, Categorical):
                levels = box.get(name, variable.levels)
                if not set(levels) <= set(variable.levels):
                    raise DomainError(f"a box names a level of {name!r} that was not declared")
                members.setdefault(name, []).append([lv in levels for lv in variable.levels])
            else:
                low, high = box.get(name, (variable.lower, variable.upper))
                lower.setdefault(name, []).append(float(low))
                upper.setdefault(name, []).append(float(high))
    return Boxes(
        {name: np.array(value) for name, value in lower.items()},
        {name: np.array(value) for name, value in upper.items()},
        {name: np.array(value) for name, value in members.items()},
    )


def _table_locator(domain: Domain, boxes: Boxes) -> TableLocator:
    """Check that the boxes cover the domain exactly once and tabulate them."""
    variables = tuple(domain)
    cuts, spans = [], []
    for name in variables:
        variable = domain[name]
        if isinstance(variable, Categorical):
            cut = np.arange(len(variable.levels), dtype=float)
            spans.append(boxes.members[name])
        else:
            low = boxes.lower[name]
            # A closed interval of whole numbers [a, b] is the half-open [a, b + 1).
            high = boxes.upper[name] + (1.0 if variable.integer else 0.0)
            top = variable.upper + (1.0 if variable.integer else 0.0)
            if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
                raise DomainError(f"boxes of {name!r} must have finite lower < upper")
            cut = np.unique(np.concatenate([low, high]))
            if cut[0] != variable.lower or cut[-1] != top:
                raise DomainError(
                    f"boxes of {name!r} must span its bounds ({variable.lower:g}, "
                    f"{variable.upper:g}) exactly"
                )
            cut = cut[:-1]
            spans.append((cut >= low[:, None]) & (cut < high[:, None]))
        cuts.append(cut)
    shape = tuple(len(cut) for cut in cuts)
    if np.prod([float(size) for size in shape]) > MAX_TABLE:
        raise DomainError(
            "the boxes have too many distinct edges to be checked; use fewer boxes or a grid"
        )
    covered = np.zeros(shape, dtype=np.int64)
    table = np.zeros(shape, dtype=np.int64)
    for k in range(len(boxes)):
        cell = np.ix_(*[np.flatnonzero(span[k]) for span in spans])
        covered[cell] += 1
        table[cell] = k
    if (covered != 1).any():
        problem = "overlap" if (covered > 1).any() else "leave a gap"
        raise DomainError(f"boxes must cover the domain exactly once, but they {problem}")
    return TableLocator(len(boxes), variables, tuple(cuts), table)
