"""Tables in this process: pandas, Arrow and Polars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpbinagg.errors import DataError
from dpbinagg.public.variables import Variables
from dpbinagg.reading.columns import arrow_type, pandas_type, polars_type
from dpbinagg.reading.source import Source

ROWS = 2**17
"""Records of one part."""


class FrameSource(Source):
    """A pandas frame. Its dtypes count as public: pandas may have learnt them from a file."""

    def __init__(self, frame: Any) -> None:
        names = [name for name in frame.columns if isinstance(name, str)]
        self._frame = frame
        self.repeated = frozenset(name for name in names if names.count(name) > 1)
        dtypes = zip(frame.columns, frame.dtypes, strict=True)
        schema = {name: pandas_type(dtype) for name, dtype in dtypes if isinstance(name, str)}
        super().__init__("memory", schema)

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """The frame itself."""
        yield self._frame


class ArrowSource(Source):
    """An Arrow table."""

    def __init__(self, table: Any) -> None:
        self._table = table
        names = table.schema.names
        self.repeated = frozenset(name for name in names if names.count(name) > 1)
        fields = zip(names, table.schema.types, strict=True)
        super().__init__("stream", {name: arrow_type(dtype) for name, dtype in fields})

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Slices."""
        chosen = self._table.select(list(variables))
        for start in range(0, len(chosen), ROWS):
            yield chosen.slice(start, ROWS)


class PolarsSource(Source):
    """A Polars frame, eager or lazy."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame.lazy()
        schema = self._frame.collect_schema()
        super().__init__("stream", {name: polars_type(dtype) for name, dtype in schema.items()})

    def parts(self, domain: Variables, variables: Sequence[str]) -> Iterator[Any]:
        """Batches of the columns that are needed; order is of no interest."""
        chosen = self._frame.select(list(variables))
        if hasattr(chosen, "collect_batches"):
            yield from chosen.collect_batches(chunk_size=ROWS, maintain_order=False)
        else:
            yield from chosen.collect().iter_slices(ROWS)


def arrow_source(data: Any) -> Source:
    """The source of an Arrow table, record batch or dataset."""
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        return ArrowSource(pa.Table.from_batches([data]))
    if isinstance(data, pa.Table):
        return ArrowSource(data)
    if isinstance(data, pa.RecordBatchReader):
        raise DataError(
            "data is a RecordBatchReader, which can be read only once; pass the table or the "
            "dataset that it comes from"
        )
    from dpbinagg.reading.relations import RelationSource, connection

    return RelationSource(connection().from_arrow(data))
