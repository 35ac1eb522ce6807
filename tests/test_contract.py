"""The public names, their arguments and defaults: what code that others wrote relies on.

More may be added. A name that is here stays, and its arguments mean what they meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpbinagg
from dpbinagg import (
    Budget,
    Domain,
    Ledger,
    Partition,
    Release,
    Study,
    baselines,
    datasets,
    dp_ols,
    dp_study,
    gdp,
    load_release,
)
from dpbinagg.cli import main
from dpbinagg.report.results import DPResults

NEEDED = inspect.Parameter.empty
"""The argument has no default."""

NAMES = (
    *("dp_ols", "dp_release", "dp_study", "plan", "load_release", "refit", "combine_copies"),
    *("summary_table", "open_table", "show_progress"),
    *("Domain", "Budget", "Ledger", "Partition", "Release", "Study"),
    *("DPBinAggError", "DomainError", "FormulaError", "BudgetError", "ReleaseError", "DataError"),
    *("ArgumentError", "MissingExtraError", "NotIdentifiedError", "NotReleasedError"),
    *("NothingLeftError", "DPBinAggWarning", "IdentificationWarning", "PrivacyWarning"),
    "SupportWarning",
    *("audit", "baselines", "datasets", "gdp", "errors", "__version__"),
)

PRIVACY: dict[str, Any] = {"mu": None, "epsilon": None, "delta": None, "bounds": None}
ASKING: dict[str, Any] = {
    **PRIVACY,
    "budget": None,
    "missing": "drop",
    "neighbours": "add-remove",
    "ledger": None,
    "rng": None,
    "constants": None,
    "rules": None,
}
RELEASING: dict[str, Any] = {
    "formula": NEEDED,
    "data": NEEDED,
    **ASKING,
    "partition": "privtree",
    "calibration": "joint",
    "estimator": "refined",
}
SYNTHESIS: dict[str, Any] = {
    "size": None,
    "copies": 1,
    "kind": "calibrated",
    "bin_id": False,
    "rng": None,
}
PLANNING = {"formula": NEEDED, "n": NEEDED, **PRIVACY, "example": None}
BASELINE = {"model": NEEDED, "data": None, "mu": NEEDED, "bounds": None, "rng": None}
TO_FOLDER = {"folder": NEEDED, "overwrite": False}
ALPHA = {"alpha": 0.05}

FUNCTIONS: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (dp_ols, {**RELEASING, "cov_type": "sandwich"}),
    (dpbinagg.dp_release, RELEASING),
    (dp_study, {"formulas": NEEDED, "data": NEEDED, "variables": (), **ASKING}),
    (dpbinagg.plan, PLANNING),
    (load_release, {"folder": NEEDED}),
    (dpbinagg.refit, {"formula": NEEDED, "synthetic": NEEDED, "release": NEEDED}),
    (dpbinagg.combine_copies, {"fits": NEEDED, "table": None}),
    (dpbinagg.summary_table, {"results": NEEDED, "labels": None, "keep": None, "drop": None}),
    (dpbinagg.open_table, dict.fromkeys(("separator", "decimal", "encoding", "sheet"))),
    (Domain, {"spec": None}),
    (Domain.from_csv, {"path": NEEDED}),
    (Domain.from_frame, {"frame": NEEDED}),
    (Budget.paper, {}),
    (Ledger, {"path": NEEDED, "mu": None, "neighbours": None}),
    (Partition.grid, {"domain": NEEDED, "bins_per_variable": NEEDED}),
    (gdp.delta, {"mu": NEEDED, "epsilon": NEEDED}),
    (gdp.epsilon, {"mu": NEEDED, "delta": NEEDED}),
    (gdp.mu, {"epsilon": NEEDED, "delta": NEEDED}),
    (gdp.mu_from_pure, {"epsilon": NEEDED}),
    (baselines.ols, {**BASELINE, "mu": None}),
    (baselines.adassp, BASELINE),
    (baselines.ssp, BASELINE),
    (baselines.jlt, BASELINE),
    (baselines.dpgd, BASELINE),
    (datasets.load_wages, {}),
    (DPResults.conf_int, {**ALPHA, "joint": False}),
    (DPResults.summary, ALPHA),
    (DPResults.compare, ALPHA),
    (DPResults.tidy, ALPHA),
    (DPResults.glance, {}),
    (DPResults.to_markdown, {}),
    (DPResults.to_latex, {}),
    (DPResults.to_html, {}),
    (DPResults.synthesize, SYNTHESIS),
    (DPResults.save, TO_FOLDER),
    (DPResults.report, {"path": NEEDED}),
    (Release.ols, {"formula": None, "estimator": None, "cov_type": None}),
    (Release.synthesize, SYNTHESIS),
    (Release.save, TO_FOLDER),
    (Release.describe, {"by": None}),
    (Release.crosstab, {"one": NEEDED, "other": NEEDED}),
    (Release.corr, {}),
    (Study.conf_int, {**ALPHA, "joint": False}),
    (Study.ols, {"formula": NEEDED}),
    (Study.describe, {"by": None}),
    (Study.crosstab, {"one": NEEDED, "other": NEEDED}),
    (Study.corr, {}),
    (Study.summary, {}),
    (Study.save, TO_FOLDER),
    (Study.report, {"path": NEEDED}),
]

POSITIONAL = {
    "dp_ols": ("formula", "data", "mu"),
    "dp_release": ("formula", "data", "mu"),
    "dp_study": ("formulas", "data", "mu"),
    "plan": ("formula", "n", "mu", "bounds"),
    "synthesize": ("size", "copies", "kind", "bin_id", "rng"),
    "refit": ("formula", "synthetic", "release"),
}
"""What may be passed without a name, in this order."""

OF_RESULTS = (
    *("params", "bse", "tvalues", "pvalues", "nobs", "df_resid", "scale", "rsquared", "fvalue"),
    *("f_pvalue", "conf_int", "cov_params", "t_test", "wald_test", "f_test", "predict"),
    *("get_prediction", "identified", "cov_type", "references", "notes", "privacy", "release"),
    *("naive", "corrected", "combined", "refined", "compare", "summary", "tidy", "glance"),
    *("to_markdown", "to_latex", "to_html", "synthesize", "save", "report"),
    *("plot_coefficients", "plot_bins", "plot_synthetic", "_repr_html_"),
)
OF_RELEASE = (
    *("save", "ols", "synthesize", "describe", "crosstab", "corr", "privacy", "n_bins", "mu"),
    *("column_names", "statistics", "noise_scales", "partition", "models", "transcript"),
    *("supports", "rules"),
)
OF_STUDY = (
    *("results", "describe", "crosstab", "corr", "ols", "summary", "synthesize", "release"),
    *("privacy", "save", "report", "supports", "conf_int"),
)
COMMANDS = (
    *("fit", "study", "refit", "describe", "synth", "ledger", "plan", "codebook", "audit", "demo"),
)

BASES = {
    "ReleaseError": ValueError,
    "DataError": ValueError,
    "ArgumentError": TypeError,
    "MissingExtraError": ImportError,
    "NotReleasedError": AttributeError,
}


def test_the_names_are_there() -> None:
    assert set(NAMES) <= set(dpbinagg.__all__)
    for name in NAMES:
        assert getattr(dpbinagg, name) is not None


def named(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}".removeprefix("dpbinagg.")


@pytest.mark.parametrize(("function", "arguments"), FUNCTIONS, ids=[named(f) for f, _ in FUNCTIONS])
def test_arguments_and_their_defaults(
    function: Callable[..., Any], arguments: dict[str, Any]
) -> None:
    there = inspect.signature(function).parameters
    for name, default in arguments.items():
        assert name in there, name
        assert there[name].default == default, name


@pytest.mark.parametrize("name", POSITIONAL)
def test_arguments_by_place(name: str) -> None:
    function = getattr(dpbinagg, name, None) or getattr(DPResults, name)
    kinds = inspect.signature(function).parameters.values()
    places = [one.name for one in kinds if one.kind is one.POSITIONAL_OR_KEYWORD]
    assert (
        tuple(one for one in places if one != "self")[: len(POSITIONAL[name])] == POSITIONAL[name]
    )


def test_components_of_a_budget_in_the_order_of_the_paper() -> None:
    parts = ("ranges", "partition", "count", "sum_x", "sum_y", "moments", "scores")
    assert tuple(inspect.signature(Budget).parameters) == parts


BOUNDS = {"educ": (0, 20), "exper": (0, 50), "wage": (0, 100), "sex": ["f", "m"]}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    educ, exper = rng.uniform(0, 20, 1000), rng.uniform(0, 50, 1000)
    wage = 5 + 2 * educ + 0.3 * exper + rng.normal(0, 5, 1000)
    sex = rng.choice(["f", "m"], 1000)
    return pd.DataFrame({"educ": educ, "exper": exper, "wage": wage, "sex": sex})


@pytest.fixture(scope="module")
def results(people: pd.DataFrame) -> DPResults:
    return dp_ols("wage ~ educ + C(sex)", people, mu=5, bounds=BOUNDS, rng=1)


@pytest.fixture(scope="module")
def study(people: pd.DataFrame) -> Study:
    models = {"wage": "wage ~ educ", "educ": "educ ~ exper"}
    return dp_study(models, people, mu=5, variables=["sex"], bounds=BOUNDS, rng=1)


@pytest.mark.parametrize("name", OF_RESULTS)
def test_results_have(name: str, results: DPResults) -> None:
    assert getattr(results, name) is not None


@pytest.mark.parametrize("name", OF_RELEASE)
def test_releases_have(name: str, results: DPResults) -> None:
    assert getattr(results.release, name) is not None


@pytest.mark.parametrize("name", OF_STUDY)
def test_studies_have(name: str, study: Study) -> None:
    assert getattr(study, name) is not None


def test_what_a_release_says_is_of_the_shapes_that_are_promised(results: DPResults) -> None:
    release = results.release
    k, p = release.n_bins, len(release.column_names)
    shapes = {"count": (k,), "dev_x": (k, p), "dev_y": (k,)}
    for name, shape in shapes.items():
        assert release.statistics[name].shape == shape
        assert np.shape(release.noise_scales[name]) in (shape, ())
    assert {"moments", "scores"} <= set(release.statistics)


def test_results_and_studies_answer_as_promised(results: DPResults, study: Study) -> None:
    assert results.params.index.to_list() == ["Intercept", "C(sex)[T.m]", "educ"]
    assert results.identified.dtype == bool
    assert results.privacy.mu == 5
    assert results.privacy.epsilon(1e-6) > 0
    assert isinstance(results.compare().frame, pd.DataFrame)
    assert set(results.synthesize(10, 2, rng=1)["copy"]) == {1, 2}
    assert list(study) == ["wage", "educ"]
    assert study["wage"].params.index.to_list() == ["Intercept", "educ"]
    for table in (
        study.describe(),
        study.describe("sex"),
        study.corr(),
        study.crosstab("sex", "sex"),
    ):
        assert isinstance(table.frame, pd.DataFrame)
        assert str(table)
        assert table.to_latex()
        assert table.to_html()


def test_what_is_saved_is_loaded(results: DPResults, study: Study, tmp_path: Path) -> None:
    results.save(tmp_path / "one", report=False, rng=1)
    pd.testing.assert_series_equal(load_release(tmp_path / "one").ols().params, results.params)
    study.save(tmp_path / "many", rng=1)
    again = Study(load_release(tmp_path / "many"))
    pd.testing.assert_series_equal(again["educ"].params, study["educ"].params)


@pytest.mark.parametrize("name", BASES)
def test_errors_are_also(name: str) -> None:
    error = getattr(dpbinagg, name)
    assert issubclass(error, dpbinagg.DPBinAggError)
    assert issubclass(error, BASES[name])


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert command in capsys.readouterr().out
