"""The README: its commands, its code, its tables and its links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import load

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")


def test_each_of_the_two_commands_is_one_line():
    lines = TEXT.splitlines()
    assert 'python -m pip install ".[test]" && python -m pytest -n 2' in lines
    assert "python -m pip install . && dpbinagg demo" in lines
    assert "python -m pytest -n 2" in lines


def test_ci_runs_both_commands_from_the_readme():
    script = (ROOT / ".ci" / "run").read_text()
    assert "README.md" in script
    assert "dpbinagg demo" in script
    assert "pytest" in script


def test_code_runs_and_prints():
    pytest.importorskip("matplotlib")
    page = load(ROOT / "vignettes" / "render.py").Page(README)
    fresh = page.render()
    assert page.outputs >= 4
    assert fresh.count("<!-- output -->") == TEXT.count("<!-- output -->")


def test_tables_come_from_the_measured_results():
    tables = load(ROOT / "benchmarks" / "tables.py")
    for page in tables.PAGES:
        text = page.read_text(encoding="utf-8")
        assert tables.filled(text) == text, "run python benchmarks/tables.py"


def test_it_is_short():
    assert len(TEXT.split()) < 1800


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert target.startswith("https://") or (ROOT / target).exists(), target


def test_picture_is_small_and_has_a_script():
    picture = ROOT / "vignettes" / "figures" / "overview.png"
    assert picture.stat().st_size < 200_000
    assert "overview.png" in (ROOT / "vignettes" / "overview.py").read_text()
