"""The model that statsmodels' machinery hangs on: public rows, no records.

statsmodels reads names, the constant and the design of new data from a model
that keeps the table it was fitted to. Ours keeps a few rows laid over the
public domain instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.base.data import PandasData
from statsmodels.base.model import Model

from dpbinagg.boxes import Boxes
from dpbinagg.domain import Categorical, Domain
from dpbinagg.formula import Design

Floats = NDArray[np.float64]


def spread_rows(domain: Domain, size: int) -> tuple[dict[str, NDArray[Any]], pd.DataFrame]:
    """Rows spread evenly over a domain, as arrays for a design and as a frame.

    Row i has the fraction ``frac(1/2 + i phi^-j)`` of the range (or list of
    levels) of variable j, phi the root of ``x^(d+1) = x + 1``: a
    low-discrepancy sequence, so that no two variables move together.
    """
    names = list(domain)
    root = 2.0
    for _ in range(40):
        root = (1.0 + root) ** (1.0 / (len(names) + 1.0))
    records: dict[str, NDArray[Any]] = {}
    columns: dict[str, Any] = {}
    for j, name in enumerate(names):
        share = (0.5 + np.arange(1, size + 1) * root ** -(j + 1.0)) % 1.0
        variable = domain[name]
        if isinstance(variable, Categorical):
            codes = np.minimum((share * len(variable.levels)).astype(np.int64), _last(variable))
            records[name] = codes
            columns[name] = level_column(variable, codes)
        else:
            values = variable.lower + share * (variable.upper - variable.lower)
            values = np.floor(values) if variable.integer else values
            records[name] = np.clip(values, variable.lower, variable.upper)
            columns[name] = records[name]
    return records, pd.DataFrame(columns)


def _last(variable: Categorical) -> int:
    return len(variable.levels) - 1


def level_column(variable: Categorical, codes: NDArray[Any]) -> Any:
    """Levels of a categorical variable as a pandas column."""
    if all(isinstance(level, bool) for level in variable.levels):
        return np.array(variable.levels, dtype=bool)[codes]
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(variable.levels)))


class DPOLS(Model):  # type: ignore[misc]
    """A linear model known by its design alone.

    Parameters
    ----------
    design : Design
        The formula over a bounded domain.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        endog, exog, frame = _public_rows(design)
        super().__init__(endog, exog, formula=design.formula, model_spec=design.design_info)
        self.formula = design.formula
        self.data.frame = frame
        self.nobs = len(endog)

    def _handle_data(
        self, endog: Any, exog: Any, missing: str, hasconst: bool | None, **kwargs: Any
    ) -> PandasData:
        return PandasData(endog, exog=exog, missing="none", hasconst=hasconst, **kwargs)

    @property
    def df_model(self) -> float:
        """Number of columns besides the constant."""
        return float(len(self.design.column_names) - self.k_constant)

    def predict(self, params: Any, exog: Any = None, which: str = "mean", **_: Any) -> Any:
        """Linear prediction ``exog @ params``, for every `which`."""
        matrix = self.exog if exog is None else np.asarray(exog, dtype=float)
        return matrix @ np.asarray(params)

    def fit(self, *_: Any, **__: Any) -> Any:
        """Not here: a release is fitted by `Release.ols`."""
        raise NotImplementedError("this model holds no records; use release.ols(formula)")

    def __reduce__(self) -> tuple[Any, ...]:
        return DPOLS, (self.design,)


def _public_rows(design: Design) -> tuple[pd.Series[Any], pd.DataFrame, pd.DataFrame]:
    """Response, columns and raw variables of rows spread over the domain."""
    names = dict.fromkeys((*design.response_variables, *design.variables))
    domain = design.domain.subset(list(names))
    least = 2 * len(design.column_names) + 6
    for size in (least, 64 * least):
        records, frame = spread_rows(domain, size)
        exog, endog = design.columns(records), design.response(records)
        valid = np.isfinite(exog).all(axis=1) & np.isfinite(endog)
        if valid.sum() >= min(least, 8):
            exog, endog, frame = exog[valid][:least], endog[valid][:least], frame[valid][:least]
            break
    else:
        exog, endog = _corners(design)
    rows = pd.RangeIndex(len(endog))
    frame = frame.reset_index(drop=True)
    return (
        pd.Series(endog, index=rows, name=design.response_name),
        pd.DataFrame(exog, index=rows, columns=list(design.column_names)),
        frame,
    )


def _corners(design: Design) -> tuple[Floats, Floats]:
    """Bounds of the columns, for designs that are missing on nearly all of the domain."""
    lower, upper = design.column_bounds(Boxes.whole(design.domain, design.variables))
    return np.vstack([lower, upper]), np.array(design.response_bounds())
