"""Questions of every kind over one small design, and records for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbinagg.kernel import maps
from dpbinagg.kernel.questions import Question, alone, weigh
from dpbinagg.kernel.view import Projection, Rows
from dpbinagg.public.domain import Domain
from dpbinagg.public.partition import Partition

DOMAIN = Domain({"x": (0, 1), "z": (-2, 2), "g": ["a", "b", "c"]})
GRID = Partition.grid(DOMAIN, {"x": 3, "z": 2, "g": 3})
LEVELS = 3


def row_map(records: Any) -> tuple[Any, Any, Any]:
    """Columns 1, x, z, x z; the response; codes of g."""
    x, z, g = records["x"], records["z"], np.asarray(records["g"], dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        columns = np.stack([np.where(np.isnan(x), x, 1.0), x, z, x * z], axis=1)
    return columns, np.asarray(records["y"], dtype=np.float64), g[None, :]


def rows() -> Rows:
    """Every column but the constant scaled to [-1, 1]."""
    centre, scale = np.array([1.0, 0.5, 0.0, 0.0]), np.array([0.0, 0.5, 2.0, 2.0])
    return Rows(row_map, centre, scale, 0.5, 3.0, (LEVELS,))


def projection(seed: int = 0, k: int = 4) -> Projection:
    """Random directions of f = (1, x, z, x z, levels of g, y)."""
    rng = np.random.default_rng(seed)
    size = rows().size
    return Projection(rng.normal(size=(k, size)), rng.normal(0, 0.4, size), 0.5, 3.0)


BLOCKS, UNITS = (1, 2, 1), (1.0, 32.0, 0.125)


def joint_projection(seed: int = 0) -> Projection:
    """The same directions in three blocks, each with a residual of its own."""
    rng = np.random.default_rng(seed)
    size, k = rows().size, sum(BLOCKS)
    whitening = rng.normal(size=(k, size)) * np.array([[1.0], [30.0], [30.0], [0.01]])
    coefficients = rng.normal(0, 0.4, (len(BLOCKS), size))
    return Projection(whitening, coefficients, 0.5, 3.0, BLOCKS, UNITS)


def questions(seed: int = 0) -> dict[str, Question]:
    """One question for each kind of map and of cells, and joint ones."""
    edges = np.array([-1.0, 0.0, 0.25, 0.5, 2.0])
    norm = np.array([0.5, 1.0, 2.0, 4.0])
    deviations = maps.Deviations(
        GRID, (1, 2, -1), np.zeros((18, 3)), np.tile([0.7, 2.0, 0.0], (18, 1)), 1.3
    )
    of_f: dict[str, Any] = {
        "direction of w": maps.Direction("w", 1.5),
        "direction of w r": maps.Direction("wr", 1.5),
        "outer of w": maps.Outer("w", 1.5),
        "outer of w r": maps.Outer("wr", 2.5),
        "outer beyond": maps.OuterBeyond("w", 2.0),
        "outer beyond of w r": maps.OuterBeyond("wr", 2.0),
        "norm of w": maps.OneHot(maps.NormCells("w", norm)),
        "norm of r": maps.OneHot(maps.NormCells("r", norm)),
        "norm of w r": maps.OneHot(maps.NormCells("wr", norm)),
        "unit and inside of w": maps.UnitInside("w", 1.5),
        "unit and inside of w r": maps.UnitInside("wr", 2.0),
        "moments": maps.Moments(4, 3.0, (LEVELS,), 2.0),
        "moments, all cut": maps.Moments(4, 0.01, (LEVELS,), 0.01),
        "moments of codes": maps.Moments(0, 1.0, (LEVELS,), 2.0),
    }
    raw: dict[str, Any] = {
        "everyone": maps.OneHot(maps.Everyone()),
        "number": maps.OneHot(maps.NumberCells("x", edges)),
        "number, missing": maps.OneHot(maps.NumberCells("x", edges, missing=True)),
        "number, outside": maps.OneHot(maps.NumberCells("x", edges, True, True)),
        "number, one interval": maps.OneHot(maps.NumberCells("x", edges[[1, 3]], outside=True)),
        "completeness": maps.OneHot(maps.Completeness()),
        "level": maps.OneHot(maps.LevelCells("g", LEVELS)),
        "level, outside": maps.OneHot(maps.LevelCells("g", LEVELS, True, True)),
        "level, missing": maps.OneHot(maps.LevelCells("g", LEVELS, missing=True)),
    }
    mapped: dict[str, Any] = {
        "bins": maps.OneHot(maps.BinCells(GRID)),
        "deviations": maps.Tensor(maps.BinCells(GRID), deviations),
    }
    of_blocks: dict[str, Any] = {
        "unit and inside of blocks": maps.UnitInside("wr", 20.0),
        "direction of blocks": maps.Direction("wr", 5.0),
        "outer of blocks": maps.Outer("wr", 20.0),
        "norm of blocks": maps.OneHot(maps.NormCells("wr", 10.0 * norm)),
        "shares": maps.Shares("wr", 20.0, BLOCKS),
        "shares, all cut": maps.Shares("wr", 0.01, BLOCKS),
        "shares beyond": maps.SharesBeyond("wr", 5.0, BLOCKS),
    }
    at, joint = projection(seed), joint_projection(seed)
    found = {name: Question(name, alone(map_), at) for name, map_ in of_f.items()}
    found |= {name: Question(name, alone(map_), joint) for name, map_ in of_blocks.items()}
    groups = [(1.0, of_blocks[name]) for name in list(of_blocks)[:2] + list(of_blocks)[4:]]
    found["a joint round"] = Question("a joint round", weigh(groups), joint)
    found |= {name: Question(name, alone(map_)) for name, map_ in mapped.items()}
    found |= {
        f"{name}, {which}": Question(name, alone(map_), records=which)
        for name, map_ in raw.items()
        for which in ("complete", "all")
    }
    names = (
        "unit and inside of w r",
        "outer of w",
        "norm of w r",
        "direction of w r",
        "outer of w r",
    )
    groups = [(1.0 / (1 + i), of_f[name]) for i, name in enumerate(names)]
    found["a round"] = Question("a round", weigh(groups), at)
    found["histograms"] = Question(
        "histograms",
        weigh([(1.0, raw[name]) for name in ("number", "level", "everyone")]),
        records="complete",
    )
    return found


def table(n: int = 40, seed: int = 1) -> dict[str, Any]:
    """Ordinary records, a few of them incomplete."""
    rng = np.random.default_rng(seed)
    x, z = rng.random(n), rng.normal(0, 1.5, n)
    y = x + rng.normal(0, 2, n)
    g = rng.integers(0, LEVELS, n)
    x[::11] = np.nan
    g[5::13] = -1
    return {"x": x, "z": z, "g": g, "y": y}


ODD: dict[str, dict[str, Any]] = {
    "missing number": {"x": np.nan},
    "missing level": {"g": -1},
    "a level beyond": {"g": 99},
    "a value that is no level": {"g": -2},
    "missing response": {"y": np.nan},
    "huge": {"x": 1e308, "z": -1e308, "y": 1e308},
    "infinite": {"y": np.inf},
    "tiny": {"x": 5e-324, "z": -5e-324, "y": 5e-324},
    "corner": {"x": 1.0, "z": 2.0, "y": 3.5},
    "other corner": {"x": 0.0, "z": -2.0, "y": -2.5},
    "on an edge": {"x": 0.5, "z": 0.0, "y": 0.5},
}


def odd_record(name: str) -> dict[str, Any]:
    """One record with something odd."""
    plain = {"x": 0.3, "z": 0.4, "g": 1, "y": 0.2, **ODD[name]}
    return {
        key: np.array([value], dtype=np.int64 if key == "g" else np.float64)
        for key, value in plain.items()
    }


def joined(*tables: dict[str, Any]) -> dict[str, Any]:
    """Records of several tables, one after another."""
    return {key: np.concatenate([one[key] for one in tables]) for key in tables[0]}
