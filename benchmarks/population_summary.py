"""From replicates to a row for each coefficient and one for the cell.

*Identified* counts the runs that call a coefficient identified; coverage, errors and standard
errors are over those. A coefficient or cell is *flagged* where that is less than half of the runs.
A *silent failure* is a coefficient that is not flagged, that its intervals cover in less than .80
of the runs, and that least squares with HC1 covers in .90 or more. Other estimates of the same
release are held to the same rule: what they flag does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from common import mean_error
from population_cell import Cell
from population_runs import SIBLINGS, Reference
from population_truth import LEVEL

FLAGGED = 0.5
FAILS, HOLDS = 0.80, 0.90

Row = dict[str, Any]


def summarise_cell(
    cell: Cell, whole: Reference, runs: Sequence[dict[str, Any]], seed: int
) -> tuple[list[Row], Row]:
    """Rows of the coefficients, row of the cell."""
    stacked = {key: np.array([run[key] for run in runs]) for key in runs[0]}
    key = {"cell": cell.name, "n": cell.n, "mu": cell.mu, "seed": seed, "replicates": len(runs)}
    model = whole.full
    rows = [
        {
            **key,
            "coefficient": name,
            "truth": model.fit.params[j],
            "identifiable": bool(model.fit.determined[j]),
            "rare": name in cell.rare,
            **_coefficient({k: v[:, j] for k, v in stacked.items() if v.ndim == 2}),
        }
        for j, name in enumerate(model.data.names)
    ]
    for row in rows:
        row["silent"] = silent(row)
    return rows, {**key, "formula": cell.formula, "note": cell.note, **_cell(rows, stacked)}


def _coefficient(runs: dict[str, np.ndarray]) -> Row:
    ratio, ratio_error = rmse_ratio(runs["error"], runs["ols_error"])
    return {
        "identified": runs["known"].mean(),
        "coverage": mean(runs["covered"]),
        "coverage_error": binomial_error(runs["covered"]),
        "ols_coverage": mean(runs["ols_covered"]),
        "ols_coverage_error": binomial_error(runs["ols_covered"]),
        "rmse": rms(runs["error"]),
        "ols_rmse": rms(runs["ols_error"]),
        "rmse_ratio": ratio,
        "rmse_ratio_error": ratio_error,
        "bias_over_sd": mean(runs["error"]) / spread(runs["error"]),
        "se_ratio": median(runs["se"] / np.where(runs["ols_se"] > 0, runs["ols_se"], np.nan)),
        "se_over_sd": median(runs["se"]) / spread(runs["error"]),
        "ols_se_over_sd": median(runs["ols_se"]) / spread(runs["ols_error"]),
        "significant": runs["significant"].mean(),
        **{f"{name}_coverage": mean(runs[f"{name}_covered"]) for name in SIBLINGS},
        **{f"{name}_runs": int((~np.isnan(runs[f"{name}_covered"])).sum()) for name in SIBLINGS},
    }


def _cell(rows: Sequence[Row], runs: dict[str, np.ndarray]) -> Row:
    """A cell from its coefficients and from what is measured for a whole run."""
    own = [row for row in rows if row["identifiable"] and not row["rare"]]
    shown = [row for row in own if row["identified"] >= FLAGGED]
    slopes = [row for row in shown if row["coefficient"] != "Intercept"]
    doubtful = [row for row in rows if row["rare"] or not row["identifiable"]]
    usual = [j for j, row in enumerate(rows) if row in own]
    identified = mean([row["identified"] for row in own])
    return {
        "columns": len(rows),
        "identified": identified,
        "flagged": bool(identified < FLAGGED),
        "flagged_runs": 1.0 - runs["known"][:, usual].all(axis=1).mean(),
        "rmse_median": median([row["rmse_ratio"] for row in slopes]),
        "rmse_worst": largest([row["rmse_ratio"] for row in slopes]),
        "coverage": mean([row["coverage"] for row in shown]),
        "coverage_worst": smallest([row["coverage"] for row in shown]),
        "ols_coverage": mean([row["ols_coverage"] for row in own]),
        "ols_coverage_worst": smallest([row["ols_coverage"] for row in own]),
        "se_ratio": median([row["se_ratio"] for row in shown]),
        "silent": sum(row["silent"] for row in rows),
        "false_findings": largest([row["significant"] for row in doubtful]),
        **_tests(runs),
        "prediction_coverage": mean(runs["predicted"]),
        "prediction_error": mean_error(there(runs["predicted"])),
        "ols_prediction_coverage": mean(runs["ols_predicted"]),
        "small_coverage": mean(runs["small_covered"]),
        "small_error": mean_error(there(runs["small_covered"])),
        "ols_small_coverage": mean(runs["ols_small_covered"]),
        **{f"{name}_coverage": sibling_coverage(own, name) for name in SIBLINGS},
        "rsquared_coverage": mean(runs["rsquared_covered"]),
        "sigma_coverage": mean(runs["sigma_covered"]),
        "cut_runs": runs["cut"].mean(),
        "seconds": median(runs["seconds"]),
    }


def sibling_coverage(rows: Sequence[Row], name: str) -> float:
    """Mean over the coefficients that another estimate identifies in half of the runs."""
    shown = [row for row in rows if row[f"{name}_runs"] >= FLAGGED * row["replicates"]]
    return mean([row[f"{name}_coverage"] for row in shown])


def _tests(runs: dict[str, np.ndarray]) -> Row:
    """Joint tests at the truth: how many of the runs with one reject, and of how many terms."""
    answered = ~np.isnan(runs["joint_p"])
    rejected = np.where(answered, runs["joint_p"] < LEVEL, np.nan)
    ols = runs["ols_joint_p"]
    return {
        "joint_runs": int(answered.sum()),
        "joint_terms": mean(runs["tested"][answered]),
        "joint_size": mean(rejected),
        "joint_size_error": binomial_error(rejected),
        "ols_joint_size": mean(np.where(np.isnan(ols), np.nan, ols < LEVEL)),
    }


def silent(row: Row) -> bool:
    """Not flagged, and not covered where least squares is."""
    return bool(
        row["identifiable"]
        and row["identified"] >= FLAGGED
        and row["coverage"] < FAILS
        and row["ols_coverage"] >= HOLDS
    )


def rmse_ratio(errors: np.ndarray, ols_errors: np.ndarray) -> tuple[float, float]:
    """``sqrt(sum a^2 / sum b^2)`` over the runs that have both, and its Monte Carlo error.

    With A and B the means of a^2 and b^2, the delta method gives
    ``ratio/2 sd(a^2/A - b^2/B) / sqrt(runs)``: the draws are the same, so the errors are paired.
    """
    both = ~np.isnan(errors) & ~np.isnan(ols_errors)
    ours, theirs = errors[both] ** 2, ols_errors[both] ** 2
    if len(ours) == 0 or theirs.mean() == 0.0:
        return float("nan"), float("nan")
    ratio = float(np.sqrt(ours.mean() / theirs.mean()))
    if ratio == 0.0:
        return ratio, float("nan")
    gap = ours / ours.mean() - theirs / theirs.mean()
    return ratio, ratio / 2.0 * mean_error(gap)


def there(values: Any) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    return array[~np.isnan(array)]


def mean(values: Any) -> float:
    found = there(values)
    return float(found.mean()) if found.size else float("nan")


def median(values: Any) -> float:
    found = there(values)
    return float(np.median(found)) if found.size else float("nan")


def smallest(values: Any) -> float:
    return float(min(there(values), default=float("nan")))


def largest(values: Any) -> float:
    return float(max(there(values), default=float("nan")))


def rms(values: Any) -> float:
    return float(np.sqrt(mean(np.square(there(values)))))


def spread(values: Any) -> float:
    """Standard deviation; NaN where it is not known or zero."""
    found = there(values)
    sd = float(found.std(ddof=1)) if found.size > 1 else 0.0
    return sd if sd > 0.0 else float("nan")


def binomial_error(hits: Any) -> float:
    """Standard error of a share, by Agresti and Coull: not zero where all or none were hits."""
    found = there(hits)
    if not found.size:
        return float("nan")
    size = found.size + 4
    share = (found.sum() + 2) / size
    return float(np.sqrt(share * (1.0 - share) / size))
