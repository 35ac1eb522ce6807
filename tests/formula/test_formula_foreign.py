"""What users of R, Stata, fixest and pyfixest type gets a sentence with the equivalent here."""

from __future__ import annotations

import pytest

from dpbinagg.errors import FormulaError
from dpbinagg.formula import build_design
from dpbinagg.public.domain import Domain

DOMAIN = Domain(
    {
        "wage": (1, 100),
        "educ": (0, 20),
        "age": (18, 90),
        "region": ["N", "S"],
        "sex": ["m", "f"],
        "id": range(1, 9),
        "weekly wage": (1, 9),
        "my.var": (0, 1),
        "größe": (0, 1),
        "if": (0, 1),
        "class": (0, 1),
    }
)

# what was typed, a part of the sentence, the equivalent that the sentence names
TYPED = [
    ("wage ~ educ^2", "not ^", "I(educ ** 2)"),
    ("wage ~ I(educ^2)", "not ^", "I(educ ** 2)"),
    ("wage ~ (educ + age)^2", "not ^", "(educ + age)**2"),
    ("wage ~ educ**2", "by the rules of formulas is educ itself", "I(educ ** 2)"),
    ("wage ~ educ | region", "does not absorb", "educ + C(region)"),
    ("wage ~ educ | region + id", "pyfixest", "educ + C(region)"),
    ("wage ~ educ + (1 | id)", "lme4", "C(id)"),
    ("wage ~ 1 | id ~ educ", "instrumental variables do not exist here", None),
    ("wage ~ educ & age", "joins comparisons", "educ * age"),
    ('wage ~ region %in% c("N", "S")', "R's", 'I((region == "N") | (region == "S"))'),
    ("wage ~ I(educ %in% c(8, 12))", "R's", "I((educ == 8) | (educ == 12))"),
    ("wage ~ educ %>% log()", "percent signs are R's", None),
    ('wage ~ region.isin(["N"])', "not allowed", "I((region == 'N'))"),
    ("wage ~ factor(region)", "levels in bounds", "C(region)"),
    ("wage ~ as.factor(region)", "R's", None),
    ("wage ~ i(region)", "fixest's", "C(region)"),
    ('wage ~ i(region, ref="S")', "fixest's", "C(region, Treatment('S'))"),
    ('wage ~ i(region, educ, ref="S")', "fixest's", "C(region, Treatment('S')):educ"),
    ('wage ~ relevel(region, ref = "S")', "reference", "C(region, Treatment('S'))"),
    ('wage ~ relevel(factor(region), "S")', "reference", "C(region, Treatment('S'))"),
    ('wage ~ C(region, ref="S")', "reference", "C(region, Treatment('S'))"),
    ('wage ~ C(region, Treatment(ref="S"))', "no argument 'ref'", None),
    ("wage ~ pd.get_dummies(region)", "levels in bounds", "C(region)"),
    ("wage ~ interaction(region, sex)", "interaction", "C(region):C(sex)"),
    ("wage ~ poly(age, 3)", "from the data", "age + I(age ** 2) + I(age ** 3)"),
    ("wage ~ ns(age, 3)", "public numbers", None),
    ("wage ~ s(age)", "public numbers", None),
    ("wage ~ ifelse(age > 30, 1, 0)", "not allowed", "np.where(age > 30, 1, 0)"),
    ("wage ~ ln(age)", "not allowed", "np.log(age)"),
    ("wage ~ educ + offset(age)", "subtracted from the response", None),
    ("wage ~ as.numeric(age > 3)", "R's", None),
    ("wage ~ is.na(age)", "missing value are dropped", None),
    ("cbind(wage, age) ~ educ", "one response", None),
    ("wage ~ csw(educ, age)", "cost nothing", None),
    ("wage ~ educ + cluster(id)", "no terms of a formula", None),
    ("wage ~ i.region", "Stata's", "C(region)"),
    ("wage ~ ib2.id", "Stata's", "C(id, Treatment(2))"),
    ("wage ~ c.age##c.age", "Stata's", "age + I(age ** 2)"),
    ("wage ~ i.region##c.age", "Stata's", "C(region) * age"),
    ("wage ~ i.region#i.sex", "Stata's", "C(region):C(sex)"),
    ("wage ~ .", "name the columns", None),
    ("wage ~ . - age", "name the columns", None),
    ("wage ~ `weekly wage`", "quoted as in R", 'Q("weekly wage")'),
    ("wage ~ weekly wage", "spaces", 'Q("weekly wage")'),
    ("wage ~ np.log(weekly wage)", "spaces", 'Q("weekly wage")'),
    ('wage ~ "weekly wage"', "is text", 'Q("weekly wage")'),
    ("wage ~ my.var", "has a dot", 'Q("my.var")'),
    ("wage ~ df.educ", "by its name alone", "educ"),
    ("wage ~ df$educ", "as in R", "educ"),
    ('wage ~ df["educ"]', "by its name alone", 'Q("educ")'),
    ("wage ~ educ + if", "a word of Python", 'Q("if")'),
    ("wage ~ np.exp(class)", "a word of Python", 'Q("class")'),
    ("wage ~ educ, age", "with a plus", "educ + age"),
    ("wage ~ I(age > 30 and educ > 3)", "not allowed", "I((age > 30) & (educ > 3))"),
    ("wage ~ 2 * age", "I(2 * x)", None),
    ("wage ~ age**0.5", "for the power", "I(age ** 0.5)"),
]


@pytest.mark.parametrize(("formula", "part", "instead"), TYPED, ids=[typed for typed, *_ in TYPED])
def test_says_what_to_write_instead(formula, part, instead):
    with pytest.raises(FormulaError) as caught:
        build_design(formula, DOMAIN)
    message = str(caught.value)
    assert part in message
    if instead is not None:
        assert instead in message
        assert build_design(f"wage ~ {instead}", DOMAIN).column_names


@pytest.mark.parametrize(
    "formula",
    [
        'wage ~ Q("weekly wage") + Q("my.var") + Q("if")',
        "wage ~ größe + np.log(age) + C(region, Treatment('S'))",
        "wage ~ I(~(age > 40)) + I((age > 30) ^ (educ > 3)) + I((age > 30) | (educ > 3))",
        "wage ~ (educ + age)**2 + I(educ ** 2)",
        "wage ~ I(educ%5+age%3)",
        "wage ~ I(educ % 2) + age:educ + C(sex)*age - 1",
    ],
)
def test_what_belongs_to_formulas_is_left_alone(formula):
    assert build_design(formula, DOMAIN).column_names


def test_signs_inside_quotes_are_names():
    names = ["a|b", "a^2", "i.x", "a%in%b", "x$y", "p#q", "`t`", ". "]
    domain = Domain({"y": (0, 1), **dict.fromkeys(names, (0, 1))})
    design = build_design("y ~ " + " + ".join(f"Q('{name}')" for name in names), domain)
    assert design.variables == tuple(names)


@pytest.mark.parametrize("sign", ["a", " ", "#", "a#", "^", "a ", "%", "`", ".", "a.", "$"])
def test_long_formulas_are_refused_in_no_time(sign):
    """Nothing is quadratic: a formula of the greatest length would take minutes."""
    from time import process_time

    start = process_time()
    with pytest.raises(FormulaError):
        build_design("wage ~ " + sign * (40_000 // len(sign)) + " ~", DOMAIN)
    assert process_time() - start < 20.0
