"""A progress bar for long work that shows nothing private.

It counts the public steps of a release, not records, bytes or passes over the
table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

WIDTH = 24


class _Bar:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._total = 1
        self._done = 0
        self._shown = 0

    def start(self, total: int) -> None:
        self.close()
        self._total, self._done = max(total, 1), 0

    def step(self, name: str) -> None:
        full = WIDTH * self._done // self._total
        bar = "#" * full + "." * (WIDTH - full)
        line = f"[{bar}] {self._done + 1} of {self._total}: {name}"
        self._stream.write("\r" + line.ljust(self._shown))
        self._stream.flush()
        self._shown = len(line)
        self._done = min(self._done + 1, self._total - 1)

    def close(self) -> None:
        if self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()
        self._shown = 0


_BAR: ContextVar[_Bar | None] = ContextVar("dpbinagg_progress", default=None)


@contextmanager
def show_progress(stream: TextIO | None = None) -> Iterator[None]:
    """Show the steps of the releases that are made inside a ``with`` block.

    Parameters
    ----------
    stream : text file, optional
        Where to write; standard error by default.

    Returns
    -------
    context manager

    Examples
    --------
    >>> import io
    >>> from dpbinagg import dp_ols, show_progress
    >>> from dpbinagg.datasets import load_school
    >>> school, shown = load_school(), io.StringIO()
    >>> with show_progress(shown):
    ...     res = dp_ols("score ~ pretest", school.frame, mu=1, bounds=school.codebook)
    >>> "partition" in shown.getvalue()
    True
    """
    bar = _Bar(sys.stderr if stream is None else stream)
    token = _BAR.set(bar)
    try:
        yield
    finally:
        _BAR.reset(token)
        bar.close()


def step(name: str, of: int | None = None) -> None:
    """Begin the next step, or the first one `of` so many."""
    bar = _BAR.get()
    if bar is not None:
        if of is not None:
            bar.start(of)
        bar.step(name)
