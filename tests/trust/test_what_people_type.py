"""What users of R, Stata, statsmodels and other packages type ends in a sentence with the remedy.

None of these sentences holds a value of the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbinagg import (
    Budget,
    Domain,
    Ledger,
    Study,
    dp_ols,
    dp_release,
    dp_study,
    load_release,
    open_table,
    plan,
    summary_table,
)
from dpbinagg.cli import main
from dpbinagg.errors import ArgumentError, DataError, DPBinAggError, FormulaError

N = 400
SECRET = ("4711.25", "canary")
BOUNDS: dict[str, Any] = {
    "wage": (1, 150),
    "educ": (0, 20),
    "age": (18, 90),
    "region": ["N", "S"],
    "log.wage": (0, 10),
    "annual income": (0, 1e6),
    "größe": (1, 3),
    "if": (0, 1),
}
FORMULA = "wage ~ educ + age"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    educ, age = rng.uniform(0, 20, N), rng.uniform(18, 90, N)
    frame = pd.DataFrame(
        {
            "educ": educ,
            "age": age,
            "wage": 5 + 2 * educ + 0.3 * age + rng.normal(0, 5, N),
            "region": rng.choice(["N", "S"], N),
            "log.wage": rng.uniform(0, 10, N),
            "annual income": rng.uniform(0, 1e6, N),
            "größe": rng.uniform(1, 3, N),
            "if": rng.uniform(0, 1, N),
        }
    )
    frame.loc[3, "wage"], frame.loc[4, "region"] = 4711.25, "canary"
    return frame


@pytest.fixture(scope="module")
def results(table: pd.DataFrame) -> Any:
    return dp_ols(FORMULA, table, mu=5, bounds=BOUNDS, rng=1)


def refused(call: Callable[[], Any], *parts: str, kind: type[Exception] = DPBinAggError) -> None:
    """The call ends in one sentence of the package that has all of `parts`."""
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    for part in parts:
        assert part in text
    assert len(text) < 700
    assert not any(secret in text for secret in SECRET)


FORMULAS = [
    ("wage = educ + age", '"wage ~ educ + age"'),
    ("wage educ age", '"wage ~ educ + age"'),
    ("reg wage educ age", '"wage ~ educ + age"'),
    ("regress wage educ age, robust", '"wage ~ educ + age"'),
    ("wage ~ educ, robust", "options of Stata"),
    ("wage ~ educ age, vce(cluster region)", "cov_type='HC1'"),
    ("wage ~ ", '"wage ~ 1"'),
    ("~ educ", "exactly one response"),
    ("wage ~ L.educ", "another record"),
    ("wage ~ L2.educ + educ", "L2.educ"),
    ("wage ~ D.educ", "another record"),
    ("wage ~ lag(educ)", "other records"),
    ("wage ~ educ.shift(1)", "other records"),
    ("wage ~ np.cumsum(educ)", "other records"),
    ("wage ~ (educ > 12) & (age > 30)", "I((x > 0) & (z > 0))"),
    ("wage ~ (educ > 12) or (age > 30)", "joined inside I()"),
    ("wage ~ educ | region | (age ~ educ)", "instrumental variables do not exist"),
    ("wage ~ 1 + [educ ~ age]", "instrumental variables do not exist"),
    ("wage ~ case_when(educ > 12 ~ 1)", "np.where(x > 3, 1, 0)"),
    ("wage ~ educ - np.mean(educ)", "none of its terms"),
    ("wage ~ educ + age - region", "none of its terms"),
    ("wage ~ round(educ)", "np.rint(x)"),
    ("wage ~ educ^2", "I(educ ** 2)"),
    ("wage ~ educ | region", "does not absorb"),
    ("wage ~ region %in% c('N')", "I((region == 'N'))"),
    ("wage ~ factor(region)", "C(region)"),
    ("wage ~ i(region, ref = 'S')", "C(region, Treatment('S'))"),
    ("wage ~ relevel(region, 'S')", "C(region, Treatment('S'))"),
    ("wage ~ i.region", "C(region)"),
    ("wage ~ annual income", 'Q("annual income")'),
    ("wage ~ `annual income`", 'Q("annual income")'),
    ("log.wage ~ educ", 'Q("log.wage")'),
    ("wage ~ if", 'Q("if")'),
    ("wage ~ df$educ", "the column alone, educ"),
    ("wage ~ df['educ']", 'Q("educ")'),
    ("wage ~ .", "name the columns"),
]


@pytest.mark.parametrize(("typed", "part"), FORMULAS, ids=[typed for typed, _ in FORMULAS])
def test_formulas(typed: str, part: str, table: pd.DataFrame) -> None:
    refused(lambda: dp_ols(typed, table, mu=1, bounds=BOUNDS), part, kind=FormulaError)
    refused(lambda: plan(typed, 1000, 1, BOUNDS), part, kind=FormulaError)


UNDERSTOOD = [
    'Q("annual income") ~ educ',
    "größe ~ educ",
    'wage ~ Q("if") + Q("log.wage")',
    "wage ~ educ + age - 1",
    "wage ~ educ*age - educ:age",
    "wage ~ educ*age - age",
    "wage ~ I(educ - 12) + C(region, Treatment('S'))",
    "wage ~ I((educ > 12) & (age > 30))",
]


@pytest.mark.parametrize("typed", UNDERSTOOD)
def test_formulas_that_are_right(typed: str) -> None:
    assert len(plan(typed, 1000, 1, BOUNDS).frame) >= 2


KEYWORDS: list[tuple[dict[str, Any], str]] = [
    ({"weights": "w"}, "all records count alike"),
    ({"subset": "age > 18"}, "data=frame[frame.age >= 18]"),
    ({"cluster": "region"}, "not clustered"),
    ({"cov_type": "cluster"}, "cluster"),
    ({"cov_type": "HC3"}, "use cov_type='HC1'"),
    ({"vcov": "hetero"}, "cov_type='HC1'"),
    ({"vcov": {"CRV1": "region"}}, "cov_type='HC1'"),
    ({"vce": "robust"}, "cov_type='HC1'"),
    ({"entity_effects": True}, "not absorbed"),
    ({"absorb": "region"}, "not absorbed"),
    ({"split": "region"}, "C(group) * x"),
    ({"family": "binomial"}, "linear probability"),
    ({"lower": {"educ": 0}}, "bounds={"),
    ({"n": 400}, "released with noise"),
    ({"boundss": {}}, "did you mean 'bounds'?"),
    ({"neighbors": "replace"}, "did you mean 'neighbours'?"),
    ({"seed": 1}, "rng="),
    ({"eps": 1}, "epsilon"),
    ({"alpha": 0.1}, "res.conf_int(alpha)"),
    ({"unit": "id"}, "one record is one person"),
    ({"na_action": "na.omit"}, "missing='raise'"),
    ({"estimator": "ols"}, "'refined'"),
    ({"missing": "ignore"}, "'drop'"),
    ({"ledger": "survey.db"}, 'Ledger("survey.db"'),
]


@pytest.mark.parametrize(("given", "part"), KEYWORDS, ids=[str(given) for given, _ in KEYWORDS])
def test_arguments(given: dict[str, Any], part: str, table: pd.DataFrame) -> None:
    refused(lambda: dp_ols(FORMULA, table, **{"mu": 1, "bounds": BOUNDS, **given}), part)


DECLARED: list[tuple[Any, str]] = [
    ({"educ": [0, 20]}, "{'educ': (0, 20)}"),
    ({"educ": [0, 20]}, '{"levels": [0, 20]}'),
    ({"eduk": (0, 20)}, "did you mean 'educ'"),
    ({"regoin": ["N", "S"]}, "did you mean 'region'"),
    ({"educ": {"min": 0, "max": 20}}, "did you mean 'lower'?"),
    ({"educ": {"lower": 0, "upper": 20, "na_values": [99]}}, "did you mean 'missing'?"),
    ({"educ": {"lower": 0, "upper": 20, "label": "x"}}, "did you mean 'labels'?"),
    ({"region": {"values": ["N", "S"]}}, "did you mean 'levels'?"),
    ({"educ": {"lower": 0, "upper": 20, "zzz": 1}}, "use type, lower, upper"),
    ({"educ": (20, 0)}, "reversed ones must be swapped"),
    ({"educ": (0, 10, 20)}, "a tuple of 3"),
    ({"educ": "0-20"}, "got str"),
    ({"educ": (float("nan"), 1)}, "must not be NaN"),
    ("codebook.csv", 'Domain.from_csv("codebook.csv")'),
    ([("educ", 0, 20)], "must be a mapping"),
    ({"region": {"levels": ["N", "S"], "labels": ["North"]}}, "labels must name every level"),
    ({"region": {"levels": ["N", "S"], "missing": ["N"]}}, "also a level"),
]


@pytest.mark.parametrize(("bounds", "part"), DECLARED, ids=[str(b) for b, _ in DECLARED])
def test_bounds(bounds: Any, part: str, table: pd.DataFrame) -> None:
    formula = "wage ~ educ + region" if "reg" in str(bounds) else FORMULA
    refused(lambda: dp_ols(formula, table, mu=1, bounds=bounds), part)


CODEBOOKS = [
    ("educ,numeric,0,20,0|98,none|refused,", "move codes that mean no answer to missing"),
    ("educ,integer,0,20,,none,", "move codes that mean no answer to missing"),
    ("educ,,0,20,,,", "types are never guessed"),
    ("educ,number,0,20,,,", "got 'number'"),
    ("educ,numeric,zero,20,,,", "lower must be a number or empty"),
    ("region,categorical,,,,,", "levels must not be empty"),
    ("region,categorical,,,N|S,North,", "labels must name every level"),
    ("region,categorical,,,N|S,,S", "also a level"),
    (",numeric,0,1,,,", "name must not be empty"),
    ("educ,numeric,0,1,,,\neduc,numeric,0,1,,,", "twice"),
]


@pytest.mark.parametrize(("rows", "part"), CODEBOOKS, ids=[rows for rows, _ in CODEBOOKS])
def test_codebooks(rows: str, part: str, tmp_path: Path) -> None:
    path = tmp_path / "codebook.csv"
    path.write_text(f"name,type,lower,upper,levels,labels,missing\n{rows}\n")
    refused(lambda: Domain.from_csv(path), part, str(path))


def test_an_undeclared_text_column_is_refused_without_its_values(table: pd.DataFrame) -> None:
    refused(
        lambda: dp_ols("wage ~ region", table, mu=1, bounds={"wage": (1, 150)}),
        "'region' holds text",
        'bounds={"region": ["first", "second", ...]}',
    )


COLUMNS = [
    ("wage ~ eduction", "did you mean 'educ'?"),
    ("wage ~ Educ", "did you mean 'educ'?"),
    ("Wage ~ educ", "did you mean 'wage'?"),
    ("wage ~ tenure", "check the spelling"),
]


@pytest.mark.parametrize(("typed", "part"), COLUMNS)
def test_columns_that_are_not_there(typed: str, part: str, table: pd.DataFrame) -> None:
    refused(lambda: dp_ols(typed, table, mu=1, bounds=BOUNDS), part, kind=DataError)


NAMES = {
    "coef": "params",
    "coefficients": "params",
    "describe": "release.describe()",
    "ols": "release.ols(formula)",
    "std_errors": "bse",
    "vcov": "cov_params()",
    "pvalue": "pvalues",
    "confint": "conf_int()",
    "plot": "plot_coefficients()",
    "get_margeff": "its coefficients",
    "residuals": "not released",
    "r2": "rsquared",
    "mu": "privacy.mu",
    "sumary": "summary",
    "synthesise": "synthesize",
}


@pytest.mark.parametrize("name", NAMES)
def test_attributes_have_other_names(name: str, results: Any) -> None:
    with pytest.raises(AttributeError, match=re.escape(NAMES[name])):
        getattr(results, name)


RECORDS = ["resid", "fittedvalues", "llf", "ssr", "get_influence", "summary2", "eigenvals"]


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_not_released_says_what_is(name: str, results: Any) -> None:
    refused(lambda: getattr(results, name), name, "use ", kind=AttributeError)


METHODS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "level": (lambda r: r.conf_int(level=0.9), "alpha=: intervals cover"),
    "conf_level": (lambda r: r.summary(conf_level=0.9), "alpha=: intervals cover"),
    "alfa": (lambda r: r.summary(alfa=0.1), "did you mean 'alpha'?"),
    "save": (lambda r: r.save(), "'folder'"),
    "a pickle": (lambda r: r.save("model.pickle"), "pickle.dump"),
    "n": (lambda r: r.synthesize(n=10), "size="),
    "no kind": (lambda r: r.synthesize(kind="gaussian"), "'calibrated'"),
    "size": (lambda r: r.synthesize(size=-1), "whole number"),
    "a constraint": (lambda r: r.t_test("eduk = 0"), "coefficients are named Intercept, educ"),
    "a larger model": (
        lambda r: r.release.ols("wage ~ region"),
        "'region' was not released",
    ),
    "no terms": (lambda r: r.plot_coefficients(kep=["educ"]), "did you mean 'keep'?"),
    "a table": (lambda r: r.report("/nonexistent/page.html"), "folder that does not exist"),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str, results: Any) -> None:
    call, part = METHODS[name]
    refused(lambda: call(results), part)


def test_the_wrong_order_and_nothing_at_all(table: pd.DataFrame) -> None:
    refused(lambda: dp_ols(table, FORMULA, mu=1), "the other way round", kind=ArgumentError)  # type: ignore[arg-type]
    refused(lambda: dp_ols(FORMULA, mu=1), "'data'", kind=ArgumentError)  # type: ignore[call-arg]
    refused(lambda: dp_ols(FORMULA, table), "mu=1.0", "epsilon=")
    refused(lambda: dp_ols(FORMULA, table, 1, bounds=Domain({}), budget={}), "Budget(")  # type: ignore[arg-type]


MODELS = {"wage": FORMULA, "educ": "educ ~ age"}
STUDIES: list[tuple[dict[str, Any], str]] = [
    ({"weights": "w"}, "all records count alike"),
    ({"cluster": "region"}, "not clustered"),
    ({"subset": "age > 18"}, "data=frame[frame.age >= 18]"),
    ({"vcov": "hetero"}, "cov_type='HC1'"),
    ({"seed": 1}, "rng="),
    ({"bound": {}}, "did you mean 'bounds'?"),
    ({"variable": ["region"]}, "did you mean 'variables'?"),
    ({"neighbors": "replace"}, "did you mean 'neighbours'?"),
    ({"variables": ["regoin"]}, "did you mean 'region'?"),
    ({"mu": None}, "mu=1.0"),
    ({"formulas": {}}, "got none"),
    ({"formulas": []}, "got none"),
    ({"formulas": 5}, "got int"),
    ({"formulas": {"wage": ["wage", "educ"]}}, "texts as names and models"),
    ({"formulas": {1: FORMULA}}, "texts as names and models"),
    ({"formulas": ["wage ~ educ | region"]}, "does not absorb"),
    ({"formulas": ["wage ~ eduk"]}, "did you mean 'educ'?"),
]


@pytest.mark.parametrize(("given", "part"), STUDIES, ids=[str(given) for given, _ in STUDIES])
def test_studies(given: dict[str, Any], part: str, table: pd.DataFrame) -> None:
    arguments = {"formulas": MODELS, "mu": 1, "bounds": BOUNDS, **given}
    refused(lambda: dp_study(data=table, **arguments), part)


@pytest.fixture(scope="module")
def study(table: pd.DataFrame) -> Study:
    return dp_study(MODELS, table, mu=5, bounds=BOUNDS, variables=["region"], rng=1)


ASKED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a model that is not there": (lambda s: s["wages"], "the models are wage, educ"),
    "a model as attribute": (lambda s: s.wage, "study['wage']"),
    "coefficients of all": (lambda s: s.params, "study['wage'].params"),
    "fit": (lambda s: s.fit(), "study['wage'].fit"),
    "a word of Python": (lambda s: s.ols("educ ~ if"), 'Q("if")'),
    "a name that is not there": (lambda s: s.ols("educ ~ tenure"), "'tenure' was not released"),
    "a level that is not there": (lambda s: s.ols("educ ~ C(region, levels=['X'])"), "levels"),
    "groups of a number": (lambda s: s.describe(by="educ"), "'educ' is a number"),
    "groups of a stranger": (lambda s: s.describe(by="regoin"), "'regoin' was not released"),
    "groups by": (lambda s: s.describe(group="region"), "describe has no argument 'group'"),
    "level": (lambda s: s.describe(level=0.9), "the level is alpha="),
    "a table of numbers": (lambda s: s.crosstab("region", "educ"), "'educ' is a number"),
    "margins": (lambda s: s.crosstab("region", "region", margins=True), "no argument 'margins'"),
    "a kind of correlation": (lambda s: s.corr(method="kendall"), "no argument 'method'"),
    "size": (lambda s: s.synthesize(n=10), "size="),
    "save": (lambda s: s.save("/nonexistent/folder/x", overwrit=True), "'overwrite'"),
    "a page": (lambda s: s.report("page.html", tittle="x"), "did you mean 'title'?"),
    "one estimate for all": (lambda s: s.summary(estimator="naive"), "estimator"),
}


@pytest.mark.parametrize("name", ASKED)
def test_questions_to_a_study(name: str, study: Study) -> None:
    call, part = ASKED[name]
    refused(lambda: call(study), part, kind=(DPBinAggError, KeyError, AttributeError))  # type: ignore[arg-type]


MISNAMED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "ledger": (lambda _: Ledger("x.db", total=1), "Ledger has no argument 'total'"),
    "ledger, near": (lambda _: Ledger("x.db", neighbors="replace"), "'neighbours'"),
    "budget": (lambda _: Budget(sumx=1), "did you mean 'sum_x'?"),
    "domain": (lambda _: Domain(educ=(0, 20)), "Domain has no argument 'educ'"),
    "plan": (lambda _: plan(FORMULA, n=1000, mus=1, bounds=BOUNDS), "did you mean 'mu'?"),
    "release": (lambda r: dp_release(FORMULA, None, mu=1, weight="w"), "all records count alike"),
    "save": (lambda r: r.save("/nonexistent/x", steward_name="x"), "did you mean 'steward'?"),
    "table": (lambda r: summary_table([r], star=True), "did you mean 'stars'?"),
    "ols": (lambda r: r.release.ols(FORMULA, estimater="naive"), "did you mean 'estimator'?"),
    "joint": (lambda r: r.conf_int(alfa=0.1), "did you mean 'alpha'?"),
    "a folder": (lambda _: load_release("nowhere"), "does not exist"),
    "separator": (lambda _: open_table("x.csv", sep=";"), "separator="),
    "decimal mark": (lambda _: open_table("x.csv", dec=","), "decimal="),
    "types": (lambda _: open_table("x.csv", dtype={"educ": float}), "bounds="),
    "an address": (lambda _: open_table("https://x.org/x.csv"), "download the file first"),
    "missing codes": (lambda _: open_table("x.csv", na_values=[99]), "'missing': [99]"),
    "swapped": (lambda _: dp_study(pd.DataFrame(), MODELS, mu=1), "the other way round"),
}


@pytest.mark.parametrize("name", MISNAMED)
def test_misnamed_arguments(name: str, results: Any) -> None:
    call, part = MISNAMED[name]
    refused(lambda: call(results), part)


TYPED = [
    ("--weights w", "all records count alike"),
    ("--cluster id", "not clustered"),
    ("--robust", "cov_type='HC1'"),
    ("--subset age>18", "selected before"),
    ("--leger x.db", "did you mean --ledger?"),
    ("--output x", "did you mean --out?"),
    ("--titel x", "did you mean --title?"),
    ("--seed 1", "rng="),
    ("--frobnicate", "there is no option --frobnicate"),
    ("survey.csv", "put quotes around a formula"),
]


@pytest.mark.parametrize(("typed", "part"), TYPED, ids=[typed for typed, _ in TYPED])
def test_options(typed: str, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["fit", FORMULA, "survey.csv", "--mu", "1", *typed.split()])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert part in said
    assert len(said.splitlines()) == 2
    assert "dpbinagg fit --help" in said
