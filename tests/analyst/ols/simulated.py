"""A curator in plain floating point, for tests of the estimator only."""

import math
from dataclasses import dataclass

import numpy as np
from histograms import bin_index

from dpbinagg.analyst.ols.coordinates import Margin, begin
from dpbinagg.analyst.ols.finish import Fitted
from dpbinagg.analyst.ols.rounds import plan_round, round_mus, update
from dpbinagg.analyst.ols.start import start
from dpbinagg.formula import build_design
from dpbinagg.formula.scaling import row_layout
from dpbinagg.protocol.ranges import histogram_edges, needs_range, working_range
from dpbinagg.public.domain import Categorical, Domain
from dpbinagg.public.rounds import RoundAnswer, norm, weights
from dpbinagg.reading import convert

SHARES = (0.1, 0.2, 0.7)
"""Of mu^2: one-way counts, moments, rounds."""


@dataclass(frozen=True)
class Table:
    """Records as the estimator knows them: design columns, response, and f."""

    design: object
    records: dict
    columns: np.ndarray
    response: np.ndarray
    f: np.ndarray


def table(formula, bounds, frame):
    """All records of a frame, which must be complete."""
    domain = Domain(bounds)
    design = build_design(formula, domain)
    names = tuple(dict.fromkeys((*design.variables, *design.response_variables)))
    records = convert(frame, domain, names)
    columns, response = design.columns(records), design.response(records)
    layout, scaling = row_layout(design), row_layout(design).scaling
    numbers, y, codes = layout.row_map(records)
    z = (numbers[:, scaling.varying] - scaling.centre[scaling.varying]) / scaling.scale[
        scaling.varying
    ]
    hot = [np.eye(levels)[code] for levels, code in zip(layout.levels, codes, strict=True)]
    ones = np.ones((len(y), 1))
    f = np.hstack([ones, z, *hot, (y[:, None] - scaling.centre_y) / scaling.scale_y])
    return Table(design, records, columns, response, f)


def least_squares(data):
    """Coefficients and HC1 standard errors."""
    x, y = data.columns, data.response
    bread = np.linalg.inv(x.T @ x)
    params = bread @ x.T @ y
    scores = x * (y - x @ params)[:, None]
    n, p = x.shape
    return params, np.sqrt(np.diag(bread @ scores.T @ scores @ bread) * n / (n - p))


def symmetric_noise(rng, k, sd):
    """Symmetric noise, sd on the diagonal and sd/sqrt 2 off it."""
    noise = rng.normal(size=(k, k)) * sd / math.sqrt(2.0)
    return np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(np.diag(noise)) * math.sqrt(2.0)


def symmetric_sd(k, sd):
    """Its standard deviations."""
    found = np.full((k, k), sd / math.sqrt(2.0))
    np.fill_diagonal(found, sd)
    return found


def counted(edges, lengths):
    """Records by cell; shorter ones are in none."""
    cell = np.searchsorted(edges, lengths, side="right") - 1
    return np.bincount(cell[cell >= 0], minlength=len(edges)).astype(float)


def noisy_margins(data, mu, rng):
    """One-way counts, the working domain, and the number of records."""
    domain, n = data.design.domain, len(data.response)
    sd = math.sqrt(len(data.records) + 1.0) / mu
    total = n + sd * rng.normal()
    margins, working = {}, {}
    for name, values in data.records.items():
        variable = domain[name]
        if isinstance(variable, Categorical):
            edges, cells = None, np.asarray(values)
            size = len(variable.levels)
        else:
            edges = histogram_edges(variable)
            cells, size = bin_index(edges, values), len(edges) - 1
        counts = np.bincount(cells, minlength=size) + sd * rng.normal(size=size)
        margins[name] = Margin(edges, counts, sd)
        if edges is not None and needs_range(variable):
            working[name] = variable.within(*working_range(edges, counts, sd, variable, total))
    return margins, domain.updated(working), (total, sd)


def noisy_moments(request, f, y, mu, rng):
    """Released entries of ``sum g g'`` and the standard deviations of their noise."""
    nu = f @ request.whitening.T / request.radius
    nu /= np.maximum(np.linalg.norm(nu, axis=1, keepdims=True), 1.0)
    rho = np.clip((y - f @ request.coefficients) / request.reach, -1.0, 1.0)
    levels = sum(request.levels)
    g = np.column_stack([f[:, 0], nu, f[:, f.shape[1] - 1 - levels : -1], rho])
    blocks = (nu.shape[1] > 0) + len(request.levels) + 1
    norm2 = 1 + blocks + blocks * (blocks - 1) / 2 + (nu.shape[1] > 0)
    sd = np.full((g.shape[1], g.shape[1]), math.sqrt(norm2) / mu)
    place = 1 + nu.shape[1]
    for size in request.levels:
        sd[place : place + size, place : place + size] = 0.0
        place += size
    exact = np.where(sd > 0.0, g.T @ g, 0.0)
    exact[-1, -1] -= len(y)
    noise = np.triu(rng.normal(size=sd.shape) * sd)
    return exact + noise + np.triu(noise, 1).T, sd


def exact_round(request, f, y):
    """The answer to a round without noise."""
    w = f @ request.whitening.T
    u = w * (y - f @ request.coefficients)[:, None]
    length = np.linalg.norm(u, axis=1)
    cut = u * np.minimum(1.0, request.clip / np.maximum(length, 1e-300))[:, None]
    found = {
        "score": cut.sum(axis=0),
        "inside": float(np.sum(1.0 - np.minimum(1.0, length / request.clip) ** 2)),
        "counts": counted(request.edges, length),
    }
    if request.last:
        far = length > request.clip
        found["direction"] = (u[far] / length[far, None]).sum(axis=0)
        found["meat"] = cut.T @ cut
    elif request.radius is not None:
        size = np.linalg.norm(w, axis=1)
        held = w * np.minimum(1.0, request.radius / np.maximum(size, 1e-300))[:, None]
        beyond = w[size > request.radius] / size[size > request.radius, None]
        found |= {"gram": held.T @ held, "beyond": beyond.T @ beyond}
        found["far"] = counted(request.far_edges, size)
    return RoundAnswer(**found)


def round_scales(request, mu):
    """Standard deviations of the noise of a round's answer."""
    k = len(request.whitening)
    unit = {name: norm(request) / (mu * weight) for name, weight in weights(request).items()}
    found = {
        "score": np.full(k, unit["score"] * request.clip),
        "inside": unit["score"],
        "counts": np.full(len(request.edges), unit["counts"]),
    }
    if request.last:
        found["direction"] = np.full(k, unit["direction"])
        found["meat"] = symmetric_sd(k, unit["meat"] * request.clip**2)
    elif request.radius is not None:
        found["gram"] = symmetric_sd(k, unit["gram"] * request.radius**2)
        found["beyond"] = symmetric_sd(k, unit["beyond"])
        found["far"] = np.full(len(request.far_edges), unit["far"])
    return RoundAnswer(**found)


def noisy_round(request, f, y, mu, rng):
    """The answer to a round, and the standard deviations of its noise."""
    exact, sd = exact_round(request, f, y), round_scales(request, mu)
    found = {}
    for name in ("score", "inside", "counts", "direction", "far"):
        value, scale = getattr(exact, name), getattr(sd, name)
        if value is not None:
            found[name] = value + scale * rng.normal(size=np.shape(value))
    for name in ("gram", "beyond", "meat"):
        value, scale = getattr(exact, name), getattr(sd, name)
        if value is not None:
            found[name] = value + symmetric_noise(rng, len(value), scale[0, 0])
    found["inside"] = float(found["inside"])
    return RoundAnswer(**found), sd


def first_state(data, mu, rng):
    """The plan, and the state after the moments."""
    counts_mu, moments_mu, _ = mu * np.sqrt(SHARES)
    margins, working, count = noisy_margins(data, counts_mu, rng)
    plan = begin(data.design, working, margins)
    products, sd = noisy_moments(plan.moments.request, data.f, data.response, moments_mu, rng)
    return plan, start(plan.layout, plan.public, plan.moments, products, sd, count)


def fit(data, mu, rng):
    """All rounds."""
    _, state = first_state(data, mu, rng)
    for part in round_mus(mu * math.sqrt(SHARES[-1])):
        state, request = plan_round(state, part)
        answer, sd = noisy_round(request, data.f, data.response, part, rng)
        before = state.tail
        state = update(state, request, answer, sd)
    return Fitted(state, request, answer, sd, before)
