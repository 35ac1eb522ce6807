"""Work on other threads, such as drawing noise while records are summed."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from threading import Lock, current_thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")

MAX_WORKERS = 8
PREFIX = "dpbinagg"


@cache
def n_workers() -> int:
    """Threads that may run at once."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, MAX_WORKERS)


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(n_workers() - 1, 1), thread_name_prefix=PREFIX)


def alone() -> bool:
    """Whether work must stay on this thread: there are no others, or it is one of them."""
    return n_workers() == 1 or current_thread().name.startswith(PREFIX)


class Errand(Generic[T]):
    """Work that may be done before its result is needed, by whoever is free first."""

    def __init__(self, function: Callable[..., T], *args: Any) -> None:
        self._work = partial(function, *args)
        self._begun = Lock()
        self._done: Future[T] = Future()

    def run(self) -> None:
        """Do the work, unless somebody has begun it."""
        if self._begun.acquire(blocking=False):
            try:
                self._done.set_result(self._work())
            except BaseException as error:
                self._done.set_exception(error)

    def done(self) -> bool:
        """Whether the result is there."""
        return self._done.done()

    def result(self) -> T:
        """The result. Work that nobody has begun is done here and now."""
        self.run()
        return self._done.result()


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child starts its own.
    os.register_at_fork(after_in_child=_helpers.cache_clear)


def begin(function: Callable[..., T], *args: Any) -> Errand[T]:
    """``function(*args)`` on another thread, if one is free before the result is needed."""
    errand = Errand(function, *args)
    if not alone():
        _helpers().submit(errand.run)
    return errand
