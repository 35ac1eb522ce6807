"""Errors in the middle of a pass quote values: only their kind is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from dpbinagg.errors import DataError

T = TypeVar("T")


def guard(action: Callable[[], T]) -> T:
    """Run `action`; errors of an engine quote values, so only their kind is told."""
    kind = ""
    try:
        return action()
    except (DataError, MemoryError):
        raise
    # Engines raise errors of many classes.
    except Exception as error:
        kind = type(error).__name__
    raise DataError(
        f"the engine that holds the table failed ({kind}); its message may quote records and is "
        "not shown. Try the same query on the table yourself"
    )
