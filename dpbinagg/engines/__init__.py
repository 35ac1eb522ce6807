"""Engines: where the exact sums are computed. Each has one method, `map_reduce`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpbinagg.engines.base import MemoryEngine, require_complete
from dpbinagg.kernel.questions import Engine
from dpbinagg.public.variables import Variables

if TYPE_CHECKING:
    from dpbinagg.reading import Source

__all__ = ["Engine", "open_engine"]


def open_engine(
    source: Source, domain: Variables, variables: Sequence[str], missing: str, columns: int
) -> Engine:
    """The engine for a source.

    Parameters
    ----------
    source : Source
    domain : Variables
        Declares the variables.
    variables : sequence of str
        The raw variables that questions may look at.
    missing : {"drop", "raise"}
        What to do with incomplete records. "raise" reveals whether there is one, and only that.
    columns : int
        About how many numbers a row map will give, to plan memory with.
    """
    source.check(domain, variables)
    names = tuple(variables)
    engine: Engine
    if source.kind == "memory":
        engine = MemoryEngine(source, domain, names)
    elif source.kind == "stream":
        from dpbinagg.engines.stream import StreamEngine

        engine = StreamEngine(source, domain, names, columns)
    else:
        from dpbinagg.engines.cluster import cluster_engine

        engine = cluster_engine(source, domain, names)
    if missing == "raise":
        require_complete(engine)
    return engine
