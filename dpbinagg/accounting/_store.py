"""The SQLite file behind a ledger: connections, transactions and errors in plain words.

Every operation opens its own connection and closes it, so that threads share none, and a fork
waits until no operation is under way, so that a child inherits none. The write-ahead log lets
readers go on while somebody writes; each commit reaches the disk before it returns.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dpbinagg.errors import BudgetError

APPLICATION_ID = 0x6D75_4C67
SCHEMA_VERSION = 2

SCHEMA = """
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL, mu REAL NOT NULL CHECK (mu > 0),
    created TEXT NOT NULL,
    neighbours TEXT NOT NULL CHECK (neighbours IN ('add-remove', 'replace')));
CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, formula TEXT NOT NULL,
    mu REAL NOT NULL CHECK (mu > 0), purpose TEXT NOT NULL, outcome TEXT NOT NULL, settled TEXT,
    neighbours TEXT NOT NULL CHECK (neighbours IN ('add-remove', 'replace')));
CREATE TRIGGER ledger_is_fixed BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the total of a ledger is fixed'); END;
CREATE TRIGGER ledger_is_kept BEFORE DELETE ON ledger
    BEGIN SELECT RAISE(ABORT, 'the total of a ledger is fixed'); END;
CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF id, time, formula, mu, purpose, neighbours ON entry
    BEGIN SELECT RAISE(ABORT, 'a charge is fixed'); END;
CREATE TRIGGER entry_is_kept BEFORE DELETE ON entry
    BEGIN SELECT RAISE(ABORT, 'a charge is never deleted'); END;
"""

FROM_FORMAT_1 = """
ALTER TABLE ledger ADD COLUMN neighbours TEXT NOT NULL DEFAULT 'add-remove'
    CHECK (neighbours IN ('add-remove', 'replace'));
ALTER TABLE entry ADD COLUMN neighbours TEXT NOT NULL DEFAULT 'add-remove'
    CHECK (neighbours IN ('add-remove', 'replace'));
DROP TRIGGER entry_is_fixed;
CREATE TRIGGER entry_is_fixed BEFORE UPDATE OF id, time, formula, mu, purpose, neighbours ON entry
    BEGIN SELECT RAISE(ABORT, 'a charge is fixed'); END;
"""
"""Format 1 kept no relation, and its ledgers count as add-remove. Where an entry was promised
against replacement, that counts it with twice what it spent, never with less."""

AS_FORMAT_2 = """
CREATE TEMP VIEW ledger AS SELECT *, 'add-remove' AS neighbours FROM main.ledger;
CREATE TEMP VIEW entry AS SELECT *, 'add-remove' AS neighbours FROM main.entry;
"""
"""How a file of format 1 is read, which may be one that cannot be written."""


class _ForkGuard:
    """Lets operations run side by side and a fork only when none is under way."""

    def __init__(self) -> None:
        self.reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._hold, after_in_parent=self._let_go, after_in_child=self.reset
            )

    def reset(self) -> None:
        self._idle = threading.Condition()
        self._active: list[int] = []
        self._forks = 0

    def __enter__(self) -> None:
        with self._idle:
            while self._forks:
                self._idle.wait()
            self._active.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        with self._idle:
            self._active.remove(threading.get_ident())
            self._idle.notify_all()

    def _hold(self) -> None:
        self._idle.acquire()
        self._forks += 1
        while any(thread != threading.get_ident() for thread in self._active):
            self._idle.wait()

    def _let_go(self) -> None:
        self._forks -= 1
        self._idle.notify_all()
        self._idle.release()


_fork_guard = _ForkGuard()


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return `path` as an absolute path."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise BudgetError(
            f"path must be the name of a file, but a {type(path).__name__} that is none was passed."
        )
    return Path(text).expanduser().absolute()


def as_text(value: object, name: str) -> str:
    """Return `value` if it is a text that the file can hold."""
    if not isinstance(value, str):
        raise BudgetError(f"{name} must be a text, but a {type(value).__name__} was passed.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BudgetError(f"{name} must be a text that UTF-8 can hold.") from None
    return str(value)


def create(path: Path, name: str, mu: float, neighbours: str, created: str, timeout: float) -> None:
    """Make `path` a ledger, unless it is one already."""
    if not path.parent.is_dir():
        raise BudgetError(
            f"path must lie in an existing folder, but {str(path.parent)!r} is none; "
            "create the folder first."
        )
    if path.is_dir():
        raise BudgetError(f"path must be a file, but {str(path)!r} is a folder; add a file name.")
    with _plain_words(path), _connection(path, "rwc", timeout) as database:
        if not _is_empty(database):
            return
        _keep_a_log(database, timeout)
        with _transaction(database):
            if _is_empty(database):
                _fill(database, name, mu, neighbours, created)
    _sync_folder(path.parent)


@contextmanager
def writing(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Give a connection inside a write transaction; commit at the end, undo on any exception."""
    with (
        _plain_words(path),
        _connection(_present(path), "rw", timeout) as database,
        _transaction(database),
    ):
        if _checked_format(path, database) == 1:
            _run(database, FROM_FORMAT_1)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        yield database


@contextmanager
def reading(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Give a connection that sees one consistent state and waits for no writer."""
    mode = "rw" if os.access(path.parent, os.W_OK) or _has_log(path) else "ro&immutable=1"
    with _plain_words(path), _connection(_present(path), mode, timeout) as database:
        database.execute("BEGIN")
        if _checked_format(path, database) == 1:
            _run(database, AS_FORMAT_2)
        yield database


@contextmanager
def _connection(path: Path, mode: str, timeout: float) -> Iterator[sqlite3.Connection]:
    with _fork_guard:
        database = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}", uri=True, timeout=timeout, isolation_level=None
        )
        try:
            database.execute("PRAGMA synchronous = FULL")
            yield database
        finally:
            database.close()


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _keep_a_log(database: sqlite3.Connection, timeout: float) -> None:
    """Switch to the write-ahead log; SQLite itself does not wait for others here."""
    end = time.monotonic() + timeout
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.005)


def _is_empty(database: sqlite3.Connection) -> bool:
    (tables,) = database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    return bool(tables == 0)


def _fill(
    database: sqlite3.Connection, name: str, mu: float, neighbours: str, created: str
) -> None:
    _run(database, SCHEMA)
    database.execute("INSERT INTO ledger VALUES (1, ?, ?, ?, ?)", (name, mu, created, neighbours))
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _run(database: sqlite3.Connection, script: str) -> None:
    """Run the statements of a script; `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines():
        statement += line
        if sqlite3.complete_statement(statement):
            database.execute(statement)
            statement = ""


def _checked_format(path: Path, database: sqlite3.Connection) -> int:
    """Return the format of a ledger's file, which must be one that is known."""
    (identity,) = database.execute("PRAGMA application_id").fetchone()
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if identity != APPLICATION_ID:
        raise BudgetError(_not_a_ledger(path))
    if version > SCHEMA_VERSION:
        raise BudgetError(
            f"the ledger {str(path)!r} has format {version}, and this version of dpbinagg reads "
            f"formats up to {SCHEMA_VERSION}; upgrade dpbinagg."
        )
    return int(version)


def _present(path: Path) -> Path:
    if not path.is_file():
        raise BudgetError(
            f"the ledger {str(path)!r} is gone: no file is there any more. What was spent is not "
            "known without it; bring it back before anything else is released."
        )
    return path


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def _sync_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _not_a_ledger(path: Path) -> str:
    return (
        f"path must be a new file or a ledger, but {str(path)!r} is neither (or is damaged); "
        "choose another file name, or bring back a copy of the ledger."
    )


@contextmanager
def _plain_words(path: Path) -> Iterator[None]:
    """Turn an error of SQLite into one sentence with a remedy."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "") or type(error).__name__
        raise BudgetError(_explain(path, code)) from error


def _explain(path: Path, code: str) -> str:
    where = f"the ledger {str(path)!r}"
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{where} was in use by others for too long; nothing was recorded, try again."
    if code.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")):
        return (
            f"{where} could not be read or written, because its disk is full or fails ({code}); "
            "nothing was recorded. Make room and try again."
        )
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return (
            f"{where} cannot be written ({code}); nothing was recorded. The file and its folder "
            "must both be writable: change their permissions or choose another folder."
        )
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return _not_a_ledger(path)
    return f"{where} could not be used ({code}); nothing was recorded."
