"""A charge that is under way."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING

from dpbinagg.errors import BudgetError

if TYPE_CHECKING:
    from dpbinagg.accounting.ledger import Ledger

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
