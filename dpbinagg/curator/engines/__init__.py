"""Tables of other packages."""

from __future__ import annotations

from typing import Any


def open_data(data: Any) -> Any:
    """A pandas frame as it is; other tables, and files, opened."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data
    from dpbinagg.curator.engines.tables import open_table

    return open_table(data)
