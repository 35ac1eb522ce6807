"""Studies: several models, Table 1 and further models from one release."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import norm

from dpbinagg import Ledger, Study, dp_ols, dp_study, load_release
from dpbinagg.errors import FormulaError, ReleaseError

N = 20_000
MODELS = {
    "pay": "np.log(pay) ~ school + C(place) + woman",
    "hours": "hours ~ school + woman",
    "rich": "I(pay > 30) ~ school",
}
BOUNDS = {
    "pay": (1, 200),
    "school": range(5, 21),
    "hours": (0, 80),
    "woman": range(2),
    "place": ["north", "south", "west"],
    "age": (16, 80),
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    school = rng.integers(8, 19, N)
    woman = rng.integers(0, 2, N)
    place = rng.choice(["north", "south", "west"], N, p=[0.5, 0.3, 0.2])
    frame = pd.DataFrame({"school": school, "woman": woman, "place": place})
    frame["age"] = np.clip(rng.normal(42, 11, N), 16, 80)
    log_pay = 1.6 + 0.09 * school - 0.2 * woman + 0.1 * (place == "west")
    frame["pay"] = np.clip(np.exp(log_pay + rng.normal(0, 0.4, N)), 1, 200)
    frame["hours"] = np.clip(rng.normal(38 - 4 * woman + 0.3 * school, 8), 0, 80)
    return frame


@pytest.fixture(scope="module")
def study(people):
    frame = people.copy()
    frame.loc[::10, "age"] = np.nan
    return dp_study(MODELS, frame, mu=8, bounds=BOUNDS, variables=["age", "pay"], rng=1)


def near(found, wanted, errors=4.5):
    """Within so many standard errors: with fixed seeds this cannot fail by chance."""
    return np.abs(np.asarray(found.params) - np.asarray(wanted)) < errors * np.asarray(found.bse)


def test_declared_models_are_near_least_squares(study, people):
    for name, formula in MODELS.items():
        ordinary = smf.ols(formula.replace("I(pay > 30)", "I(1 * (pay > 30))"), people).fit()
        assert near(study[name], ordinary.params).all()
        assert study[name].estimator == "refined"
        assert (np.asarray(study[name].bse) < 1.4 * np.asarray(ordinary.bse)).all()


def test_one_release_costs_what_was_promised(study):
    parts = [mechanism.mu for mechanism in study.privacy.mechanisms]
    assert np.sqrt(np.sum(np.square(parts))) <= 8.0
    assert study.privacy.mu == 8.0
    statement = study.privacy.statement
    for what in ("one-way counts", "second moments", "scores of all models", "squares of hours"):
        assert what in statement


def test_models_of_one_design_share_their_matrix(people, tmp_path):
    """Three rounds ask for it once, the last for squares of each; a saved study is the same."""
    right = "school + C(place) + woman"
    models = {"pay": f"pay ~ {right}", "hours": f"hours ~ {right}", "age": "age ~ woman"}
    found = dp_study(models, people, mu=4, bounds=BOUNDS, rng=2)
    names = [entry.question.name for entry in found.release.transcript]
    asked = {name: names.count(f"squares of {name}") for name in models}
    assert asked == {"pay": 4, "hours": 1, "age": 4}
    again = Study(load_release(found.save(tmp_path / "out", rng=3)))
    for name, formula in models.items():
        assert near(found[name], smf.ols(formula, people).fit().params).all()
        assert (again[name].params == found[name].params).all()
        assert (again[name].cov_params() == found[name].cov_params()).all(axis=None)


def test_any_released_variable_may_be_the_response(study, people):
    for formula in ("age ~ school + woman", "school ~ hours + C(place)", "hours ~ np.log(pay)"):
        found = study.ols(formula)
        assert near(found, smf.ols(formula, people).fit().params).all()
        assert found.estimator == "combined"


def test_a_smaller_model_follows_from_the_declared_one(study):
    found = study.ols("np.log(pay) ~ school")
    assert found.estimator == "refined"
    assert found.release.formula == MODELS["pay"]


def test_joint_intervals_cover_all_declared_coefficients_at_once(study):
    number = sum(len(one.params) for one in study.values())
    alone, joint = study.conf_int(), study.conf_int(joint=True)
    assert list(joint.index.names) == ["model", "term"]
    assert len(joint) == number
    width = (joint["high"] - joint["low"]) / (alone["high"] - alone["low"])
    # Quantiles of the normal law: n and hence the degrees of freedom are large.
    level = (1 + 0.95 ** (1 / number)) / 2
    assert width.to_numpy() == pytest.approx(norm.ppf(level) / norm.ppf(0.975), rel=1e-3)
    own = study["pay"].conf_int(joint=True)
    assert own.to_numpy() == pytest.approx(joint.loc["pay"][["low", "high"]].to_numpy())
    assert "at once" in str(study.summary(below="interval", joint=True))
    for free in ("age ~ school", "np.log(pay) ~ school"):
        with pytest.raises(ReleaseError, match="joint intervals are about the models that were"):
            study.ols(free).conf_int(joint=True)


def test_joint_intervals_leave_out_what_is_not_identified(people):
    models = {"few": "hours ~ school", "more": "hours ~ C(place) + woman"}
    bounds = {**BOUNDS, "place": [*BOUNDS["place"], "nowhere"]}
    study = dp_study(models, people.head(2000), mu=1, bounds=bounds, rng=1)
    joint, known = study.conf_int(joint=True), study["more"].identified
    assert not known["C(place)[T.nowhere]"]
    assert joint.loc["more"].isna().any(axis=1).to_list() == list(~known)
    number = 2 + int(known.sum())
    alpha = 1 - 0.95 ** (1 / number)
    again = study["few"].conf_int(alpha).to_numpy()
    assert joint.loc["few"][["low", "high"]].to_numpy() == pytest.approx(again)


def test_what_was_not_released_is_named(study):
    with pytest.raises(FormulaError, match=r"np\.sqrt\(hours\).*is not a linear combination"):
        study.ols("np.sqrt(hours) ~ school")
    with pytest.raises(FormulaError, match="'shoe' was not released; what was is"):
        study.ols("shoe ~ school")


def test_one_model_release_has_the_verbs(people):
    release = dp_ols("hours ~ school + woman", people, mu=8, bounds=BOUNDS, rng=2).release
    found = release.ols("school ~ hours + woman")
    assert near(found, smf.ols("school ~ hours + woman", people).fit().params).all()
    assert set(release.describe().frame["variable"]) == {"", "hours", "school", "woman"}
    assert release.corr().frame["estimate"].abs().max() <= 1.0
    res = release.ols()
    assert (res.conf_int(joint=True)[1] > res.conf_int()[1]).all()


def test_table_one_is_near_the_records(study, people):
    frame = study.describe().frame.set_index(["variable", "level", "statistic"])["estimate"]
    exact = people
    assert frame["", "", "records"] == pytest.approx(N, abs=10)
    assert frame["", "", "nobs"] == pytest.approx(0.9 * N, abs=10)
    assert frame["age", "", "missing"] == pytest.approx(0.1, abs=0.003)
    for name in ("pay", "school", "hours", "age"):
        assert frame[name, "", "mean"] == pytest.approx(exact[name].mean(), rel=0.01)
        assert frame[name, "", "sd"] == pytest.approx(exact[name].std(), rel=0.03)
        assert frame[name, "", "median"] == pytest.approx(exact[name].median(), rel=0.03)
    for level, share in exact["place"].value_counts(normalize=True).items():
        assert frame["place", level, "share"] == pytest.approx(share, abs=0.005)


def test_groups_and_two_way_counts(study, people):
    exact = people[np.arange(N) % 10 != 0]
    groups = study.describe(by="woman").frame
    hours = groups[(groups["variable"] == "hours")].set_index("group")["estimate"]
    assert hours.to_numpy() == pytest.approx(exact.groupby("woman")["hours"].mean(), rel=0.02)
    table = study.crosstab("place", "woman").frame.pivot(
        index="place", columns="woman", values="estimate"
    )
    assert table.to_numpy() == pytest.approx(
        pd.crosstab(exact["place"], exact["woman"]).to_numpy(), abs=200
    )
    with pytest.raises(ReleaseError, match="makes no groups"):
        study.describe(by="hours")


def test_tables_have_every_form(study):
    table = study.describe()
    assert "Observations" in str(table)
    assert "<table" in table.to_html()
    assert "\\toprule" in table.to_latex()
    assert table.to_markdown().startswith("|")
    assert list(study.summary().frame.columns) == list(MODELS)
    assert "from one release" in study.summary().notes[-1]


def test_a_saved_study_is_the_same(study, tmp_path):
    folder = study.save(tmp_path / "out", title="People", rng=3)
    again = Study(load_release(folder))
    for name in MODELS:
        assert (again[name].params == study[name].params).all()
        assert (again[name].bse == study[name].bse).all()
    pd.testing.assert_frame_equal(again.describe().frame, study.describe().frame)
    assert (again.ols("age ~ school").params == study.ols("age ~ school").params).all()
    assert json.loads((folder / "release.json").read_text())["models"] == MODELS
    page = (folder / "report.html").read_text()
    assert "<h1>People</h1>" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")
    coefficients = pd.read_csv(folder / "models.csv")
    assert list(coefficients["model"].unique()) == list(MODELS)
    with pytest.raises(ReleaseError, match="save that"):
        study["pay"].save(tmp_path / "one")


def test_synthetic_records_hold_all_variables(study):
    table = study.synthesize(size=500, rng=1)
    assert {"school", "woman", "place", "age", "hours"} <= set(table.columns)


def test_the_ledger_is_charged_once(people, tmp_path):
    ledger = Ledger(tmp_path / "people.db", mu=2.0)
    dp_study(MODELS, people.head(500), mu=1, bounds=BOUNDS, ledger=ledger, rng=1)
    entries = ledger.entries()
    assert len(entries) == 1
    assert entries["mu"].to_list() == [1.0]
    assert "hours ~ school + woman" in entries["formula"].iloc[0]


def test_formulas_must_be_models():
    for wrong in ({}, 3, {"a": 1}, []):
        with pytest.raises(FormulaError, match="formulas must"):
            dp_study(wrong, pd.DataFrame({"y": [1.0]}), mu=1)


def test_a_list_is_numbered(people):
    study = dp_study(["hours ~ school"], people.head(500), mu=1, bounds=BOUNDS, rng=1)
    assert list(study) == ["(1)"]
