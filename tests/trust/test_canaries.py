"""Nothing private comes out beside the mechanisms.

Distinctive values are planted in the private table: inside the bounds, beyond
them, as a level that was never declared, in the index and in columns that the
formula does not use. Then everything that comes out is searched for them:
objects and what they hold, pickles, printed forms, errors, warnings, logs,
standard output, saved folders and temporary files.
"""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import math
import pickle
import struct
import tempfile
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpbinagg import (
    Budget,
    Domain,
    Ledger,
    Release,
    dp_ols,
    dp_release,
    load_release,
    show_progress,
)
from dpbinagg.audit.content import content
from dpbinagg.errors import DataError, DPBinAggError, PublicRefusalError
from dpbinagg.protocol import conduct

INSIDE, BEYOND, LOW, INDEX, ELSEWHERE = 987654.321, 7.6543219e17, -31337.75, 424242.125, 66613.875
WORD, LABEL = "zq§canary", "ix§canary"
NUMBERS = (INSIDE, BEYOND, LOW, INDEX, ELSEWHERE)
N, COMPLETE = 1237, 1236
BOUNDS = {"x": (0, 1e6), "g": ["a", "b"], "y": (-1e5, 1e5)}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(0, 9e5, N),
            "g": rng.choice(["a", "b"], N).astype(object),
            "y": rng.normal(0, 1e4, N),
            "other": rng.normal(size=N),
            "text": "ordinary",
        }
    )
    frame.loc[3, "x"], frame.loc[4, "x"], frame.loc[5, "y"] = INSIDE, BEYOND, LOW
    frame.loc[6, "g"], frame.loc[7, "text"], frame.loc[8, "other"] = WORD, WORD, ELSEWHERE
    frame.index = pd.Index([LABEL, INDEX, *range(N - 2)], dtype=object)
    return frame


def spellings(number: float) -> Iterator[bytes]:
    for text in (repr(number), f"{number:.3f}", f"{number:,.2f}", f"{number:.7e}"):
        yield text.encode()
    yield struct.pack("<d", number)
    yield struct.pack(">d", number)
    yield struct.pack("<f", number)


NEEDLES = [spelling for number in NUMBERS for spelling in spellings(number)]
NEEDLES += [
    word.encode(code) for word in (WORD, LABEL) for code in ("utf-8", "utf-16-le", "latin-1")
]


def assert_clean(where: str, data: bytes | str) -> None:
    raw = data.encode() if isinstance(data, str) else data
    for needle in NEEDLES:
        assert needle not in raw, f"{needle!r} in {where}"


def assert_object_clean(where: str, value: object) -> None:
    for path, plain in content(value).items():
        spot = f"{where}{path}"
        assert_clean(spot, path)
        if isinstance(plain, str | bytes):
            assert_clean(spot, plain)
        elif isinstance(plain, int | float) and not isinstance(plain, bool):
            assert not any(math.isclose(plain, number, rel_tol=1e-9) for number in NUMBERS), spot


def exact_counts(value: object) -> set[str]:
    """Where the exact number of records, or of complete ones, stands.

    The one table that holds all whole numbers of a range is public.
    """
    return {
        path
        for path, plain in content(value).items()
        if plain in (N, COMPLETE) and "._spread" not in path
    }


def assert_no_exact_count(make: Callable[[int], object]) -> None:
    """What is made with a seed holds the exact number of records nowhere.

    A noisy number that is rounded is the exact one for some seeds; what leaks is so for all.
    """
    spots = exact_counts(make(0))
    for seed in range(1, 20):
        if not spots:
            return
        spots &= exact_counts(make(seed))
    assert not spots, f"the exact number of records at {spots}"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> Iterator[Path]:
    """Run in an empty folder; search streams, warnings, logs and new files at the end."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield tmp_path
    for name, text in (("stdout", out), ("stderr", err)):
        assert_clean(name, text.getvalue())
    assert_clean("log", caplog.text)
    for warning in heard:
        assert_clean("warning", str(warning.message))
    for path in tmp_path.rglob("*"):
        assert_clean("file name", str(path.relative_to(tmp_path)))
        if path.is_file():
            assert_clean(str(path), path.read_bytes())


SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "grid": {"partition": "grid"},
    "no bounds": {"bounds": {"g": ["a", "b"]}},
    "published": {"calibration": "paper", "estimator": "paper"},
    "bins only": {"estimator": "corrected"},
    "replacement": {"neighbours": "replace"},
    "huge mu": {"mu": 50.0},
}


def arguments(name: str) -> dict[str, Any]:
    return {"mu": 1.0, "bounds": BOUNDS, "rng": 3, **SETTINGS[name]}


@pytest.mark.parametrize("name", SETTINGS)
def test_release(name: str, outside: Path) -> None:
    shown = io.StringIO()
    with show_progress(shown):
        release = dp_release("y ~ x + C(g)", table(), **arguments(name))
    assert_clean("progress", shown.getvalue())
    assert_object_clean("release", release)
    assert_clean("pickle", pickle.dumps(release))
    assert_clean("repr", repr(release))
    assert_clean("privacy", str(release.privacy) + release.privacy.statement)
    release.save(outside / "release")
    assert_no_exact_count(
        lambda seed: dp_release("y ~ x + C(g)", table(), **arguments(name) | {"rng": seed})
    )


@pytest.mark.parametrize("name", ["default", "grid", "no bounds"])
def test_results(name: str, outside: Path) -> None:
    results = dp_ols("y ~ x + C(g)", table(), **arguments(name))
    assert_clean("summary", str(results.summary()))
    assert_clean("repr", repr(results))
    assert_object_clean("results", results)
    assert_clean("pickle", pickle.dumps(results))
    assert_clean("markdown", results.to_markdown() + results.tidy().to_csv())
    assert_clean("comparison", str(results.compare()) + results.glance().to_csv())
    results.report(outside / "report.html")
    synthetic = results.synthesize(rng=1)
    assert_clean("synthetic", synthetic.to_csv())
    assert not set(np.ravel(synthetic.select_dtypes("number").to_numpy())) & set(NUMBERS)
    assert not np.isin(table()["x"].to_numpy(), synthetic["x"].to_numpy()).any()
    for attribute in ("model", "release"):
        assert_object_clean(attribute, getattr(results, attribute))

    def shown(seed: int) -> tuple[object, ...]:
        found = dp_ols("y ~ x + C(g)", table(), **arguments(name) | {"rng": seed})
        return found, found.model, found.glance(), found.tidy()

    assert_no_exact_count(shown)


def test_a_search_for_the_exact_number_finds_what_leaks() -> None:
    """And tells it from a noisy number that is the exact one by chance."""
    assert_no_exact_count(lambda seed: {"noisy": float(N + seed % 3), "other": [N - seed]})
    for leak in (N, float(COMPLETE), np.int64(N), np.full(2, N)):
        with pytest.raises(AssertionError, match="exact number"):
            assert_no_exact_count(lambda seed, leak=leak: {"noisy": N + 2 + seed, "leak": [leak]})


COMMANDS: dict[str, list[str]] = {
    "fit": ["fit", "y ~ x + C(g)", "table.csv", "--out", "folder", "--rng", "1"],
    "fit with progress": ["fit", "y ~ x", "table.csv", "--progress", "--rng", "1"],
    "missing raises": ["fit", "y ~ x + C(g)", "table.csv", "--missing", "raise"],
    "no such column": ["fit", "y ~ nosuch", "table.csv"],
    "undefined": ["fit", "y ~ np.log(x)", "table.csv"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_line(name: str, outside: Path) -> None:
    """In a folder of its own, where the private table is deleted before the search."""
    from dpbinagg.cli import main

    table().to_csv("table.csv", index=False)
    Domain(BOUNDS).to_csv("codebook.csv")
    with contextlib.suppress(SystemExit):
        main([*COMMANDS[name], "--mu", "1", "--bounds", "codebook.csv"])
    Path("table.csv").unlink()


def test_size_does_not_tell_the_number_of_records(outside: Path) -> None:
    """On one public partition, pickle and folder are as long for 1,237 records as for 0."""

    def sizes(frame: pd.DataFrame, folder: Path) -> tuple[int, list[str]]:
        release = dp_release("y ~ x + C(g)", frame, partition="grid", **arguments("default"))
        release.save(folder)
        # The number of rounds follows from noisy moments, as that of bins does from noisy counts.
        rounds = ("requests", "scores")
        shapes = {k: np.shape(v) for k, v in release.statistics.items() if k not in rounds}
        return release.n_bins, [str(shapes), *sorted(path.name for path in folder.iterdir())]

    assert sizes(table(), outside / "many") == sizes(table().iloc[:0], outside / "none")


def test_secure_release(outside: Path) -> None:
    release = dp_release("y ~ x + C(g)", table(), mu=1.0, bounds=BOUNDS)
    assert release.privacy.secure
    assert_object_clean("release", release)
    assert_no_exact_count(lambda _: dp_release("y ~ x + C(g)", table(), mu=1.0, bounds=BOUNDS))


def test_ledger_holds_nothing(outside: Path) -> None:
    ledger = Ledger(outside / "ledger.db", mu=3.0)
    dp_release("y ~ x + C(g)", table(), mu=1.0, bounds=BOUNDS, ledger=ledger, rng=1)
    with pytest.raises(DPBinAggError):
        dp_release(
            "y ~ x + C(g)", table(), mu=1.0, bounds=BOUNDS, ledger=ledger, missing="raise", rng=1
        )
    assert_clean("entries", ledger.entries().to_csv())


def test_an_exact_answer_is_charged(outside: Path) -> None:
    """`missing="raise"` tells of the records; a refusal by the schema does not, and is free."""
    ledger = Ledger(outside / "ledger.db", mu=3.0)
    given = {"bounds": BOUNDS, "ledger": ledger, "missing": "raise", "rng": 1}
    with pytest.raises(DataError, match="incomplete"):
        dp_release("y ~ x + C(g)", table(), mu=1.0, **given)
    assert ledger.spent == pytest.approx(1.0)
    with pytest.raises(DataError, match="no column"):
        dp_release("y ~ x + C(g)", table().drop(columns="x"), mu=1.0, **given)
    assert ledger.spent == pytest.approx(1.0)


@pytest.mark.parametrize("error", [DataError, MemoryError, OSError, KeyboardInterrupt])
def test_a_failure_while_reading_is_charged(
    outside: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """A record may have a part in any error that the schema alone does not explain."""

    def broken(*_: object) -> None:
        # The charge stands before anything is read.
        assert ledger.spent == 1.0
        raise error

    ledger = Ledger(outside / "ledger.db", mu=3.0)
    monkeypatch.setattr(conduct, "open_table", broken)
    with pytest.raises(error):
        dp_release("y ~ x + C(g)", table(), mu=1.0, bounds=BOUNDS, ledger=ledger, rng=1)
    assert ledger.entries()["outcome"].tolist() == ["interrupted"]
    assert ledger.spent == 1.0


@pytest.mark.parametrize(
    ("more", "change"),
    [
        ({}, lambda frame: frame.drop(columns="x")),
        ({}, lambda frame: pd.concat([frame, frame[["x"]]], axis=1)),
        ({}, lambda frame: frame.assign(x=pd.to_datetime("2026-01-01"))),
        ({}, lambda frame: pa.Table.from_pandas(frame[["y"]], preserve_index=False)),
        (
            {},
            lambda frame: pa.Table.from_pandas(
                frame.assign(x=pd.to_datetime("2026-01-01"))[["x", "y"]], preserve_index=False
            ),
        ),
        ({"rng": "seed"}, lambda frame: frame),
    ],
    ids=["no column", "two columns", "dates", "no column, Arrow", "dates, Arrow", "rng"],
)
def test_a_refusal_that_no_record_can_cause_is_free(
    outside: Path, more: dict[str, Any], change: Callable[[pd.DataFrame], Any]
) -> None:
    """The same for the table and for its first row: names and types decide."""
    ledger = Ledger(outside / "ledger.db", mu=3.0)
    said = set()
    for frame in (table(), table().iloc[:1]):
        given = {"bounds": BOUNDS, "ledger": ledger, "rng": 1} | more
        with pytest.raises(PublicRefusalError) as caught:
            dp_release("y ~ x", change(frame), mu=1.0, **given)
        said.add(str(caught.value))
    assert len(said) == 1
    assert ledger.entries()["outcome"].tolist() == ["failed before release"] * 2
    assert ledger.spent == 0.0


@pytest.mark.parametrize("missing", ["drop", "raise"])
def test_the_statement_tells_of_the_exact_bit(outside: Path, missing: str) -> None:
    """Under "raise" a release exists only if every record is complete, which no mu covers."""
    results = dp_ols("y ~ x", table().dropna(), mu=1.0, bounds=BOUNDS, missing=missing, rng=1)
    results.release.save(outside / "release")
    for privacy in (results.privacy, load_release(outside / "release").privacy):
        assert privacy.missing == missing
        assert ("one exact fact" in privacy.statement) == (missing == "raise")
        assert ("every record was complete" in str(privacy)) == (missing == "raise")
    notes = " ".join(results.summary().as_text().split())
    assert ("one exact fact" in notes) == (missing == "raise")


def test_private_table_is_let_go(outside: Path) -> None:
    """No result keeps the table, or an array of it, alive."""
    frame = table()
    arrays = [frame[name].to_numpy() for name in ("x", "y")]
    alive = [weakref.ref(thing) for thing in (frame, *arrays)]
    results = dp_ols("y ~ x + C(g)", frame, mu=1.0, bounds=BOUNDS, rng=1)
    del frame, arrays
    gc.collect()
    assert all(reference() is None for reference in alive)
    assert results.release is not None


def everything(error: BaseException) -> str:
    """Text of an error, its causes and contexts, hidden ones too."""
    seen: list[str] = []
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is not None:
            seen += traceback.format_exception_only(one)
            seen += [repr(one.args), *getattr(one, "__notes__", [])]
            seen += [str(vars(one))] if hasattr(one, "__dict__") else []
            todo += [one.__cause__, one.__context__]
    return "\n".join([*seen, *traceback.format_exception(error)])


def text_column(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(x=frame["x"].map(lambda value: f"{value:.3f}§"))


FAILURES: dict[str, tuple[str, dict[str, Any], Callable[[pd.DataFrame], Any]]] = {
    "missing raises": ("y ~ x + C(g)", {"missing": "raise"}, lambda f: f),
    "text column": ("y ~ x", {"bounds": {}}, text_column),
    "no such column": ("y ~ nosuch", {}, lambda f: f),
    "undeclared factor": ("y ~ C(text)", {}, lambda f: f),
    "undefined transform": ("y ~ np.log(x)", {}, lambda f: f),
    "learns from data": ("y ~ scale(x)", {}, lambda f: f),
    "duplicate columns": ("y ~ x", {}, lambda f: pd.concat([f, f[["x"]]], axis=1)),
    "a dictionary": ("y ~ x", {}, lambda f: {"x": f["x"], "y": f["y"].iloc[:5]}),
    "a series": ("y ~ x", {}, lambda f: f["x"]),
    "a matrix": ("y ~ x", {}, lambda f: f[["x", "y"]].to_numpy()),
    "rows of text": ("y ~ x", {}, lambda f: f.astype(str).to_numpy().tolist()),
    "transposed": ("y ~ x", {}, lambda f: f.T),
    "mu of nothing": ("y ~ x", {"mu": 0}, lambda f: f),
    "datetimes": ("y ~ x", {}, lambda f: f.assign(x=pd.to_datetime(f["x"]))),
    "complex": ("y ~ x", {}, lambda f: f.assign(x=f["x"] + 1j)),
    "category of values": ("y ~ x", {"bounds": {}}, lambda f: f.assign(x=f["g"].astype(str))),
    "interval category": ("y ~ x", {"bounds": {}}, lambda f: f.assign(x=pd.cut(f["y"], 3))),
    "levels of numbers": ("y ~ C(g)", {"bounds": {**BOUNDS, "g": [1, 2]}}, text_column),
}


@pytest.mark.parametrize("name", FAILURES)
def test_errors(name: str, outside: Path) -> None:
    formula, changes, change = FAILURES[name]
    data = change(table())
    with pytest.raises((DPBinAggError, TypeError, ValueError)) as caught:
        dp_release(formula, data, **{"mu": 1.0, "bounds": BOUNDS, "rng": 1, **changes})
    assert_clean("error", everything(caught.value))
    assert_object_clean("error", caught.value.args)


def test_forbidden_pickles() -> None:
    from dpbinagg.formula import build_design
    from dpbinagg.kernel.curator import Curator
    from dpbinagg.protocol.conduct import open_table

    design = build_design("y ~ x", BOUNDS)
    curator = Curator(open_table(table(), design, "drop"), 1)
    for guarded in (curator, curator._engine):
        with pytest.raises(TypeError) as caught:
            pickle.dumps(guarded)
        assert_clean("error", everything(caught.value))
        assert_clean("repr", repr(guarded))


ODD: dict[str, dict[str, Any]] = {
    "a word in x": {"x": WORD},
    "a list in x": {"x": [INSIDE]},
    "an integer beyond floats": {"x": 10**400},
    "complex": {"x": 1j},
    "None": {"x": None},
    "nan": {"x": math.nan},
    "infinity": {"y": math.inf},
    "beyond the bounds": {"x": 1e300, "y": -1e300},
    "beyond the bounds of integers": {"k": 1e300},
    "an undeclared level": {"g": WORD},
    "an unhashable level": {"g": [WORD]},
    "an object that cannot be compared": {"g": pd.Series([1, 2])},
    "a number as level": {"g": INSIDE},
}


def outcome(frame: pd.DataFrame, **changes: Any) -> tuple[str, list[str]]:
    """How a call ends: the kind of what it returns or raises, its text, and its warnings."""
    given = {"mu": 1.0, "bounds": {**BOUNDS, "k": range(10)}, "rng": 1, **changes}
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            end = type(dp_release("y ~ x + k + C(g)", frame, **given)).__name__
        except Exception as error:
            end = f"{type(error).__name__}: {error}"
    return end, [str(warning.message) for warning in heard]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("budget", [None, Budget().without("ranges")], ids=["ranges", "bounds"])
def test_neighbours_end_alike(name: str, budget: Budget | None) -> None:
    """One odd record never decides whether a call fails, how, or with which warnings."""
    frame = table().reset_index(drop=True).assign(k=1).astype(object)
    record = {"x": 1.0, "y": 1.0, "g": "a", "k": 1, "other": 0.0, "text": "", **ODD[name]}
    cells = {column: [*frame[column], record[column]] for column in frame}
    neighbour = pd.DataFrame({column: pd.Series(cells[column], dtype=object) for column in frame})
    assert outcome(frame, budget=budget) == outcome(neighbour, budget=budget)
    assert outcome(frame, budget=budget)[0] == Release.__name__
