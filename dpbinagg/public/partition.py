"""Partitions: boxes that cover the domain of some variables exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbinagg.errors import DomainError, ReleaseError
from dpbinagg.public.boxes import Boxes, Records
from dpbinagg.public.domain import Categorical, Domain, Numeric
from dpbinagg.public.paths import Axis, Paths, equal_axis
from dpbinagg.public.prefixes import PrefixTables

MAX_TABLE = 2**22
FEW = 4096
"""Codes for which a binary search is faster than tables."""


class Locator(Protocol):
    """The rule of a partition: which bin a record belongs to."""

    def boxes(self) -> Boxes:
        """The boxes of the bins, in the order of their numbers."""
        ...

    def locate(self, records: Records) -> NDArray[np.int64]:
        """Bin of every record."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """What, beside the domain, is needed to make the locator again."""
        ...


@dataclass(frozen=True)
class TreeLocator:
    """Leaves of a binary tree over path codes, in the order of the codes."""

    paths: Paths
    leaf_depth: NDArray[np.int64]
    leaf_prefix: NDArray[np.int64]

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return self.leaf_prefix << (self.paths.depth - self.leaf_depth)

    def boxes(self) -> Boxes:
        return self.paths.boxes(self.leaf_depth, self.leaf_prefix)

    def locate(self, records: Records) -> NDArray[np.int64]:
        return self.locate_codes(self.paths.codes(records))

    def locate_codes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bin of every path code."""
        if len(codes) <= FEW:
            return np.searchsorted(self._starts, codes, side="right") - 1
        return self.tables.locate(codes)

    @cached_property
    def tables(self) -> PrefixTables:
        """Tables from the leading bits of a code to bins."""
        return PrefixTables.of(self._starts, self.paths.depth)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "privtree",
            "max_depth": self.paths.max_depth,
            "leaf_depth": self.leaf_depth.tolist(),
            "leaf_prefix": self.leaf_prefix.tolist(),
        }


@dataclass(frozen=True)
class GridLocator:
    """The product of one-dimensional cuts."""

    variables: tuple[str, ...]
    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.n_cells for axis in self.axes)

    def boxes(self) -> Boxes:
        boxes = Boxes({}, {}, {})
        index = np.indices(self.shape).reshape(len(self.shape), -1)
        for name, axis, cell in zip(self.variables, self.axes, index, strict=True):
            axis.add_boxes(name, cell, cell + 1, boxes)
        return boxes

    def locate(self, records: Records) -> NDArray[np.int64]:
        cells = [
            axis.cells(records[name]) for name, axis in zip(self.variables, self.axes, strict=True)
        ]
        return np.ravel_multi_index(tuple(cells), self.shape).astype(np.int64, copy=False)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "grid", "bins": dict(zip(self.variables, self.shape, strict=True))}


@dataclass(frozen=True)
class TableLocator:
    """Any boxes: a table from the elementary cells between all cuts to bins."""

    given: Boxes
    variables: tuple[str, ...]
    cuts: tuple[NDArray[np.float64], ...]
    integer: tuple[bool, ...]
    table: NDArray[np.int64]

    def boxes(self) -> Boxes:
        return self.given

    def locate(self, records: Records) -> NDArray[np.int64]:
        cells = []
        for name, cut, size in zip(self.variables, self.cuts, self.table.shape, strict=True):
            cell = np.searchsorted(cut, records[name], side="right") - 1
            cells.append(np.clip(cell, 0, size - 1))
        return self.table[tuple(cells)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "boxes",
            "lower": {name: array.tolist() for name, array in self.given.lower.items()},
            "upper": {name: array.tolist() for name, array in self.given.upper.items()},
            "members": {name: array.tolist() for name, array in self.given.members.items()},
        }


class Partition:
    """Boxes that cover a domain exactly once, and the rule that finds a record's box.

    Numeric boxes are half-open, ``lower <= x < upper``; the last one holds
    the upper bound of the domain too. Boxes of integer variables are closed
    intervals of whole numbers, boxes of categories are subsets of the levels.

    Make one with `Partition.grid` or `Partition.from_boxes`; the curator makes
    PrivTree partitions.
    """

    __slots__ = ("_boxes", "_locator", "domain", "variables")

    def __init__(self, domain: Domain, variables: Sequence[str], locator: Locator) -> None:
        self.variables = tuple(variables)
        self.domain = domain.subset(self.variables)
        self._locator = locator
        self._boxes: Boxes | None = None

    @property
    def boxes(self) -> Boxes:
        """The boxes, as arrays."""
        if self._boxes is None:
            self._boxes = self._locator.boxes()
        return self._boxes

    @property
    def n_bins(self) -> int:
        """Number of boxes."""
        return len(self.boxes)

    @property
    def kind(self) -> str:
        """How the partition was made: "privtree", "grid" or "boxes"."""
        return str(self.to_dict()["kind"])

    @property
    def locator(self) -> Locator:
        """The rule that finds bins."""
        return self._locator

    def locate(self, records: Records) -> NDArray[np.int64]:
        """Bin of every record.

        Parameters
        ----------
        records : mapping of arrays
            Numeric values inside the domain, and codes into declared levels.
        """
        return self._locator.locate(records)

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
        return self._locator.to_dict()

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
        axes = []
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
            axes.append(equal_axis(domain[name], int(cells)))
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
        return cls(domain, tuple(domain), _table_locator(domain, boxes))


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
    cuts, spans, integer = [], [], []
    for name in variables:
        variable = domain[name]
        if isinstance(variable, Categorical):
            cut = np.arange(len(variable.levels), dtype=float)
            spans.append(boxes.members[name])
            integer.append(False)
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
            integer.append(variable.integer)
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
    return TableLocator(boxes, variables, tuple(cuts), tuple(integer), table)
