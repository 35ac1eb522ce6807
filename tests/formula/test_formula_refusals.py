"""Formulas that learn from data, run code or make no sense are refused, with the remedy."""

import pickle

import numpy as np
import pytest
from formula_corpus import DOMAIN

from dpbinagg.errors import FormulaError
from dpbinagg.formula import build_design
from dpbinagg.public.domain import Domain

# formula, the term that the message names, a part of the remedy
LEARNING = [
    ("wage ~ center(educ)", "center(educ)", "I(x - 40)"),
    ("wage ~ standardize(educ)", "standardize(educ)", "I((x - 40) / 10)"),
    ("wage ~ scale(educ) + age", "scale(educ)", "I((x - 40) / 10)"),
    ("wage ~ I(educ - educ.mean())", "educ.mean()", "public number"),
    ("wage ~ I(educ - np.mean(educ))", "np.mean(educ)", "public number"),
    ("wage ~ I(age > np.median(age))", "np.median(age)", "public number"),
    ("wage ~ I((age > 30) & (age < age.quantile(0.9)))", "age.quantile(0.9)", "public number"),
    ("wage ~ np.where(age > age.max(), 1, 0)", "age.max()", "np.maximum(x, 3)"),
    ("wage ~ I(age / age.std())", "age.std()", "public number"),
    ("wage ~ I(age - min(age))", "min(age)", "np.minimum(x, 3)"),
    ("wage ~ np.cumsum(educ)", "np.cumsum(educ)", "other records"),
    ("wage ~ educ.rank()", "educ.rank()", "public number"),
    ("wage ~ pd.qcut(age, 4)", "pd.qcut(age, 4)", "I(x > 30)"),
    ("wage ~ pd.cut(age, [0, 30, 60])", "pd.cut", "I(x > 30)"),
    ("wage ~ np.digitize(age, [30, 60])", "np.digitize", "I(x > 30)"),
    ("wage ~ educ.shift(1)", "educ.shift(1)", "other records"),
    ("wage ~ C(age > age.mean())", "age.mean()", "public number"),
    ("wage ~ C(np.rint(age))", "C(np.rint(age))", "declare its levels"),
    ("wage ~ bs(age, df=5)", "bs(age, df=5)", "knots=[10, 20]"),
    ("wage ~ bs(age, knots=[30, 60])", "bs(age, knots=[30, 60])", "lower_bound=0"),
    ("wage ~ bs(age, knots=[30], lower_bound=0)", "upper_bound=", "with public numbers"),
    ("wage ~ cr(age, df=4)", "cr(age, df=4)", "knots=[10, 20]"),
    (
        "wage ~ cr(age, knots=[30], lower_bound=18, upper_bound=90, constraints='center')",
        "constraints=",
        "leave them out",
    ),
    ("wage ~ te(cr(age, df=3), cr(educ, df=3))", "te(", "cr(x, ...):cr(z, ...)"),
    (
        "wage ~ bs(age, knots=np.quantile(age, [0.5]), lower_bound=0, upper_bound=99)",
        "knots",
        "[10",
    ),
    ("wage ~ C(age)", "C(age)", "levels="),
    ("wage ~ C(unknown)", "C(unknown)", "levels="),
    ("center(wage) ~ educ", "center(wage)", "I(x - 40)"),
    ("wage ~ len(educ)", "len(educ)", "public number"),
]

MALICIOUS = [
    ("wage ~ __import__('os').system('true')", "__import__", "not allowed"),
    ("wage ~ eval('1')", "eval('1')", "not allowed"),
    ("wage ~ open('/etc/passwd').read()", "open(", "not allowed"),
    ("wage ~ educ.__class__", "educ.__class__", "not allowed"),
    ("wage ~ np.load('x.npy')", "np.load", "not allowed"),
    ("wage ~ np.random.normal(educ)", "np.random.normal", "not allowed"),
    ("wage ~ np.vectorize(print)(educ)", "np.vectorize", "not allowed"),
    ("wage ~ I((lambda x: x)(educ))", "lambda", "not allowed"),
    ("wage ~ I([x for x in educ])", "[x for x in educ]", "not allowed"),
    ("wage ~ I(educ[0])", "educ[0]", "not allowed"),
    ("wage ~ I(educ if True else age)", "if True", "not allowed"),
    ("wage ~ I((k := educ))", "k := educ", "not allowed"),
    ("wage ~ I(f'{educ}')", "f'{educ}'", "not allowed"),
    ("wage ~ I({'a': educ})", "{'a': educ}", "not allowed"),
    ("wage ~ I(getattr(educ, 'sum')())", "getattr", "not allowed"),
    ("wage ~ np.log(*[educ])", "np.log", "write out the arguments"),
    ("wage ~ np.log(educ, where=age > 3)", "np.log", "no further argument"),
    ("wage ~ Q(educ)", "Q(educ)", "written out"),
    ("wage ~ globals()['x']", "globals()", "not allowed"),
    ("wage ~ I(await_)(3)", "I(await_)(3)", "not allowed"),
]

SENSELESS = [
    ("wage ~ I((age > 30) + (educ > 3))", "(age > 30) + (educ > 3)", "& or |"),
    ("wage ~ I(30 < age < 50)", "30 < age < 50", "(0 < x) & (x < 5)"),
    ("wage ~ I(not age > 3)", "I(not age > 3)", "~(x > 3)"),
    ("wage ~ I(age > 3 and educ > 3)", "age > 3 and educ > 3", "not allowed"),
    ("wage ~ I(region + 1)", "I(region + 1)", "compare it with a level"),
    ("wage ~ I(region == 'moon')", "region == 'moon'", "declare it"),
    ("wage ~ I(region in ['north'])", "region in ['north']", "|"),
    ("wage ~ I(unknown == 'a')", "unknown == 'a'", "declare the levels"),
    ("wage ~ I(age & educ)", "& joins comparisons", "age:educ"),
    ("wage ~ I(age ** educ)", "age ** educ", "np.exp(z * np.log(x))"),
    ("wage ~ I(age % educ)", "age % educ", "positive number"),
    ("wage ~ I(1 / 0 * age)", "1 / 0", "correct it"),
    ("wage ~ I(3)", "I(3)", "no variable"),
    ("wage ~ I(1j * age)", "1j", "write the number"),
    ("wage ~ I(1e999 * age)", "finite number", "write the number"),
    ("wage ~ I('text')", "'text'", 'Q("text")'),
    ("wage ~ log(region)", "log(region)", "compare it with a level"),
    ("wage ~ np.log(age > 3)", "age > 3 is false or true", "1.0 * (age > 3)"),
    ("wage ~ I(C(region))[0]", "I(C(region))[0]", "not allowed"),
    ("wage ~ I(1 * C(region))", "C(region)", "term of its own"),
    ("wage ~ arcsinh(age)", "arcsinh(age)", "np.arcsinh"),
    ("wage ~ C(region, Bogus)", "Bogus", "Treatment"),
    ("wage ~ C(region, Treatment('moon'))", "moon", "correct the term"),
    ("wage ~ C(region, levels=['moon'])", "C(region, levels=['moon'])", "declare all of them"),
    ("wage ~ C(new, levels=['a', 'a'])", "C(new, levels=['a', 'a'])", "distinct"),
    ("wage ~ C(new, levels=[1, 2]) + new", "'new'", "declare it in bounds"),
    ("wage ~ C(new, levels=[1, 2]) + C(new, levels=[1, 3])", "'new'", "once, in bounds"),
    ("wage ~ C(kids, levels=['a', 'b'])", "C(kids", "numbers"),
    ("wage ~ 0", "right side", "at least one term"),
    ("~ educ", "exactly one response", "y ~ x1 + x2"),
    ("wage + hours ~ educ", "exactly one response", "I(y1 + y2)"),
    ("wage:hours ~ educ", "exactly one response", "I(y1 + y2)"),
    ("region ~ educ", "'region'", "== 'west'"),
    ("bs(wage, knots=[], lower_bound=0, upper_bound=9) ~ educ", "bs(wage", "one number"),
    ("wage ~ wage + educ", "'wage'", "remove"),
    ("np.log(wage) ~ educ + wage", "np.log(wage)", "remove"),
    ("wage ~ 2*educ", "cannot be read", "patsy"),
    ("wage ~ educ +", "cannot be read", "patsy"),
    ("wage ~ (educ", "cannot be read", "patsy"),
    ("wage ~ educ ~ age", "cannot be", "more than one ~"),
    ("wage ~ " + "*".join(f"x{i}" for i in range(30)), "terms", "fewer interactions"),
    ("wage ~ (" + "+".join(f"x{i}" for i in range(30)) + ")**15", "terms", "fewer interactions"),
    ("wage ~ bs(age, knots=[95], lower_bound=18, upper_bound=90)", "bs(age", "strictly between"),
    ("wage ~ I(" + "(" * 250 + "age" + ")" * 250 + ")", "age", "check brackets"),
    ("wage ~ I(" + "-" * 1500 + "age)", "age", "simplify it"),
]

UNDEFINED = [
    ("wage ~ np.log(exper)", "np.log(exper)", "lower bound of 'exper'"),
    ("wage ~ log(temp)", "log(temp)", "lower bound of 'temp'"),
    ("wage ~ np.sqrt(temp)", "np.sqrt(temp)", "lower bound of 'temp'"),
    ("wage ~ np.log1p(temp)", "np.log1p(temp)", "lower bound of 'temp'"),
    ("wage ~ np.log(age - educ)", "age - educ ranges over [-2, 90]", "'age' or 'educ'"),
    ("wage ~ I(1 / exper)", "1 / exper", "bound of 'exper'"),
    ("wage ~ I(age / temp)", "age / temp", "bound of 'temp'"),
    ("wage ~ I(temp ** 0.5)", "temp ** 0.5", "lower bound of 'temp'"),
    ("wage ~ I(temp ** -2)", "temp ** -2", "bound of 'temp'"),
    ("wage ~ np.exp(age * 100)", "np.exp(age * 100)", "narrow the bounds"),
    ("wage ~ I(age > np.log(temp))", "np.log(temp)", "lower bound of 'temp'"),
    ("np.log(profit) ~ educ", "np.log(profit)", "lower bound of 'profit'"),
    ("wage ~ np.where(temp > 0, np.log(temp), 0)", "np.log(temp)", "lower bound of 'temp'"),
]


def test_at_least_thirty_leaking_or_malicious_formulas():
    assert len({formula for formula, *_ in LEARNING + MALICIOUS}) >= 30


@pytest.mark.parametrize(
    ("formula", "term", "remedy"),
    LEARNING + MALICIOUS + SENSELESS + UNDEFINED,
    ids=lambda text: text[:40],
)
def test_refused_with_the_remedy(formula, term, remedy):
    with pytest.raises(FormulaError) as caught:
        build_design(formula, DOMAIN)
    message = str(caught.value)
    assert term in message
    assert remedy in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("formula", [None, 3, b"y ~ x", ["y ~ x"], "", "   ", "\0", "y ~ x\0"])
def test_not_a_formula(formula):
    with pytest.raises(FormulaError):
        build_design(formula, DOMAIN)


def test_nothing_of_the_formula_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in ("open('canary', 'w')", "np.save('canary', educ)", "np.log(open('canary', 'w'))"):
        with pytest.raises(FormulaError):
            build_design(f"wage ~ I({code})", DOMAIN)
    assert list(tmp_path.iterdir()) == []


def test_names_of_the_caller_are_not_visible():
    k = 40  # noqa: F841
    assert build_design("wage ~ I(age - k)", DOMAIN).variables == ("age", "k")


def test_constants_are_passed_by_name():
    design = build_design(
        "wage ~ I((age - k) / s)", DOMAIN, constants={"k": 40, "s": np.float64(2)}
    )
    assert design.variables == ("age",)
    np.testing.assert_allclose(design.columns({"age": np.array([50.0])}), [[1.0, 5.0]])
    again = pickle.loads(pickle.dumps(design))
    assert again.constants == {"k": 40.0, "s": 2.0}


@pytest.mark.parametrize(
    "constants",
    [{"k": np.arange(3)}, {"k": "3"}, {"k": True}, {"k": np.nan}, {"age": 3.0}, {"k": [1.0]}],
)
def test_constants_that_are_not_numbers(constants):
    with pytest.raises(FormulaError, match="constants"):
        build_design("wage ~ I(age - k)", DOMAIN, constants=constants)


def test_too_many_levels():
    domain = Domain({"y": (0, 1), "id": range(5000), "name": [f"n{i}" for i in range(10_000)]})
    for formula in ("y ~ C(id)", "y ~ name"):
        with pytest.raises(FormulaError, match="more than 1000"):
            build_design(formula, domain)
    many = Domain({"y": (0, 1), "a": range(100), "b": range(100)})
    with pytest.raises(FormulaError, match="columns"):
        build_design("y ~ C(a) * C(b)", many)


def test_three_hundred_terms():
    formula = "y ~ " + " + ".join(f"x{i}" for i in range(300))
    assert len(build_design(formula, Domain()).column_names) == 301


def test_undefined_is_found_when_the_bounds_come_later():
    design = build_design("np.log(wage) ~ np.sqrt(x)", Domain({"x": (0, 1)}))
    assert design.unbounded == ("wage",)
    moved = design.with_domain(Domain({"wage": (-1, 7)}))
    assert 0.0 < moved.domain["wage"].lower < 0.01
    assert design.with_domain(Domain({"wage": (1, 2)})).response_bounds()[0] == 0.0
    with pytest.raises(FormulaError, match="lower bound of 'wage'"):
        design.with_domain(Domain({"wage": (-3, -2)}))
