"""The formulas, the domain and the records that the tests of formulas share."""

from __future__ import annotations

import numpy as np
import pandas as pd
from patsy import EvalEnvironment

from dpbinagg.formula import scaling
from dpbinagg.formula.bounds import Bounds
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.public.partition import Boxes

REGIONS = ["north", "south", "east", "west"]

DOMAIN = Domain(
    {
        "wage": (1, 200),
        "hours": (1, 80),
        "profit": (-50, 150),
        "educ": range(21),
        "exper": (0, 50),
        "age": (18, 90),
        "kids": range(6),
        "temp": (-10.5, 40.25),
        "region": REGIONS,
        "sector": ["a", "b", "c"],
        "union": [False, True],
        "grade": [1, 2, 3],
        "weekly wage": (0, 4000),
        "größe": (140, 210),
    }
)

NAMESPACE = {
    "np": np,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "clip": np.clip,
}

FORMULAS = [
    # Mincer equations
    "np.log(wage) ~ educ + exper + I(exper**2)",
    "np.log(wage) ~ educ + exper + I(exper**2) + C(region)",
    "log(wage) ~ educ + exper + I(exper**2 / 100) + union + region",
    "np.log(wage) ~ educ + exper + np.power(exper, 2) + np.square(age)",
    "np.log(wage) ~ educ * union + exper + I(exper ** 2) + I(exper ** 3) + I(exper ** 4)",
    "np.log(wage / hours) ~ educ + exper + I(exper**2) + C(sector)",
    "np.log(wage) ~ C(educ) + exper",
    "np.log(wage) ~ educ + I(age - educ - 6) + I((age - educ - 6)**2)",
    # transformed responses
    "wage ~ educ",
    "sqrt(wage) ~ educ + exper",
    "log10(wage) ~ educ",
    "np.log2(wage) ~ educ",
    "np.log1p(profit + 50) ~ educ",
    "np.arcsinh(profit) ~ educ + age",
    "I(wage / hours) ~ educ",
    "I(100 * np.log(wage)) ~ educ",
    "I(wage**2) ~ educ",
    "I((wage > 15) * 1.0) ~ educ + age",
    "np.minimum(wage, 100) ~ educ",
    "I(profit - wage) ~ wage + educ",
    # plain terms, intercepts
    "wage ~ 1",
    "wage ~ 0 + educ + age",
    "wage ~ educ + age - 1",
    "wage ~ educ + kids + temp",
    'wage ~ Q("weekly wage") + größe',
    "wage ~ I(educ) + +age",
    # factors only
    "wage ~ region",
    "wage ~ 0 + region",
    "wage ~ C(region, Treatment('south'))",
    "wage ~ C(region, Treatment(reference='west')) + sector",
    "wage ~ C(region, Sum)",
    "wage ~ C(region, Helmert) + C(sector, Poly)",
    "wage ~ C(sector, Diff) + C(region, Sum(omit='north'))",
    "wage ~ C(region, levels=['west', 'east', 'north', 'south'])",
    "wage ~ C(grade) + union",
    "wage ~ grade + C(union)",
    "wage ~ C(kids)",
    "wage ~ 0 + C(kids, Poly)",
    "wage ~ region * sector",
    "wage ~ region:sector",
    "wage ~ 0 + region:sector",
    "wage ~ region / sector",
    "wage ~ (region + sector + union)**2",
    "wage ~ region * sector * union",
    # interactions with numbers
    "wage ~ region * exper",
    "wage ~ region:exper",
    "wage ~ exper + region:exper - 1",
    "wage ~ C(region, Sum) * C(sector, Helmert) * temp",
    "wage ~ (educ + exper + temp)**2",
    "wage ~ (educ + exper + temp)**3 - educ:temp",
    "wage ~ educ:exper:age",
    "wage ~ temp:I(temp**2)",
    "wage ~ union:educ + union:region",
    "wage ~ sector/temp",
    "wage ~ (educ + union) * np.log(hours)",
    # polynomials, ratios, functions
    "wage ~ temp + I(temp**2) + I(temp**3)",
    "wage ~ I((age - 40)**2) + I((temp - 10)**2 / 50)",
    "wage ~ I(exper / age) + I(1 / age)",
    "wage ~ I(educ / (educ + exper + 1))",
    "wage ~ I(temp * temp) + I(temp * exper)",
    "wage ~ I(age**-1) + I(age**-2) + I(exper**0.5) + I(age**1.5)",
    "wage ~ I(age**17) + I(2**educ) + I(0.5**exper)",
    "wage ~ exp(temp / 10) + np.expm1(temp / 10) + np.exp2(temp / 8)",
    "wage ~ abs(temp) + np.absolute(profit) + np.sign(temp) + np.fabs(temp - 3)",
    "wage ~ np.tanh(temp) + np.arctan(profit) + np.sinh(temp / 20) + np.cosh(temp / 20)",
    "wage ~ np.sin(2 * np.pi * temp / 12) + np.cos(2 * np.pi * temp / 12)",
    "wage ~ np.floor(age) + np.ceil(temp) + np.rint(exper) + np.trunc(temp) + np.cbrt(temp)",
    "wage ~ I(age // 10) + I(age % 10) + I(temp % 3)",
    "wage ~ minimum(age, 65) + maximum(temp, 0) + clip(exper, 5, 30)",
    "wage ~ np.clip(age, 25, 60) + np.maximum(temp, exper) + np.clip(temp, None, 20)",
    "wage ~ np.where(age > 65, 0, exper) + np.where(temp > 0, temp, -temp / 2)",
    "wage ~ I(-temp + 3) + I(3 - 2 * temp)",
    "wage ~ np.sqrt(exper) + np.sqrt(np.log(age))",
    # indicators
    "wage ~ I(age > 65) + educ",
    "wage ~ I(age >= 65) * exper",
    "wage ~ I((age > 30) & (age <= 50)) + I((temp < 0) | (temp > 30))",
    "wage ~ I(~(age > 40)) + I(educ == 12) + I(educ != 16)",
    "wage ~ I((educ >= 16) ^ (exper > 10))",
    "wage ~ I(region == 'north') + I(sector != 'a')",
    "wage ~ I(union * exper) + I(1 * union)",
    "wage ~ I((age > 40) * exper) + I((exper > 10) * (exper - 10))",
    "wage ~ I(exper > age) + C(age > 40)",
    "wage ~ np.logical_and(age > 30, temp > 0) + np.logical_not(temp > 5)",
    "wage ~ (age > 30):temp",
    # splines
    "wage ~ bs(age, knots=[30, 50, 65], lower_bound=18, upper_bound=90)",
    "wage ~ bs(exper, knots=[10, 30], degree=2, lower_bound=0, upper_bound=50) + region",
    "wage ~ bs(temp, knots=[0, 15], degree=1, lower_bound=-15, upper_bound=45)",
    "wage ~ 0 + bs(temp, knots=[], include_intercept=True, lower_bound=-15, upper_bound=45)",
    "wage ~ bs(age, knots=[40], degree=0, include_intercept=True, lower_bound=18, upper_bound=90)",
    "wage ~ cr(age, knots=[30, 50], lower_bound=18, upper_bound=90) - 1",
    "wage ~ cc(temp, knots=[0, 10, 25], lower_bound=-10.5, upper_bound=40.25) - 1",
    "wage ~ bs(np.log(hours), knots=[1, 2], lower_bound=0, upper_bound=5):union",
]


def random_frame(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Complete records inside `DOMAIN`, its edges included."""
    columns: dict[str, object] = {}
    for name, variable in DOMAIN.items():
        if isinstance(variable, Categorical):
            codes = rng.integers(len(variable.levels), size=n)
            if variable.levels == (False, True):
                columns[name] = codes.astype(bool)
            else:
                columns[name] = pd.Categorical.from_codes(codes, list(variable.levels))
        elif variable.integer:
            columns[name] = rng.integers(int(variable.lower), int(variable.upper) + 1, size=n)
        else:
            values = rng.uniform(variable.lower, variable.upper, size=n)
            edges = rng.integers(50, size=n)
            values[edges == 0] = variable.lower
            values[edges == 1] = variable.upper
            columns[name] = values
    return pd.DataFrame(columns)


def records_of(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The arrays that a design takes, from a complete frame."""
    records = {}
    for name, variable in DOMAIN.items():
        if isinstance(variable, Categorical):
            column = frame[name]
            codes = column.cat.codes if hasattr(column, "cat") else column.astype(int)
            records[name] = codes.to_numpy()
        else:
            records[name] = frame[name].to_numpy(dtype=float)
    return records


def closed_environment() -> EvalEnvironment:
    """What patsy itself needs to evaluate the corpus."""
    return EvalEnvironment([NAMESPACE])


def random_boxes(
    domain: Domain, variables: tuple[str, ...], n_boxes: int, rng: np.random.Generator
) -> Boxes:
    """A random partition of `domain` by repeated splits, as boxes."""
    boxes = [{name: _whole(domain, name) for name in variables}]
    for _ in range(4 * n_boxes if variables else 0):
        if len(boxes) >= n_boxes:
            break
        box = boxes.pop(int(rng.integers(len(boxes))))
        name = variables[int(rng.integers(len(variables)))]
        for part in _split(domain, name, box[name], rng):
            boxes.append({**box, name: part})
    lower = {
        name: np.array([box[name][0] for box in boxes], dtype=float)
        for name in variables
        if not isinstance(domain[name], Categorical)
    }
    upper = {name: np.array([box[name][1] for box in boxes], dtype=float) for name in lower}
    members = {
        name: np.array([box[name] for box in boxes]) for name in variables if name not in lower
    }
    return Boxes(lower, upper, members)


def _whole(domain: Domain, name: str) -> object:
    variable = domain[name]
    if isinstance(variable, Categorical):
        return np.ones(len(variable.levels), dtype=bool)
    return variable.lower, variable.upper


def _split(domain: Domain, name: str, part, rng: np.random.Generator) -> list:
    if isinstance(domain[name], Categorical):
        if part.sum() < 2:
            return [part]
        first = np.zeros_like(part)
        first[rng.permutation(np.flatnonzero(part))[: int(rng.integers(1, part.sum()))]] = True
        return [first, part & ~first]
    lower, upper = part
    cut = rng.choice([rng.uniform(lower, upper), np.floor((lower + upper) / 2)])
    return [(lower, cut), (cut, upper)] if lower < cut < upper else [part]


def locate(boxes: Boxes, domain: Domain, records: dict[str, np.ndarray]) -> np.ndarray:
    """The box of each record, by the half-open rule; the only one."""
    n = len(next(iter(records.values())))
    inside = np.ones((len(boxes), n), dtype=bool)
    for name, members in boxes.members.items():
        inside &= members[:, records[name]]
    for name, lower in boxes.lower.items():
        upper = boxes.upper[name][:, None]
        top = upper >= domain[name].upper
        x = records[name]
        inside &= (lower[:, None] <= x) & ((x < upper) | (top & (x <= upper)))
    assert np.all(inside.sum(axis=0) == 1)
    return inside.argmax(axis=0)


def centres(design, boxes):
    """The centres around which deviations in boxes are short."""
    bounds = Bounds(design.domain, boxes)
    return scaling.short_centres(design.subterms, bounds, *design.column_bounds(boxes, bounds))


def radius2(design, boxes, centre=None):
    """Largest squared norm of a scaled deviation from a centre, by default the middle."""
    bounds = Bounds(design.domain, boxes)
    lower, upper = design.column_bounds(boxes, bounds)
    centre = lower + (upper - lower) / 2 if centre is None else centre
    return scaling.radius2(design.subterms, bounds, lower, upper, centre)
