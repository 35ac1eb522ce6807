"""How much memory may be used to spare passes over a table."""

from __future__ import annotations

import os
from pathlib import Path

SHARE = 0.4
"""Of the machine's memory."""
SHARE_OF_LIMIT = 0.6
"""Of what a limit for this process or its container leaves."""
PASS = 3 * 2**29
"""Address space that a pass over a table takes, most of it by allocators that hardly use it."""
UNKNOWN = 2**31


def memory_room() -> int:
    """Bytes that may be kept between passes."""
    limits = [limit for limit in (_process_limit(), _container_limit()) if limit is not None]
    room = SHARE * _physical()
    if limits:
        room = min(room, SHARE_OF_LIMIT * min(limits))
    return int(room)


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return UNKNOWN


def _process_limit() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    # What is mapped already, libraries among it, counts.
    return None if soft == resource.RLIM_INFINITY else max(soft - _mapped() - PASS, 0)


def _mapped() -> int:
    """Bytes of address space that this process uses now; 0 where that is not told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _container_limit() -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 2**60:
            return int(text)
    return None
