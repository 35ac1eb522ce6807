"""Readers of other packages, called so that their errors tell nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from dpbinagg.errors import DataError

T = TypeVar("T")
EXTRAS = {"pyreadstat": "spss", "openpyxl": "excel", "pyarrow": "parquet"}
"""The extra of this package that installs a reader."""


def reading(path: str, module: str, read: Callable[[Any], T]) -> T:
    """Call `read` with a module; hide the text of its errors, which may quote the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(import_module(module))
    except ImportError as error:
        # pandas names what it lacks in the text alone.
        named = next((name for name in EXTRAS if name in str(error)), module)
        missing = error.name if error.name in EXTRAS else named
        extra = EXTRAS.get(missing)
        how = f'pip install "dpbinagg[{extra}]"' if extra else f"pip install {missing}"
        raise DataError(
            f"data file {path!r} needs the package {missing}, which is not installed: {how}; or "
            "save the table as CSV"
        ) from None
    # Readers raise their own kinds of errors.
    except Exception as error:
        raise DataError(
            f"data file {path!r} cannot be read as a {Path(path).suffix} file "
            f"({type(error).__name__}); check that it is whole and of that kind"
        ) from None
