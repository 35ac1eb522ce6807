"""The ledger: exact sums, settlement, and errors that say what to do."""

from __future__ import annotations

import math
import os
import pickle
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg.accounting import Ledger, _store
from dpbinagg.errors import BudgetError, DPBinAggWarning


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "wages.ledger", mu=1.0, name="wages 2024")


def outcomes(ledger: Ledger) -> list[str]:
    return ledger.entries()["outcome"].tolist()


def test_a_new_ledger_is_empty(ledger: Ledger) -> None:
    assert (ledger.total, ledger.spent, ledger.remaining) == (1.0, 0.0, 1.0)
    entries = ledger.entries()
    assert list(entries) == [
        "id",
        "time",
        "formula",
        "mu",
        "neighbours",
        "counted",
        "purpose",
        "outcome",
    ]
    assert len(entries) == 0
    assert (entries["id"].dtype, entries["mu"].dtype) == (np.int64, np.float64)


def test_the_defaults(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "wages.sqlite")
    assert (ledger.total, ledger.name) == (1.0, "wages")


def test_a_charge_is_written_down(ledger: Ledger) -> None:
    number = ledger.charge(0.6, formula="wage ~ educ", purpose="table 1")
    assert number == 1
    (row,) = ledger.entries().to_dict("records")
    stamp = datetime.fromisoformat(row.pop("time"))
    assert stamp.tzinfo == UTC
    assert abs((datetime.now(UTC) - stamp).total_seconds()) < 60
    assert row == {
        "id": 1,
        "formula": "wage ~ educ",
        "mu": 0.6,
        "neighbours": "add-remove",
        "counted": 0.6,
        "purpose": "table 1",
        "outcome": "charged, outcome unknown",
    }
    assert ledger.spent == 0.6


@pytest.mark.parametrize("total", [1.0, 0.1, 3.7, 1e-300, 1e6, 1e-3])
@pytest.mark.parametrize("share", [0.5, 0.6, 1e-9, 0.999999999999, 1.0])
def test_remaining_can_be_charged_to_the_last_unit(
    tmp_path: Path, total: float, share: float
) -> None:
    ledger = Ledger(tmp_path / "a.ledger", mu=total)
    ledger.charge(total * share)
    remaining = ledger.remaining
    if remaining > 0.0:
        with pytest.raises(BudgetError, match="would exceed"):
            ledger.charge(math.nextafter(remaining, math.inf))
        ledger.charge(remaining)
    assert ledger.spent == total
    assert ledger.remaining == 0.0
    for tiny in (5e-324, total * 1e-9):
        with pytest.raises(BudgetError, match="Nothing more"):
            ledger.charge(tiny)


@examples(25)
@given(st.floats(1e-3, 1e3), st.lists(st.floats(1e-3, 0.9), min_size=1, max_size=6))
def test_no_sequence_of_charges_exceeds_the_total(total: float, shares: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "a.ledger", mu=total)
        for share in shares:
            asked = total * share
            fits = asked <= ledger.remaining
            try:
                ledger.charge(asked)
            except BudgetError:
                assert not fits
            else:
                assert fits
        if ledger.remaining > 0.0:
            ledger.charge(ledger.remaining)
        squares = sum((Fraction(mu) ** 2 for mu in ledger.entries()["mu"]), Fraction(0))
        assert squares <= Fraction(total) ** 2
        assert ledger.spent == total
        assert ledger.remaining == 0.0


def test_rounding_is_exact_and_toward_privacy(ledger: Ledger) -> None:
    """0.6 and 0.8 as floats compose to a little more than one."""
    ledger.charge(0.6)
    with pytest.raises(BudgetError, match=r"0\.6 is spent and at most 0\.79999"):
        ledger.charge(0.8)
    assert len(ledger.entries()) == 1


def test_four_halves_fit_exactly(ledger: Ledger) -> None:
    for _ in range(4):
        ledger.charge(0.5)
    assert (ledger.spent, ledger.remaining) == (1.0, 0.0)


def test_a_refusal_names_the_numbers_and_changes_nothing(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match=r"mu=1\.5 .*'wages 2024'.* total 1\.0, 0\.0 is spent"):
        ledger.charge(1.5)
    assert len(ledger.entries()) == 0


def test_settling(ledger: Ledger) -> None:
    first, second, third = (ledger.charge(0.5) for _ in range(3))
    ledger.settle(first, "released")
    ledger.settle(second, "failed before release")
    ledger.settle(np.int64(third), "interrupted")
    assert outcomes(ledger) == ["released", "failed before release", "interrupted"]
    assert ledger.spent == pytest.approx(math.sqrt(0.5), rel=1e-15)


def test_outcomes_are_final(ledger: Ledger) -> None:
    number = ledger.charge(0.5)
    ledger.settle(number, "released")
    ledger.settle(number, "released")
    for other in ("failed before release", "interrupted"):
        with pytest.raises(BudgetError, match="cannot become"):
            ledger.settle(number, other)
    refunded = ledger.charge(0.5)
    ledger.settle(refunded, "failed before release")
    with pytest.raises(BudgetError, match="final"):
        ledger.settle(refunded, "released")


def test_settle_refuses_unknown_entries_and_outcomes(ledger: Ledger) -> None:
    number = ledger.charge(0.5)
    with pytest.raises(BudgetError, match="outcome must be one of"):
        ledger.settle(number, "charged")  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="entry must be a number"):
        ledger.settle(99, "released")
    for bad in ("1", 1.0, True, None):
        with pytest.raises(BudgetError, match="entry must be what"):
            ledger.settle(bad, "released")  # type: ignore[arg-type]


def test_a_block_that_ends_well_is_released(ledger: Ledger) -> None:
    with ledger.charging(0.5, formula="y ~ x", purpose="t") as charge:
        assert outcomes(ledger) == ["charged, nothing released yet"]
        assert ledger.spent == 0.5
        charge.releasing()
        charge.releasing()
        assert outcomes(ledger) == ["charged, outcome unknown"]
    assert outcomes(ledger) == ["released"]
    with ledger.charging(0.5):
        pass
    assert outcomes(ledger) == ["released", "released"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_before_the_release_refunds(
    ledger: Ledger, error: type[BaseException]
) -> None:
    with pytest.raises(error), ledger.charging(1.0):
        raise error
    assert outcomes(ledger) == ["failed before release"]
    assert ledger.remaining == 1.0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_after_the_release_stays_charged(
    ledger: Ledger, error: type[BaseException]
) -> None:
    def release_and_fail() -> None:
        with ledger.charging(1.0) as charge:
            charge.releasing()
            raise error

    with pytest.raises(error):
        release_and_fail()
    assert outcomes(ledger) == ["interrupted"]
    assert ledger.remaining == 0.0


def test_a_refused_charge_never_enters_the_block(ledger: Ledger) -> None:
    entered = []
    with pytest.raises(BudgetError, match="would exceed"), ledger.charging(2.0):
        entered.append(True)
    assert entered == []


def test_a_refunded_computation_can_no_longer_release(ledger: Ledger) -> None:
    def release_after_a_refund() -> None:
        with ledger.charging(1.0) as charge:
            ledger.settle(charge.id, "failed before release")
            charge.releasing()

    with pytest.raises(BudgetError, match="cannot become"):
        release_after_a_refund()
    assert outcomes(ledger) == ["failed before release"]


def test_a_release_under_way_is_not_refunded(ledger: Ledger) -> None:
    with ledger.charging(0.5) as charge:
        charge.releasing()
        with pytest.raises(BudgetError, match="only when nothing was released"):
            ledger.settle(charge, "failed before release")


def test_a_lost_file_does_not_hide_the_result(ledger: Ledger) -> None:
    def release_and_lose_the_file() -> str:
        with ledger.charging(0.5) as charge:
            charge.releasing()
            ledger.path.unlink()
        return "result"

    with pytest.warns(DPBinAggWarning, match="stays charged"):
        assert release_and_lose_the_file() == "result"


def test_a_lost_file_does_not_hide_the_error(ledger: Ledger) -> None:
    def lose_the_file_and_fail() -> None:
        with ledger.charging(0.5):
            ledger.path.unlink()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        lose_the_file_and_fail()
    assert "stays charged" in caught.value.__notes__[0]


def test_reopening(ledger: Ledger) -> None:
    ledger.charge(0.6)
    for again in (
        Ledger(ledger.path),
        Ledger(str(ledger.path), mu=1, name="wages 2024"),
        pickle.loads(pickle.dumps(ledger)),
    ):
        assert (again.total, again.name, again.spent) == (1.0, "wages 2024", 0.6)
    with pytest.raises(BudgetError, match=r"1\.0, but 2\.0 was passed\. Leave mu out"):
        Ledger(ledger.path, mu=2.0)
    with pytest.raises(BudgetError, match=r"one ledger file per data set"):
        Ledger(ledger.path, name="prices")
    assert ledger.spent == 0.6


def test_a_pickle_holds_the_path_only_and_never_makes_a_file(ledger: Ledger) -> None:
    ledger.charge(0.5, formula="wage ~ canary")
    packed = pickle.dumps(ledger)
    assert b"canary" not in packed
    ledger.path.unlink()
    with pytest.raises(BudgetError, match="is gone"):
        pickle.loads(packed)
    assert not ledger.path.exists()


def test_repr_is_short(ledger: Ledger) -> None:
    assert repr(ledger) == "Ledger('wages.ledger', mu=1.0, name='wages 2024')"


def test_a_relative_path_survives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("odd name #1?%20.ledger")
    monkeypatch.chdir("/")
    ledger.charge(0.5)
    assert Ledger(tmp_path / "odd name #1?%20.ledger").spent == 0.5


def test_a_deleted_ledger_is_not_made_anew(ledger: Ledger) -> None:
    ledger.path.unlink()
    for use in (
        lambda: ledger.charge(0.1),
        lambda: ledger.remaining,
        lambda: ledger.spent,
        ledger.entries,
    ):
        with pytest.raises(BudgetError, match="is gone"):
            use()
    assert not ledger.path.exists()


def test_a_replaced_ledger_is_noticed(ledger: Ledger) -> None:
    ledger.path.unlink()
    Ledger(ledger.path, mu=5.0)
    with pytest.raises(BudgetError, match="was replaced"):
        ledger.charge(0.1)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None, True], ids=repr)
def test_bad_charges(ledger: Ledger, bad: object) -> None:
    with pytest.raises(BudgetError, match=r"^mu must be "):
        ledger.charge(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", True], ids=repr)
def test_bad_totals(tmp_path: Path, bad: object) -> None:
    with pytest.raises(BudgetError, match=r"^mu must be "):
        Ledger(tmp_path / "a.ledger", mu=bad)  # type: ignore[arg-type]
    assert not (tmp_path / "a.ledger").exists()


def test_bad_texts(ledger: Ledger) -> None:
    for name in ("formula", "purpose"):
        for bad in (None, 3, b"y ~ x", "\ud800"):
            with pytest.raises(BudgetError, match=rf"^{name} must be a text"):
                ledger.charge(0.1, **{name: bad})  # type: ignore[arg-type]
    text = "y ~ größe + 年齢 'quoted\"; DROP TABLE entry;--\0\n"
    ledger.charge(0.1, formula=text, purpose=text)
    assert ledger.entries().loc[0, ["formula", "purpose"]].tolist() == [text, text]


@pytest.mark.parametrize("bad", ["", None, 3, b"x", "a\0b"], ids=repr)
def test_bad_paths(bad: object) -> None:
    with pytest.raises(BudgetError, match=r"^path must be"):
        Ledger(bad)  # type: ignore[arg-type]


def test_a_missing_folder_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="create the folder first"):
        Ledger(tmp_path / "nowhere" / "a.ledger")
    with pytest.raises(BudgetError, match="is a folder"):
        Ledger(tmp_path)


def test_a_file_that_is_not_a_ledger(tmp_path: Path) -> None:
    text = tmp_path / "table.csv"
    text.write_text("wage,educ\n" * 1000)
    with pytest.raises(BudgetError, match="choose another file name"):
        Ledger(text)
    assert text.read_text() == "wage,educ\n" * 1000
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE wages (wage REAL)")
    database.close()
    before = other.read_bytes()
    with pytest.raises(BudgetError, match="choose another file name"):
        Ledger(other)
    assert other.read_bytes() == before


def test_a_damaged_ledger(ledger: Ledger) -> None:
    ledger.charge(0.5)
    content = bytearray(ledger.path.read_bytes())
    content[:16] = b"\0" * 16
    ledger.path.write_bytes(content)
    with pytest.raises(BudgetError, match="bring back a copy"):
        ledger.charge(0.5)


def test_a_newer_format_is_refused(ledger: Ledger) -> None:
    with sqlite3.connect(ledger.path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(BudgetError, match="upgrade dpbinagg"):
        ledger.charge(0.5)


def test_an_empty_file_becomes_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "a.ledger").touch()
    assert Ledger(tmp_path / "a.ledger").remaining == 1.0


def test_entries_cannot_be_deleted_or_made_cheaper(ledger: Ledger) -> None:
    ledger.charge(0.5)
    database = sqlite3.connect(ledger.path)
    for statement in (
        "DELETE FROM entry",
        "UPDATE entry SET mu = 0.1",
        "UPDATE ledger SET mu = 9",
        "DELETE FROM ledger",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(statement)
    database.close()


def test_a_full_disk_charges_nothing(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def connect_to_a_full_disk(*args: object, **kwargs: object) -> sqlite3.Connection:
        database = connect(*args, **kwargs)  # type: ignore[call-overload]
        database.execute("PRAGMA max_page_count = 1")
        return database  # type: ignore[no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(_store.sqlite3, "connect", connect_to_a_full_disk)
        with pytest.raises(BudgetError, match="Make room and try again"):
            ledger.charge(0.1, purpose="long " * 10_000)
    assert ledger.remaining == 1.0
    ledger.charge(1.0)


def test_a_ledger_in_use_for_too_long(ledger: Ledger) -> None:
    impatient = Ledger(ledger.path, timeout=0.1)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BudgetError, match="in use by others"):
        impatient.charge(0.1)
    other.execute("ROLLBACK")
    other.close()
    impatient.charge(0.1)


def test_reading_does_not_wait_for_a_writer(ledger: Ledger) -> None:
    ledger.charge(0.6)
    writer = sqlite3.connect(ledger.path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    writer.execute("UPDATE entry SET outcome = 'released'")
    reader = pickle.loads(pickle.dumps(ledger))
    reader._timeout = 1e-3
    assert reader.spent == 0.6
    assert outcomes(reader) == ["charged, outcome unknown"]
    writer.execute("COMMIT")
    writer.close()
    assert outcomes(ledger) == ["released"]


def test_a_charge_does_not_wait_for_a_reader(ledger: Ledger) -> None:
    reader = sqlite3.connect(ledger.path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT COUNT(*) FROM entry").fetchone() == (0,)
    Ledger(ledger.path, timeout=1e-3).charge(0.5)
    assert reader.execute("SELECT COUNT(*) FROM entry").fetchone() == (0,)
    reader.close()
    assert ledger.spent == 0.5


def test_threads_share_a_ledger(ledger: Ledger) -> None:
    accepted: list[int] = []

    def spend() -> None:
        for _ in range(10):
            try:
                accepted.append(ledger.charge(0.25))
            except BudgetError:
                return

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(accepted) == list(range(1, 17))
    assert ledger.remaining == 0.0


def in_a_child(action: Callable[[], str]) -> str:
    """Run `action` in a forked process and return what it says."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = action()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(send, answer.encode()[:4000])
        os._exit(0)
    os.close(send)
    os.waitpid(child, 0)
    with os.fdopen(receive) as pipe:
        return pipe.read()


def as_ordinary_user(action: Callable[[], str]) -> str:
    """Run `action` in a child that permissions apply to."""

    def give_up_root_and_act() -> str:
        if os.geteuid() == 0:
            os.setuid(65534)
        return action()

    return in_a_child(give_up_root_and_act)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and resource limits")
def test_a_disk_that_takes_no_more_bytes(ledger: Ledger) -> None:
    import resource

    def charge_within(limit: int) -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return str(ledger.charge(0.1, purpose="long " * 20_000))

    size = ledger.path.stat().st_size
    for limit in (0, 100, 4096, size, size + 4096, size + 50_000):
        answer = in_a_child(lambda limit=limit: charge_within(limit))
        assert answer.startswith("BudgetError"), answer
        assert "Make room and try again" in answer
        assert ledger.remaining == 1.0
    ledger.charge(1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and POSIX permissions")
def test_a_read_only_folder_can_be_read_and_not_charged() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "a.ledger")
        ledger.charge(0.6)
        os.chmod(ledger.path, 0o444)
        os.chmod(folder, 0o555)
        try:
            if as_ordinary_user(lambda: str(os.access(ledger.path, os.R_OK))) != "True":
                pytest.skip("the temporary folder is closed to ordinary users")
            assert as_ordinary_user(lambda: str(ledger.spent)) == "0.6"
            assert as_ordinary_user(lambda: str(len(ledger.entries()))) == "1"
            answer = as_ordinary_user(lambda: str(ledger.charge(0.1)))
            assert answer.startswith("BudgetError")
            assert "must both be writable" in answer
            answer = as_ordinary_user(lambda: str(Ledger(Path(folder) / "b.ledger")))
            assert "must both be writable" in answer
        finally:
            os.chmod(folder, 0o755)
        assert sorted(os.listdir(folder)) == ["a.ledger"]
        assert ledger.spent == 0.6
