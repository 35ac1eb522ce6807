"""Optional packages: imported when used, and named in one line where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dpbinagg.errors import MissingExtraError


def require(module: str, extra: str, what: str, instead: str = "") -> Any:
    """Import an optional package.

    Parameters
    ----------
    module : str
        What to import.
    extra : str
        The extra of this package that brings it.
    what : str
        What needs it, in the plural.
    instead : str
        What works without it.
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.split(".")[0]
        raise MissingExtraError(
            f"{what} need {package}, which is not installed; run: "
            f'pip install "dpbinagg[{extra}]"{instead and f" ({instead})"}'
        ) from None
