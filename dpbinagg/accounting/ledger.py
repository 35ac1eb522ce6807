"""A ledger adds up what has been spent on one data set, and refuses what would exceed it."""

from __future__ import annotations

import numbers
import os
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from dpbinagg.accounting import _store
from dpbinagg.accounting.budget import RELATIONS, Neighbours, as_neighbours, mu_against
from dpbinagg.accounting.gdp import as_number, sqrt_down, sqrt_up, sum_of_squares
from dpbinagg.errors import BudgetError, DPBinAggWarning
from dpbinagg.public.arguments import explains_arguments

if TYPE_CHECKING:
    import pandas as pd


RELEASING = "releasing"
"""The state of an entry whose numbers may have been shown."""


class Charge:
    """A charge that is under way: its entry's number, and whether anything was released."""

    __slots__ = ("_ledger", "_may_have_released", "id")

    def __init__(self, ledger: Ledger, number: int) -> None:
        self._ledger = ledger
        self._may_have_released = False
        self.id = number

    @property
    def may_have_released(self) -> bool:
        """Whether `releasing` was called."""
        return self._may_have_released

    def releasing(self) -> None:
        """Record that numbers are about to be shown; from here on the charge stays.

        Raises `BudgetError` when that cannot be recorded, or when the charge was given back in
        the meantime; then nothing may be shown.
        """
        if not self._may_have_released:
            self._ledger._move(self.id, RELEASING)
            self._may_have_released = True

    def __repr__(self) -> str:
        return f"Charge({self.id}, may_have_released={self._may_have_released})"


def entry_number(entry: object) -> int:
    """Return the number of an entry, or say what is wrong with it."""
    if isinstance(entry, Charge):
        return entry.id
    if isinstance(entry, numbers.Integral) and not isinstance(entry, bool):
        return int(entry)
    raise BudgetError(
        f"entry must be what charge() or charging() gave, but a {type(entry).__name__} was passed."
    )


__all__ = ["Charge", "Ledger", "Outcome"]

Outcome = Literal["released", "failed before release", "interrupted"]

DEFAULT_MU = 1.0
DEFAULT_NEIGHBOURS: Neighbours = "add-remove"
"""What releases of this package are calibrated in."""
REFUNDED = "failed before release"
CHARGED, COMPUTING = "charged", "computing"
LABELS = {
    CHARGED: "charged, outcome unknown",
    COMPUTING: "charged, nothing released yet",
    RELEASING: "charged, outcome unknown",
}
MAY_BECOME = {
    CHARGED: get_args(Outcome),
    COMPUTING: (RELEASING, *get_args(Outcome)),
    RELEASING: (RELEASING, "released", "interrupted"),
}


class Ledger:
    """What has been spent on one data set, kept in one SQLite file.

    Charges compose as mu's do, `sqrt(sum mu_i^2)`, in exact arithmetic: a charge is accepted when
    the exact root with it is at most the total. A charge is on the disk before `charge` returns,
    and only then may anything be computed; whatever is not known to have failed before its
    release stays charged. Many processes and threads may use one file on a local disk. Formula
    and purpose are stored as given and are public; nothing from the records belongs in them.

    A ledger has one neighbouring relation, fixed when it is made, and its total is a promise in
    that relation: all that was charged, together, is `total`-GDP when one record is added or
    removed ("add-remove") or replaced ("replace"). A charge says against which relation its mu
    holds and is converted by `mu_against`: releases of this package protect against adding or
    removing with some m, hence against replacing with 2m, so that one relation counts twice or
    half of the other. Composition then is of mu's in one relation: adaptively chosen mu_i-GDP
    releases are ``sqrt(sum mu_i^2)``-GDP together. Charge a release from elsewhere under
    "replace" only where the same factor holds for it; one that is private against replacement
    alone does not belong in an add-remove ledger at any mu. Ledgers of version 0.1 kept no
    relation and count as add-remove.

    Parameters
    ----------
    path : str or path-like
        The file; it is made when it does not exist, its folder is not.
    mu : float, optional
        The total for the data set. For a new ledger 1.0 by default; for an existing one it must
        be the total that it was made with, or be left out.
    name : str, optional
        The data set's name, by default the file's name without its ending.
    neighbours : {"add-remove", "replace"}, optional
        The relation of the total. For a new ledger "add-remove" by default; for an existing one
        it must be the relation that it was made with, or be left out.
    timeout : float
        Seconds to wait while other processes write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger(Path(folder.name) / "survey.db", mu=2.0)
    >>> with ledger.charging(1.0, formula="y ~ x", purpose="first look") as charge:
    ...     charge.releasing()
    >>> round(ledger.remaining, 4)
    1.7321
    >>> ledger.entries()[["formula", "mu", "outcome"]]
      formula   mu   outcome
    0   y ~ x  1.0  released
    >>> folder.cleanup()
    """

    __slots__ = ("_mu", "_name", "_neighbours", "_path", "_timeout")
    _mu: float
    _name: str
    _neighbours: Neighbours

    @explains_arguments
    def __init__(
        self,
        path: str | os.PathLike[str],
        mu: float | None = None,
        name: str | None = None,
        *,
        neighbours: Neighbours | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._path = _store.as_path(path)
        self._timeout = as_number(timeout, "timeout", "positive")
        asked = None if mu is None else as_number(mu, "mu", "positive")
        label = self._path.stem if name is None else _store.as_text(name, "name")
        relation = DEFAULT_NEIGHBOURS if neighbours is None else as_neighbours(neighbours)
        total = DEFAULT_MU if asked is None else asked
        _store.create(self._path, label, total, relation, _now(), self._timeout)
        self._read_header()
        if asked is not None and asked != self._mu:
            raise BudgetError(
                f"mu must be the total that the ledger {str(self._path)!r} was made with, "
                f"{self._mu!r}, but {asked!r} was passed. Leave mu out to go on with it. A new "
                "total is a new promise to the same people: it takes a new ledger file, and what "
                "this one has spent counts toward it."
            )
        if name is not None and label != self._name:
            raise BudgetError(
                f"name must be that of the ledger {str(self._path)!r}, {self._name!r}, but "
                f"{label!r} was passed; leave it out, or use one ledger file per data set."
            )
        if neighbours is not None and relation != self._neighbours:
            raise BudgetError(
                f"neighbours must be the relation that the ledger {str(self._path)!r} was made "
                f"with, {self._neighbours!r}, but {relation!r} was passed; leave it out: charges "
                "in the other relation are converted."
            )

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def name(self) -> str:
        """The data set's name."""
        return self._name

    @property
    def total(self) -> float:
        """The mu that all charges together may reach."""
        return self._mu

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring relation of the total, of `spent` and of `remaining`."""
        return self._neighbours

    @property
    def spent(self) -> float:
        """The composition of all charges that were not refunded, rounded up."""
        with _store.reading(self._path, self._timeout) as database:
            return sqrt_up(_squares(database, self._neighbours))

    @property
    def remaining(self) -> float:
        """The largest mu that can still be charged; after it, nothing is left."""
        with _store.reading(self._path, self._timeout) as database:
            return _left(self._mu, _squares(database, self._neighbours))

    def charge(
        self,
        mu: float,
        *,
        formula: str = "",
        purpose: str = "",
        neighbours: Neighbours = DEFAULT_NEIGHBOURS,
    ) -> int:
        """Charge `mu` and return the entry's number, or refuse with `BudgetError`.

        `neighbours` is the relation that `mu` holds against. The caller settles the entry
        afterwards; `charging` does both.
        """
        return self._charge(mu, formula, purpose, neighbours, CHARGED)

    @contextmanager
    def charging(
        self,
        mu: float,
        *,
        formula: str = "",
        purpose: str = "",
        neighbours: Neighbours = DEFAULT_NEIGHBOURS,
    ) -> Iterator[Charge]:
        """Charge `mu` for the time of a `with` block and settle it at the end.

        Call `releasing()` on what the block is given right before the first number is shown to
        anybody. An exception before that refunds the charge; after it, the charge stays and is
        marked as interrupted. A block that ends well is marked as released.
        """
        charge = Charge(self, self._charge(mu, formula, purpose, neighbours, COMPUTING))
        owner = os.getpid()
        try:
            yield charge
        except BaseException as error:
            if os.getpid() == owner:
                self._settle_failed(charge, error)
            raise
        if os.getpid() == owner:
            self._settle_released(charge)

    def settle(self, entry: int | Charge, outcome: Outcome) -> None:
        """Record how a charge ended.

        Parameters
        ----------
        entry : int or Charge
            What `charge` returned.
        outcome : {"released", "failed before release", "interrupted"}
            Only the second gives the charge back: it says that nothing was released. An outcome
            is final; to record the same one twice does nothing.
        """
        if outcome not in get_args(Outcome):
            raise BudgetError(
                f"outcome must be one of {', '.join(map(repr, get_args(Outcome)))}, "
                f"but {outcome!r} was passed."
            )
        self._move(entry_number(entry), outcome)

    def entries(self) -> pd.DataFrame:
        """Return all charges: id, time (UTC), formula, mu, neighbours, counted, purpose, outcome.

        `mu` holds against `neighbours`, as it was charged; `counted` is that mu in the ledger's
        own relation, which is what adds up.

        An outcome of "charged, nothing released yet" is that of a computation that is under way
        or was cut off before it released anything; "charged, outcome unknown" that of one that is
        under way or was cut off when it may have released. Both count as spent.
        """
        import pandas as pd

        columns = {
            "id": "int64",
            "time": "str",
            "formula": "str",
            "mu": "float64",
            "neighbours": "str",
            "counted": "float64",
            "purpose": "str",
            "outcome": "str",
        }
        stored = [name for name in columns if name != "counted"]
        query = f"SELECT {', '.join(stored)} FROM entry ORDER BY id"
        with _store.reading(self._path, self._timeout) as database:
            rows = database.execute(query).fetchall()
        frame = pd.DataFrame(rows, columns=stored)
        frame["outcome"] = frame["outcome"].replace(LABELS)
        frame["counted"] = [
            mu_against(mu, promised, self._neighbours)
            for mu, promised in zip(frame["mu"], frame["neighbours"], strict=True)
        ]
        return frame[list(columns)].astype(columns)

    def __repr__(self) -> str:
        relation = "" if self._neighbours == DEFAULT_NEIGHBOURS else ", neighbours='replace'"
        return f"Ledger({self._path.name!r}, mu={self._mu!r}, name={self._name!r}{relation})"

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (str(self._path), self._timeout)

    def _read_header(self) -> None:
        with _store.reading(self._path, self._timeout) as database:
            self._name, self._mu, self._neighbours = _header(database)

    def _charge(
        self, mu: float, formula: str, purpose: str, neighbours: Neighbours, state: str
    ) -> int:
        amount, promised = as_number(mu, "mu", "positive"), as_neighbours(neighbours)
        counted = mu_against(amount, promised, self._neighbours)
        texts = _store.as_text(formula, "formula"), _store.as_text(purpose, "purpose")
        with _store.writing(self._path, self._timeout) as database:
            if _header(database) != (self._name, self._mu, self._neighbours):
                raise BudgetError(
                    f"the ledger {str(self._path)!r} was replaced by another one since it was "
                    "opened; open it again."
                )
            squares = _squares(database, self._neighbours)
            left = _left(self._mu, squares)
            if counted > left:
                asked = f"mu={amount!r}"
                if promised != self._neighbours:
                    asked += f" against {RELATIONS[promised]}, which counts as {counted!r} here,"
                raise BudgetError(_refusal(self, asked, sqrt_up(squares), left))
            row = database.execute(
                "INSERT INTO entry (time, formula, mu, purpose, outcome, neighbours) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (_now(), texts[0], amount, texts[1], state, promised),
            )
            assert row.lastrowid is not None
            return row.lastrowid

    def _move(self, number: int, state: str) -> None:
        with _store.writing(self._path, self._timeout) as database:
            found = database.execute("SELECT outcome FROM entry WHERE id = ?", (number,)).fetchone()
            if found is None:
                raise BudgetError(
                    f"entry must be a number from entries() of this ledger, but {number!r} is none."
                )
            if found[0] == state:
                return
            if state not in MAY_BECOME.get(found[0], ()):
                raise BudgetError(
                    f"entry {number} of the ledger {self._name!r} is "
                    f"{LABELS.get(found[0], found[0])!r} and cannot become {state!r}: outcomes are "
                    "final, and a charge is given back only when nothing was released."
                )
            database.execute(
                "UPDATE entry SET outcome = ?, settled = ? WHERE id = ?", (state, _now(), number)
            )

    def _settle_failed(self, charge: Charge, error: BaseException) -> None:
        try:
            self._move(charge.id, "interrupted" if charge.may_have_released else REFUNDED)
        except BudgetError:
            error.add_note(
                f"Entry {charge.id} of the ledger {self._name!r} could not be settled and "
                "stays charged."
            )

    def _settle_released(self, charge: Charge) -> None:
        try:
            self._move(charge.id, "released")
        except BudgetError:
            warnings.warn(
                f"Entry {charge.id} of the ledger {self._name!r} could not be marked as released; "
                "it stays charged, and its outcome reads as unknown.",
                DPBinAggWarning,
                stacklevel=4,
            )


def _reopen(path: str, timeout: float) -> Ledger:
    ledger = object.__new__(Ledger)
    ledger._path, ledger._timeout = Path(path), timeout
    ledger._read_header()
    return ledger


def _header(database: sqlite3.Connection) -> tuple[str, float, Neighbours]:
    name, mu, neighbours = database.execute("SELECT name, mu, neighbours FROM ledger").fetchone()
    return name, mu, as_neighbours(neighbours)


def _squares(database: sqlite3.Connection, relation: Neighbours) -> Fraction:
    rows = database.execute("SELECT mu, neighbours FROM entry WHERE outcome <> ?", (REFUNDED,))
    return sum_of_squares(mu_against(mu, promised, relation) for mu, promised in rows)


def _left(total: float, squares: Fraction) -> float:
    """Return the largest float r with `squares + r^2 <= total^2`.

    Once the root of `squares`, rounded up, reaches the total, what rounding has left over counts
    as nothing; that is so right after r itself was charged.
    """
    if sqrt_up(squares) >= total:
        return 0.0
    return sqrt_down(Fraction(total) ** 2 - squares)


def _refusal(ledger: Ledger, asked: str, spent: float, left: float) -> str:
    return (
        f"{asked} would exceed the ledger {ledger.name!r}: of its total {ledger.total!r}, "
        f"{spent!r} is spent and at most {left!r} is left (mu's compose as the root of the sum of "
        "squares). "
        + ("Ask for ledger.remaining or less." if left else "Nothing more can be released.")
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
