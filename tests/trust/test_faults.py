"""What happens when a process is killed, the disk is full, or many write at once.

By default a short run; with DPBINAGG_FULL=1 the full one: 200 kills of each
kind, and 8 processes on one ledger for 60 seconds.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from processes import Child, Report

from dpbinagg import Budget, Ledger, Release, dp_release, load_release
from dpbinagg.audit.content import differences
from dpbinagg.errors import BudgetError, DataError, ReleaseError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]

FULL = bool(os.environ.get("DPBINAGG_FULL"))
KILLS = 200 if FULL else 12
SECONDS = 60.0 if FULL else 3.0
HERE = Path(__file__).resolve().parent
NOBODY = 65534
SMALL = Budget(ranges=0, partition=1, count=1, sum_x=1, sum_y=1, moments=1, scores=0)


def table(n: int = 50) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.random(n), "y": rng.random(n)})


def release(mu: float = 0.1, ledger: Ledger | None = None, rng: Any = None) -> Release:
    return dp_release(
        "y ~ x",
        table(),
        mu,
        bounds={"x": (0, 1), "y": (0, 1)},
        budget=SMALL,
        ledger=ledger,
        rng=rng,
    )


def assert_sound(ledger: Ledger) -> None:
    database = sqlite3.connect(ledger.path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def squares(mus: list[float]) -> Fraction:
    return sum((Fraction(mu) ** 2 for mu in mus), Fraction(0))


def kill_at_random(
    work: Callable[[Report], None], seed: int, longest: float
) -> Iterator[list[Any]]:
    """Run `work` in a child, kill it after a while, and give what it reported; `KILLS` times."""
    draw = random.Random(seed)
    for _ in range(KILLS):
        child = Child(work)
        time.sleep(draw.uniform(0.0, longest))
        child.kill()
        status, reported = child.finish()
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield reported


def test_kill_in_the_middle_of_a_charge(tmp_path: Path) -> None:
    """Nothing acknowledged is lost; at most one charge more is on the disk."""
    ledger = Ledger(tmp_path / "a.db", mu=1000.0)
    known = 0

    def work(report: Report) -> None:
        while True:
            report(ledger.charge(0.5))

    for reported in kill_at_random(work, 1, 0.05):
        entries = ledger.entries()
        assert set(reported) <= set(entries["id"])
        assert 0 <= len(entries) - known - len(reported) <= 1
        known = len(entries)
    assert Fraction(ledger.spent) ** 2 >= squares(ledger.entries()["mu"].tolist())
    assert_sound(ledger)
    ledger.charge(0.5)


def test_kill_in_the_middle_of_a_release(tmp_path: Path) -> None:
    """Every release that anybody saw is charged; one that was cut off stays charged."""
    ledger = Ledger(tmp_path / "a.db", mu=1000.0)
    release(0.1, ledger)

    def work(report: Report) -> None:
        while True:
            report(release(0.1, ledger).statistics["count"].tolist())

    known = 1
    for reported in kill_at_random(work, 2, 0.25):
        entries = ledger.entries()
        new = entries.iloc[known:]
        known = len(entries)
        assert len(reported) <= len(new) <= len(reported) + 1
        assert (new["outcome"] == "released").sum() >= len(reported)
        assert set(new["outcome"].iloc[: len(reported)]) <= {"released"}
        assert "failed before release" not in set(new["outcome"])
    assert_sound(ledger)
    assert ledger.spent == pytest.approx(0.1 * known**0.5, rel=1e-12)


def test_kill_in_the_middle_of_a_save(tmp_path: Path) -> None:
    """The folder holds the old release or the new one, whole."""
    versions = [release(1.0, rng=seed) for seed in (1, 2)]
    folder = tmp_path / "release"
    save = partial(Release.save, folder=folder, overwrite=True)
    save(versions[0])
    kept = {1: 0, 2: 0}

    def work(report: Report) -> None:
        while True:
            for version in (1, 0):
                save(versions[version])
                report(version)

    for _ in kill_at_random(work, 3, 0.6):
        found = load_release(folder)
        same = [not differences(found.statistics, version.statistics) for version in versions]
        assert sum(same) == 1
        kept[1 + same.index(True)] += 1
    save(versions[0])
    assert not differences(load_release(folder).statistics, versions[0].statistics)
    assert sum(kept.values()) == KILLS


def in_child(work: Callable[[], str]) -> str:
    """What a child process says, such as one with fewer rights."""
    status, reported = Child(lambda report: report(work())).finish()
    assert status == 0
    return str(reported[0])


def ending(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def limit_files(size: int) -> None:
    """From here on no file of this process grows beyond `size`: as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("size", [0, 512, 2000])
def test_disk_full_while_saving(tmp_path: Path, size: int) -> None:
    first, second = release(1.0, rng=1), release(1.0, rng=2)
    first.save(tmp_path / "release")

    def work() -> str:
        limit_files(size)
        return ending(lambda: second.save(tmp_path / "release", overwrite=True))

    assert in_child(work).startswith(ReleaseError.__name__)
    assert not differences(load_release(tmp_path / "release").statistics, first.statistics)
    assert [path.name for path in tmp_path.iterdir()] == ["release"]
    second.save(tmp_path / "release", overwrite=True)


def test_disk_full_while_charging(tmp_path: Path) -> None:
    """Nothing is released that could not be charged, and nothing is charged."""
    ledger = Ledger(tmp_path / "a.db", mu=3.0)
    release(1.0, ledger)

    def work() -> str:
        limit_files(0)
        return ending(lambda: release(1.0, ledger))

    assert in_child(work).startswith(BudgetError.__name__)
    assert ledger.spent == 1.0
    assert_sound(ledger)
    release(1.0, ledger)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs the right to mount"
)
def test_disk_really_full(tmp_path: Path) -> None:
    """The same on a file system of 256 kB, mounted for one process only."""
    script = textwrap.dedent(
        f"""
        import os, sys
        sys.path[:0] = [{", ".join(repr(str(p)) for p in (HERE, *HERE.parents[:2]))}]
        from test_faults import ending, fill, release
        from dpbinagg import Ledger
        from dpbinagg import load_release
        ledger = Ledger("a.db", mu=5.0)
        first = release(1.0, ledger, rng=1)
        fill("ballast")
        print(ending(lambda: first.save("release")), os.path.exists("release"))
        for _ in range(50):
            said = ending(lambda: release(0.1, ledger, rng=1))
            if said != "done":
                break
        os.unlink("ballast")
        entries = ledger.entries()
        print(said, (entries["outcome"] == "released").sum() == len(entries))
        print(ending(lambda: release(0.1, ledger, rng=1)))
        """
    )
    command = (
        f"mount -t tmpfs -o size=256k none {tmp_path} && cd {tmp_path} && exec {sys.executable} -"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", command],
        input=script,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert done.returncode == 0, done.stderr
    saved, charged, again = done.stdout.splitlines()
    assert saved.startswith("ReleaseError")
    assert saved.endswith("False")
    assert charged.startswith("BudgetError")
    assert charged.endswith("True")
    assert again == "done"


def fill(path: str) -> None:
    """Fill the disk."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"0" * 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def without_rights(work: Callable[[], str]) -> Callable[[], str]:
    """Give up the rights of root, who may write anywhere."""

    def lowered() -> str:
        if os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return lowered


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def test_read_only_folder(open_folder: Path) -> None:
    made = release(1.0, rng=1)
    ledger = Ledger(open_folder / "a.db", mu=3.0)
    made.save(open_folder / "release")
    for path in open_folder.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    open_folder.chmod(0o555)

    def work() -> str:
        return " | ".join(
            [
                ending(lambda: made.save(open_folder / "release", overwrite=True)),
                ending(lambda: made.save(open_folder / "another")),
                ending(lambda: release(1.0, ledger)),
                ending(lambda: load_release(open_folder / "release")),
            ]
        )

    again, another, charged, loaded = in_child(without_rights(work)).split(" | ")
    assert again.startswith(ReleaseError.__name__)
    assert another.startswith(ReleaseError.__name__)
    assert charged.startswith(BudgetError.__name__)
    assert loaded == "done"
    assert ledger.spent == 0.0


def test_failure_before_the_release_costs_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.db", mu=3.0)
    broken = table().drop(columns="x")
    with pytest.raises(DataError):
        dp_release("y ~ x", broken, 1.0, bounds={"x": (0, 1), "y": (0, 1)}, ledger=ledger)
    assert ledger.spent == 0.0


def test_failure_after_the_first_number_stays_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpbinagg.kernel.curator import Curator

    def broken(*_: Any) -> Any:
        raise MemoryError

    ledger = Ledger(tmp_path / "a.db", mu=3.0)
    monkeypatch.setattr(Curator, "_privatise", broken)
    with pytest.raises(MemoryError):
        release(1.0, ledger)
    assert ledger.spent == 1.0
    assert ledger.entries()["outcome"].tolist() == ["interrupted"]


def test_refit_is_charged_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.db", mu=2.0**0.5)
    release(1.0, ledger, rng=1)
    release(1.0, ledger, rng=1)
    with pytest.raises(BudgetError, match="would exceed"):
        release(1e-3, ledger, rng=1)
    assert len(ledger.entries()) == 2


def test_eight_processes_on_one_ledger(tmp_path: Path) -> None:
    """Releases and refunds of odd sizes: the sum is exact, nothing lost, nothing over."""
    total = 40.0 if FULL else 8.0
    ledger = Ledger(tmp_path / "a.db", mu=total)
    end = time.monotonic() + SECONDS

    def work(report: Report, seed: int) -> None:
        draw = random.Random(seed)
        while time.monotonic() < end:
            mu = draw.uniform(0.01, 0.5)
            try:
                number = ledger.charge(mu)
            except BudgetError as error:
                if "would exceed" not in str(error):
                    raise
                continue
            refund = draw.random() < 0.3
            ledger.settle(number, "failed before release" if refund else "released")
            report((number, mu, refund))

    children = [Child(partial(work, seed=seed)) for seed in range(8)]
    results = [child.finish() for child in children]
    assert [status for status, _ in results] == [0] * 8
    told = {number: (mu, refund) for _, said in results for number, mu, refund in said}
    entries = ledger.entries()
    assert len(told) == sum(len(said) for _, said in results) == len(entries)
    kept = [mu for mu, refund in told.values() if not refund]
    held = entries.loc[entries["outcome"] == "released", "mu"].tolist()
    assert sorted(held) == sorted(kept)
    exact = squares(kept)
    assert exact <= Fraction(total) ** 2
    assert Fraction(ledger.spent) ** 2 >= exact
    assert ledger.spent == pytest.approx(float(exact) ** 0.5, rel=1e-14)
    assert_sound(ledger)


def test_too_little_memory_does_not_tell_the_number_of_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = pd.DataFrame({"x": np.linspace(0, 1, 12_347), "y": np.linspace(0, 1, 12_347)})

    def short(*_: object) -> object:
        np.empty((len(frame), 2**40))
        raise AssertionError

    for name in ("engines.base.parted", "kernel.view.Rows.put_factors", "kernel.view.cut"):
        with monkeypatch.context() as patch:
            patch.setattr(f"dpbinagg.{name}", short)
            with pytest.raises(MemoryError, match="too little memory") as caught:
                dp_release("y ~ x", frame, mu=1, bounds={"x": (0, 1), "y": (0, 1)}, rng=1)
        assert "12347" not in repr(caught.value)
        assert caught.value.__context__ is None


def test_a_mu_too_small_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    """With the smallest mu that is let in every component still fits its grid."""
    frame = pd.DataFrame({"x": np.linspace(0, 1, 300), "y": np.linspace(0, 1, 300)})
    bounds = {"x": (0, 1), "y": (0, 1)}
    dp_release("y ~ x", frame, mu=2e-4, bounds=bounds)
    ledger = Ledger(tmp_path / "ledger.db", mu=1.0)
    with pytest.raises(BudgetError, match="a mu outside"):
        dp_release("y ~ x", frame, mu=1e-5, bounds=bounds, ledger=ledger)
    assert ledger.remaining == 1.0
