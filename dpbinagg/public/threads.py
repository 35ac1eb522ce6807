"""The threads that this process may use."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import current_thread

MAX_WORKERS = 8
_PREFIX = "dpbinagg"


@cache
def n_workers() -> int:
    """Threads that may run at once."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(available or 1, MAX_WORKERS)


@cache
def pool(purpose: str, size: int) -> ThreadPoolExecutor:
    """So many threads for a purpose; they live as long as the process."""
    return ThreadPoolExecutor(size, thread_name_prefix=f"{_PREFIX} {purpose}")


def single_thread() -> bool:
    """Whether work must stay on this thread: there are no others, or it is one of them."""
    return n_workers() == 1 or current_thread().name.startswith(_PREFIX)


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: a child starts its own.
    os.register_at_fork(after_in_child=pool.cache_clear)
