"""What is fuzzed: formulas, codebooks, release folders and tables, each made from bytes.

A target returns if the input ended in a correct result or in an error that is
allowed. It raises on anything else. `fuzz.py` drives the targets by coverage,
`test_fuzz.py` by hypothesis.
"""

from __future__ import annotations

import json
import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from dpbinagg import Budget, Domain, Release, __version__, dp_release, load_release
from dpbinagg.errors import DPBinAggError
from dpbinagg.formula import Design, build_design
from dpbinagg.formula.bounds import Bounds
from dpbinagg.formula.scaling import radius2
from dpbinagg.public.partition import Boxes
from dpbinagg.release.folder import manifest

T = TypeVar("T")
BOUNDS: dict[str, Any] = {
    "x": (0.5, 2),
    "z": (-3, 3),
    "k": range(6),
    "g": ["a", "b", "c"],
    "b": [False, True],
    "y": (1, 9),
}


class Bytes:
    """Reads choices from a string of bytes; zeros when it is used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def byte(self) -> int:
        if self._place >= len(self._data):
            return 0
        self._place += 1
        return self._data[self._place - 1]

    def below(self, stop: int) -> int:
        return (self.byte() * 256 + self.byte()) % stop if stop > 256 else self.byte() % stop

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def rest(self) -> bytes:
        rest = self._data[self._place :]
        self._place = len(self._data)
        return rest

    @property
    def left(self) -> int:
        return len(self._data) - self._place


def allowed(call: Callable[[], T]) -> T | None:
    """The result of a call; None if it ended in an error of the allowed kinds."""
    try:
        return call()
    except DPBinAggError as error:
        if len(str(error)) <= 15:
            raise AssertionError("an error without a clear text") from error
    return None


ATOMS = (
    "x", "z", "k", "g", "b", "y", "1", "0", "-1", "2", "0.5", "1e308", "w", "None", "True",
)  # fmt: skip
CALLS = (
    "I({})", "C({})", "np.log({})", "np.exp({})", "np.sqrt({})", "np.abs({})", "np.sin({})",
    "Q('{}')", "({})", "-({})", "C({}, Sum)", "C({}, Treatment('b'))",
    "bs({}, knots=[1], degree=2)", "np.where({}, 1, 0)", "np.clip({}, 0, 1)",
    "scale({})", "pow({}, 2)", "I(1/({}))",
    "np.minimum({}, 1)", "np.tanh({})", "np.floor({})", "cut({})", "({}).mean()", "np.log1p({})",
)  # fmt: skip
JOINS = (
    "{} + {}", "{} - {}", "{}:{}", "{}*{}", "I({} * {})", "I({} / {})", "I({} ** {})", "({})**{}",
    "I({} > {})", "I({} % {})", "np.maximum({}, {})", "{} {}", "I(({}) & ({}))",
    "{} in {}", "{}/{}",
)  # fmt: skip


def expression(source: Bytes, depth: int = 0) -> str:
    kind = source.below(5) if depth < 6 else 0
    if kind <= 1:
        return source.one_of(ATOMS)
    if kind == 2:
        return source.one_of(CALLS).format(expression(source, depth + 1))
    return source.one_of(JOINS).format(expression(source, depth + 1), expression(source, depth + 1))


def formula_text(source: Bytes) -> str:
    """A formula by the grammar above, sometimes with raw characters, sometimes only those."""
    kind = source.below(8)
    if kind == 0:
        return source.rest().decode("utf-8", "surrogateescape")
    text = f"{expression(source)} ~ {expression(source)}"
    if kind == 1:
        place = source.below(len(text))
        text = text[:place] + source.rest().decode("latin-1") + text[place:]
    return text


def records(n: int = 40) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "x": rng.uniform(0.5, 2, n),
        "z": np.append(rng.uniform(-3, 3, n - 3), [-3.0, 0.0, 3.0]),
        "k": rng.integers(0, 6, n).astype(float),
        "g": rng.integers(0, 3, n),
        "b": rng.integers(0, 2, n),
        "y": rng.uniform(1, 9, n),
    }


def check_design(design: Design) -> None:
    """Every record's columns and response lie within the bounds that the design states."""
    if design.unbounded:
        return
    held = {name: records()[name] for name in (*design.variables, *design.response_variables)}
    columns, response = design.columns(held), design.response(held)
    lower, upper = design.column_bounds()
    assert columns.shape[1] == len(design.column_names)
    assert not np.isnan(columns).any()
    assert ((columns >= lower[0]) & (columns <= upper[0])).all()
    low, high = design.response_bounds()
    assert ((response >= low) & (response <= high)).all()
    centre = lower + (upper - lower) / 2
    half = (upper - lower) / 2
    if np.isfinite(half).all():
        used = half[0] > 2.0**-40 * np.maximum(np.abs(lower[0]), np.abs(upper[0]))
        scaled = (columns[:, used] - centre[0, used]) / half[0, used]
        norm2 = (scaled**2).sum(axis=1).max(initial=0.0)
        bounds = Bounds(design.domain, Boxes())
        most = radius2(design.subterms, bounds, lower, upper, centre)[0]
        assert norm2 <= most * (1 + 1e-6) + 1e-6


def fuzz_formula(data: bytes) -> None:
    text = formula_text(Bytes(data))
    design = allowed(lambda: build_design(text, Domain(BOUNDS)))
    if design is not None:
        allowed(lambda: check_design(design))


HEADER = "name,type,lower,upper,levels\n"
CELLS = (
    "x", "y", "numeric", "integer", "categorical", "boolean", "0", "1", "-1", "1e400", "nan", "inf",
    "a|b", "a|a", "|", "", " ", '"', "1_0", "0x1", "١", "name", "9" * 400,
)  # fmt: skip


def fuzz_codebook(data: bytes) -> None:
    source = Bytes(data)
    kind = source.below(4)
    if kind == 0:
        body = source.rest()
    else:
        lines = []
        while source.left and len(lines) < 20:
            lines.append(",".join(source.one_of(CELLS) for _ in range(1 + source.below(7))))
        body = ((HEADER if kind > 1 else "") + "\n".join(lines)).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codebook.csv"
        path.write_bytes(body)
        domain = allowed(lambda: Domain.from_csv(path))
        if domain is not None and allowed(lambda: domain.to_csv(path)) is None and path.exists():
            again = allowed(lambda: Domain.from_csv(path))
            assert again is None or again == domain or '"' in body.decode("latin-1")


@cache
def saved_files() -> dict[str, bytes]:
    """The files of a small release."""
    frame = pd.DataFrame(
        {"x": np.linspace(0.5, 2, 30), "g": ["a", "b", "c"] * 10, "y": np.linspace(1, 9, 30)}
    )
    made = dp_release("y ~ x + C(g)", frame, 1.0, bounds=BOUNDS, rng=1)
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "release")
        return {path.name: path.read_bytes() for path in (Path(folder) / "release").iterdir()}


JSON = (
    "null", "true", "-1", "0", "1e999", "[]", "{}", '""', '"x"', "NaN", "[[1,2],[3]]", "1" * 50,
    '"nan"', "-0.0", '["a"]', "2147483648", "[0]", '{"kind":"grid"}', "[null]",
)  # fmt: skip


def damaged(content: bytes, source: Bytes) -> bytes:
    """Change some bytes, or one value of a JSON file."""
    kind = source.below(4)
    if kind == 0:
        try:
            tree = json.loads(content)
        except ValueError:
            return content
        spots = list(_spots(tree))
        holder, key = source.one_of(spots)
        holder[key] = json.loads(source.one_of(JSON).replace("1e999", "1e300"))
        return json.dumps(tree).encode()
    changed = bytearray(content)
    for _ in range(1 + source.below(3)):
        place = source.below(max(len(changed), 1))
        if kind == 1:
            changed[place : place + 1] = bytes([source.byte()])
        elif kind == 2:
            del changed[place : place + 1 + source.below(40)]
        else:
            changed[place:place] = source.one_of(JSON).encode()
    return bytes(changed)


def _spots(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        found.append((tree, key))
        if isinstance(value, dict | list):
            found += _spots(value)
    return found


def fuzz_folder(data: bytes) -> None:
    """A folder damaged in content, with checksums that fit or that do not."""
    source = Bytes(data)
    files = dict(saved_files())
    name = source.one_of(["release.json", "bins.csv", "transcript.json", "manifest.json"])
    files[name] = damaged(files[name], source)
    if name != "manifest.json" and source.below(8):
        rest = {key: value for key, value in files.items() if key != "manifest.json"}
        files["manifest.json"] = manifest(rest, __version__)
    with tempfile.TemporaryDirectory() as folder:
        for key, value in files.items():
            (Path(folder) / key).write_bytes(value)
        release = allowed(lambda: load_release(folder))
        if release is not None:
            assert isinstance(release, Release)
            repr(release)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                allowed(release.ols)


ODD: tuple[Any, ...] = (
    0.0, 1.0, -1.0, 0.5, 2.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, None, "a", "b",
    "", "zz", True, False, 10**400, Decimal("1.5"), Decimal("sNaN"), 1j, [1], {}, (), pd.NA, pd.NaT,
    datetime(2020, 1, 1), np.float32(1), np.int8(3), b"a", object, "1.5", -0.0, 3, 2**63, -(2**63),
)  # fmt: skip
DTYPES: tuple[Any, ...] = (
    None, object, "float64", "float32", "Int64", "Float64", "boolean", "string", "category", "bool",
    "int64", "datetime64[ns]", "timedelta64[ns]", "complex128", "double[pyarrow]", "str",
    "Sparse[float]",
)  # fmt: skip
FORMULAS = (
    "y ~ x", "y ~ x + z", "y ~ C(g)", "y ~ x*C(g) + b", "np.log(y) ~ k", "y ~ I(x**2) + new",
    "y ~ g:z - 1",
)  # fmt: skip


def column(source: Bytes, n: int) -> Any:
    values = [source.one_of(ODD) for _ in range(n)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pd.Series(values, dtype=source.one_of(DTYPES))
        # The table must exist before it can be bad: fall back to plain objects.
        except Exception:
            return pd.Series(values, dtype=object)


def fuzz_frame(data: bytes) -> None:
    source = Bytes(data)
    n = source.below(12)
    formula = source.one_of(FORMULAS)
    names = ["x", "z", "k", "g", "b", "y"] + ["new"] * source.below(2)
    frame = pd.DataFrame({name: column(source, n) for name in names})
    if source.below(8) == 1:
        frame = pd.concat([frame, frame[["x"]]], axis=1)
    partition = source.one_of(["privtree", "grid"])
    missing = source.one_of(["drop", "drop", "raise"])
    budget = source.one_of([None, Budget(ranges=0, scores=0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = allowed(
            lambda: dp_release(
                formula,
                frame,
                1.0,
                bounds=BOUNDS,
                partition=partition,
                missing=missing,
                budget=budget,
                rng=source.byte(),
            )
        )
    if made is not None:
        for key in ("count", "dev_x", "dev_y", "moments"):
            assert np.isfinite(made.statistics[key]).all()


TARGETS: dict[str, Callable[[bytes], None]] = {
    "formula": fuzz_formula,
    "codebook": fuzz_codebook,
    "folder": fuzz_folder,
    "frame": fuzz_frame,
}
