"""The vignettes: their code runs, and their text holds what it prints."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from scripts import load

FOLDER = Path(__file__).parent.parent / "vignettes"
PAGES = sorted(FOLDER.glob("[0-9][0-9]-*.md"))
RUN = [path for path in PAGES if "```python" in path.read_text(encoding="utf-8")]
"""Pages with code; the others hold tables that `benchmarks/tables.py` writes."""
MARK = "<!-- output -->"
PACKAGE = FOLDER.parent / "dpbinagg"
REFERENCE = re.compile(r"`([\w/]+\.py):(\d+)\s([\w.]+)`")

pytest.importorskip("matplotlib")


def test_they_are_numbered_without_a_gap():
    assert [int(path.stem[:2]) for path in PAGES] == list(range(1, len(PAGES) + 1))
    assert len(PAGES) >= 10
    assert [path.stem for path in PAGES if path not in RUN] == ["09-benchmarks"]


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_code_runs_and_prints_where_the_page_says_so(path, monkeypatch, tmp_path):
    # Spark has tests of its own, and takes a minute to start. They may have imported it.
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)
    module = load(FOLDER / "render.py")
    monkeypatch.setattr(module, "FIGURES", tmp_path)
    page = module.Page(path)
    fresh = page.render()
    stored = path.read_text(encoding="utf-8")
    assert page.outputs == stored.count(MARK) > 0
    assert strip(fresh) == strip(stored)
    assert "Traceback" not in stored
    assert len(page.figures) == len(re.findall(r"^!\[", stored, re.MULTILINE))


def strip(text: str) -> list[str]:
    """Everything but what was printed."""
    blocks = re.sub(rf"{MARK}\n(```text\n.*?^```\n)?(!\[[^\n]*\n)*", "", text, flags=re.S | re.M)
    return [line for line in blocks.splitlines() if line.strip()]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pictures_and_links_are_there(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_references_point_at_what_they_name():
    """`python vignettes/render.py vignettes/08-attack-model.md` puts their lines right."""
    text = FOLDER.joinpath("08-attack-model.md").read_text(encoding="utf-8")
    found = REFERENCE.findall(text)
    assert len(found) == text.count(".py:") > 20
    for file, line, name in found:
        there = (PACKAGE / file).read_text(encoding="utf-8").splitlines()[int(line) - 1]
        own = name.split(".")[-1]
        assert re.match(rf"\s*((class|def) {own}\b|{own}\b.* = )", there), (file, line, name)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_prose_is_short(path):
    """For a reader who is new to this: sentences of 50 words at most."""
    text = re.sub(r"```.*?```|^\|.*?$|^    .*?$", "", path.read_text("utf-8"), flags=re.S | re.M)
    if path.stem.startswith("07"):
        return
    for sentence in re.split(r"(?<=[.!?:])\s+", re.sub(r"\n(?!\n)", " ", text)):
        assert len(sentence.split()) <= 50, sentence
