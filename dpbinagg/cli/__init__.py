"""The command ``dpbinagg``.

Exit codes: 0 all went well, 1 the request could not be met (one sentence on the error
stream says why), 2 the command was not understood. Nothing heavy is imported until a
command runs, so that ``--help`` is instant.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dpbinagg.errors import DomainError, DPBinAggError, DPBinAggWarning, FormulaError

__all__ = ["main"]

OK, FAILED, INTERRUPTED = 0, 1, 130
DECLARE = '(here: --bounds codebook.csv, --bound NAME=LOW,HIGH or --bound "NAME=a|b|c")'
DEBUG = "DPBINAGG_DEBUG"
"""Set in the environment, it shows tracebacks; these can hold values of the table."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``dpbinagg``; those of the process by default.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> main(["ledger", "missing.db"])
    1
    """
    from dpbinagg.cli.parser import make_parser

    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.run is None:
        parser.print_help()
        return OK
    try:
        with _plain_warnings():
            options.run(options)
            sys.stdout.flush()
        return OK
    except BrokenPipeError:
        # The reader of a pipe has gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    except DPBinAggError as error:
        if os.environ.get(DEBUG):
            raise
        _say(f"error: {_one_line(error)}")
        return FAILED
    # The text of an unforeseen error may hold a value of the private table.
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        _say(
            f"error: an unforeseen {type(error).__name__} stopped the command; its text is hidden "
            f"because it could hold private values. Set {DEBUG}=1 to see it."
        )
        return FAILED


def _one_line(error: DPBinAggError) -> str:
    parts = [str(error), *getattr(error, "__notes__", [])]
    if isinstance(error, DomainError | FormulaError) and "declare" in parts[0]:
        parts.append(DECLARE)
    return " ".join(parts).replace("\n", " ")


def _say(text: str) -> None:
    print(f"dpbinagg: {text}", file=sys.stderr)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings of this package as one line each, and no others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", DPBinAggWarning)
        warnings.showwarning = lambda message, *_, **__: _say(f"note: {message}")
        yield
