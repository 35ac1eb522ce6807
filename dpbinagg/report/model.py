"""The model that statsmodels' machinery hangs on: public rows, no records.

statsmodels reads names, the constant and the design of new data from a model
that keeps the table it was fitted to. Ours keeps points spread over the public
domain, and synthetic records where a table of data is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.base.data import PandasData
from statsmodels.base.model import Model

from dpbinagg.formula import Design
from dpbinagg.formula.submodel import public_points
from dpbinagg.public.boxes import Boxes
from dpbinagg.public.rows import spread_rows

Floats = NDArray[np.float64]
FrameMaker = Callable[[], pd.DataFrame]


class PublicData(PandasData):  # type: ignore[misc]
    """Names and columns for statsmodels; `frame` is made when it is first asked for."""

    make_frame: FrameMaker

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Synthetic records, over which other packages average their effects."""
        return self.make_frame()


class DPOLS(Model):  # type: ignore[misc]
    """A linear model known by its design alone.

    Parameters
    ----------
    design : Design
        The formula over a bounded domain.
    make_frame : callable
        Makes the table of synthetic records that `data.frame` holds.
    """

    def __init__(self, design: Design, make_frame: FrameMaker) -> None:
        self.design = design
        endog, exog = _public_rows(design)
        super().__init__(
            endog,
            exog,
            hasconst=None if design.intercept is None else True,
            formula=design.formula,
            model_spec=design.design_info,
        )
        self.formula = design.formula
        self.data.make_frame = make_frame
        self.data.const_idx = design.intercept

    def _handle_data(
        self, endog: Any, exog: Any, missing: str, hasconst: bool | None, **kwargs: Any
    ) -> PublicData:
        return PublicData(endog, exog=exog, missing="none", hasconst=hasconst, **kwargs)

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
        return DPOLS, (self.design, self.data.make_frame)


def _public_rows(design: Design) -> tuple[pd.Series[Any], pd.DataFrame]:
    """Response and columns of points spread over the domain."""
    least = 2 * len(design.column_names) + 6
    rng = np.random.default_rng(0)
    points: dict[str, Any] = dict(public_points(design, least, rng))
    size = len(next(iter(points.values())))
    points = {**spread_rows(design.domain.subset(design.response_variables), size, rng), **points}
    exog, endog = design.columns(points), design.response(points)
    valid = np.isfinite(exog).all(axis=1) & np.isfinite(endog)
    exog, endog = exog[valid], endog[valid]
    if len(endog) < 2:
        lower, upper = design.column_bounds(Boxes.whole(design.domain, design.variables))
        exog, endog = np.vstack([lower, upper]), np.array(design.response_bounds())
    return (
        pd.Series(endog, name=design.response_name),
        pd.DataFrame(exog, columns=list(design.column_names)),
    )
