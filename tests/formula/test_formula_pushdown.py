"""The same design computed by engines, from raw and dirty tables."""

import re

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
from formula_corpus import DOMAIN, FORMULAS

from dpbinagg.errors import FormulaError
from dpbinagg.formula import build_design
from dpbinagg.public.domain import Categorical

NOT_PUSHED = re.compile(r"\b(bs|cr|cc|np.arctan|np.cbrt|np.rint)\(")


def dirty_table(n, rng):
    """A raw table with values out of bounds, missing and undeclared, and its records."""
    frame, records = {}, {}
    for name, variable in DOMAIN.items():
        gone = rng.random(n) < 0.02
        if isinstance(variable, Categorical):
            labels = list(variable.levels)
            codes = rng.integers(len(labels), size=n)
            if labels == [False, True]:
                frame[name] = pd.array(codes == 1, dtype="boolean")
                frame[name][gone] = pd.NA
            elif isinstance(labels[0], str):
                labels = [*labels, "undeclared"]
                codes = rng.integers(len(labels), size=n)
                frame[name] = pd.array(np.array(labels)[codes], dtype="string")
                frame[name][gone] = pd.NA
                codes = np.where(codes == len(labels) - 1, -1, codes)
            else:
                frame[name] = pd.array(np.array(labels)[codes], dtype="Int64")
                frame[name][gone] = pd.NA
            records[name] = np.where(gone, -1, codes)
            continue
        width = variable.upper - variable.lower
        values = rng.uniform(variable.lower - 0.2 * width, variable.upper + 0.2 * width, n)
        if variable.integer:
            values = np.rint(values)
        values[gone] = rng.choice([np.nan, np.inf, -np.inf], gone.sum())
        frame[name] = records[name] = values
    return pd.DataFrame(frame), records


FRAME, RECORDS = dirty_table(300, np.random.default_rng(8))
POLARS = pl.from_pandas(FRAME)
TABLES = {
    "pandas": lambda connection: FRAME,
    "polars": lambda connection: POLARS,
    "lazy": lambda connection: POLARS.lazy(),
    "arrow": lambda connection: POLARS.to_arrow(),
    "duckdb": lambda connection: connection.from_arrow(POLARS.to_arrow()),
}


def computed(table, design):
    """Design and response as the engine computes them, null as NaN."""
    expressions = [*design.narwhals_columns(), design.narwhals_response()]
    names = [f"c{j}" for j in range(len(expressions))]
    named = [expression.alias(name) for expression, name in zip(expressions, names, strict=True)]
    out = nw.from_native(table).with_columns(*named).select(*names)
    out = out.collect() if isinstance(out, nw.LazyFrame) else out
    columns = [
        out[name].cast(nw.Float64).to_pandas().to_numpy(float, na_value=np.nan) for name in names
    ]
    return np.stack(columns, axis=1)


def check(table, formula):
    design = build_design(formula, DOMAIN)
    ours = np.c_[design.columns(RECORDS), design.response(RECORDS)]
    theirs = computed(table, design)
    np.testing.assert_array_equal(np.isnan(theirs), np.isnan(ours))
    scale = np.maximum(np.nanmax(np.abs(ours), axis=0), 1)
    np.testing.assert_allclose(theirs / scale, ours / scale, rtol=0, atol=1e-12)


@pytest.mark.parametrize("formula", [f for f in FORMULAS if not NOT_PUSHED.search(f)])
def test_polars_agrees_on_the_corpus(formula):
    check(POLARS, formula)


@pytest.mark.parametrize("engine", TABLES)
@pytest.mark.parametrize(
    "formula",
    [
        "np.log(wage) ~ educ + exper + I(exper**2) + C(region) + union",
        "wage ~ C(region, Helmert) * temp + I((age > 30) & ~(age >= 50)) + C(kids)",
        "I(wage > 20) ~ np.where(temp > 0, temp, -temp / 2) + minimum(age, 65) + I(age % 10)",
        "np.arcsinh(profit) ~ I(union * exper) + C(kids, levels=[0, 2]) + grade + np.sin(temp)",
    ],
)
def test_engines_agree(engine, formula):
    with duckdb.connect() as connection:
        check(TABLES[engine](connection), formula)


@pytest.mark.parametrize("formula", [f for f in FORMULAS if NOT_PUSHED.search(f)])
def test_what_engines_lack_is_refused(formula):
    with pytest.raises(FormulaError, match="inside a data-frame engine"):
        build_design(formula, DOMAIN).narwhals_columns()
