"""What a record adds to the sums depends on no other record and on no place, to the last bit.

The questions of a real fit and of a real study, with their row maps, are put to a table with an
odd record at its beginning, in its middle and at its end, to the table without it, and to the
record alone. The functions of a formula are numpy's, which work on several numbers at once.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbinagg import dp_ols, dp_study
from dpbinagg.formula import build_design
from dpbinagg.kernel.curator import Curator
from dpbinagg.kernel.maps import UNIT_BITS
from dpbinagg.kernel.questions import Question, Sum
from dpbinagg.protocol.conduct import open_table

N = 533
"""Not a multiple of what a processor works on at once."""
LEVELS = list("abcdefghijkl")
BOUNDS = {"x": (1e-3, 60), "z": (-9, 9), "g": LEVELS, "h": ["u", "v"], "y": (-20, 20)}
FIT = "np.log(y + 21) ~ np.log(x) + np.exp(z) + C(g) + h + x:z"
STUDY = {"a": "y ~ x + C(g)", "b": "I(y > 0) ~ x + C(g)", "c": "np.log(x) ~ np.sqrt(z + 9)*h"}
FITS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "fit": lambda frame: dp_ols(FIT, frame, mu=2.0, bounds=BOUNDS, rng=3),
    "without bounds": lambda frame: dp_ols(
        "y ~ x + z + C(g) + h", frame, mu=2.0, bounds={"g": LEVELS, "h": ["u", "v"]}, rng=3
    ),
    "study": lambda frame: dp_study(STUDY, frame, mu=2.0, bounds=BOUNDS, rng=3),
}
ODD: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "missing": {"x": np.nan},
    "infinite": {"x": np.inf, "y": -np.inf},
    "huge": {"x": 1e308, "z": -1e308, "y": 1e308},
    "tiny": {"x": 5e-324, "z": 5e-324, "y": -5e-324},
    "undeclared": {"g": "?"},
    "at the lower bounds": {"x": 1e-3, "z": -9.0, "y": -20.0},
    "at the upper bounds": {"x": 60.0, "z": 9.0, "y": 20.0},
}

Asked = list[tuple[tuple[Question, ...], Any]]


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "x": rng.lognormal(size=N),
            "z": rng.standard_t(2, N),
            "g": rng.choice(LEVELS, N),
            "h": rng.choice(["u", "v"], N),
            "y": rng.standard_t(2, N),
        }
    )


def sums(frame: pd.DataFrame, asked: Asked) -> list[Any]:
    """Exact sums of all groups, as Python's whole numbers."""
    engine = open_table(frame, build_design("y ~ x + z + C(g) + C(h)", BOUNDS), "drop")
    found = (engine.map_reduce(Sum(questions, rows)) for questions, rows in asked)
    return [one.astype(object) for several in found for one in several]


@pytest.mark.parametrize("name", FITS)
def test_a_record_adds_what_it_is_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Asked = []
    answer = Curator.answer

    def note(self: Curator, questions: Any, mus: Any, rows: Any = None) -> Any:
        asked.append((tuple(questions), rows))
        return answer(self, questions, mus, rows)

    monkeypatch.setattr(Curator, "answer", note)
    frame = table()
    FITS[name](frame)
    every = [question for questions, _ in asked for question in questions]
    before = sums(frame, asked)
    for odd, change in ODD.items():
        record = pd.DataFrame([{**frame.iloc[7].to_dict(), **change}])
        alone = sums(record, asked)
        for place in (0, N // 2, N):
            parts = [frame.iloc[:place], record, frame.iloc[place:]]
            after = sums(pd.concat(parts, ignore_index=True), asked)
            for one, without, its_own in zip(after, before, alone, strict=True):
                assert (one - without == its_own).all(), (odd, place)
        own = iter(alone)
        for question in every:
            norm2 = sum(
                weight**2 * Fraction(int((map_.whole(next(own)) ** 2).sum()), 4**UNIT_BITS)
                for weight, map_ in question.groups
            )
            assert norm2 <= 1, (odd, question.name)
