"""Rules: read at the front, kept in the release, and by every synthetic row."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from dpbinagg import Domain, Ledger, Study, dp_ols, dp_study, load_release
from dpbinagg.errors import FormulaError
from dpbinagg.formula.rules import read_rules, solved_in_turn

BOUNDS = {
    "age": range(16, 81),
    "school": range(25),
    "exper": range(71),
    "paid": range(61),
    "unpaid": range(41),
    "hours": range(102),
    "income": (0, 1000),
    "labour": (0, 800),
    "capital": (0, 400),
    "woman": ["no", "yes"],
}
MODELS = {
    "income": "income ~ school + exper + C(woman)",
    "hours": "hours ~ np.log(1 + income) + C(woman)",
}
RULES = [
    "exper <= age - 6",
    "hours == paid + unpaid",
    "income == labour + capital",
    "(woman == 'no') | (unpaid >= 1)",
]


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    age, school = rng.integers(18, 70, n), rng.integers(6, 21, n)
    data = pd.DataFrame({"age": age, "school": school})
    data["exper"] = np.clip(age - 6 - school - rng.integers(0, 5, n), 0, None)
    data["woman"] = rng.choice(["no", "yes"], n)
    data["paid"] = np.clip(rng.normal(30, 8, n).round(), 0, 60).astype(int)
    data["unpaid"] = np.where(data["woman"] == "yes", 1, 0) + rng.poisson(6, n).clip(0, 30)
    data["hours"] = data["paid"] + data["unpaid"]
    data["labour"] = np.clip(20 * school + rng.normal(0, 60, n), 0, 800)
    data["capital"] = np.where(rng.random(n) < 0.6, 0.0, rng.exponential(40, n)).clip(0, 200)
    data["income"] = data["labour"] + data["capital"]
    return data


@pytest.fixture(scope="module")
def study():
    extra = ["age", "paid", "unpaid", "labour", "capital"]
    return dp_study(MODELS, people(), mu=2, variables=extra, bounds=BOUNDS, rules=RULES, rng=1)


def broken(table):
    domain = Domain(BOUNDS)
    rows = {name: table[name].to_numpy() for name in table if name != "woman"}
    rows["woman"] = table["woman"].cat.codes.to_numpy()
    return {
        rule.text: int((~rule.holds(rows, domain)).sum())
        for rule in read_rules(RULES, domain, BOUNDS)
    }


@pytest.mark.parametrize("kind", ["calibrated", "predictive", "bounded"])
def test_every_row_keeps_every_rule(study, kind):
    table = study.synthesize(kind=kind, rng=2)
    assert broken(table) == dict.fromkeys(RULES, 0)
    for name, variable in BOUNDS.items():
        if isinstance(variable, range):
            assert table[name].between(variable[0], variable[-1]).all()
            assert (table[name] == table[name].round()).all()


def test_declared_models_are_calibrated_all_the_same(study):
    table = study.synthesize(rng=3)
    for name, formula in MODELS.items():
        fit = smf.ols(formula, table).fit()
        off = np.abs((np.asarray(fit.params) - study[name].params) / study[name].bse)
        assert off.max() < (0.05 if name == "hours" else 1e-6)


def test_copies_keep_them_too(study):
    table = study.synthesize(copies=3, size=800, rng=4)
    assert broken(table) == dict.fromkeys(RULES, 0)


def test_they_are_saved_and_named(study, tmp_path):
    folder = study.save(tmp_path / "x", rng=1)
    again = Study(load_release(folder))
    assert list(again.release.rules) == RULES
    pd.testing.assert_frame_equal(again.synthesize(size=300, rng=5), study.synthesize(300, rng=5))
    readme = (folder / "README.md").read_text()
    assert all(f"`{rule}`" in readme for rule in RULES)


def test_a_single_model_takes_rules(tmp_path):
    data = people(2000)
    formula = "income ~ school + exper + age"
    rules = ["exper <= age - 6"]
    res = dp_ols(formula, data, mu=2, bounds=BOUNDS, rules=rules, rng=1)
    table = res.synthesize(rng=1)
    assert (table["exper"] <= table["age"] - 6).all()
    np.testing.assert_allclose(smf.ols(formula, table).fit().params, res.params, rtol=1e-6)
    folder = res.save(tmp_path / "x", rng=1, report=False)
    assert "`exper <= age - 6`" in (folder / "README.md").read_text()


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (["exper"], "must be a comparison"),
        (["exper = 3"], "rule 'exper = 3'"),
        (["wealth < 3"], "'wealth' is not released"),
        (["exper > 90"], "holds nowhere within the bounds"),
        (["__import__('os').system('true') == 0"], "not allowed"),
        (["open('x') == school"], "not allowed"),
        (["paid**2 + hours**2 == 625"], "determine"),
        (["hours == paid + unpaid", "paid == hours - unpaid"], "determine each other"),
        (3, "list of comparisons"),
        ([3], "list of comparisons"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_before_anything_is_spent(tmp_path, rules, said):
    ledger = Ledger(tmp_path / "l.db", mu=5)
    data = people(50).assign(hours=3.0)
    options = {"bounds": BOUNDS, "ledger": ledger, "variables": ["paid", "unpaid"], "mu": 1}
    with pytest.raises(FormulaError, match="rule") as error:
        dp_study("hours ~ school + exper", data, rules=rules, **options)
    assert said in str(error.value)
    assert ledger.remaining == 5


def test_an_identity_determines_what_is_left_to_it():
    domain = Domain(BOUNDS)
    rules = read_rules(["income == labour + capital", "hours == paid + unpaid"], domain, BOUNDS)
    found = {rule.text: name for rule, name in solved_in_turn(rules, domain, ["income"])}
    # An outcome is left to its model where another number can follow.
    assert found == {"income == labour + capital": "labour", "hours == paid + unpaid": "hours"}
    (half,) = read_rules(["hours == 0.5 * paid"], domain, BOUNDS)
    # Half of an odd number is none: hours cannot follow from paid.
    assert solved_in_turn([half], domain)[0][1] == "paid"
