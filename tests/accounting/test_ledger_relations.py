"""A ledger has one neighbouring relation and converts what it is charged."""

from __future__ import annotations

import math
import pickle
import sqlite3
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from dpbinagg import dp_release
from dpbinagg.accounting import Ledger, _store, mu_against, per_record_mu
from dpbinagg.errors import BudgetError

OLD_SCHEMA = """
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL, mu REAL NOT NULL CHECK (mu > 0),
    created TEXT NOT NULL);
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, formula TEXT NOT NULL,
    mu REAL NOT NULL CHECK (mu > 0), purpose TEXT NOT NULL, outcome TEXT NOT NULL, settled TEXT);
CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the total of a ledger is fixed'); END;
CREATE TRIGGER ledger_is_kept BEFORE DELETE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the total of a ledger is fixed'); END;
CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF id, time, formula, mu, purpose ON entry
    BEGIN SELECT RAISE(ABORT, 'a charge is fixed'); END;
CREATE TRIGGER entry_is_kept BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'a charge is never deleted'); END;
PRAGMA user_version = 1;
PRAGMA application_id = 0x6D754C67;
INSERT INTO ledger VALUES (1, 'wages', 2.0, '2026-01-01T00:00:00+00:00');
INSERT INTO entry (time, formula, mu, purpose, outcome, settled) VALUES
    ('2026-01-02T00:00:00+00:00', 'wage ~ educ', 1.0, 'release', 'released', 't'),
    ('2026-01-03T00:00:00+00:00', 'wage ~ age', 0.5, 'release', 'failed before release', 't'),
    ('2026-01-04T00:00:00+00:00', 'wage ~ sex', 1.0, 'release', 'computing', NULL);
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A ledger as version 0.1 wrote it, with a refunded entry and one that was cut off."""
    path = tmp_path / "old.ledger"
    database = sqlite3.connect(path)
    database.executescript("PRAGMA journal_mode = WAL;" + OLD_SCHEMA)
    database.close()
    return path


def format_of(path: Path) -> int:
    database = sqlite3.connect(path)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    database.close()
    return int(version)


def test_an_old_ledger_counts_as_add_remove(old: Path) -> None:
    before = old.read_bytes()
    ledger = Ledger(old)
    assert (ledger.total, ledger.name, ledger.neighbours) == (2.0, "wages", "add-remove")
    assert Fraction(ledger.spent) ** 2 >= 2 > Fraction(math.nextafter(ledger.spent, 0)) ** 2
    entries = ledger.entries()
    assert entries["neighbours"].tolist() == ["add-remove"] * 3
    assert entries["counted"].tolist() == entries["mu"].tolist() == [1.0, 0.5, 1.0]
    assert entries["outcome"].iloc[2] == "charged, nothing released yet"
    assert old.read_bytes() == before


def test_an_old_ledger_goes_on(old: Path) -> None:
    ledger = Ledger(old, mu=2.0)
    with pytest.raises(BudgetError, match="would exceed"):
        ledger.charge(1.5)
    assert format_of(old) == 1
    ledger.charge(1.0)
    assert format_of(old) == 2
    ledger.charge(1.0, neighbours="replace")
    ledger.settle(3, "interrupted")
    assert ledger.entries()["counted"].tolist() == [1.0, 0.5, 1.0, 1.0, 0.5]
    assert ledger.spent == pytest.approx(math.sqrt(3.25), rel=1e-15)
    database = sqlite3.connect(old)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    for statement in (
        "UPDATE entry SET neighbours = 'replace'",
        "UPDATE entry SET mu = 0.1",
        "UPDATE ledger SET neighbours = 'replace'",
        "DELETE FROM entry",
        "INSERT INTO entry (time, formula, mu, purpose, outcome, neighbours) "
        "VALUES ('t', '', 1, '', 'released', 'both')",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(statement)
    database.close()


def test_an_old_ledger_that_cannot_be_written_can_be_read(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(old)
    monkeypatch.setattr(_store.os, "access", lambda *_: False)
    assert ledger.remaining == pytest.approx(math.sqrt(2.0), rel=1e-15)
    assert len(ledger.entries()) == 3


def test_charges_are_converted_to_the_ledgers_relation(tmp_path: Path) -> None:
    one = Ledger(tmp_path / "one.ledger", mu=2.0)
    other = Ledger(tmp_path / "other.ledger", mu=2.0, neighbours="replace")
    assert (one.neighbours, other.neighbours) == ("add-remove", "replace")
    for ledger in (one, other):
        ledger.charge(0.5)
        with ledger.charging(0.5, neighbours="replace"):
            pass
    assert one.entries()["counted"].tolist() == [0.5, 0.25]
    assert other.entries()["counted"].tolist() == [1.0, 0.5]
    assert one.entries()["neighbours"].tolist() == ["add-remove", "replace"]
    assert one.spent == pytest.approx(math.sqrt(0.3125), rel=1e-15)
    assert other.spent == pytest.approx(math.sqrt(1.25), rel=1e-15)


def test_what_is_left_can_be_charged_in_either_relation(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger", mu=1.0)
    with pytest.raises(BudgetError, match=r"replacing one record by another, which counts as 1\.5"):
        ledger.charge(3.0, neighbours="replace")
    ledger.charge(2.0, neighbours="replace")
    assert ledger.remaining == 0.0
    strict = Ledger(tmp_path / "b.ledger", mu=1.0, neighbours="replace")
    with pytest.raises(BudgetError, match=r"adding or removing one record, which counts as 2\.0"):
        strict.charge(1.0)
    strict.charge(0.5)
    assert strict.remaining == 0.0


def test_the_relation_is_fixed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a.ledger", neighbours="replace")
    assert Ledger(ledger.path).neighbours == "replace"
    assert pickle.loads(pickle.dumps(ledger)).neighbours == "replace"
    assert repr(ledger).endswith("neighbours='replace')")
    with pytest.raises(BudgetError, match=r"'replace', but 'add-remove' was passed; leave it out"):
        Ledger(ledger.path, neighbours="add-remove")
    ledger.path.unlink()
    Ledger(ledger.path)
    with pytest.raises(BudgetError, match="was replaced"):
        ledger.charge(0.1)


@pytest.mark.parametrize("bad", ["bounded", "", None, 3, True], ids=repr)
def test_unknown_relations(tmp_path: Path, bad: object) -> None:
    ledger = Ledger(tmp_path / "a.ledger")
    with pytest.raises(BudgetError, match='must be "add-remove" or "replace"'):
        ledger.charge(0.1, neighbours=bad)  # type: ignore[arg-type]
    if bad is not None:
        with pytest.raises(BudgetError, match='must be "add-remove" or "replace"'):
            Ledger(tmp_path / "b.ledger", neighbours=bad)  # type: ignore[arg-type]
        assert not (tmp_path / "b.ledger").exists()


@examples(200)
@given(st.floats(1e-310, 1e300))
def test_conversion_follows_the_calibration_and_never_counts_too_little(mu: float) -> None:
    assert mu_against(mu, "replace", "add-remove") >= per_record_mu(mu, "replace")
    assert 2 * Fraction(mu_against(mu, "replace", "add-remove")) >= Fraction(mu)
    assert Fraction(mu_against(mu, "add-remove", "replace")) == 2 * Fraction(mu)
    for relation in ("add-remove", "replace"):
        assert mu_against(mu, relation, relation) == mu


@pytest.mark.parametrize(("promised", "spent"), [("add-remove", 1.0), ("replace", 0.5)])
def test_a_release_is_charged_in_its_relation(tmp_path: Path, promised: str, spent: float) -> None:
    ledger = Ledger(tmp_path / "a.ledger", mu=2.0)
    frame = pd.DataFrame({"x": [0.1, 0.5, 0.9] * 50, "y": [0.2, 0.4, 0.9] * 50})
    release = dp_release(
        "y ~ x",
        frame,
        mu=1.0,
        bounds={"x": (0, 1), "y": (0, 1)},
        neighbours=promised,
        ledger=ledger,
        rng=1,
    )
    assert (release.privacy.mu, release.privacy.neighbours) == (1.0, promised)
    assert ledger.spent == spent
    assert ledger.entries()["neighbours"].tolist() == [promised]
