"""The engine that computes aggregates where the table is; only aggregates reach Python.

One implementation, on narwhals, for Spark, Dask, DuckDB, Polars and Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from dpbinagg.curator.engines import Sums
from dpbinagg.curator.engines import expressions as ex
from dpbinagg.curator.engines.cleaning import Cleaner
from dpbinagg.curator.engines.counts import PrefixCounts, Selection
from dpbinagg.curator.engines.places import TreePlaces, grid_axes
from dpbinagg.curator.engines.stream import StreamEngine
from dpbinagg.curator.engines.tables import Table
from dpbinagg.curator.privatise import GRID_BITS
from dpbinagg.curator.privtree import Counts
from dpbinagg.curator.scores import ScoreSums
from dpbinagg.errors import FormulaError
from dpbinagg.formula import Design
from dpbinagg.public.partition import GridLocator, Partition, TreeLocator
from dpbinagg.public.paths import Paths
from dpbinagg.public.rounds import ScoreRequest
from dpbinagg.public.scaling import BinScaling, ColumnScaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FEW_RECORDS = 2 ** (62 - GRID_BITS)
"""Contributions of so many records add up within 64 bits."""


class FrameEngine(StreamEngine):
    """Exact aggregates computed by the table's own engine.

    What it cannot compute (a partition into boxes of the caller's own) is
    read in batches, as `StreamEngine` does.

    Raises
    ------
    FormulaError
        If the design cannot be computed by expressions; see `can_push_down`.
    """

    def __init__(self, table: Table, design: Design, missing: str) -> None:
        design.narwhals_columns()
        super().__init__(table, design, missing)
        labels = self._cleaner.label_expressions()
        if labels is None:
            raise FormulaError(
                "declared levels are of several types, or of another type than their column; "
                "convert the column, or declare levels of its type"
            )
        self._labels = labels

    def _base(self) -> Any:
        """Complete records: numbers, labels under their names, codes as ``_code_name``."""
        return self._cleaner.clean_with_labels(self._table.frame, self._labels)

    def _lookup(self, frame: Any, key: str, table: Mapping[str, NDArray[Any]]) -> Any:
        """Add columns of a small public table, found by the column `key`."""
        return frame.join(self._table.small(table), on=key, how="left")

    def _few(self) -> bool:
        return bool(self.total() < FEW_RECORDS)

    def total(self) -> int:
        if self._total is None:
            row = self._rows(self._base().select(nw.len().alias("_len")))
            self._total = int(row["_len"][0])
        return self._total

    def histograms(self, edges: Mapping[str, Floats]) -> dict[str, Integers]:
        frame, keys, starts = self._base(), [], {}
        size = 0
        for place, (name, its_edges) in enumerate(edges.items()):
            frame = self._with_interval(frame, name, its_edges, place, size)
            keys.append(f"_key{place}")
            starts[name] = size
            size += len(its_edges) - 1
        # Every record once for each variable: one pass counts all of them.
        variables = self._table.small({"_variable": np.arange(len(keys), dtype=np.int64)})
        long = frame.select(*keys).join(variables, how="cross")
        key = nw.col(keys[0])
        for place, name in enumerate(keys[1:], start=1):
            key = nw.when(nw.col("_variable") == place).then(nw.col(name)).otherwise(key)
        long = long.select(key.alias("_key"))
        rows = self._rows(long.group_by("_key").agg(nw.len().alias("_len")))
        counts = np.zeros(size, dtype=np.int64)
        counts[rows["_key"].astype(np.int64)] = rows["_len"]
        found = {
            name: counts[starts[name] : starts[name] + len(its_edges) - 1]
            for name, its_edges in edges.items()
        }
        self._total = int(next(iter(found.values())).sum())
        return found

    def _with_interval(self, frame: Any, name: str, edges: Floats, place: int, offset: int) -> Any:
        """Add the interval of a variable, sought among coarse and then among fine edges."""
        step = max(int(np.sqrt(len(edges))), 1)
        coarse = edges[::step]
        padded = np.append(edges, np.full(step, np.inf))
        row, key = f"_row{place}", f"_key{place}"
        fine: dict[str, NDArray[Any]] = {row: np.arange(len(coarse) + 1, dtype=np.int64)}
        for i in range(1, step):
            at = np.arange(len(coarse)) * step + i
            fine[f"_e{place}_{i}"] = np.append(np.inf, padded[at])
        frame = frame.with_columns(ex.above(nw.col(name), coarse).alias(row))
        frame = self._lookup(frame, row, fine)
        below = (nw.col(row) - 1) * step
        for i in range(1, step):
            below = below + (nw.col(name) > nw.col(f"_e{place}_{i}")).cast(nw.Int64)
        # `below` is the number of edges below the value, less one.
        index = nw.when(below < 0).then(nw.lit(0)).otherwise(below)
        last = len(edges) - 2
        index = nw.when(index > last).then(nw.lit(last)).otherwise(index)
        return frame.with_columns((index + offset).cast(nw.Int64).alias(key))

    def _with_cells(self, frame: Any, variables: Sequence[str], axes: Sequence[Any]) -> Any:
        """Add the cell of every variable as ``_cell{index}``."""
        for index, (name, axis) in enumerate(zip(variables, axes, strict=True)):
            cell = f"_cell{index}"
            if axis.interval is not None:
                frame = frame.with_columns(ex.interval_cell(name, axis.interval).alias(cell))
                continue
            key = f"_position{index}"
            value = nw.col(f"_code_{name}") if axis.first is None else nw.col(name) - axis.first
            position = value.clip(0, axis.length - 1).cast(nw.Int64)
            table = {key: np.arange(axis.length, dtype=np.int64), cell: axis.cell_of}
            frame = self._lookup(frame.with_columns(position.alias(key)), key, table)
        return frame

    def code_counts(self, paths: Paths) -> Counts:
        places = TreePlaces(paths)
        frame = self._with_cells(self._base(), paths.variables, places.axes)

        def counter(bits: int, selection: Selection | None) -> tuple[Integers, Integers]:
            part = frame
            if selection is not None:
                nodes = places.keys(selection.prefixes, selection.depth)
                part = part.with_columns(places.key(selection.depth).alias("_node"))
                part = part.join(self._table.small({"_node": nodes}), on="_node", how="semi")
            part = part.select(places.key(bits).alias("_key"))
            rows = self._rows(part.group_by("_key").agg(nw.len().alias("_len")))
            prefixes = places.prefixes(rows["_key"].astype(np.int64), bits)
            order = np.argsort(prefixes)
            return prefixes[order], rows["_len"].astype(np.int64)[order]

        return PrefixCounts(paths.depth, counter)

    def _with_values(self, frame: Any, design: Design) -> Any:
        """Add the design's columns ``_z{j}`` and the response ``_y``; drop incomplete records."""
        names = [f"_z{j}" for j in range(len(design.column_names))] + ["_y"]
        columns = [*design.narwhals_columns(), design.narwhals_response()]
        values = [column.alias(name) for column, name in zip(columns, names, strict=True)]
        # A record that is missing for the design is null in all its columns.
        present = ~nw.col(names[0]).is_null() & ~nw.col("_y").is_null()
        return frame.with_columns(*values).filter(present)

    def _with_bins(self, frame: Any, partition: Partition) -> Any:
        locator = partition.locator
        if isinstance(locator, GridLocator):
            frame = self._with_cells(frame, locator.variables, grid_axes(locator))
            index = nw.lit(0)
            for place, size in enumerate(locator.shape):
                index = index * size + nw.col(f"_cell{place}")
            return frame.with_columns(index.cast(nw.Int64).alias("_bin"))
        assert isinstance(locator, TreeLocator)
        places = TreePlaces(locator.paths)
        frame = self._with_cells(frame, locator.paths.variables, places.axes)
        for stage in places.stages(locator):
            frame = frame.with_columns(stage.key.alias(stage.name))
            frame = self._lookup(frame, stage.name, stage.table)
            frame = frame.with_columns(stage.found.cast(nw.Int64).alias("_bin"))
        return frame

    def bin_sums(
        self, design: Design, partition: Partition, scaling: BinScaling
    ) -> tuple[Integers, Sums, Sums]:
        if not isinstance(partition.locator, TreeLocator | GridLocator):
            return super().bin_sums(design, partition, scaling)
        n_bins, p = scaling.centre.shape
        frame = self._with_bins(self._with_values(self._base(), design), partition)
        varying = [j for j in range(p + 1) if scaling.inverse_units[j].any()]
        table: dict[str, NDArray[Any]] = {"_bin": np.arange(n_bins, dtype=np.int64)}
        for j in varying:
            table[f"_c{j}"], table[f"_u{j}"] = scaling.centres[j], scaling.inverse_units[j]
        frame = self._lookup(frame, "_bin", table)
        value = {j: nw.col(f"_z{j}" if j < p else "_y") for j in varying}
        frame = frame.with_columns(
            *(
                ((value[j] - nw.col(f"_c{j}")) * nw.col(f"_u{j}")).clip(-1.0, 1.0).alias(f"_x{j}")
                for j in varying
            )
        )
        frame = self._shorten(frame, [f"_x{j}" for j in varying if j < p], scaling.sensitivity_x)
        names = [f"_x{j}" for j in varying]
        frame = frame.with_columns(
            *(ex.whole(nw.col(name) * 2.0**GRID_BITS).alias(name) for name in names)
        )
        count, sums = self._sums_by_bin(frame, names, n_bins)
        everything = np.zeros((n_bins, p + 1), dtype=object)
        everything[:, varying] = sums
        return count, everything[:, :p], everything[:, p]

    def _shorten(self, frame: Any, names: Sequence[str], limit: float) -> Any:
        if not names:
            return frame
        norm2 = ex.total(nw.col(name) * nw.col(name) for name in names)
        frame = frame.with_columns(norm2.alias("_norm2"))
        long = nw.col("_norm2") > limit * limit
        ratio = nw.lit(limit) / nw.col("_norm2").sqrt()
        return frame.with_columns(
            *(
                nw.when(long).then(nw.col(name) * ratio).otherwise(nw.col(name)).alias(name)
                for name in names
            )
        )

    def _sums_by_bin(self, frame: Any, names: Sequence[str], n_bins: int) -> tuple[Integers, Sums]:
        parts: dict[str, Any] = {}
        for name in names:
            if self._few():
                parts[f"{name}_0"] = nw.col(name)
            else:
                parts[f"{name}_1"], parts[f"{name}_0"] = ex.limbs(name)
        frame = frame.select("_bin", *(part.cast(nw.Int64).alias(k) for k, part in parts.items()))
        grouped = frame.group_by("_bin").agg(
            nw.len().alias("_len"), *(nw.col(name).sum() for name in parts)
        )
        rows = self._rows(grouped.with_columns(*(nw.col(name).cast(nw.Int64) for name in parts)))
        bins = rows["_bin"].astype(np.int64)
        count = np.zeros(n_bins, dtype=np.int64)
        count[bins] = rows["_len"]
        sums = np.zeros((n_bins, len(names)), dtype=object)
        for place, name in enumerate(names):
            sums[bins, place] = _python(rows[f"{name}_0"])
            if not self._few():
                sums[bins, place] += _python(rows[f"{name}_1"]) * 2**ex.HALF_BITS
        return count, sums

    def _with_factors(self, design: Design, scaling: ColumnScaling) -> tuple[Any, list[str]]:
        frame = self._with_values(self._base(), design)
        names = [f"_f{i}" for i in range(scaling.size)]
        columns = [nw.lit(ex.ONE)]
        for j in scaling.varying:
            columns.append(
                ex.factor(nw.col(f"_z{j}"), float(scaling.centre[j]), float(scaling.scale[j]))
            )
        columns.append(ex.factor(nw.col("_y"), scaling.centre_y, scaling.scale_y))
        named = [column.alias(name) for column, name in zip(columns, names, strict=True)]
        return frame.with_columns(*named), names

    def moment_sums(self, design: Design, scaling: ColumnScaling) -> Sums:
        frame, names = self._with_factors(design, scaling)
        products = _Products(self._few())
        products.add_matrix("m", names)
        rows = self._sums(frame, products)
        return products.matrix("m", len(names), rows)

    def score_sums(
        self, design: Design, scaling: ColumnScaling, request: ScoreRequest
    ) -> ScoreSums:
        frame, names = self._with_factors(design, scaling)
        columns = ex.ScoreColumns(names, scaling, request)
        for stage in columns.stages():
            frame = frame.with_columns(*stage)
        weights, k = request.weights, len(request.whitening)
        products = _Products(self._few())
        for i, name in enumerate(columns.direction):
            products.add(f"_u{i}", name, "_residual")
        if weights.hessian:
            products.add_matrix("h", columns.direction)
        if weights.spread:
            products.add_matrix("s", columns.spread)
        counted = {"_len": nw.lit(1)}
        if weights.tails:
            counted |= columns.tails()
        if weights.norms:
            counted |= columns.norms()
        products.add_whole("_whole_inside")
        rows = self._sums(frame, products, counted)
        shape = (len(request.thresholds),)
        tails = np.zeros((2, *shape), dtype=object)
        if weights.tails:
            for sign in range(2):
                beyond = [rows[f"_t{sign}_{i}"] for i in range(shape[0])]
                tails[sign] = ex.cumulative_to_cells(beyond)
        norms = np.zeros(len(request.norm_edges) + 1, dtype=object)
        if weights.norms:
            beyond = [rows["_len"], *(rows[f"_n{i}"] for i in range(len(request.norm_edges)))]
            norms[:] = ex.cumulative_to_cells(beyond)
        zero = np.zeros((k, k), dtype=object)
        return ScoreSums(
            np.array([products.value(f"_u{i}", rows) for i in range(k)], dtype=object),
            products.matrix("h", k, rows) if weights.hessian else zero,
            products.matrix("s", k, rows) if weights.spread else zero,
            np.array(
                [products.whole("_whole_inside", rows) if weights.inside else 0], dtype=object
            ),
            tails,
            norms,
        )

    def _sums(
        self, frame: Any, products: _Products, counted: Mapping[str, Any] | None = None
    ) -> dict[str, int]:
        """Sums over all records, as Python integers."""
        wanted = {**products.expressions, **(counted or {})}
        # Factors first, then products: parts of factors are computed once.
        if products.parts:
            frame = frame.with_columns(*(part.alias(k) for k, part in products.parts.items()))
        frame = frame.select(*(e.cast(nw.Int64).alias(name) for name, e in wanted.items()))
        summed = frame.select(*(nw.col(name).sum().cast(nw.Int64) for name in wanted))
        rows = self._rows(summed)
        return {name: int(rows[name][0] or 0) for name in wanted}


class _Products:
    """Sums of products of whole factors, in two parts where 64 bits might not hold them."""

    def __init__(self, few: bool) -> None:
        self._few = few
        self.parts: dict[str, Any] = {}
        self.expressions: dict[str, Any] = {}

    def add(self, key: str, one: str, two: str) -> None:
        """Sum the product of two columns of factors."""
        if self._few:
            self.expressions[key] = nw.col(one) * nw.col(two)
            return
        high, low = ex.short_limbs(two)
        self.parts[f"{two}_high"], self.parts[f"{two}_low"] = high, low
        self.expressions[f"{key}_1"] = nw.col(one) * nw.col(f"{two}_high")
        self.expressions[f"{key}_0"] = nw.col(one) * nw.col(f"{two}_low")

    def add_matrix(self, key: str, names: Sequence[str]) -> None:
        """Sum the products of all pairs of columns."""
        for i, j in combinations_with_replacement(range(len(names)), 2):
            self.add(f"_{key}{i}_{j}", names[i], names[j])

    def add_whole(self, name: str) -> None:
        """Sum a column of whole numbers below ``2^GRID_BITS``."""
        high, low = ex.limbs(name)
        self.expressions[f"{name}_1"], self.expressions[f"{name}_0"] = high, low

    def value(self, key: str, rows: Mapping[str, int]) -> int:
        """One sum of products."""
        if self._few:
            return rows[key]
        return rows[f"{key}_1"] * (1 << ex.SHORT_BITS) + rows[f"{key}_0"]

    def matrix(self, key: str, size: int, rows: Mapping[str, int]) -> Sums:
        """A symmetric matrix of sums of products."""
        matrix = np.zeros((size, size), dtype=object)
        for i, j in combinations_with_replacement(range(size), 2):
            matrix[i, j] = matrix[j, i] = self.value(f"_{key}{i}_{j}", rows)
        return matrix

    def whole(self, name: str, rows: Mapping[str, int]) -> int:
        """The sum of a column of whole numbers."""
        return rows[f"{name}_1"] * (1 << ex.HALF_BITS) + rows[f"{name}_0"]


def _python(values: NDArray[Any]) -> Sums:
    return np.array([int(value) for value in values], dtype=object)


def can_push_down(table: Table, design: Design) -> bool:
    """Whether expressions can compute the design: no splines, levels of their columns' types."""
    try:
        design.narwhals_columns()
        design.narwhals_response()
    except FormulaError:
        return False
    names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
    return Cleaner(table, design.domain, names).label_expressions() is not None
