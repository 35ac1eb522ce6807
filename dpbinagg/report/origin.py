"""Which data a report is about, who answers for them, and when the release was made."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from dpbinagg.errors import ReleaseError

LONGEST = 300
"""Letters that fit where these facts are shown."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Facts about the data that only their steward knows; all public."""

    data: str = ""
    steward: str = ""
    date: str = ""

    @classmethod
    def of(cls, data: str | None, steward: str | None, date: str | datetime.date | None) -> Origin:
        """Check what a caller passed."""
        day = date.isoformat()[:10] if isinstance(date, datetime.date) else date
        return cls(_text("data", data), _text("steward", steward), _text("date", day))

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Heading and text of what is known."""
        known = (("Data", self.data), ("Steward", self.steward), ("Date", self.date))
        return [(name, text) for name, text in known if text]

    @property
    def citation(self) -> str:
        """How to cite the data, as far as they are named."""
        if not self.data:
            return ""
        year = f" ({self.date[:4]})" if self.date[:4].isdigit() else ""
        who = f"{self.steward}{year}. " if self.steward else ""
        return f"{who}{self.data}{'' if self.steward else year}."


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        kind = "a table or number" if not isinstance(value, str) else "empty or too long a text"
        raise ReleaseError(
            f"{name} must be a text of at most {LONGEST} letters for the page, such as "
            f"'Wage survey 2024', got {kind}"
        )
    return " ".join(value.split())
