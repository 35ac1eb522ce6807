"""Sources over pandas frames and the tables of other engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpbinagg.curator.engines.cleaning import Cleaner
from dpbinagg.curator.engines.tables import Table, open_table
from dpbinagg.curator.records import _column, category_codes, numeric_values
from dpbinagg.public.boxes import Records
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.reading import Kind, Source


class FrameSource:
    """A pandas frame."""

    kind: Kind = "memory"
    native = None

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.columns = tuple(name for name in frame.columns if isinstance(name, str))

    def declared(self) -> Mapping[str, Categorical]:
        from dpbinagg.api import declared_domain

        return dict(declared_domain(Domain(), self._frame))  # type: ignore[arg-type]

    def parts(self, domain: Domain, variables: Sequence[str]) -> Iterator[Any]:
        yield self._frame

    def batches(self, domain: Domain, variables: Sequence[str]) -> Iterator[Records]:
        yield convert_any(self._frame, domain, variables)


class TableSource:
    """A table of another engine."""

    def __init__(self, table: Table) -> None:
        self._table = table
        cluster = table.kind in ("dask", "pyspark")
        self.kind: Kind = "cluster" if cluster else "stream"
        self.native = table.frame.to_native() if cluster else None
        self.columns = tuple(table.frame.collect_schema())

    def declared(self) -> Mapping[str, Categorical]:
        return self._table.declared()

    def parts(self, domain: Domain, variables: Sequence[str]) -> Iterator[Any]:
        return self.batches(domain, variables)

    def batches(self, domain: Domain, variables: Sequence[str]) -> Iterator[Records]:
        cleaner = Cleaner(self._table, domain, variables)
        for batch in self._table.batches(cleaner):
            yield _typed(batch, domain)


def _typed(batch: Mapping[str, Any], domain: Domain) -> Records:
    records: dict[str, Any] = {}
    for name, column in batch.items():
        if isinstance(domain[name], Categorical):
            records[name] = np.asarray(column, dtype=np.int64)
        else:
            values = np.asarray(column, dtype=np.float64)
            records[name] = np.where(np.isinf(values), np.nan, values)
    return records


def open_any(data: Any) -> Source:
    import pandas as pd

    if isinstance(data, FrameSource | TableSource):
        return data
    if isinstance(data, pd.DataFrame):
        return FrameSource(data)
    return TableSource(open_table(data))


def convert_any(part: Any, domain: Domain, variables: Sequence[str]) -> Records:
    import pandas as pd

    if isinstance(part, dict):
        return {name: part[name] for name in variables}
    if not isinstance(part, pd.DataFrame):
        (batch,) = TableSource(open_table(part)).batches(domain, variables)
        return batch
    names = list(part.columns)
    records: dict[str, Any] = {}
    for name in variables:
        column, variable = _column(part, names, name), domain[name]
        if isinstance(variable, Categorical):
            records[name] = category_codes(column, variable, name)
        else:
            records[name] = numeric_values(column, variable, name)
    return records
