"""Simulated populations that are made to be nasty: one function a law, a table a call.

Each function takes the number of rows and a generator, and returns the population itself: its
ordinary least squares coefficients are the truth, whatever the law behind it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

Rng = np.random.Generator


def two_line(rows: int, rng: Rng) -> pd.DataFrame:
    """A kinked mean: flat up to ten years of schooling, rising beyond."""
    early = rng.random(rows) < 0.1
    x = np.where(early, rng.normal(5.0, 2.5, rows), rng.normal(14.0, 2.0, rows)).clip(0.0, 22.0)
    y = 9.5 + 0.12 * np.maximum(x, 10.0) + 0.01 * x + rng.normal(0.0, 0.8, rows)
    return pd.DataFrame({"y": y.clip(0.0, 15.0), "x": x})


def linear(rows: int, rng: Rng, columns: int, errors: str) -> pd.DataFrame:
    """A linear mean on uniform covariates with errors of the named law."""
    x = rng.random((rows, columns))
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(columns)])
    noise = {
        "normal": lambda: rng.normal(0.0, 0.5, rows),
        "t3": lambda: 0.5 * rng.standard_t(3, rows),
        "skewed": lambda: 0.6 * (rng.lognormal(0.0, 0.9, rows) - np.exp(0.405)),
        "varying": lambda: rng.normal(0.0, 1.0, rows) * (0.1 + 2.0 * x[:, 0] ** 2),
    }[errors]()
    top = 1.0 + 1.5 * columns
    frame["y"] = (1.0 + x @ np.linspace(1.0, 2.0, columns) + noise).clip(-top - 8.0, top + 12.0)
    return frame


def states(rows: int, rng: Rng, levels: int) -> pd.DataFrame:
    """Equal states whose effects have standard deviation 1, and one covariate."""
    state = rng.permutation(np.arange(rows) % levels)
    x = rng.normal(0.0, 1.0, rows).clip(-4.0, 4.0)
    effect = rng.normal(0.0, 1.0, levels)
    y = 0.5 * x + effect[state] + rng.normal(0.0, 1.0, rows)
    return pd.DataFrame({"y": y.clip(-8.0, 8.0), "x": x, "state": state})


def levels_of(rows: int, rng: Rng, shares: Sequence[float]) -> pd.DataFrame:
    """A factor whose levels have these shares, the first what is left; rare ones do nothing.

    The level next to the first has the effect .5; all others none, so that any of them called
    significant is a false finding.
    """
    counts = [round(share * rows) for share in shares]
    level = np.zeros(rows, dtype=np.int64)
    ends = np.cumsum(counts)
    for code, (end, count) in enumerate(zip(ends, counts, strict=True), start=1):
        level[end - count : end] = code
    x = rng.normal(10.0, 3.0, rows).clip(0.0, 20.0)
    group = np.array([f"g{code}" for code in range(len(shares) + 1)])[level]
    y = 0.2 * x + 0.5 * (level == 1) + rng.normal(0.0, 1.0, rows)
    return pd.DataFrame({"y": y.clip(-5.0, 10.0), "x": x, "group": group})


def degenerate(rows: int, rng: Rng) -> pd.DataFrame:
    """A covariate, its duplicate, and a column that never varies."""
    x = rng.uniform(0.0, 10.0, rows)
    z = (0.5 * x + rng.normal(2.0, 1.5, rows)).clip(0.0, 12.0)
    y = (1.0 + 0.3 * x - 0.2 * z + rng.normal(0.0, 1.0, rows)).clip(-6.0, 10.0)
    return pd.DataFrame({"y": y, "x": x, "twin": x, "z": z, "constant": np.full(rows, 4.0)})


def smokers(rows: int, rng: Rng) -> pd.DataFrame:
    """Birth weight in ounces on cigarettes a day: five in six smoke none, few smoke much."""
    education = rng.normal(13.0, 2.5, rows).round().clip(2.0, 18.0)
    income = rng.gamma(2.5, 12.0, rows).clip(0.5, 100.0).round(1)
    smokes = rng.random(rows) < 1.0 / (1.0 + np.exp(0.25 * (education - 6.5)))
    cigarettes = np.where(smokes, rng.choice([3, 5, 10, 10, 15, 20, 20, 30, 40, 50], rows), 0)
    male, parity = rng.integers(0, 2, rows), 1 + rng.poisson(0.6, rows).clip(0, 5)
    weight = 114 + 0.09 * income - 0.46 * cigarettes + 3.0 * male + 1.6 * parity
    weight = weight + 19.5 * rng.standard_t(8, rows)
    return pd.DataFrame(
        {
            "bwght": weight.round().clip(20, 280),
            "cigs": cigarettes.astype(float),
            "faminc": income,
            "motheduc": education,
            "male": male,
            "parity": parity,
        }
    )


def arrests(rows: int, rng: Rng) -> pd.DataFrame:
    """A count outcome on months in prison and past earnings, both mostly zero."""
    prison = np.where(rng.random(rows) < 0.06, rng.exponential(14.0, rows).round() + 1.0, 0.0)
    sentence = np.where(rng.random(rows) < 0.04, rng.exponential(10.0, rows).round() + 1.0, 0.0)
    past = np.where(rng.random(rows) < 0.25, rng.lognormal(2.3, 0.8, rows), 0.0).round(1)
    employed, group = (
        rng.integers(0, 5, rows),
        rng.choice(["a", "b", "c"], rows, p=[0.6, 0.25, 0.15]),
    )
    rate = 0.5 - 0.003 * prison - 0.04 * employed + 0.2 * (group == "b") + 0.1 * (group == "c")
    count = rng.negative_binomial(0.8, 0.8 / (0.8 + rate.clip(0.02, None)), rows)
    return pd.DataFrame(
        {
            "arrests": count.clip(0, 30),
            "prison": prison.clip(0.0, 100.0),
            "sentence": sentence.clip(0.0, 100.0),
            "past": past.clip(0.0, 100.0),
            "employed": employed,
            "group": group,
        }
    )


def earnings(rows: int, rng: Rng) -> pd.DataFrame:
    """Earnings in thousands on a treatment and heavy-tailed, zero-inflated past earnings."""
    age = rng.gamma(6.0, 4.5, rows).round().clip(16.0, 60.0)
    education = rng.normal(11.0, 2.0, rows).round().clip(3.0, 18.0)
    ability = rng.normal(0.0, 1.0, rows)
    past = [_past_earnings(ability, 0.35, rng), _past_earnings(ability, 0.3, rng)]
    treated = rng.integers(0, 2, rows)
    race = rng.choice(["white", "black", "hispanic"], rows, p=[0.5, 0.35, 0.15])
    married, degree = rng.random(rows) < 0.3, rng.random(rows) < 0.25
    level = 4.0 + 1.2 * treated + 0.35 * past[0] + 0.2 * past[1] + 0.3 * (education - 11.0)
    works = rng.random(rows) < 0.75
    now = works * level.clip(0.5, None) * rng.lognormal(-0.32, 0.8, rows)
    return pd.DataFrame(
        {
            "earned": now.clip(0.0, 250.0),
            "treated": treated,
            "age": age,
            "educ": education,
            "race": race,
            "married": married.astype(int),
            "degree": degree.astype(int),
            "past1": past[0],
            "past2": past[1],
        }
    )


def _past_earnings(ability: np.ndarray, none: float, rng: Rng) -> np.ndarray:
    rows = len(ability)
    amount = np.exp(1.3 + 0.6 * ability + 0.7 * rng.normal(0.0, 1.0, rows))
    return np.where(rng.random(rows) < none, 0.0, amount).clip(0.0, 150.0)


def wealth(rows: int, rng: Rng) -> pd.DataFrame:
    """Net worth in thousands, in levels: lognormal with a very heavy upper tail, some in debt."""
    age = rng.uniform(25.0, 64.0, rows).round()
    income = rng.lognormal(3.4, 0.75, rows).clip(1.0, 400.0)
    eligible = (rng.random(rows) < 1.0 / (1.0 + np.exp(1.5 - 0.02 * income))).astype(int)
    married, size = rng.integers(0, 2, rows), 1 + rng.poisson(1.6, rows).clip(0, 9)
    scale = 0.6 * income + 0.8 * (age - 25.0)
    worth = scale * rng.lognormal(0.0, 1.1, rows) - rng.exponential(12.0, rows) + 6.0 * eligible
    return pd.DataFrame(
        {
            "worth": worth.clip(-500.0, 5000.0),
            "eligible": eligible,
            "age": age,
            "income": income,
            "married": married,
            "size": size,
        }
    )


def prices(rows: int, rng: Rng) -> pd.DataFrame:
    """House prices before and after a public works near some: a difference in differences."""
    near, after = (rng.random(rows) < 0.3).astype(int), rng.integers(0, 2, rows)
    age = np.where(rng.random(rows) < 0.45, 0.0, rng.exponential(28.0, rows).round()).clip(
        0.0, 190.0
    )
    area = rng.lognormal(7.55, 0.32, rows).clip(600.0, 6000.0).round()
    rooms, baths = rng.integers(3, 10, rows), rng.integers(1, 5, rows)
    log_price = 11.0 + 0.35 * after - 0.1 * near - 0.08 * near * after + 2.2e-4 * (area - 2000.0)
    log_price = log_price - 0.009 * age + 4.0e-5 * age**2 + 0.04 * baths + 0.02 * rooms
    log_price = log_price + 0.2 * (1.0 + 0.6 * near) * rng.standard_t(5, rows)
    price = np.exp(log_price).clip(5e3, 2e6) / 1000.0
    columns = {"price": price, "near": near, "after": after, "age": age, "area": area}
    return pd.DataFrame({**columns, "rooms": rooms, "baths": baths})


def salaries(rows: int, rng: Rng) -> pd.DataFrame:
    """Salaries on sales, return on equity and return on stock: skewed on both sides."""
    sales = rng.lognormal(8.3, 1.1, rows).clip(100.0, 120_000.0)
    equity = rng.gamma(4.0, 4.3, rows).clip(0.0, 60.0)
    stock = (rng.gamma(2.0, 45.0, rows) - 60.0).clip(-60.0, 450.0)
    sector = rng.choice(["industry", "finance", "consumer", "utility"], rows)
    mean = 4.6 + 0.25 * np.log(sales) + 0.012 * equity - 0.25 * (sector == "utility")
    error = np.where(rng.random(rows) < 0.06, 1.4, 0.4) * rng.normal(0.0, 1.0, rows)
    salary = np.exp(mean + error + 0.15 * rng.exponential(1.0, rows)).clip(50.0, 50_000.0)
    columns = {"salary": salary, "sales": sales, "roe": equity, "ros": stock, "sector": sector}
    return pd.DataFrame(columns)


def squares(rows: int, rng: Rng) -> pd.DataFrame:
    """The square of a heavy-tailed covariate: few records hold nearly all of its variation."""
    x = rng.lognormal(1.5, 0.8, rows).clip(0.0, 100.0)
    z = rng.gamma(1.5, 6.0, rows).clip(0.0, 60.0)
    y = 2.0 + 0.2 * x - 0.0015 * x**2 + 0.05 * z + rng.normal(0.0, 1.5, rows)
    return pd.DataFrame({"y": y.clip(-20.0, 40.0), "x": x, "z": z})


def separable(rows: int, rng: Rng) -> pd.DataFrame:
    """A binary outcome that a dummy decides: all of its people say yes."""
    x = rng.normal(0.0, 1.0, rows).clip(-4.0, 4.0)
    sure, other = (rng.random(rows) < 0.05).astype(int), rng.integers(0, 2, rows)
    yes = rng.random(rows) < 1.0 / (1.0 + np.exp(1.0 - 0.8 * x - 0.4 * other))
    answer = np.where(sure == 1, 1, yes.astype(int))
    return pd.DataFrame({"yes": answer, "x": x, "sure": sure, "other": other})


def mixed_design(rows: int, rng: Rng) -> pd.DataFrame:
    """A beta, a gamma and a binary covariate, and t errors."""
    a, b = rng.beta(2.0, 5.0, rows), rng.gamma(2.0, 1.0, rows).clip(0.0, 15.0)
    c = (rng.random(rows) < 0.3).astype(int)
    y = 1.0 + 2.0 * a + 0.5 * b - c + 0.7 * rng.standard_t(4, rows)
    return pd.DataFrame({"y": y.clip(-15.0, 20.0), "a": a, "b": b, "c": c})


def slopes_by_group(rows: int, rng: Rng) -> pd.DataFrame:
    """Six groups with a slope of their own each, in unequal shares."""
    shares = [0.35, 0.25, 0.18, 0.12, 0.07, 0.03]
    group = rng.choice(6, rows, p=shares)
    x = rng.gamma(3.0, 2.0, rows).clip(0.0, 30.0)
    y = (0.2 + 0.08 * group) * x - 0.3 * group + rng.normal(0.0, 1.0, rows) * (1.0 + 0.1 * x)
    columns = {"y": y.clip(-20.0, 60.0), "x": x, "group": np.array(list("abcdef"))[group]}
    return pd.DataFrame(columns)


def visits(rows: int, rng: Rng) -> pd.DataFrame:
    """A count with many zeros on age, its square, chronic illness and a region of 12."""
    age = rng.uniform(18.0, 90.0, rows).round()
    ill, region = rng.poisson(0.02 * age).clip(0, 10), rng.integers(1, 13, rows)
    rate = np.exp(-0.6 + 0.008 * age + 0.25 * ill + 0.05 * (region % 4))
    visits = rng.negative_binomial(0.6, 0.6 / (0.6 + rate), rows).clip(0, 80)
    return pd.DataFrame({"visits": visits, "age": age, "ill": ill, "region": region})
