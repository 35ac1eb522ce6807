"""Many processes on one ledger, and processes that are killed in the middle of it."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from processes import Child, Report

from dpbinagg.accounting import Ledger, _store
from dpbinagg.errors import BudgetError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def squares(mus: list[float]) -> Fraction:
    return sum((Fraction(mu) ** 2 for mu in mus), Fraction(0))


def charge_if_it_fits(ledger: Ledger, mu: float) -> int | None:
    try:
        return ledger.charge(mu)
    except BudgetError as error:
        if "would exceed" not in str(error):
            raise
        return None


def assert_sound(ledger: Ledger) -> None:
    database = sqlite3.connect(ledger.path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()


def test_eight_processes_spend_exactly_what_fits(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger", mu=1.0)
    mu = 0.0625

    def spend(report: Report) -> None:
        while True:
            number = charge_if_it_fits(ledger, mu)
            if number is None:
                return
            report((number, mu))

    results = [child.finish() for child in [Child(spend) for _ in range(8)]]
    assert [status for status, _ in results] == [0] * 8
    numbers = sorted(number for _, charges in results for number, _ in charges)
    assert numbers == list(range(1, 257))
    assert (ledger.spent, ledger.remaining) == (1.0, 0.0)


def test_eight_processes_charging_for_three_seconds(tmp_path: Path) -> None:
    """Charges and refunds of odd sizes: what the ledger holds is what they were told."""
    ledger = Ledger(tmp_path / "a.ledger", mu=2.0)
    end = time.monotonic() + 3.0

    def spend(report: Report, seed: int) -> None:
        draw = random.Random(seed)
        while time.monotonic() < end:
            mu = draw.uniform(0.01, 0.2)
            number = charge_if_it_fits(ledger, mu)
            if number is None:
                continue
            if draw.random() < 0.5:
                ledger.settle(number, "failed before release")
            else:
                report((number, mu))

    children = [Child(partial(spend, seed=seed)) for seed in range(8)]
    results = [child.finish() for child in children]
    assert [status for status, _ in results] == [0] * 8
    told = dict(pair for _, charges in results for pair in charges)
    entries = ledger.entries()
    kept = entries[entries["outcome"] != "failed before release"]
    assert dict(zip(kept["id"], kept["mu"], strict=True)) == told
    assert len(entries) > len(told) > 8
    assert squares(list(told.values())) <= 4
    assert Fraction(ledger.spent) ** 2 >= squares(list(told.values()))
    assert_sound(ledger)


def test_processes_that_make_the_same_ledger_at_once(tmp_path: Path) -> None:
    for round_number in range(5):
        path = tmp_path / f"{round_number}.ledger"
        start = time.monotonic() + 0.05

        def make(report: Report, path: Path = path, start: float = start) -> None:
            time.sleep(max(0.0, start - time.monotonic()))
            report((Ledger(path, mu=3.0, name="wages").charge(0.5), 0.5))

        results = [child.finish() for child in [Child(make) for _ in range(6)]]
        assert [status for status, _ in results] == [0] * 6
        numbers = [number for _, charges in results for number, _ in charges]
        assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
        assert Ledger(path, mu=3.0).spent ** 2 == pytest.approx(1.5, rel=1e-14)


def test_kill_in_the_middle_of_charges(tmp_path: Path) -> None:
    """Twenty kills: nothing that was acknowledged is lost, at most one more is charged."""
    ledger = Ledger(tmp_path / "a.ledger", mu=100.0)
    draw = random.Random(20)
    acknowledged: dict[int, float] = {}

    def spend(report: Report) -> None:
        while True:
            report((ledger.charge(0.1), 0.1))

    for _ in range(20):
        before = len(ledger.entries())
        child = Child(spend)
        time.sleep(draw.uniform(0.005, 0.06))
        child.kill()
        _, charges = child.finish()
        acknowledged |= dict(charges)
        assert 0 <= len(ledger.entries()) - before - len(charges) <= 1
    entries = ledger.entries()
    assert set(acknowledged) <= set(entries["id"])
    assert set(entries["outcome"]) == {"charged, outcome unknown"}
    assert Fraction(ledger.spent) ** 2 >= squares(entries["mu"].tolist())
    assert_sound(ledger)
    ledger.charge(ledger.remaining)


def kill_before_statement(number: int) -> None:
    """In a child: make SQLite end the process right before its statement of that number."""
    seen = 0
    connect = sqlite3.connect

    def count(_: str) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect_and_count(*args: object, **kwargs: object) -> sqlite3.Connection:
        database = connect(*args, **kwargs)  # type: ignore[call-overload]
        database.set_trace_callback(count)
        return database  # type: ignore[no-any-return]

    _store.sqlite3.connect = connect_and_count  # type: ignore[assignment]


def kills(action: Callable[[], object]) -> Iterator[None]:
    """Run `action` in children killed before their first, second, ... statement, to the end."""
    for number in range(1, 100):

        def work(report: Report, number: int = number) -> None:
            kill_before_statement(number)
            action()
            report((1, 1.0))

        status, done = Child(work).finish()
        if status == 0:
            assert done == [(1, 1.0)]
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield
    raise AssertionError("the action never ended")


def test_kill_before_every_statement_of_a_charge(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger")
    steps = 0
    for _ in kills(lambda: ledger.charge(0.5)):
        steps += 1
        assert ledger.spent == 0.0
    assert steps >= 6
    assert ledger.spent == 0.5


def test_kill_before_every_statement_of_a_new_ledger(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    steps = 0
    for _ in kills(lambda: Ledger(path, mu=2.0)):
        steps += 1
        assert Ledger(path, mu=2.0).remaining == 2.0
        for file in tmp_path.iterdir():
            file.unlink()
    assert steps >= 12
    assert Ledger(path).total == 2.0


def test_kill_before_every_statement_of_a_release(tmp_path: Path) -> None:
    """The ledger tells a computation that released nothing from one that may have."""
    ledger = Ledger(tmp_path / "a.ledger", mu=10.0)

    def release() -> None:
        with ledger.charging(0.1) as charge:
            charge.releasing()

    seen = []
    for _ in kills(release):
        outcomes = ledger.entries()["outcome"]
        seen.append(outcomes.iloc[-1] if len(outcomes) else "")
    assert list(dict.fromkeys(seen)) == [
        "",
        "charged, nothing released yet",
        "charged, outcome unknown",
    ]
    assert seen.count("charged, nothing released yet") >= 4
    assert ledger.entries()["outcome"].iloc[-1] == "released"


def test_a_block_is_settled_by_the_process_that_opened_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger")
    with ledger.charging(0.5) as charge:
        child = os.fork()
        if child == 0:
            try:
                raise ValueError
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert ledger.spent == 0.5
        charge.releasing()
    assert ledger.entries()["outcome"].tolist() == ["released"]


def test_fork_while_threads_charge(tmp_path: Path) -> None:
    """Children forked at any moment can charge; none inherits a half-open connection."""
    ledger = Ledger(tmp_path / "a.ledger", mu=100.0, timeout=20.0)
    stop = threading.Event()
    charged: list[int] = []

    def spend() -> None:
        while not stop.is_set():
            charged.append(ledger.charge(0.1))

    threads = [threading.Thread(target=spend) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        results = []
        for _ in range(8):
            child = Child(lambda report: report((ledger.charge(0.2), 0.2)))
            results.append(child.finish())
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [status for status, _ in results] == [0] * 8
    numbers = [number for _, charges in results for number, _ in charges]
    assert sorted(charged + numbers) == ledger.entries()["id"].tolist()
    assert_sound(ledger)
