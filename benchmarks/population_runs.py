"""One replicate of a cell: a draw, a private fit, least squares on the same draw, the truth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import patsy
from common import rng_for
from population_cell import Cell
from population_truth import LEVEL, Fit, Matrices, least_squares, matrices

from dpbinagg import dp_ols
from dpbinagg.errors import IdentificationWarning, NotIdentifiedError, NotReleasedError
from dpbinagg.public.domain import Numeric

SIBLINGS = ("combined", "corrected")

POINTS = 3
"""People of the population whose mean is predicted."""

CUT_SHARE = 0.01
"""A run has cut the table when more than this share of its records lies outside its ranges."""


NORMAL = 1.96
"""Standard deviations of a normal law that hold 95%."""


@dataclass(frozen=True, slots=True)
class Model:
    """One formula on the population: its matrices and least squares there."""

    formula: str
    data: Matrices
    fit: Fit

    @property
    def slopes(self) -> np.ndarray:
        """Columns besides the intercept that the population determines."""
        named = np.array([name != "Intercept" for name in self.data.names])
        return named & self.fit.determined


@dataclass(frozen=True, slots=True)
class Reference:
    """What is true of one population: the model, a smaller one, and people to predict."""

    frame: pd.DataFrame
    full: Model
    small: Model | None
    points: np.ndarray


def reference(cell: Cell, frame: pd.DataFrame) -> Reference:
    """The truth of a cell, if `frame` is its population."""
    smaller = smaller_formula(cell.formula)
    points = rng_for("points", cell.name).choice(len(frame), POINTS, replace=False)
    return Reference(
        frame,
        _model(cell.formula, frame, cell.bounds),
        _model(smaller, frame, cell.bounds) if smaller else None,
        points,
    )


def _model(formula: str, frame: pd.DataFrame, bounds: Mapping[str, Any]) -> Model:
    data = matrices(formula, frame, bounds)
    return Model(formula, data, least_squares(data))


def smaller_formula(formula: str) -> str | None:
    """The formula with the first half of its terms; None where there is one term only."""
    terms = [term.name() for term in patsy.ModelDesc.from_formula(formula).rhs_termlist]
    terms = [term for term in terms if term != "Intercept"]
    if len(terms) < 2:
        return None
    return f"{formula.split('~')[0].strip()} ~ {' + '.join(terms[: len(terms) // 2])}"


def replicate(cell: Cell, whole: Reference, seed: int, number: int) -> dict[str, Any]:
    """Arrays over the coefficients and numbers of one run; NaN where there is no answer."""
    # Cells that differ in mu alone see the same draws.
    draw_rng = rng_for("draw", seed, cell.name.split("@")[0], number)
    rows = draw_rng.integers(0, len(whole.frame), cell.n)
    frame = whole.frame.take(rows).reset_index(drop=True)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        noise = rng_for("noise", seed, cell.name, number)
        result = dp_ols(cell.formula, frame, mu=cell.mu, bounds=cell.bounds, rng=noise)
        seconds = time.perf_counter() - start
        ranges = working_ranges(result.release.outer.domain, frame)
        truth = whole
        found = {name: pair for name, pair in ranges.items() if cell.bounds.get(name) is None}
        if any(_reaches_beyond(whole.frame[name], pair) for name, pair in found.items()):
            truth = reference(cell, clipped(whole.frame, found))
        return {
            "seconds": seconds,
            "cut": float(share_outside(frame, ranges) > CUT_SHARE),
            **against_truth(result, truth, rows),
            **fit_statistics(result, truth.full.data.take(rows)),
            **small_model(result, truth, rows),
            **siblings(result, truth),
        }


def against_truth(result: Any, truth: Reference, rows: np.ndarray) -> dict[str, Any]:
    """The fit beside least squares on the same draw: coefficients, joint test, predictions."""
    model, sample = truth.full, truth.full.data.take(rows)
    ols = least_squares(sample)
    known = identified(result)
    params, bse = np.asarray(result.params), np.asarray(result.bse)
    pvalues = np.asarray(result.pvalues)
    tested = known & model.slopes
    people = truth.frame.take(truth.points).reset_index(drop=True)
    return {
        "truth": model.fit.params,
        "known": known.astype(float),
        "error": np.where(known, params - model.fit.params, np.nan),
        "covered": covered(result, model.fit.params),
        "se": np.where(known, bse, np.nan),
        "significant": np.where(known, pvalues < LEVEL, 0.0),
        "ols_error": np.where(ols.determined, ols.params - model.fit.params, np.nan),
        "ols_se": np.where(ols.determined, ols.bse, np.nan),
        "ols_covered": np.where(ols.determined, ols.covers(model.fit.params), np.nan),
        "tested": float(tested.sum()),
        "joint_p": joint_p(result, model.fit.params, tested),
        "ols_joint_p": ols.joint_p(model.fit.params, tested),
        "predicted": predictions(result, people, model.data.x[truth.points] @ model.fit.params)
        if tested.any()
        else float("nan"),
        "ols_predicted": ols.covers(model.fit.params, model.data.x[truth.points]).mean(),
    }


def fit_statistics(result: Any, sample: Matrices) -> dict[str, float]:
    """Whether R-squared and residual standard error are the draw's, within their printed noise.

    Their printed standard deviation is that of the privacy noise, so the draw's own are the truth.
    """
    ols = least_squares(sample)
    squares = float(np.sum((sample.y - sample.x @ ols.params) ** 2))
    total = float(np.sum((sample.y - sample.y.mean()) ** 2))
    true = {"rsquared": 1.0 - squares / total, "sigma": float(np.sqrt(squares / ols.df))}
    hits = {}
    for name, value in true.items():
        try:
            gap, sd = getattr(result, name) - value, getattr(result, f"{name}_se")
        except NotReleasedError:
            gap, sd = float("nan"), float("nan")
        told = bool(identified(result).any()) and np.isfinite(gap)
        hits[f"{name}_covered"] = float(abs(gap) <= NORMAL * sd) if told else float("nan")
    return hits


def small_model(result: Any, truth: Reference, rows: np.ndarray) -> dict[str, float]:
    """Share of the slopes covered in the model with half the terms, ours and least squares'."""
    if truth.small is None:
        return {"small_covered": float("nan"), "ols_small_covered": float("nan")}
    model = truth.small
    fit = result.release.ols(model.formula)
    ols = least_squares(model.data.take(rows))
    return {
        "small_covered": _mean(covered(fit, model.fit.params)[model.slopes]),
        "ols_small_covered": _mean(ols.covers(model.fit.params)[model.slopes]),
    }


def siblings(result: Any, truth: Reference) -> dict[str, np.ndarray]:
    """Coverage of the other estimates from the same release; NaN where there are none."""
    params = truth.full.fit.params
    answers = {}
    for name in SIBLINGS:
        try:
            answers[f"{name}_covered"] = covered(getattr(result, name), params)
        except NotReleasedError:
            answers[f"{name}_covered"] = np.full(len(params), np.nan)
    return answers


def identified(result: Any) -> np.ndarray:
    """Which coefficients a fit calls identified, be that said by term or for the whole model."""
    count = len(result.params)
    said = np.broadcast_to(np.asarray(result.identified, dtype=bool), count)
    return np.asarray(said & np.isfinite(np.asarray(result.bse)))


def covered(result: Any, truth: np.ndarray) -> np.ndarray:
    """1 where an identified coefficient's interval holds the truth, 0 where not, else NaN."""
    low, high = np.asarray(result.conf_int(LEVEL)).T
    hit = (low <= truth) & (truth <= high)
    return np.where(identified(result), hit, np.nan)


def joint_p(result: Any, truth: np.ndarray, tested: np.ndarray) -> float:
    """p-value of the printed Wald test that the tested coefficients are the truth's."""
    if not tested.any():
        return float("nan")
    restriction = (np.eye(len(truth))[tested], truth[tested])
    try:
        return float(result.wald_test(restriction, scalar=True).pvalue)
    except NotIdentifiedError:
        # Each coefficient is identified, but not some combination of them: no test is printed.
        return float("nan")


def predictions(result: Any, people: pd.DataFrame, means: np.ndarray) -> float:
    """Share of people whose interval for the mean holds the population's prediction."""
    bands = result.get_prediction(people).summary_frame(LEVEL)
    low, high = bands["mean_ci_lower"].to_numpy(), bands["mean_ci_upper"].to_numpy()
    answered = np.isfinite(low) & np.isfinite(high)
    return _mean(((low <= means) & (means <= high))[answered])


def working_ranges(domain: Any, frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Ranges that a release moved the values of its numeric variables into."""
    pairs = {name: domain[name] for name in frame if isinstance(domain[name], Numeric)}
    return {str(name): (v.lower, v.upper) for name, v in pairs.items()}


def share_outside(frame: pd.DataFrame, ranges: Mapping[str, tuple[float, float]]) -> float:
    """Share of the records that some range moves."""
    moved = np.zeros(len(frame), dtype=bool)
    for name, (low, high) in ranges.items():
        moved |= ~frame[name].between(low, high).to_numpy()
    return float(moved.mean())


def clipped(frame: pd.DataFrame, ranges: Mapping[str, tuple[float, float]]) -> pd.DataFrame:
    """The table with its values moved into the ranges."""
    return frame.assign(**{name: frame[name].clip(*pair) for name, pair in ranges.items()})


def _reaches_beyond(column: pd.Series, pair: tuple[float, float]) -> bool:
    return bool(column.min() < pair[0] or column.max() > pair[1])


def _mean(values: np.ndarray) -> float:
    """Mean of what is there; NaN of nothing."""
    there = np.asarray(values, dtype=float)
    there = there[~np.isnan(there)]
    return float(there.mean()) if len(there) else float("nan")
