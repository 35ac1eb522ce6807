"""What tables support: the list, the tag, and the rule that combines copies."""

import json
import shutil
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from dpbinagg import SupportWarning, combine_copies, dp_ols, load_release
from dpbinagg.analyst.synthesis.supports import BINS, EXACT, NOISE, NONE, find_tag
from dpbinagg.cli import main
from dpbinagg.errors import ReleaseError

BOUNDS = {
    "wage": (3, 150),
    "educ": range(21),
    "exper": range(51),
    "sex": ["male", "female"],
    "union": range(2),
}
FORMULA = "np.log(wage) ~ educ + exper + C(sex) + union"


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"educ": rng.integers(8, 19, n), "exper": rng.integers(0, 41, n)})
    data["sex"] = rng.choice(["male", "female"], n)
    data["union"] = rng.integers(0, 2, n)
    log_wage = 1.6 + 0.08 * data.educ + 0.01 * data.exper + rng.normal(0, 0.4, n)
    data["wage"] = np.exp(log_wage).clip(3, 150)
    return data


@pytest.fixture(scope="module")
def res():
    return dp_ols(FORMULA, people(), mu=1, bounds=BOUNDS, rng=1)


@pytest.fixture(scope="module")
def copies(res):
    return res.synthesize(copies=8, rng=2)


def fitted(table, formula):
    return [smf.ols(formula, copy).fit() for _, copy in table.groupby("copy")]


def test_the_list_names_what_is_exact_what_is_noisy_and_what_is_not_there(res):
    frame = res.release.supports
    assert list(frame.columns) == ["what", "support", "how"]
    assert set(frame["support"]) == {EXACT, NOISE, BINS, NONE}
    assert list(frame.loc[frame.support == EXACT, "what"]) == [FORMULA]
    by_what = frame.set_index("what")["support"]
    for name in BOUNDS:
        assert by_what[f"distribution of {name}"] == NOISE
    # Wage is known by its logarithm.
    assert by_what["correlations of educ, exper, union"] == NOISE


def test_values_beyond_what_stands_out_are_said_to_be_in_no_row(res):
    how = res.release.supports.set_index("what")["how"]
    assert "no row lies outside" not in how["distribution of union"]
    seen = res.release.domain["exper"]
    text = how["distribution of exper"]
    assert f"no row lies outside {seen.lower:,.10g} to {seen.upper:,.10g}" in text
    margin = res.release.statistics["margins"]["exper"]
    beyond = (margin["edges"][:-1] > seen.upper) | (margin["edges"][1:] < seen.lower)
    assert beyond.any()
    assert f"together they are {round(margin['counts'][beyond].sum())}, with noise" in text
    assert res.synthesize(rng=1)["exper"].between(seen.lower, seen.upper).all()


@pytest.mark.parametrize(
    ("formula", "support"),
    [
        (FORMULA, EXACT),
        ("np.log(wage) ~ union + exper + C(sex) + educ", EXACT),
        ("np.log(wage) ~ I(educ - 12) + exper + C(sex) + union", EXACT),
        ("np.log(wage) ~ educ", NOISE),
        ("educ ~ np.log(wage) + exper", NOISE),
        ("I(np.log(wage) - educ) ~ exper", NOISE),
        ("np.log(wage) ~ educ * C(sex)", BINS),
        ("wage ~ educ", BINS),
        ("np.log(wage) ~ I(exper**2)", BINS),
        ("np.log(wage) ~ I((educ > 12) * 1)", BINS),
    ],
)
def test_a_formula_is_judged_by_what_was_released(res, formula, support):
    assert find_tag(res).judge(formula).support == support


def test_declared_models_have_the_released_errors_and_others_those_of_both_parts(res, copies):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exact = combine_copies(fitted(copies, FORMULA))
        fits = fitted(copies, "educ ~ np.log(wage) + exper")
        other = combine_copies(fits, copies)
    np.testing.assert_allclose(exact.params, res.params, atol=1e-8)
    np.testing.assert_allclose(exact.bse, res.bse, rtol=1e-6)
    assert (exact.support, other.support) == (EXACT, NOISE)
    each = np.array([fit.params for fit in fits])
    u = np.mean([fit.bse**2 for fit in fits], axis=0) * len(fits[0].fittedvalues) / res.nobs
    b = each.var(axis=0, ddof=1)
    np.testing.assert_allclose(other.bse**2, u + (1 + 1 / 8) * b, rtol=1e-3)
    np.testing.assert_allclose(other.df_resid, 7 * (1 + u / (9 / 8 * b)) ** 2, rtol=1e-2)
    assert (other.conf_int()[1] > other.params).all()


@pytest.mark.parametrize(
    "how", ["interaction", "subgroup", "logit", "weights"], ids=lambda name: name
)
def test_what_bins_alone_show_is_refused(copies, how):
    groups = [copy for _, copy in copies.groupby("copy")]
    fits = {
        "interaction": lambda g: smf.ols("np.log(wage) ~ educ * union", g).fit(),
        "subgroup": lambda g: smf.ols("np.log(wage) ~ educ", g[g.union == 1]).fit(),
        "logit": lambda g: smf.logit("I((wage > 20) * 1) ~ educ", g).fit(disp=0),
        "weights": lambda g: smf.wls("np.log(wage) ~ educ", g, weights=g.exper + 1).fit(),
    }
    found = [fits[how](group) for group in groups]
    with pytest.raises(ReleaseError, match="only as far as bins show"):
        combine_copies(found)
    with pytest.warns(SupportWarning, match="only as far as bins show"):
        combined = combine_copies(found, unsupported="warn")
    assert combined.support == BINS
    assert "as far as bins show" in repr(combined)


def test_a_canonical_model_of_released_columns_has_known_noise(copies):
    fits = [smf.logit("union ~ educ + exper", g).fit(disp=0) for _, g in copies.groupby("copy")]
    assert combine_copies(fits).support == NOISE
    family = sm.families.Binomial()
    fits = [smf.glm("union ~ educ", g, family=family).fit() for _, g in copies.groupby("copy")]
    assert combine_copies(fits).support == NOISE


def test_fits_of_named_columns_are_known_by_them(copies):
    fits = [
        sm.OLS(g["union"], sm.add_constant(g[["educ", "exper"]])).fit()
        for _, g in copies.groupby("copy")
    ]
    assert combine_copies(fits, copies).support == NOISE


def test_fewer_copies_than_coefficients_are_said_to_be_few(res):
    table = res.synthesize(copies=3, rng=1)
    with pytest.warns(SupportWarning, match="3 copies are too few for 5 coefficients"):
        combined = combine_copies(fitted(table, FORMULA))
    np.testing.assert_allclose(combined.bse, res.bse, rtol=1e-6)


def test_a_table_from_a_file_is_known_by_what_lies_beside_it(res, copies, tmp_path):
    copies.to_csv(tmp_path / "copies.csv", index=False)
    back = pd.read_csv(tmp_path / "copies.csv")
    fits = fitted(back, "educ ~ np.log(wage)")
    with pytest.warns(SupportWarning, match="do not say of which table"):
        bare = combine_copies(fits)
    with pytest.raises(ReleaseError, match=r"no copies.supports.json beside"):
        combine_copies(fits, tmp_path / "copies.csv")
    folder = res.save(tmp_path / "package", copies=8, rng=2, report=False)
    by_folder = combine_copies(fits, folder)
    by_file = combine_copies(fits, folder / "synthetic_copies.csv")
    by_release = combine_copies(fits, load_release(folder))
    assert bare.support == "unknown"
    for one in (by_folder, by_file, by_release):
        assert one.support == NOISE
        np.testing.assert_allclose(one.bse, combine_copies(fits, copies).bse, rtol=1e-3)
    plain = json.loads((folder / "supports.json").read_text())
    assert plain["models"] == [FORMULA]
    assert {row["support"] for row in plain["supports"]} == {EXACT, NOISE, BINS, NONE}
    readme = (folder / "README.md").read_text()
    assert "What they carry only as far as bins show it" in readme


BY_HAND = r"""
source("dpbinagg.R")
d <- read.csv("synthetic_copies.csv")
fits <- lapply(split(d, d$copy), function(one) lm(educ ~ log(wage) + exper, one))
b <- cov(t(sapply(fits, coef)))
u <- Reduce("+", lapply(fits, vcov)) / length(fits)
cat(sprintf("%.12g", colMeans(t(sapply(fits, coef)))), "\n")
cat(sprintf("%.12g", sqrt(diag(u + (1 + 1 / length(fits)) * b))), "\n")
cat(sprintf("%.12g", sqrt(diag(combine_copies(fits, exact = FALSE)$covariance))), "\n")
"""


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="Rscript is not on this machine")
def test_r_and_a_rule_by_hand_give_the_same(res, tmp_path):
    folder = res.save(tmp_path / "package", copies=8, rng=2, report=False)
    command = ["Rscript", "--vanilla", "-e", BY_HAND]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    params, hand, function = (np.array(line.split(), float) for line in done.stdout.splitlines())
    table = pd.read_csv(folder / "synthetic_copies.csv")
    combined = combine_copies(fitted(table, "educ ~ np.log(wage) + exper"), folder)
    np.testing.assert_allclose(params, combined.params, rtol=1e-9)
    np.testing.assert_allclose(hand, function, rtol=1e-9)
    # The folder's copies have as many rows as the release says that there are records.
    np.testing.assert_allclose(hand, combined.bse, rtol=1e-3)


def test_the_command_line_writes_it_beside_the_table(res, tmp_path):
    folder = res.save(tmp_path / "package", rng=2, report=False)
    target = str(tmp_path / "c.csv")
    assert main(["synth", str(folder), "--out", target, "--copies", "6", "--rng", "1"]) in (0, None)
    fits = fitted(pd.read_csv(tmp_path / "c.csv"), FORMULA)
    combined = combine_copies(fits, tmp_path / "c.csv")
    # Read back, levels are in alphabetical order: the reference and the intercept are others.
    np.testing.assert_allclose(combined.bse[1:], res.bse[1:], rtol=1e-6)


def test_copies_of_another_kind_and_some_of_the_copies_are_refused(res, copies):
    bounded = res.synthesize(copies=6, kind="bounded", rng=1)
    with pytest.raises(ReleaseError, match="do not vary by the noise"):
        combine_copies(fitted(bounded, FORMULA))
    with pytest.raises(ReleaseError, match="each of the 8 copies"):
        combine_copies(fitted(copies, FORMULA)[:6])


def test_coefficients_alone_do_for_declared_models_only(res, copies):
    fits = fitted(copies, "educ ~ union")
    vectors = [fit.params for fit in fits]
    with pytest.raises(ReleaseError, match="whose standard errors the rule needs"):
        combine_copies(vectors, res, formula="educ ~ union")
    declared = [fit.params for fit in fitted(copies, FORMULA)]
    np.testing.assert_allclose(
        combine_copies(declared, res, formula=FORMULA).bse, res.bse, rtol=1e-6
    )
    with pytest.warns(SupportWarning, match="pass formula="):
        combine_copies(declared, res)
