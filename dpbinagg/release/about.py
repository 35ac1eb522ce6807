"""What the people who publish a release say about it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, fields

from dpbinagg.errors import ReleaseError

NOT_STATED = "not stated"


@dataclass(frozen=True, slots=True)
class About:
    """Facts for the README that only its publisher knows; what is not given is not stated.

    Attributes
    ----------
    title : str
        Of the data or of the study.
    unit_of_observation : str
        What one record is: "one person aged 18 or older".
    description : str
        What the data are about, how and when they were collected.
    provenance : str
        Where the records come from and who may apply for them.
    steward : str
        Who is responsible for the data.
    contact : str
        Whom to ask, with an address.
    licence : str
        Under which the files of the folder are published.
    date : str or date
        Of the publication.
    """

    title: str | None = None
    unit_of_observation: str | None = None
    description: str | None = None
    provenance: str | None = None
    steward: str | None = None
    contact: str | None = None
    licence: str | None = None
    date: str | datetime.date | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, datetime.datetime):
                value = value.date()
            if field.name == "date" and isinstance(value, datetime.date):
                value = value.isoformat()
            if value is not None and not isinstance(value, str):
                raise ReleaseError(
                    f"{field.name} must be a text, got {type(value).__name__}; write it as it "
                    "should stand in the README, or leave it out"
                )
            plain = " ".join((value or "").split())
            object.__setattr__(self, field.name, plain or None)

    def said(self, name: str) -> str:
        """A fact, or that it is not stated.

        Examples
        --------
        >>> About(steward="Office of Statistics").said("steward")
        'Office of Statistics'
        >>> About().said("licence")
        'not stated'
        """
        return getattr(self, name) or NOT_STATED
