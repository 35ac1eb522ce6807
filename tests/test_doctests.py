"""The examples in the docstrings run, and public functions have some."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pandas as pd
import pytest

import dpbinagg

SKIPPED = ("dpbinagg.__main__",)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules() -> list[str]:
    found = [name for _, name, _ in pkgutil.walk_packages(dpbinagg.__path__, "dpbinagg.")]
    return ["dpbinagg", *sorted(name for name in found if name not in SKIPPED)]


def with_examples() -> list[str]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [
        name
        for name in modules()
        if any(test.examples for test in finder.find(importlib.import_module(name)))
    ]


@pytest.mark.parametrize("name", with_examples())
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pd.option_context("display.width", 80), np.printoptions():
        outcome = doctest.testmod(importlib.import_module(name), optionflags=FLAGS)
    assert outcome.failed == 0
    assert outcome.attempted > 0


def public_functions() -> list[object]:
    names = [name for name in dpbinagg.__all__ if name != "__version__"]
    things = [getattr(dpbinagg, name) for name in names]
    for module in [thing for thing in things if inspect.ismodule(thing)]:
        things += [getattr(module, name) for name in getattr(module, "__all__", [])]
    return [thing for thing in things if inspect.isfunction(thing)]


@pytest.mark.parametrize("function", public_functions(), ids=lambda f: f.__name__)
def test_public_functions_are_documented(function):
    text = inspect.getdoc(function)
    assert ">>>" in text, "no example"
    assert "Returns\n-------" in text
    if inspect.signature(function).parameters:
        assert "Parameters\n----------" in text or "Takes the arguments of" in text
    assert "doctest: +SKIP" not in text


@pytest.mark.parametrize("name", ["Domain", "Budget", "Ledger", "Partition", "Release"])
def test_public_classes_are_documented(name):
    kind = getattr(dpbinagg, name)
    documented = [inspect.getdoc(kind), inspect.getdoc(getattr(kind, "grid", None))]
    assert any(">>>" in (text or "") for text in documented)
    for key, value in vars(kind).items():
        if not key.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{key}"
