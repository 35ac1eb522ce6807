"""One table with mixed types, nulls and categories, in the form of every engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BOUNDS: dict[str, Any] = {
    "age": range(16, 91),
    "hours": (0, 80),
    "region": ["N", "E", "S", "W"],
    "grade": [1, 2, 3],
    "wage": (0.0, 400.0),
    "wild": (None, None),
}
FORMULA = "wage ~ age + I(age**2) + hours + C(region) + member + C(grade):hours + wild"


def frame(n: int = 3000) -> pd.DataFrame:
    """Records with missing, infinite, undeclared, out-of-range and half-way values."""
    rng = np.random.default_rng(7)
    age = rng.integers(10, 100, n).astype(float)
    age[::97] += 0.5
    age[5::101] = np.nan
    hours = np.round(rng.normal(35, 15, n), 1)
    hours[3::89] = np.inf
    hours[4::89] = -np.inf
    region = rng.choice(["N", "E", "S", "W", "nowhere"], n, p=[0.3, 0.3, 0.2, 0.15, 0.05])
    wild = np.exp(rng.normal(0, 8, n)) * rng.choice([-1, 1], n)
    wild[::50] = 0.0
    wild[1::50] = 2.0 ** rng.integers(-20, 20, len(wild[1::50]))
    member = np.where(rng.random(n) < 0.02, None, rng.random(n) < 0.4)
    wage = 20 + 0.3 * np.nan_to_num(age) + rng.normal(0, 30, n)
    return pd.DataFrame(
        {
            "age": pd.array(np.where(np.isnan(age), None, age), dtype="Float64"),
            "hours": hours,
            "region": pd.array(np.where(rng.random(n) < 0.02, None, region), dtype="string"),
            "grade": pd.array(np.where(rng.random(n) < 0.02, None, rng.integers(1, 5, n)), "Int8"),
            "member": pd.array(member, "boolean"),
            "wild": wild,
            "wage": wage.astype(np.float32),
            "unused": "secret",
        }
    )


def arrow(data: pd.DataFrame) -> Any:
    import pyarrow as pa

    return pa.Table.from_pandas(data, preserve_index=False)


def arrow_dictionary(data: pd.DataFrame) -> Any:
    table = arrow(data)
    place = table.schema.names.index("region")
    return table.set_column(place, "region", table["region"].dictionary_encode())


def polars_eager(data: pd.DataFrame) -> Any:
    import polars as pl

    return pl.from_arrow(arrow(data))


def polars_lazy(data: pd.DataFrame) -> Any:
    return polars_eager(data).lazy()


def polars_enum(data: pd.DataFrame) -> Any:
    import polars as pl

    enum = pl.Enum(["nowhere", "W", "S", "E", "N", "other"])
    return polars_eager(data).with_columns(pl.col("region").cast(enum)).lazy()


def duckdb_relation(data: pd.DataFrame) -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.register("people", arrow(data))
    connection.execute("CREATE TABLE held AS SELECT * FROM people")
    return connection.table("held")


def dask(data: pd.DataFrame) -> Any:
    import dask.dataframe as dd

    return dd.from_pandas(data, npartitions=3)


def in_process() -> dict[str, Callable[[pd.DataFrame], Any]]:
    """Makers of tables that need no cluster."""
    return {
        "arrow": arrow,
        "arrow-dictionary": arrow_dictionary,
        "polars": polars_eager,
        "polars-lazy": polars_lazy,
        "polars-enum": polars_enum,
        "duckdb": duckdb_relation,
    }


def write_parquet(data: pd.DataFrame, folder: Path) -> Path:
    """A folder of three Parquet files."""
    import pyarrow.parquet as pq

    table = arrow(data)
    third = -(-len(data) // 3)
    folder.mkdir()
    for part in range(3):
        pq.write_table(table.slice(part * third, third), folder / f"part-{part}.parquet")
    return folder
