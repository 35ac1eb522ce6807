"""The documentation site: every public name has its reference, and the site is built."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import dpbinagg

ROOT = Path(__file__).parents[1]
REFERENCE = (ROOT / "vignettes" / "site" / "reference.md").read_text(encoding="utf-8")
LISTED = re.findall(r"\.\. auto(?:function|class):: (\S+)", REFERENCE)
WHOLE = re.findall(r"\.\. automodule:: (\S+)", REFERENCE)


def test_every_public_name_has_its_reference() -> None:
    for name in dpbinagg.__all__:
        thing = getattr(dpbinagg, name)
        if inspect.ismodule(thing):
            assert thing.__name__ in WHOLE
        elif name != "__version__":
            errors = inspect.isclass(thing) and thing.__module__ == "dpbinagg.errors"
            assert errors or f"dpbinagg.{name}" in LISTED, name


def test_what_is_listed_is_there_and_documented() -> None:
    for name in LISTED:
        module, _, own = name.rpartition(".")
        assert inspect.getdoc(getattr(importlib.import_module(module), own)), name


def test_the_site_is_built(tmp_path: Path) -> None:
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    pytest.importorskip("numpydoc")
    build = pytest.importorskip("sphinx.cmd.build")
    assert (
        build.main(["-W", "-q", "-c", str(ROOT / "vignettes" / "site"), str(ROOT), str(tmp_path)])
        == 0
    )
    page = (tmp_path / "vignettes" / "site" / "reference.html").read_text(encoding="utf-8")
    for name in LISTED:
        assert f'id="{name}"' in page, name
    assert (tmp_path / "index.html").exists()
