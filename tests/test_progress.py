"""The progress bar shows the steps of a release and nothing of the table."""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd

from dpbinagg import dp_release, show_progress


def shown(n: int) -> str:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.random(n), "y": rng.random(n)})
    stream = io.StringIO()
    with show_progress(stream):
        dp_release("y ~ x", table, mu=1, rng=0)
    return stream.getvalue()


def test_steps_are_shown_and_cleared() -> None:
    text = shown(300)
    steps = re.findall(r"(\d+) of (\d+): ([^\r]+)", text)
    assert [int(step) for step, _, _ in steps] == list(range(1, len(steps) + 1))
    assert {int(total) for _, total, _ in steps} == {len(steps)}
    assert text.endswith("\r")
    assert text.split("\r")[-2].strip() == ""


def test_the_same_text_for_any_number_of_records() -> None:
    assert shown(300) == shown(1500)


def test_nothing_is_shown_unless_asked(capsys: object) -> None:
    table = pd.DataFrame({"x": [0.1, 0.2, 0.3], "y": [1.0, 2.0, 3.0]})
    dp_release("y ~ x", table, mu=1, rng=0)
    captured = capsys.readouterr()  # type: ignore[attr-defined]
    assert captured.out == captured.err == ""
