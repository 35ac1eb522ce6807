"""The readers for R, run in R, and for Stata, as far as text can be checked."""

import csv
import re
import shutil

import numpy as np
import pandas as pd
import pytest
from release_data import ODD_BOUNDS

from dpbinagg import load_release
from dpbinagg.release.dialects import is_plain_in_stata
from dpbinagg.release.replication import estimate_files

READ = """
source("dpbinagg.R")
m <- read_release(".")
"""
SHOW = r"""
options(digits = 17, width = 10000)
out <- function(name, x) cat(name, sprintf("%.17g", x), "\n")
out("coef", coef(m))
out("vcov", as.vector(vcov(m)))
out("confint", as.vector(confint(m)))
out("narrow", as.vector(confint(m, 2, level = 0.5)))
out("nobs", nobs(m))
out("df", df.residual(m))
table <- coef(summary(m))
for (j in 1:4) out(c("estimate", "error", "statistic", "p")[j], table[, j])
t <- tidy(m, conf.int = TRUE, conf.level = 0.95)
out("tidy", unlist(t[, -1]))
g <- glance(m)
out("glance", c(g$r.squared, g$sigma, g$nobs, g$mu, g$epsilon, g$delta, g$AIC))
stopifnot(identical(t$term, names(coef(m))), identical(rownames(vcov(m)), names(coef(m))))
stopifnot(identical(colnames(t), c(
  "term", "estimate", "std.error", "statistic", "p.value", "conf.low", "conf.high"
)))
"""


def numbers(printed):
    found = {}
    for line in printed.splitlines():
        name, *values = line.split()
        found[name] = np.array([float(value) for value in values])
    return found


def run(run_r, folder, tmp_path, code, **environment):
    script = tmp_path / "script.R"
    script.write_text(READ + code, encoding="utf-8")
    return run_r(folder, str(script), **environment)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_r_has_the_numbers(odd, odd_saved, run_r, tmp_path, locale):
    found = numbers(run(run_r, odd_saved, tmp_path, SHOW, LC_ALL=locale))
    interval = odd.conf_int().to_numpy()
    expected = {
        "coef": odd.params,
        "vcov": odd.cov_params().to_numpy().T.ravel(),
        "confint": interval.T.ravel(),
        "narrow": odd.conf_int(0.5).to_numpy()[1],
        "nobs": odd.nobs,
        "df": odd.df_resid,
        "estimate": odd.params,
        "error": odd.bse,
        "statistic": odd.tvalues,
        "p": odd.pvalues,
        "tidy": np.concatenate(
            [odd.params, odd.bse, odd.tvalues, odd.pvalues, interval[:, 0], interval[:, 1]]
        ),
        "glance": [
            odd.rsquared, np.sqrt(odd.scale), odd.nobs, odd.release.mu, odd.epsilon, odd.delta,
            odd.aic,
        ],
    }  # fmt: skip
    assert set(found) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-300, err_msg=name)


def test_r_prints_a_table_that_says_what_it_is(odd, odd_saved, run_r, tmp_path):
    said = run(run_r, odd_saved, tmp_path, "summary(m)\nprint(m)\n", LC_ALL="C.UTF-8")
    for words in (
        "Differentially private regression",
        'Q("größe")',
        'C(Q("using"))[T.if]',
        "NOT FOR PUBLICATION",
        "mu = 2",
        f"epsilon = {odd.epsilon:.3g}",
        f"{odd.nobs:,.0f}",
    ):
        assert words in said


def test_r_tells_terms_that_are_not_identified(odd_saved, run_r, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(odd_saved, folder)
    for name in ("coefficients.csv", "vcov.csv"):
        table = pd.read_csv(folder / name)
        if name == "vcov.csv":
            table.iloc[2, 1:] = np.nan
            table.iloc[:, 3] = np.nan
        else:
            table.loc[2, "estimate":"conf_high"] = np.nan
        table.to_csv(folder / name, index=False)
    said = run(
        run_r,
        folder,
        tmp_path,
        "summary(m)\nstopifnot(sum(is.na(coef(m))) == 1, sum(is.na(tidy(m)$p.value)) == 1)\n",
    )
    assert "not identified" in said
    run_r(folder, "replicate.R")


def test_r_combines_copies(odd, odd_saved, run_r, tmp_path):
    code = r"""
d <- read.csv("synthetic_copies.csv", check.names = FALSE, encoding = "UTF-8")
names(d) <- c("copy", "y", "a", "b", "c", "h", "g", "u")
d$c <- d$c == "TRUE" | d$c == TRUE
fits <- lapply(split(d, d$copy), function(one) lm(y ~ I(b^2) + a + c + h + g + u, one))
both <- combine_copies(fits)
cat("coef", sprintf("%.12g", both$coefficients), "\n")
cat("error", sprintf("%.12g", sqrt(diag(both$covariance))), "\n")
"""
    held = list(pd.read_csv(odd_saved / "synthetic_copies.csv", nrows=1))
    assert held == ["copy", "else", "if", "in", "TRUE", "hours per week", "größe", "using"]
    found = numbers(run(run_r, odd_saved, tmp_path, code))
    names = [name for name in odd.params.index if "using" not in name and name != "Intercept"]
    # The order of the script, whose first level of the last variable is another one.
    order = ('in")', 'if")', 'TRUE")', 'week")', 'größe")')
    names = [next(name for name in names if part in name) for part in order]
    np.testing.assert_allclose(found["coef"][1:6], odd.params[names], rtol=1e-6)
    np.testing.assert_allclose(found["error"][1:6], odd.bse[names], rtol=1e-6)


def test_tidy_and_glance_are_found_by_other_packages(odd_saved, run_r, tmp_path):
    code = """
if (!requireNamespace("generics", quietly = TRUE)) { cat("absent"); quit() }
stopifnot(is.data.frame(generics::tidy(m)), nrow(generics::glance(m)) == 1)
rm(list = setdiff(ls(all.names = TRUE), "m"))
stopifnot(is.data.frame(generics::tidy(m, conf.int = TRUE)), length(stats::coef(m)) > 1)
if (requireNamespace("broom", quietly = TRUE)) {
  library(broom)
  stopifnot(nrow(tidy(m)) == length(coef(m)), nrow(tidy(lm(dist ~ speed, cars))) == 2)
  source("dpbinagg.R")
  stopifnot(nrow(tidy(m)) == length(coef(m)), nrow(tidy(lm(dist ~ speed, cars))) == 2)
}
cat("found")
"""
    said = run(run_r, odd_saved, tmp_path, code)
    if said == "absent":
        pytest.skip("the R package generics is not here: apt-get install r-cran-generics")
    assert said.endswith("found")


def test_r_says_what_is_missing(tmp_path, odd_saved, run_r):
    code = 'e <- tryCatch(read_release("nowhere"), error = conditionMessage)\ncat(e)\n'
    assert "'nowhere' has no coefficients.csv" in run(run_r, odd_saved, tmp_path, code)


def test_the_stata_reader_finds_its_columns(odd_saved):
    """Every column that the ado names is in the file it reads, and names are Stata's."""
    ado = (odd_saved / "dpbinagg.ado").read_text(encoding="utf-8")
    assert ado.isascii()
    header = {
        name: next(csv.reader((odd_saved / name).read_text(encoding="utf-8").splitlines()))
        for name in ("coefficients.csv", "vcov.csv", "model.csv")
    }
    assert all(f"/{name}\"'" in ado for name in header)
    facts = " ".join(re.findall(r"foreach fact in (.*) \{", ado)).split()
    assert set(facts) <= set(header["model.csv"])
    used = set(re.findall(r"(?:real\(|= )(estimate|short_name)\[", ado))
    assert used == {"estimate", "short_name"} <= set(header["coefficients.csv"])
    assert ado.count("{") == ado.count("}")
    quotes = ado.count('`"'), ado.count("\"'")
    assert quotes[0] == quotes[1]
    names = pd.read_csv(odd_saved / "coefficients.csv")["short_name"]
    assert names[0] == "_cons"
    assert names.is_unique
    assert all(map(is_plain_in_stata, names[1:]))
    assert len(header["vcov.csv"]) == 1 + len(names)


def test_the_covariance_is_symmetric_and_numbers_have_all_digits(odd):
    files = estimate_files(odd)
    rows = list(csv.reader(files["vcov.csv"].decode().splitlines()))
    matrix = np.array([[float(cell) for cell in row[1:]] for row in rows[1:]])
    np.testing.assert_array_equal(matrix, odd.cov_params().to_numpy())
    np.testing.assert_allclose(np.sqrt(np.diag(matrix)), odd.bse)


def test_the_folder_is_read_back(odd, odd_saved):
    again = load_release(odd_saved)
    assert list(again.domain["using"].levels) == ODD_BOUNDS["using"]
    assert (again.ols().params == odd.params).all()
