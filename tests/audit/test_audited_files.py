"""The audit of a whole release through CSV files that differ in one line.

2,000 simulated releases a side and fixed seeds. Verdicts use bounds of 99.9% confidence, or whole
numbers: a sound reader is accused in less than 1 of 100,000 tests, and not by chance once these
tests pass.
"""

from __future__ import annotations

from typing import Any

import pytest
from planted_readers import QuotesCrossLines, learns_types

from dpbinagg import ArgumentError, Budget
from dpbinagg.audit import AuditReport, audit_release
from dpbinagg.audit.files import LINES, ODD_LINE, PLACES
from dpbinagg.cli import main
from dpbinagg.reading import text

BOUNDS = {"x": (0, 1), "y": (0, 1), "g": ["a", "b", "c"]}


def audit(**arguments: Any) -> AuditReport:
    options: dict[str, Any] = {"trials": 2_000, "trees": 50, "runs": 0, "limit": 2, "rng": 1}
    kinds = ("corner of a box", "missing or undeclared value")
    return audit_release(
        "y ~ x + C(g)", 1.0, bounds=BOUNDS, through="csv", kinds=kinds, **{**options, **arguments}
    )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_a_line_shows_no_more_than_a_record(neighbours: str) -> None:
    report = audit(neighbours=neighbours, partition="grid")
    assert report.passed, str(report)
    (everything,) = [f for f in report.findings if f.component == "everything else"]
    assert everything.record == f"{len(LINES) * len(PLACES) + 4} neighbours"
    # Some odd lines are records, and are seen as such: the audit does read the files.
    assert max(f.lower for f in report.findings if f.record == ODD_LINE) > 0.3


@pytest.mark.parametrize(
    ("name", "fault"), [("read_numbers", learns_types), ("Block", QuotesCrossLines)]
)
def test_a_planted_reader_is_found(name: str, fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, name, fault)
    report = audit(budget=Budget(ranges=0, scores=0), partition="grid")
    assert not report.passed
    odd = [finding for finding in report.failures if finding.record == ODD_LINE]
    assert odd, str(report)
    assert "A RECORD MOVES THE SUMS BY MORE" in str(odd[0])


def test_only_frames_and_csv_files() -> None:
    with pytest.raises(ArgumentError, match="through"):
        audit_release("y ~ x", 1.0, bounds=BOUNDS, through="parquet")  # type: ignore[arg-type]


COMMAND = (
    "audit",
    "y ~ x",
    "--bound",
    "x=0,1",
    "--bound",
    "y=0,1",
    "--budget",
    "scores=0,ranges=0",
)
QUICK = ("--trials", "500", "--trees", "50", "--rng", "1", "--partition", "grid")


def test_the_command_shows_claims_and_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, *QUICK, "--mu", "1"]) == 0
    said = capsys.readouterr().out
    assert "claimed mu" in said
    assert "second moments" in said
    assert "95% confidence" in said
    assert "This is no proof" in said


def test_the_command_fails_where_a_claim_does_not_hold(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "Block", QuotesCrossLines)
    assert main([*COMMAND, *QUICK, "--mu", "1", "--csv", "--json"]) == 1
    said = capsys.readouterr()
    assert '"passed": false' in said.out
    assert "contradict the claims" in said.err


def test_the_command_asks_for_the_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, *QUICK]) == 1
    assert "--mu 1, or --epsilon 2 --delta 1e-6" in capsys.readouterr().err
