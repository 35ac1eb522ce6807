"""Forked processes that report what they do, and may be killed in the middle of it."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from typing import Any

Report = Callable[[Any], None]


class Child:
    """A forked process that reports objects through a pipe, and may be killed."""

    def __init__(self, work: Callable[[Report], None]) -> None:
        self._receive, send = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.close(self._receive)
                with os.fdopen(send, "wb", buffering=0) as pipe:
                    work(lambda thing: pipe.write(_packed(thing)))
                status = 0
            finally:
                os._exit(status)
        os.close(send)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def finish(self) -> tuple[int, list[Any]]:
        with os.fdopen(self._receive, "rb") as pipe:
            content = pipe.read()
        _, status = os.waitpid(self.pid, 0)
        return status, list(_unpacked(content))


def _packed(thing: Any) -> bytes:
    body = pickle.dumps(thing)
    return len(body).to_bytes(4, "big") + body


def _unpacked(content: bytes) -> Iterator[Any]:
    while len(content) >= 4:
        size = int.from_bytes(content[:4], "big")
        if len(content) < 4 + size:
            return
        yield pickle.loads(content[4 : 4 + size])
        content = content[4 + size :]
